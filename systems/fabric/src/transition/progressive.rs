//! Changing destination by destination without extra lanes, after Upstream Progressive
//! Reconfiguration (Crespo, Sánchez, Alfaro-Cortés, Flich and Duato 2020): dependencies are added and
//! removed in an order found on the dependency graph, so that it never has a cycle.
//!
//! Room: finds that order and keeps its proof. For one destination the new entries are written from
//! the destination upstream, so that a packet that meets a new entry meets only new ones after it:
//! it takes some old hops, then only new ones. A destination whose new dependencies would close a
//! cycle waits until others have changed; when all wait for each other, sources hold back their
//! packets for one of them until those under way have arrived (its old dependencies are gone), which
//! always helps in the end: with all of them held back it is a static reconfiguration.
//!
//! Hosts that leave are told nothing: they send on, by whichever entries there are, until the change
//! is over, and so do others to them unless their packets are held back. If what they do closes a
//! cycle with the new tables, there is no order. Hosts that arrive begin under the new tables.
//!
//! Departure from the paper: it adds and removes per channel while the process runs; here the unit
//! is a destination and the order is found beforehand, so that every step can be checked.

use std::collections::{BTreeMap, BTreeSet};

use crate::dependency::cycle::Cycles;
use crate::dependency::online::OnlineOrder;
use crate::dependency::{Channel, DependencyGraph};
use crate::tables::{LANES, ServiceLevel, Tables};
use crate::topology::{HostId, Lid, Owner, Peer, PortNumber, SwitchId};

use super::Transition;
use super::mixed::Mixed;
use crate::walk::Senders;

/// One step of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write the new entries for these addresses, each from its destination upstream, then wait
    /// until packets that began under old entries have arrived.
    Change(Vec<Lid>),
    /// Hold back packets for this address at their sources and wait until none is under way.
    Hold(Lid),
    /// Write the new entries for this address, for which nothing is under way, and let its packets
    /// go again.
    Release(Lid),
}

/// An order in which the tables can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The steps.
    pub steps: Vec<Step>,
    /// Addresses whose tables change.
    pub changed: u64,
    /// Addresses for which packets are held back.
    pub held: u64,
    /// When there is no order: channels that the new tables and hosts that leave close to a cycle.
    pub blocked: Vec<Channel>,
}

impl Order {
    fn of(steps: Vec<Step>, changed: u64, held: u64) -> Order {
        Order { steps, changed, held, blocked: Vec::new() }
    }
}

type Edge = (Channel, Channel);

/// Finds an order. The old and the new tables must each be free of cycles and reach everything;
/// then there is one unless hosts leave ([`Order::blocked`]). `mixed` is what every mixture of both can do.
#[must_use]
pub fn order(transition: &Transition, mixed: &Mixed) -> Order {
    let mut edges = Edges::new(transition);
    if transition.changed_lids > 0 || edges.lanes_clash() {
        return hold_everything(transition, &mut edges);
    }
    let changing: Vec<Lid> =
        transition.all_destinations().filter(|lid| transition.changes(*lid)).collect();
    let changed = changing.len() as u64;
    if changing.is_empty() {
        return Order::of(Vec::new(), changed, 0);
    }
    let any_order =
        mixed.is_acyclic() && mixed.loop_destinations == 0 && mixed.lost_destinations == 0;
    if any_order || edges.all_at_once() {
        return Order::of(vec![Step::Change(changing)], changed, 0);
    }
    one_by_one(transition, &mut edges, changing)
}

/// A static reconfiguration: what is left when addresses change owners or a row of the lane tables
/// is needed in both forms.
fn hold_everything(transition: &Transition, edges: &mut Edges<'_>) -> Order {
    let hold = transition.all_destinations().map(Step::Hold);
    let steps: Vec<Step> = hold.chain(transition.destinations().map(Step::Release)).collect();
    let held = transition.all_destinations().count() as u64;
    let mut last = OnlineOrder::new();
    for lid in transition.all_destinations().filter(|lid| transition.owned_after(*lid)) {
        if let Err(refused) = last.add_all(&edges.of(lid, Phase::New)) {
            return Order { blocked: refused.cycle, ..Order::of(steps, held, held) };
        }
    }
    Order::of(steps, held, held)
}

