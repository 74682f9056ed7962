//! Upstream progressive reconfiguration (after Crespo, Sánchez, Alfaro-Cortés, Flich and Duato
//! 2020): destinations change one after another in an order that never closes a cycle of
//! dependencies, without extra lanes.
//!
//! [`crate::transition::progressive`] finds the order and keeps its proof; here its steps become
//! control packets. The entries of a destination are written from the destination upstream, layer
//! by layer, each layer acknowledged before the next. Then an epoch begins and the manager counts
//! until every packet of the epoch before has arrived: its dependencies are gone.

use std::collections::BTreeMap;

use super::{Case, Obligation, Promise, Proposal, Scheme};
use crate::sim::orders::{Command, Delivery, Plan, Stage};
use crate::tables::Tables;
use crate::topology::{HostId, Lid, Owner, Peer, SwitchId, Topology};
use crate::transition::mixed::Mixed;
use crate::transition::progressive::{self, Step};
use crate::transition::{Scheme as Judged, Transition};

/// UPR.
#[derive(Clone, Copy, Debug)]
pub struct Upstream;

impl Scheme for Upstream {
    fn name(&self) -> &'static str {
        "upr"
    }

    fn summary(&self) -> &'static str {
        "upstream progressive: destination by destination, in an order without cycles"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        let mut obligations = case.both_sound().to_vec();
        let sound = obligations.iter().all(|obligation| obligation.holds);
        obligations.push(case.judged("dependencies can come and go in some order", Judged::Upr));
        obligations.push(lanes_stay(case.old, case.new));
        obligations.push(case.has_lanes(true));
        let stages = if sound { stages(case.topology, &case.transition) } else { Vec::new() };
        let mut plan = Plan { stages };
        if case.compute_ns > 0 {
            plan.stages.insert(0, super::simple::compute(case.compute_ns));
        }
        Proposal {
            scheme: self.name(),
            tables: case.new.clone(),
            plan,
            obligations,
            promise: Promise { lossless: true, in_order: false },
        }
    }
}

/// Service levels and lanes are the same before and after, since entries change one by one.
pub(super) fn lanes_stay(old: &Tables, new: &Tables) -> Obligation {
    let same = old.levels == new.levels && old.lanes == new.lanes;
    let because = "hosts and switches would need both";
    Obligation::plain("service levels and lanes stay as they are", same, because)
}

/// The stages that carry the order out.
pub(super) fn stages(topology: &Topology, transition: &Transition) -> Vec<Stage> {
    let order = progressive::order(transition, &Mixed::of(transition));
    let mut stages = Vec::new();
    for step in order.steps {
        match step {
            Step::Change(lids) => {
                for layer in layers(topology, transition, &lids) {
                    stages.push(Stage::tables("write entries", Delivery::Entries(layer)));
                }
                settle(&mut stages);
            }
            Step::Hold(lid) => {
                stages.push(Stage {
                    subjects: owner(topology, lid),
                    ..Stage::command("hold packets back", Command::Hold)
                });
                settle(&mut stages);
            }
            Step::Release(lid) => {
                let layers = layers(topology, transition, &[lid]);
                let all = layers.into_iter().flatten().collect();
                stages.push(Stage::tables("write entries", Delivery::Entries(all)));
                stages.push(Stage {
                    subjects: owner(topology, lid),
                    ..Stage::command("let packets go", Command::Release)
                });
            }
        }
    }
    stages
}

fn settle(stages: &mut Vec<Stage>) {
    stages.push(Stage::command("begin an epoch", Command::Mark));
    stages.push(Stage::command("wait for older packets", Command::Count));
}

fn owner(topology: &Topology, lid: Lid) -> Vec<HostId> {
    match topology.owner(lid) {
        Owner::Host(host) => vec![host],
        Owner::Switch(_) | Owner::Nobody => Vec::new(),
    }
}

type Layer = Vec<(SwitchId, Vec<HostId>)>;

/// Entries that differ, nearest to their destination (by the new tables) first.
fn layers(topology: &Topology, transition: &Transition, lids: &[Lid]) -> Vec<Layer> {
    let (old, new) = (&transition.old.forwarding, &transition.new.forwarding);
    let mut layers: BTreeMap<usize, BTreeMap<SwitchId, Vec<HostId>>> = BTreeMap::new();
    for &lid in lids {
        for host in owner(topology, lid) {
            for switch in topology.switch_ids() {
                // Old packets may still be where the new tables have no entry: it goes at the end.
                if new.get(switch, lid).is_some() && old.get(switch, lid) != new.get(switch, lid) {
                    let layer = layers.entry(distance(transition, switch, lid)).or_default();
                    layer.entry(switch).or_default().push(host);
                }
            }
        }
    }
    layers.into_values().map(|layer| layer.into_iter().collect()).collect()
}

/// Links from a switch to an address by the new tables.
pub fn distance(transition: &Transition, from: SwitchId, lid: Lid) -> usize {
    let (mut at, mut links) = (from, 0);
    while let Some(port) = transition.new.forwarding.get(at, lid).filter(|port| *port != 0) {
        let Peer::Switch(next, _) = transition.topology.peer(at, port) else { break };
        (at, links) = (next, links + 1);
        if links > transition.topology.switches().len() {
            break;
        }
    }
    links
}
