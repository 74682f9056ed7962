//! The Double Scheme (Pinkston, Pang and Duato 2003): two lane sets; one is drained and gets the
//! new tables while the other carries everything, then the other way round.
//!
//! Packets of the set being drained change to the other set at the next switch where that is
//! proved safe, and finish on their own set otherwise. Draining the first: the other set has the
//! same old tables, and a packet makes the dependencies of the rest of its way there, which are
//! old ones. Draining the second: packets that began by the old tables go on by the new ones from
//! whichever switch they are at, which can make dependencies that no packet of the new tables
//! makes; [`crate::transition::stepping`] adds those to the new graph, which must still have no cycle,
//! and refuses lanes beyond the set.

use super::{Case, Obligation, Promise, Proposal, Scheme};
use crate::sim::orders::{Command, Delivery, Plan, Stage};
use crate::transition::Scheme as Judged;

/// DS.
#[derive(Clone, Copy, Debug)]
pub struct Double;

impl Scheme for Double {
    fn name(&self) -> &'static str {
        "ds"
    }

    fn summary(&self) -> &'static str {
        "Double Scheme: one of two lane sets drains and changes while the other carries all"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        let escape = case.verdict.scheme(Judged::Ds).figures.get("packets_step_over") == Some(&1);
        let drain = |set, other_is_new, escape| Command::Drain { set, other_is_new, escape };
        let first = "distribute tables, drain the second lane set";
        let sets = case.lane_sets == 2;
        let mut stages = vec![
            Stage::both(first, Delivery::Aside, drain(1, false, true)),
            Stage::command("use it, drain the first", drain(0, true, escape)),
            Stage::command("use both", Command::Both),
        ];
        if !sets {
            // There is nothing to carry out, with proof or without.
            stages.clear();
        } else if case.compute_ns > 0 {
            stages.insert(0, super::simple::compute(case.compute_ns));
        }
        let mut obligations = case.both_sound().to_vec();
        obligations.push(case.judged("the switches have lanes for two sets", Judged::Ds));
        obligations.push(case.has_lanes(false));
        let because = "the network has one lane set: set lane_sets = 2";
        obligations.push(Obligation::plain("there are two lane sets", sets, because));
        if !escape {
            let claim = "the first lane set drains by its own tables";
            obligations.push(case.judged(claim, Judged::Sr));
        }
        Proposal {
            scheme: self.name(),
            tables: case.new.clone(),
            plan: Plan { stages },
            obligations,
            promise: Promise { lossless: true, in_order: false },
        }
    }
}