fn one_by_one(transition: &Transition, edges: &mut Edges<'_>, changing: Vec<Lid>) -> Order {
    let changed = changing.len() as u64;
    let mut now = OnlineOrder::new();
    for lid in transition.all_destinations() {
        let old = edges.of(lid, Phase::Old);
        assert!(now.add_all(&old).is_ok(), "the old tables are free of cycles");
    }
    let (mut steps, mut held_all) = (Vec::new(), 0);
    let (mut waiting, mut leaving): (Vec<Lid>, Vec<Lid>) =
        changing.into_iter().partition(|lid| transition.owned_after(*lid));
    let mut held: Vec<Lid> = Vec::new();
    loop {
        let (mut together, mut cycles) = (Vec::new(), Vec::new());
        waiting.retain(|&lid| {
            let both = edges.of(lid, Phase::Both);
            if edges.loses {
                return true;
            }
            if let Err(refused) = now.add_all(&both) {
                cycles.push(refused.cycle);
                return true;
            }
            together.push((lid, both));
            false
        });
        for (lid, both) in &together {
            now.remove_all(both);
            now.remove_all(&edges.of(*lid, Phase::Old));
            let new = edges.of(*lid, Phase::New);
            assert!(now.add_all(&new).is_ok(), "part of what was added before");
        }
        let mut moved = !together.is_empty();
        if moved {
            steps.push(Step::Change(together.into_iter().map(|(lid, _)| lid).collect()));
        }
        let mut blocked = Vec::new();
        held.retain(|&lid| match now.add_all(&edges.of(lid, Phase::New)) {
            Ok(()) => {
                steps.push(Step::Release(lid));
                moved = true;
                false
            }
            Err(refused) => {
                blocked = refused.cycle.clone();
                cycles.push(refused.cycle);
                true
            }
        });
        if moved {
            continue;
        }
        if waiting.is_empty() && held.is_empty() {
            return Order::of(steps, changed, held_all);
        }
        let candidates = if waiting.is_empty() { &mut leaving } else { &mut waiting };
        if candidates.is_empty() {
            return Order { blocked, ..Order::of(steps, changed, held_all) };
        }
        let index = most_in_the_way(edges, candidates, &cycles);
        let lid = candidates.remove(index);
        now.remove_all(&edges.of(lid, Phase::Old));
        steps.push(Step::Hold(lid));
        held.extend(transition.owned_after(lid).then_some(lid));
        held_all += 1;
    }
}

/// Which waiting destination has old dependencies on most of the cycles that keep others from
/// changing.
fn most_in_the_way(edges: &mut Edges<'_>, waiting: &[Lid], cycles: &[Vec<Channel>]) -> usize {
    let mut on: BTreeMap<Edge, Vec<usize>> = BTreeMap::new();
    for (number, cycle) in cycles.iter().enumerate() {
        for pair in cycle.windows(2) {
            on.entry((pair[0], pair[1])).or_default().push(number);
        }
    }
    let mut count = |lid: Lid| {
        let old = edges.of(lid, Phase::Old);
        let hit: BTreeSet<&usize> = old.iter().filter_map(|edge| on.get(edge)).flatten().collect();
        hit.len()
    };
    let counts: Vec<usize> = waiting.iter().map(|lid| count(*lid)).collect();
    (0..waiting.len()).max_by_key(|index| (counts[*index], *index)).unwrap_or(0)
}

/// Which part of a destination's packets is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Those that only meet old entries.
    Old,
    /// Those that only meet new entries.
    New,
    /// Old hops, then new ones.
    Both,
}

/// A row of a lane table, which is written as a whole: switch, input, output.
type LaneUse = (SwitchId, PortNumber, PortNumber);

/// Where a packet is: the channel it came by, the switch and its input.
type At = (Option<Channel>, SwitchId, PortNumber);

/// Generates the dependencies of one destination.
struct Edges<'a> {
    transition: &'a Transition,
    /// Hosts that stay, and the others.
    hosts: [Senders; 2],
    /// For old and for new packets and each channel, by [`Channel::lane_index`]: the round in which they were
    /// seen there.
    seen: [Vec<u32>; 2],
    round: u32,
    found: Vec<Edge>,
    stack: Vec<(Channel, bool)>,
    /// Whether packets of the destination last looked at would be lost on the way.
    loses: bool,
    /// Rows that old and that new packets use and that differ, where that is asked for.
    rows: Option<[BTreeSet<LaneUse>; 2]>,
}

