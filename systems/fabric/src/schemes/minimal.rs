//! Minimal-change rerouting: instead of new tables from scratch, only the entries that lead over
//! links going off are replaced, by others that close no cycle with everything there is.
//!
//! Because old and new dependencies together have no cycle, no packet ever waits for the change.
//! The entries are written in the order of [`super::upstream`]. When links come on, nothing has to
//! change, and other schemes bring them into use.

use super::upstream::{lanes_stay, stages};
use super::{Case, Obligation, Promise, Proposal, Scheme};
use crate::dependency::Channel;
use crate::dependency::online::OnlineOrder;
use crate::sim::orders::Plan;
use crate::tables::Tables;
use crate::topology::{Lid, Peer, PortNumber, SwitchId, Topology};
use crate::transition::{Moment, Scheme as Judged};
use crate::walk;

/// Minimal-change rerouting.
#[derive(Clone, Copy, Debug)]
pub struct Minimal;

impl Scheme for Minimal {
    fn name(&self) -> &'static str {
        "minimal"
    }

    fn summary(&self) -> &'static str {
        "minimal change: only entries over links going off are replaced, closing no cycle"
    }

    fn propose(&self, case: &Case<'_>) -> Proposal {
        let tables = repair(&case.before(), &case.after(), case.old);
        let goes_off = case.off_after.iter().any(|link| !case.off_before.contains(link));
        let mut obligations = Vec::new();
        let claim = "no links go off: there are no entries to replace";
        let because = "when links only come on, no entry needs to change";
        obligations.push(Obligation::plain(claim, goes_off, because));
        let claim = "other entries can replace those over links going off";
        let because = "every one of them closes a cycle or a loop";
        obligations.push(Obligation::plain(claim, tables.is_some(), because));
        let wanted = tables.unwrap_or_else(|| case.new.clone());
        let old = Moment { tables: case.old, off: case.off_before, gone: case.gone_before };
        let new = Moment { tables: &wanted, off: case.off_after, gone: case.gone_after };
        let after = Case::between(case.topology, old, new, case.lane_sets);
        let after = Case { set_lanes: Some(case.set_lanes_there()), ..after };
        obligations.extend(after.both_sound());
        let sound = obligations.iter().all(|obligation| obligation.holds);
        obligations.push(after.judged("dependencies can come and go in some order", Judged::Upr));
        obligations.push(lanes_stay(case.old, &wanted));
        obligations.push(after.has_lanes(true));
        let stages = if sound { stages(case.topology, &after.transition) } else { Vec::new() };
        let mut plan = Plan { stages };
        if case.compute_ns > 0 {
            plan.stages.insert(0, super::simple::compute(case.compute_ns));
        }
        proposal(self.name(), wanted, plan, obligations)
    }
}

fn proposal(
    scheme: &'static str,
    tables: Tables,
    plan: Plan,
    obligations: Vec<Obligation>,
) -> Proposal {
    let promise = Promise { lossless: true, in_order: false };
    Proposal { scheme, tables, plan, obligations, promise }
}

/// The old tables with as few other entries as links going off demand; `None` when none is found.
/// Entries are tried by the new distance to the destination, one switch at a time.
#[must_use]
pub fn repair(before: &Topology, after: &Topology, old: &Tables) -> Option<Tables> {
    let mut order = OnlineOrder::new();
    for lid in after.hosts().iter().map(|host| host.lid) {
        order.add_all(&edges(before, old, lid)?).ok()?;
    }
    let mut tables = old.clone();
    for host in after.hosts() {
        let broken: Vec<SwitchId> = after
            .switch_ids()
            .filter(|switch| {
                let port = tables.forwarding.get(*switch, host.lid);
                port.is_some_and(|port| port != 0 && after.peer(*switch, port) == Peer::Nothing)
            })
            .collect();
        for switch in broken {
            mend(after, &mut tables, &mut order, switch, host.lid)?;
        }
        order.add_all(&edges(after, &tables, host.lid)?).ok()?;
    }
    mend_management(after, &mut tables);
    Some(tables)
}

