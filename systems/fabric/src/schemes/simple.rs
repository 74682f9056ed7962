//! Simple Reconfiguration (Lysne et al. 2004, 2008): tokens part old packets from new ones on every
//! channel; hosts never stop.
//!
//! Packet-drop aware (SR-PDA): tables travel at the same time as the tokens, and a switch that a
//! token reaches before its tables holds the packets behind it. Latency aware (SR-LA): tables are
//! distributed first.
//!
//! Old packets never wait behind new ones, so they drain along the old dependencies, which have no
//! cycle; an output's token waits only along the same dependencies. Behind the tokens there are
//! only new packets. A flow keeps its order: its last old packet passes every channel before the
//! token, and new packets enter the last channel after that channel's token, provided that the last
//! lane is the same.

use super::{Case, Promise, Proposal, Scheme};
use crate::sim::orders::{Command, Delivery, Plan, Stage, TokenRule};
use crate::transition::Scheme as Judged;

/// SR-PDA.
#[derive(Clone, Copy, Debug)]
pub struct PacketDropAware;

/// SR-LA.
#[derive(Clone, Copy, Debug)]
pub struct LatencyAware;

impl Scheme for PacketDropAware {
    fn name(&self) -> &'static str {
        "sr-pda"
    }

    fn summary(&self) -> &'static str {
        "Simple Reconfiguration: tokens and tables travel at the same time"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        let command = Command::Tokens(TokenRule::Dependent);
        let both = Stage::both("send tables and tokens", Delivery::Aside, command);
        let mut stages = vec![both];
        if case.compute_ns > 0 {
            stages.insert(0, compute(case.compute_ns));
        }
        proposal(self.name(), case, stages)
    }
}

impl Scheme for LatencyAware {
    fn name(&self) -> &'static str {
        "sr-la"
    }

    fn summary(&self) -> &'static str {
        "Simple Reconfiguration: tables are distributed before the tokens start"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        let tables = Stage::tables("distribute tables", Delivery::Aside);
        let tables = Stage { wait_ns: case.compute_ns, ..tables };
        let tokens = Stage::command("send tokens", Command::Tokens(TokenRule::Dependent));
        proposal(self.name(), case, vec![tables, tokens])
    }
}

/// A stage in which the manager computes the tables.
pub(super) fn compute(wait_ns: u64) -> Stage {
    Stage { wait_ns, ..Stage::tables("compute tables", Delivery::Nothing) }
}

fn proposal(scheme: &'static str, case: &Case<'_>, stages: Vec<Stage>) -> Proposal {
    let mut obligations = case.both_sound().to_vec();
    obligations.push(case.judged("every token gets through", Judged::Sr));
    obligations.push(case.has_lanes(false));
    Proposal {
        scheme,
        tables: case.new.clone(),
        plan: Plan { stages },
        obligations,
        promise: Promise { lossless: true, in_order: case.same_last_lane() },
    }
}
