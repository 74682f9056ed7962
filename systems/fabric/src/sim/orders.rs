//! What a network manager can tell a fabric to do: the steps that schemes are made of.

use crate::topology::{HostId, SwitchId};

/// A reconfiguration as a sequence of stages, each begun when the last is finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub stages: Vec<Stage>,
}

/// What happens at the same time: tables are distributed and one command goes to everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What it is for.
    pub purpose: &'static str,
    /// How long it lasts at least, ns; stands for the manager's computations.
    pub wait_ns: u64,
    /// What is sent to single switches and hosts, each of which answers.
    pub tables: Delivery,
    /// What is sent to all along a tree, answers coming back the same way.
    pub command: Option<Command>,
    /// The destinations that [`Command::Hold`] and [`Command::Release`] are about.
    pub subjects: Vec<HostId>,
}

/// Tables on their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// None.
    Nothing,
    /// All new tables, to a second place in every switch and host.
    Aside,
    /// The blocks that differ, written over the old ones as they arrive.
    Over,
    /// Some entries of some switches, written over the old ones as they arrive.
    Entries(Vec<(SwitchId, Vec<HostId>)>),
}

/// What switches and hosts are told. Hosts and switches answer when they have done it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Hosts stop injecting; an epoch begins.
    Halt,
    /// An epoch begins: packets injected from now on are not counted with those before.
    Mark,
    /// Hosts report the packets of the last epoch that they sent and received; repeated until
    /// both sums are equal, so that none is left in the network.
    Count,
    /// Switches and hosts use the tables that were put aside. With `purge`, switches drop every
    /// packet that was injected in an earlier epoch.
    Activate {
        /// Drop old packets.
        purge: bool,
    },
    /// Hosts inject again.
    Resume,
    /// Hosts send tokens after their last old packets (Lysne et al. 2008).
    Tokens(TokenRule),
    /// One lane set is drained and prepared for the new tables; everybody uses the other.
    Drain {
        /// Lane set, 0 or 1.
        set: u8,
        /// Whether the other set has the new tables already.
        other_is_new: bool,
        /// Whether packets change to the other set at every switch, or stay in theirs.
        escape: bool,
    },
    /// Hosts use both lane sets.
    Both,
    /// Hosts hold back packets for the stage's subjects.
    Hold,
    /// Hosts let them go.
    Release,
}

/// When an output passes the token on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRule {
    /// When every input with an old dependency on it has consumed one.
    Dependent,
    /// When every input of the switch has: wrong, kept to show that it deadlocks.
    EveryInput,
}

impl Stage {
    fn new(purpose: &'static str, tables: Delivery, command: Option<Command>) -> Stage {
        Stage { purpose, wait_ns: 0, tables, command, subjects: Vec::new() }
    }

    /// A stage that only sends a command.
    #[must_use]
    pub fn command(purpose: &'static str, command: Command) -> Stage {
        Stage::new(purpose, Delivery::Nothing, Some(command))
    }

    /// A stage that only distributes tables.
    #[must_use]
    pub fn tables(purpose: &'static str, tables: Delivery) -> Stage {
        Stage::new(purpose, tables, None)
    }

    /// A stage that does both at once.
    #[must_use]
    pub fn both(purpose: &'static str, tables: Delivery, command: Command) -> Stage {
        Stage::new(purpose, tables, Some(command))
    }
}
