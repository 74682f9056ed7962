//! Static reconfiguration: injection stops, the network drains or drops, the tables change,
//! injection resumes (Montañana et al. 2010, sections 2.2 and 3.2).
//!
//! The manager halts the hosts and distributes the new tables at the same time, to a second place,
//! since packets still leave by the old ones. It counts until as many packets have arrived as were
//! sent, has the new tables used everywhere, and only then lets the hosts go on.

use super::{Case, Promise, Proposal, Scheme};
use crate::sim::orders::{Command, Delivery, Plan, Stage};
use crate::transition::Scheme as Judged;

/// Waits until the network is empty.
#[derive(Clone, Copy, Debug)]
pub struct Drain;

/// Drops what is in the network when the tables change; applications go on from a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Drop;

impl Scheme for Drain {
    fn name(&self) -> &'static str {
        "st"
    }

    fn summary(&self) -> &'static str {
        "static: hosts stop, the network drains, the tables change"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        proposal(self.name(), case, true)
    }
}

impl Scheme for Drop {
    fn name(&self) -> &'static str {
        "st-drop"
    }

    fn summary(&self) -> &'static str {
        "static: hosts stop, packets in flight are dropped when the tables change"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        proposal(self.name(), case, false)
    }
}

fn proposal(scheme: &'static str, case: &Case<'_>, drain: bool) -> Proposal {
    let halt = Stage::both("stop hosts, distribute tables", Delivery::Aside, Command::Halt);
    let mut stages = vec![Stage { wait_ns: case.compute_ns, ..halt }];
    if drain {
        stages.push(Stage::command("drain", Command::Count));
    }
    stages.push(Stage::command("change tables", Command::Activate { purge: !drain }));
    stages.push(Stage::command("let hosts send again", Command::Resume));
    let mut obligations = case.both_sound().to_vec();
    obligations.push(case.judged("an empty network may change its tables", Judged::St));
    obligations.push(case.has_lanes(false));
    Proposal {
        scheme,
        tables: case.new.clone(),
        plan: Plan { stages },
        obligations,
        promise: Promise { lossless: drain, in_order: true },
    }
}
