//! Every interleaving of a tiny network: buffers of one packet, hosts that may send anything at any
//! time, switches that route a packet at any time after it came, table writes in any order that a
//! plan allows. Says whether packets can be lost or can close a ring of waits.

use std::collections::{HashMap, HashSet};

use ebb_des::{Rng, Seed};
use ebb_system_fabric::schemes::upstream::distance;
use ebb_system_fabric::tables::{LANES, Lane, Tables};
use ebb_system_fabric::topology::{Lid, Owner, Peer, PortNumber};
use ebb_system_fabric::transition::mixed::Mixed;
use ebb_system_fabric::transition::progressive::{self, Step};
use ebb_system_fabric::transition::{Scheme, Transition};
use ebb_system_fabric::{HostId, SwitchId, Topology};
use rand::seq::SliceRandom;

use super::case::Drawn;

/// States looked at before beginning again in another order, and how often that is done.
const STATES: usize = 1_500;
const ORDERS: u64 = 3;

/// Something that happens to tables or hosts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Entry(SwitchId, Lid),
    Row(SwitchId, PortNumber, PortNumber),
    Level(HostId, Lid),
    Hold(HostId, Lid),
    Release(HostId, Lid),
    Mark(HostId),
    /// Everything at once; packets keep the tables they began with.
    Instant,
}

/// Actions in any order, then perhaps a wait until packets from before the marks have gone.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    actions: Vec<Action>,
    count: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing { exhausted: bool },
    Failure(String),
}

/// The plans that can be explored here, with what the checker calls them.
pub fn plans(transition: &Transition) -> Vec<(Scheme, Vec<Stage>)> {
    let stage = |actions| vec![Stage { actions, count: false }];
    let mut plans = vec![
        (Scheme::Unsynchronised, stage(all_writes(transition))),
        (Scheme::Instant, stage(vec![Action::Instant])),
    ];
    if transition.old.lanes == transition.new.lanes {
        plans.push((Scheme::Upr, upstream(transition)));
    }
    plans
}

fn all_writes(transition: &Transition) -> Vec<Action> {
    let Transition { topology, old, new, .. } = transition;
    let mut actions = Vec::new();
    for lid in transition.all_destinations() {
        let differs = |at: &SwitchId| old.forwarding.get(*at, lid) != new.forwarding.get(*at, lid);
        actions.extend(topology.switch_ids().filter(differs).map(|at| Action::Entry(at, lid)));
        actions.extend(levels(transition, lid));
    }
    for at in topology.switch_ids() {
        let ports = topology.switch(at).ports;
        for (input, output) in (1..=ports).flat_map(|i| (1..=ports).map(move |o| (i, o))) {
            let row = |tables: &Tables| -> Vec<Option<Lane>> {
                (0..LANES as u8).map(|level| tables.lanes.lane(at, input, output, level)).collect()
            };
            if row(old) != row(new) {
                actions.push(Action::Row(at, input, output));
            }
        }
    }
    actions
}

fn levels(transition: &Transition, lid: Lid) -> impl Iterator<Item = Action> + '_ {
    let (old, new) = (&transition.old.levels, &transition.new.levels);
    let differs = move |host: &HostId| old.mask(*host, lid) != new.mask(*host, lid);
    let hosts = transition.common_hosts().filter(differs);
    hosts.map(move |host| Action::Level(host, lid))
}

/// The order of destinations with its waits, entries from the destination upstream.
fn upstream(transition: &Transition) -> Vec<Stage> {
    let topology = &transition.topology;
    let order = progressive::order(transition, &Mixed::of(transition));
    let every = |action: &dyn Fn(HostId) -> Action| topology.host_ids().map(action).collect();
    let settle = |stages: &mut Vec<Stage>| {
        stages.push(Stage { actions: every(&Action::Mark), count: true });
    };
    let mut stages = Vec::new();
    for step in order.steps {
        match step {
            Step::Change(lids) => {
                let mut layers: Vec<Stage> = vec![Stage::default(); topology.switches().len() + 1];
                for &lid in &lids {
                    for at in topology.switch_ids() {
                        let (old, new) = (&transition.old.forwarding, &transition.new.forwarding);
                        if new.get(at, lid).is_some() && old.get(at, lid) != new.get(at, lid) {
                            let layer = distance(transition, at, lid).min(layers.len() - 1);
                            layers[layer].actions.push(Action::Entry(at, lid));
                        }
                    }
                    layers[0].actions.extend(levels(transition, lid));
                }
                stages.extend(layers.into_iter().filter(|layer| !layer.actions.is_empty()));
                settle(&mut stages);
            }
            Step::Hold(lid) => {
                let actions = every(&|host| Action::Hold(host, lid));
                stages.push(Stage { actions, count: false });
                settle(&mut stages);
            }
            Step::Release(lid) => {
                let (old, new) = (&transition.old.forwarding, &transition.new.forwarding);
                let differs = |at: &SwitchId| {
                    new.get(*at, lid).is_some() && old.get(*at, lid) != new.get(*at, lid)
                };
                let entries = topology.switch_ids().filter(differs);
                let mut actions: Vec<Action> = entries.map(|at| Action::Entry(at, lid)).collect();
                actions.extend(levels(transition, lid));
                stages.push(Stage { actions, count: false });
                let actions = every(&|host| Action::Release(host, lid));
                stages.push(Stage { actions, count: false });
            }
        }
    }
    stages
}