/// Leads switches' own addresses around dead links. Management packets have a lane to themselves,
/// so only loops must be avoided: an entry goes to a neighbour from which the switch is reached.
fn mend_management(topology: &Topology, tables: &mut Tables) {
    for target in topology.switch_ids() {
        let lid = topology.switch(target).lid;
        for _ in topology.switch_ids() {
            let port = |at| tables.forwarding.get(at, lid).filter(|port| *port != 0);
            let dead = |at| port(at).is_some_and(|it| topology.peer(at, it) == Peer::Nothing);
            let count = topology.switches().len();
            let reached = |next| {
                walk::to_switch(topology, tables, next, target, &mut vec![false; count]).is_ok()
            };
            let found = topology.switch_ids().filter(|at| dead(*at)).find_map(|at| {
                let mut ways = topology.neighbours(at);
                ways.find(|(_, next, _)| reached(*next)).map(|(port, _, _)| (at, port))
            });
            let Some((at, port)) = found else { break };
            tables.forwarding.set(at, lid, Some(port));
        }
    }
}

/// Replaces one entry.
fn mend(
    topology: &Topology,
    tables: &mut Tables,
    order: &mut OnlineOrder,
    switch: SwitchId,
    lid: Lid,
) -> Option<()> {
    let was = tables.forwarding.get(switch, lid);
    let mut candidates: Vec<(usize, PortNumber)> = topology
        .neighbours(switch)
        .filter_map(|(port, next, input)| {
            let level = tables.levels.level(crate::HostId(0), lid).unwrap_or(0);
            let rest = rest_of_way(topology, tables, (next, input), lid, level)?;
            (!rest.contains(&switch)).then_some((rest.len(), port))
        })
        .collect();
    candidates.sort_unstable();
    for (_, port) in candidates {
        tables.forwarding.set(switch, lid, Some(port));
        let found = partial_edges(topology, tables, lid);
        if order.add_all(&found).is_ok() {
            return Some(());
        }
    }
    tables.forwarding.set(switch, lid, was);
    None
}

/// The switches that a packet at a switch passes until it arrives.
fn rest_of_way(
    topology: &Topology,
    tables: &Tables,
    (mut switch, mut input): (SwitchId, PortNumber),
    lid: Lid,
    level: u8,
) -> Option<Vec<SwitchId>> {
    let mut passed = Vec::new();
    while passed.len() <= topology.switches().len() {
        passed.push(switch);
        let (_, peer) = walk::step(topology, tables, switch, input, lid, level).ok()?;
        match peer {
            Peer::Host(_) => return Some(passed),
            Peer::Switch(next, port) => (switch, input) = (next, port),
            Peer::Nothing => return None,
        }
    }
    None
}

/// The dependencies of all packets to an address; `None` when one does not arrive.
fn edges(topology: &Topology, tables: &Tables, lid: Lid) -> Option<Vec<(Channel, Channel)>> {
    let mut found = Vec::new();
    for source in topology.host_ids() {
        let level = tables.levels.level(source, lid)?;
        let path = walk::path(topology, tables, source, lid, level).ok()?;
        found.extend(path.windows(2).map(|pair| (pair[0], pair[1])));
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// The dependencies of those packets to an address that arrive.
fn partial_edges(topology: &Topology, tables: &Tables, lid: Lid) -> Vec<(Channel, Channel)> {
    let mut found = Vec::new();
    for source in topology.host_ids() {
        let Some(level) = tables.levels.level(source, lid) else { continue };
        let Ok(path) = walk::path(topology, tables, source, lid, level) else { continue };
        found.extend(path.windows(2).map(|pair| (pair[0], pair[1])));
    }
    found.sort_unstable();
    found.dedup();
    found
}
