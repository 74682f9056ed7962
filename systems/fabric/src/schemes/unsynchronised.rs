//! Entries written over each other as they arrive: what a subnet manager does without a protocol.
//! Safe only where every mixture of old and new entries is; kept as the counter-example.

use super::{Case, Promise, Proposal, Scheme};
use crate::sim::orders::{Command, Delivery, Plan, Stage};
use crate::transition::Scheme as Judged;

/// No scheme at all.
#[derive(Clone, Copy, Debug)]
pub struct Unsynchronised;

impl Scheme for Unsynchronised {
    fn name(&self) -> &'static str {
        "unsynchronised"
    }

    fn summary(&self) -> &'static str {
        "tables are overwritten as they arrive: packets may loop, be lost and deadlock"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        let write = Stage::tables("write tables", Delivery::Over);
        let mut stages = vec![Stage { wait_ns: case.compute_ns, ..write }];
        let mut obligations = case.both_sound().to_vec();
        let claim = "every mixture of old and new entries is sound";
        obligations.push(case.judged(claim, Judged::Unsynchronised));
        obligations.push(case.has_lanes(true));
        let lossless = obligations.iter().all(|obligation| obligation.holds);
        if lossless {
            // Links go off afterwards, with nothing left in their queues.
            stages.push(Stage::command("begin an epoch", Command::Mark));
            stages.push(Stage::command("wait for older packets", Command::Count));
        }
        Proposal {
            scheme: self.name(),
            tables: case.new.clone(),
            plan: Plan { stages },
            obligations,
            promise: Promise { lossless, in_order: false },
        }
    }
}