/// A packet in a buffer of one: the output that it waits for once it is routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Packet {
    lid: Lid,
    level: u8,
    /// Marks of its host when it was sent, modulo 2; the tables it goes by under `Instant`.
    mark: bool,
    stays: bool,
    next: Option<(PortNumber, Lane)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    stage: usize,
    done: u128,
    slots: Vec<Option<Packet>>,
}

struct Explorer<'a> {
    transition: &'a Transition,
    plan: &'a [Stage],
    first: Vec<u32>,
    /// The bits of each action.
    bits: HashMap<Action, u128>,
    lanes: usize,
    instant: bool,
    lids: Vec<Lid>,
}

/// Explores a plan's interleavings in an order that the seed decides.
pub fn explore(drawn: &Drawn, transition: &Transition, plan: &[Stage], seed: u64) -> Found {
    let count: usize = plan.iter().map(|stage| stage.actions.len()).sum();
    if count > 128 {
        return Found::Nothing { exhausted: false };
    }
    let mut first = vec![0];
    plan.iter().for_each(|stage| first.push(first[first.len() - 1] + stage.actions.len() as u32));
    let mixed = Mixed::of(transition);
    let lanes = (u16::BITS - mixed.graph.lanes().leading_zeros()).max(1) as usize;
    let explorer = Explorer {
        transition,
        plan,
        bits: bits(plan),
        first,
        lanes,
        instant: plan.iter().any(|stage| stage.actions.contains(&Action::Instant)),
        lids: transition.all_destinations().collect(),
    };
    let slots = drawn.topology.port_count() * lanes + drawn.topology.hosts().len();
    let start = explorer.onward(State { stage: 0, done: 0, slots: vec![None; slots] });
    for order in 0..ORDERS {
        match search(&explorer, start.clone(), &mut Seed(seed).nth(order).stream("oracle")) {
            Found::Nothing { exhausted: false } => {}
            found => return found,
        }
    }
    Found::Nothing { exhausted: false }
}

fn bits(plan: &[Stage]) -> HashMap<Action, u128> {
    let mut bits = HashMap::new();
    for (place, action) in plan.iter().flat_map(|stage| &stage.actions).enumerate() {
        *bits.entry(*action).or_default() |= 1u128 << place;
    }
    bits
}

/// Goes deep first, and to the fuller buffers first: that is where packets wait for each other.
fn search(explorer: &Explorer<'_>, start: State, rng: &mut Rng) -> Found {
    let (mut seen, mut stack) = (HashSet::from([start.clone()]), vec![start]);
    while let Some(state) = stack.pop() {
        let mut next = match explorer.successors(&state) {
            Ok(next) => next,
            Err(failure) => return Found::Failure(failure),
        };
        next.shuffle(rng);
        next.sort_by_key(|state| state.slots.iter().flatten().count());
        for state in next {
            if seen.len() >= STATES {
                return Found::Nothing { exhausted: false };
            }
            if seen.insert(state.clone()) {
                stack.push(state);
            }
        }
    }
    Found::Nothing { exhausted: true }
}

