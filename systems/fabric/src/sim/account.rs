//! What the network manager keeps account of.

use super::orders::{Plan, Stage};
use super::wiring::Tree;
use crate::topology::HostId;

/// What a control packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Command { stage: u32, round: u32 },
    Done { sent: u64, received: u64 },
    Parcel(u32),
    Receipt,
}

/// What one control packet brings to one switch or host.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) end: u32,
    pub(super) write: Write,
}

#[derive(Clone, Debug)]
pub(super) enum Write {
    /// Counts only: the tables are put aside until the last has come.
    Aside,
    /// Entries of these hosts, written at once.
    Entries(Vec<u32>),
    /// Lanes of a switch, levels of a host.
    Lanes,
}

/// How far an agent or host is with the command of this stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeState {
    pub(super) told: bool,
    pub(super) answered: bool,
    pub(super) left: u32,
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// When a stage began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// What it was for.
    pub purpose: &'static str,
    /// Its beginning, ns.
    pub from_ns: u64,
    /// Its end, ns.
    pub until_ns: u64,
}

/// The manager and what it keeps account of.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) host: HostId,
    pub(super) tree: Option<Tree>,
    pub(super) plan: Plan,
    pub(super) stage: usize,
    pub(super) busy: bool,
    pub(super) finished: bool,
    pub(super) round: u32,
    pub(super) began: u64,
    pub(super) waited: bool,
    pub(super) commanded: bool,
    pub(super) receipts: u32,
    pub(super) parcels: Vec<Parcel>,
    pub(super) due: Vec<u32>,
    pub(super) nodes: Vec<NodeState>,
    pub(super) messages: Vec<Message>,
    pub(super) free: Vec<u32>,
    pub(super) log: Vec<StageTime>,
}

impl Manager {
    pub(super) fn new(host: HostId) -> Manager {
        Manager {
            host,
            tree: None,
            plan: Plan::default(),
            stage: 0,
            busy: false,
            finished: false,
            round: 0,
            began: 0,
            waited: false,
            commanded: false,
            receipts: 0,
            parcels: Vec::new(),
            due: Vec::new(),
            nodes: Vec::new(),
            messages: Vec::new(),
            free: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Whether a plan has just been finished; asked once.
    #[inline]
    pub(super) fn finished(&mut self) -> bool {
        std::mem::take(&mut self.finished)
    }

    #[inline]
    pub(super) fn next_port(&self, switch: u32, end: u32) -> u8 {
        self.tree.as_ref().map_or(0, |tree| tree.port(switch, end))
    }

    pub(super) fn current(&self) -> Option<&Stage> {
        self.plan.stages.get(self.stage)
    }

    pub(super) fn put(&mut self, message: Message) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.messages[index as usize] = message;
                index
            }
            None => {
                self.messages.push(message);
                self.messages.len() as u32 - 1
            }
        }
    }
}