impl<'a> Edges<'a> {
    fn new(transition: &'a Transition) -> Edges<'a> {
        let bound = transition.topology.port_count() * LANES;
        let hosts = transition.senders();
        Edges {
            transition,
            hosts,
            seen: [vec![0; bound], vec![0; bound]],
            round: 0,
            found: Vec::new(),
            stack: Vec::new(),
            loses: false,
            rows: None,
        }
    }

    /// Whether every destination can change at the same time.
    fn all_at_once(&mut self) -> bool {
        let mut graph = DependencyGraph::new(&self.transition.topology);
        for lid in self.transition.all_destinations() {
            for (from, to) in self.of(lid, Phase::Both) {
                let (_, output) = self.transition.topology.port_at(to.port_index());
                graph.insert(from, output, to.lane());
            }
            if self.loses {
                return false;
            }
        }
        Cycles::of(&graph).is_acyclic()
    }

    /// Whether some row of the lane tables is used by old and by new packets and differs. Rows that
    /// only old packets use are written last, rows that only new ones use first.
    fn lanes_clash(&mut self) -> bool {
        if self.transition.old.lanes == self.transition.new.lanes {
            return false;
        }
        self.rows = Some([BTreeSet::new(), BTreeSet::new()]);
        for lid in self.transition.all_destinations() {
            self.of(lid, Phase::Both);
        }
        self.rows.take().is_some_and(|[old, new]| !old.is_disjoint(&new))
    }

    /// The dependencies of packets to an address, sorted, without repetition.
    fn of(&mut self, lid: Lid, phase: Phase) -> Vec<Edge> {
        let transition = self.transition;
        let own = transition.topology.owner(lid);
        let mask = |host: HostId| {
            let (old, new) = (&transition.old.levels, &transition.new.levels);
            let before = if transition.old_hosts[host.index()] { old.mask(host, lid) } else { 0 };
            let after = if transition.new_hosts[host.index()] { new.mask(host, lid) } else { 0 };
            match phase {
                Phase::Old => before,
                Phase::New if transition.new_hosts[host.index()] => after,
                Phase::New | Phase::Both => before | after,
            }
        };
        self.found.clear();
        self.loses = false;
        let uniform = transition.old.levels.is_uniform() && transition.new.levels.is_uniform();
        let hosts = std::mem::replace(&mut self.hosts, [Senders::none(), Senders::none()]);
        let all = || hosts.iter().flat_map(Senders::groups).flatten();
        let levels = match uniform {
            true => 1,
            false => all().fold(0, |all, host| all | mask(*host)),
        };
        let mut loses = false;
        for level in (0..LANES as ServiceLevel).filter(|level| levels >> level & 1 == 1) {
            self.round += 1;
            for (senders, counts) in hosts.iter().zip([true, false]) {
                self.loses = false;
                let sends =
                    |host: &&HostId| own != Owner::Host(**host) && mask(**host) >> level & 1 == 1;
                for host in senders.groups().filter_map(|group| group.iter().find(sends)) {
                    let host = transition.topology.host(*host);
                    let at = (None, host.switch, host.port);
                    self.forward(at, lid, level, phase, phase == Phase::New);
                }
                self.run_on(lid, level, phase);
                loses |= self.loses && counts;
            }
        }
        self.loses = loses && transition.remains(lid);
        self.hosts = hosts;
        self.found.sort_unstable();
        self.found.dedup();
        self.found.clone()
    }

    /// Follows every packet that was sent on to its end.
    fn run_on(&mut self, lid: Lid, level: ServiceLevel, phase: Phase) {
        let topology = &self.transition.topology;
        let own = topology.owner(lid);
        while let Some((channel, new)) = self.stack.pop() {
            match topology.peer_at(channel.port_index()) {
                Peer::Switch(switch, input) => {
                    self.forward((Some(channel), switch, input), lid, level, phase, new);
                }
                Peer::Host(host) => self.loses |= own != Owner::Host(host),
                Peer::Nothing => self.loses = true,
            }
        }
    }

    /// Sends a packet on: an old one by the old entry and, where both are looked at, by the new one
    /// too; a new one by the new entry.
    fn forward(&mut self, at: At, lid: Lid, level: ServiceLevel, phase: Phase, new: bool) {
        let (old_tables, new_tables) = (&self.transition.old, &self.transition.new);
        let written = new_tables.forwarding.get(at.1, lid).is_some();
        if !new {
            self.onto(at, old_tables, lid, level, false);
        }
        if new && !written {
            // An entry that the new tables lack is left as it is until the change is over.
            self.loses = true;
            self.onto(at, old_tables, lid, level, true);
        } else if new || phase == Phase::Both && written {
            self.onto(at, new_tables, lid, level, true);
        }
    }

    fn onto(&mut self, at: At, tables: &Tables, lid: Lid, level: ServiceLevel, new: bool) {
        let (from, switch, input) = at;
        let output = tables.forwarding.get(switch, lid).filter(|output| *output != 0);
        let lane = output.and_then(|output| tables.lanes.lane(switch, input, output, level));
        let (Some(output), Some(lane)) = (output, lane) else {
            self.loses = true;
            return;
        };
        if let Some(rows) = &mut self.rows {
            let lane = |tables: &Tables| tables.lanes.lane(switch, input, output, level);
            if lane(&self.transition.old) != lane(&self.transition.new) {
                rows[usize::from(new)].insert((switch, input, output));
            }
        }
        let channel = Channel::new(&self.transition.topology, switch, output, lane);
        if let Some(from) = from {
            self.found.push((from, channel));
        }
        let place = channel.lane_index(self.transition.topology.port_count());
        let seen = &mut self.seen[usize::from(new)][place];
        if std::mem::replace(seen, self.round) != self.round {
            self.stack.push((channel, new));
        }
    }
}