impl Explorer<'_> {
    fn topology(&self) -> &Topology {
        &self.transition.topology
    }

    fn did(&self, state: &State, action: Action) -> bool {
        self.times(state, action) > 0
    }

    /// How often an action was done.
    fn times(&self, state: &State, action: Action) -> u32 {
        self.bits.get(&action).map_or(0, |bits| (bits & state.done).count_ones())
    }

    /// Goes on to the next stage when this one is done.
    fn onward(&self, mut state: State) -> State {
        while let Some(stage) = self.plan.get(state.stage) {
            let first = self.first[state.stage];
            let all =
                (0..stage.actions.len()).all(|it| state.done >> (first as usize + it) & 1 == 1);
            let marks = self.plan[..=state.stage].iter().filter(|stage| stage.count).count();
            let older = |slot: &Packet| slot.mark != (marks % 2 == 1);
            if !all || stage.count && state.slots.iter().flatten().any(older) {
                break;
            }
            state.stage += 1;
        }
        state
    }

    fn successors(&self, state: &State) -> Result<Vec<State>, String> {
        let mut next = Vec::new();
        if let Some(stage) = self.plan.get(state.stage) {
            for index in 0..stage.actions.len() {
                let bit = 1u128 << (self.first[state.stage] as usize + index);
                if state.done & bit == 0 {
                    next.push(State { done: state.done | bit, ..state.clone() });
                }
            }
        }
        for host in self.topology().host_ids() {
            self.send(state, host, &mut next);
        }
        for slot in 0..state.slots.len() {
            match state.slots[slot] {
                Some(Packet { next: None, .. }) => next.extend(self.routed(state, slot)?),
                Some(Packet { next: Some(_), .. }) => next.extend(self.moved(state, slot)),
                None => {}
            }
        }
        Ok(next.into_iter().map(|state| self.onward(state)).collect())
    }

    fn host_slot(&self, host: HostId) -> usize {
        self.topology().port_count() * self.lanes + host.index()
    }

    /// Whether an end takes part at this moment.
    fn there(&self, state: &State, host: HostId) -> bool {
        let over = state.stage >= self.plan.len();
        let (old, new) =
            (self.transition.old_hosts[host.index()], self.transition.new_hosts[host.index()]);
        match (old, new) {
            (true, true) => true,
            // One that leaves is not told: it sends on until its link is off.
            (true, false) => true,
            (false, true) => over || !self.instant && self.plan.len() <= 1,
            (false, false) => false,
        }
    }

    fn send(&self, state: &State, host: HostId, next: &mut Vec<State>) {
        let slot = self.host_slot(host);
        if state.slots[slot].is_some() || !self.there(state, host) {
            return;
        }
        for &lid in &self.lids {
            let Owner::Host(target) = self.topology().owner(lid) else { continue };
            let held = self.did(state, Action::Hold(host, lid))
                && !self.did(state, Action::Release(host, lid));
            if target == host || held || !self.there(state, target) {
                continue;
            }
            let flipped = self.instant && self.did(state, Action::Instant);
            let arrives = !self.transition.old_hosts[host.index()];
            let new = flipped || arrives || self.did(state, Action::Level(host, lid));
            let leaves = !self.transition.new_hosts[host.index()];
            let tables = if new && !leaves { &self.transition.new } else { &self.transition.old };
            let mark =
                if self.instant { flipped } else { self.times(state, Action::Mark(host)) % 2 == 1 };
            let mask = tables.levels.mask(host, lid);
            for level in (0..LANES as u8).filter(|level| mask >> level & 1 == 1) {
                let stays = self.transition.stays(host) && self.transition.remains(lid);
                let packet = Packet { lid, level, mark, stays, next: None };
                let mut state = state.clone();
                state.slots[slot] = Some(packet);
                next.push(state);
            }
        }
    }

    /// The switch at which a slot's packet is and the port that it came in by.
    fn place(&self, slot: usize) -> (SwitchId, PortNumber) {
        let switches = self.topology().port_count() * self.lanes;
        if let Some(host) = slot.checked_sub(switches) {
            let host = self.topology().host(HostId(host as u32));
            return (host.switch, host.port);
        }
        match self.topology().peer_at(slot / self.lanes) {
            Peer::Switch(switch, port) => (switch, port),
            Peer::Host(_) | Peer::Nothing => unreachable!("packets wait at switches"),
        }
    }

    /// A switch looks up where a packet goes.
    fn routed(&self, state: &State, slot: usize) -> Result<Option<State>, String> {
        let packet = state.slots[slot].expect("a packet");
        let (at, input) = self.place(slot);
        let (old, new) = (&self.transition.old, &self.transition.new);
        let version = |written: bool| {
            if if self.instant { packet.mark } else { written } { new } else { old }
        };
        let output =
            version(self.did(state, Action::Entry(at, packet.lid))).forwarding.get(at, packet.lid);
        let lane = output.filter(|port| *port != 0).and_then(|output| {
            let tables = version(self.did(state, Action::Row(at, input, output)));
            tables.lanes.lane(at, input, output, packet.level)
        });
        let mut state = state.clone();
        state.slots[slot] = None;
        let arrives = |peer| matches!((peer, self.topology().owner(packet.lid)), (Peer::Host(host), Owner::Host(own)) if host == own);
        let lost = || {
            format!("a packet to LID {} is lost at {}", packet.lid, self.topology().switch(at).name)
        };
        match (output, lane) {
            (Some(output), Some(lane)) => match self.topology().peer(at, output) {
                Peer::Switch(..) => {
                    state.slots[slot] = Some(Packet { next: Some((output, lane)), ..packet });
                    if self.ring(&state, slot) {
                        return Err(format!(
                            "packets wait for each other at {}",
                            self.topology().switch(at).name
                        ));
                    }
                }
                peer if arrives(peer) || !packet.stays => {}
                _ => return Err(lost()),
            },
            _ if packet.stays => return Err(lost()),
            _ => {}
        }
        Ok(Some(state))
    }

    fn wanted(&self, state: &State, slot: usize) -> Option<usize> {
        let (output, lane) = state.slots[slot]?.next?;
        let (at, _) = self.place(slot);
        Some(self.topology().port_index(at, output) * self.lanes + usize::from(lane))
    }

    fn moved(&self, state: &State, slot: usize) -> Option<State> {
        let to = self.wanted(state, slot)?;
        state.slots[to].is_none().then(|| {
            let mut state = state.clone();
            let packet = state.slots[slot].take().expect("a packet");
            state.slots[to] = Some(Packet { next: None, ..packet });
            state
        })
    }

    fn ring(&self, state: &State, from: usize) -> bool {
        let (mut at, mut steps) = (from, 0);
        while let Some(next) = self.wanted(state, at) {
            (at, steps) = (next, steps + 1);
            if at == from {
                return true;
            }
            if steps > state.slots.len() {
                return false;
            }
        }
        false
    }
}
