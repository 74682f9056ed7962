//! The Double Scheme (Pinkston, Pang and Duato 2003): two lane sets; one is drained and gets the
//! new tables while the other carries everything, then the other way round.
//!
//! Packets of the set being drained change to the other set at the next switch where that is
//! proved safe, and finish on their own set otherwise. Draining the first: the other set has the
//! same old tables, and a packet makes the dependencies of the rest of its way there, which are
//! old ones. Draining the second: packets that began by the old tables go on by the new ones from
//! whichever switch they are at, which can make dependencies that no packet of the new tables
//! makes; those are added to the new graph, and it must still have no cycle.

use super::{Case, Obligation, Promise, Proposal, Scheme};
use crate::dependency::cycle::Cycles;
use crate::dependency::{Channel, DependencyGraph};
use crate::sim::orders::{Command, Delivery, Plan, Stage};
use crate::topology::{Peer, Topology};
use crate::transition::Scheme as Judged;
use crate::walk;

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
        let escape = escape_is_safe(case);
        let drain = |set, other_is_new, escape| Command::Drain { set, other_is_new, escape };
        let first = "distribute tables, drain the second lane set";
        let mut stages = vec![
            Stage::both(first, Delivery::Aside, drain(1, false, true)),
            Stage::command("use it, drain the first", drain(0, true, escape)),
            Stage::command("use both", Command::Both),
        ];
        if case.compute_ns > 0 {
            stages.insert(0, super::simple::compute(case.compute_ns));
        }
        let mut obligations = case.both_sound().to_vec();
        obligations.push(case.judged("the switches have lanes for two sets", Judged::Ds));
        let sets = case.lane_sets == 2;
        let because = "the network has one lane set; lane_sets = 2 gives it another";
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

/// Whether packets under way by the old tables may go on by the new ones, on lanes that no old
/// packet uses, from any switch.
fn escape_is_safe(case: &Case<'_>) -> bool {
    let (before, after) = (case.before(), case.after());
    let mut graph = walk::survey(&after, case.new, None).graph;
    for source in case.topology.host_ids() {
        for host in case.topology.hosts() {
            let Some(level) = case.old.levels.level(source, host.lid) else { continue };
            let Ok(path) = walk::path(&before, case.old, source, host.lid, level) else {
                return false;
            };
            // At its first switch too: what its host sent before the command has its old level.
            let start = case.topology.host(source);
            let later = path.iter().filter_map(|channel| ends_at(&before, *channel));
            for (switch, port) in std::iter::once((start.switch, start.port)).chain(later) {
                if !follow(&after, case, &mut graph, (switch, port), (host.lid, level)) {
                    return false;
                }
            }
        }
    }
    Cycles::of(&graph).is_acyclic()
}

fn ends_at(topology: &Topology, channel: Channel) -> Option<(crate::SwitchId, u8)> {
    match topology.peer_at(channel.port_index()) {
        Peer::Switch(switch, port) => Some((switch, port)),
        Peer::Host(_) | Peer::Nothing => None,
    }
}

/// Adds what a packet at a switch does by the new tables; false when it does not arrive.
fn follow(
    topology: &Topology,
    case: &Case<'_>,
    graph: &mut DependencyGraph,
    (mut switch, mut input): (crate::SwitchId, u8),
    (lid, level): (u16, u8),
) -> bool {
    let mut from: Option<Channel> = None;
    for _ in 0..=topology.switches().len() {
        let step = walk::step(topology, case.new, switch, input, lid, level);
        let Ok((channel, peer)) = step else { return false };
        if let Some(from) = from {
            let (_, output) = topology.port_at(channel.port_index());
            graph.insert(from, output, channel.lane());
        }
        match peer {
            Peer::Host(host) => return topology.host(host).lids().any(|own| own == lid),
            Peer::Nothing => return false,
            Peer::Switch(next, port) => (switch, input) = (next, port),
        }
        from = Some(channel);
    }
    false
}
