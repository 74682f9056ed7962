//! The Double Scheme's shortcut: packets under way by the old tables that go on by the new ones, on
//! lanes of their own, from whichever switch they are at.
//!
//! Such packets make dependencies that no packet of the new tables makes, and may use lanes that
//! none of them uses. Stepping over is safe when those dependencies and the new ones together have
//! no cycle, and every such packet arrives on lanes that there are. Where it is not proved, packets
//! finish on the lanes they began on.

use crate::dependency::cycle::Cycles;
use crate::dependency::{Channel, DependencyGraph};
use crate::tables::{LANES, ServiceLevel};
use crate::topology::{HostId, Lid, Owner, Peer, PortNumber, SwitchId};

use super::Transition;
use crate::walk::Senders;

/// Whether old packets may step over at every switch, `lanes` being those of a lane set and `new`
/// the dependencies of packets that begin by the new tables.
#[must_use]
pub fn is_safe(transition: &Transition, new: &DependencyGraph, lanes: u32) -> bool {
    if transition.changed_lids > 0 {
        return false;
    }
    let topology = &transition.topology;
    let sent = topology.host_ids().filter(|host| transition.old_hosts[host.index()]);
    let any_input = transition.old.lanes.is_identity() && transition.new.lanes.is_identity();
    let mut stepping = Stepping {
        transition,
        senders: Senders::of(topology, sent, any_input),
        graph: new.clone(),
        lanes,
        walked: vec![0; new.channel_bound()],
        walk: 0,
        seen: vec![0; topology.port_count()],
        round: 0,
    };
    let all_arrive = transition.all_destinations().all(|lid| stepping.destination(lid));
    all_arrive && Cycles::of(&stepping.graph).is_acyclic()
}

struct Stepping<'a> {
    transition: &'a Transition,
    /// The hosts of the old tables.
    senders: Senders,
    graph: DependencyGraph,
    lanes: u32,
    /// For each channel the last walk that came through it, by [`Channel::lane_index`].
    walked: Vec<u64>,
    walk: u64,
    /// For each input the last round in which packets came in by it.
    seen: Vec<u64>,
    round: u64,
}

impl Stepping<'_> {
    /// Lets every old packet to an address step over at every switch on its way, the first
    /// included: what a host sent before it was told has its old level. False when one is lost.
    fn destination(&mut self, lid: Lid) -> bool {
        let transition = self.transition;
        let topology = &transition.topology;
        let own = topology.owner(lid);
        let old = &transition.old;
        let senders = std::mem::replace(&mut self.senders, Senders::none());
        let others = || senders.groups().flatten().filter(|host| own != Owner::Host(**host));
        let levels = match old.levels.is_uniform() {
            true => 1,
            false => others().fold(0, |all, host| all | old.levels.mask(*host, lid)),
        };
        let sends = |host: &&HostId, level: ServiceLevel| {
            own != Owner::Host(**host) && old.levels.mask(**host, lid) >> level & 1 == 1
        };
        let mut arrive = true;
        for level in (0..LANES as ServiceLevel).filter(|level| levels >> level & 1 == 1) {
            let first = |group: &[HostId]| group.iter().copied().find(|host| sends(&host, level));
            let at = senders.groups().filter_map(first).map(|host| topology.host(host));
            let at = at.map(|host| (host.switch, host.port)).collect();
            arrive = arrive && self.from(at, lid, level);
        }
        self.senders = senders;
        arrive
    }

    /// The same for packets of one level from the switches where they come in first.
    fn from(&mut self, mut at: Vec<(SwitchId, PortNumber)>, lid: Lid, level: ServiceLevel) -> bool {
        let topology = &self.transition.topology;
        let round = self.walk + 1;
        self.round += 1;
        while let Some((switch, input)) = at.pop() {
            let seen = &mut self.seen[topology.port_index(switch, input)];
            if std::mem::replace(seen, self.round) == self.round {
                continue;
            }
            if !self.step_over((switch, input), (lid, level), round) {
                return false;
            }
            let old = &self.transition.old.forwarding;
            let port = old.get(switch, lid).filter(|port| *port != 0);
            if let Some(Peer::Switch(next, port)) = port.map(|port| topology.peer(switch, port)) {
                at.push((next, port));
            }
        }
        true
    }

    /// Adds what a packet at a switch does by the new tables, up to where a walk since `round` has
    /// been; false when it does not arrive.
    fn step_over(
        &mut self,
        (mut switch, mut input): (SwitchId, PortNumber),
        (lid, level): (Lid, ServiceLevel),
        round: u64,
    ) -> bool {
        self.walk += 1;
        let topology = &self.transition.topology;
        let mut from: Option<Channel> = None;
        loop {
            let new = &self.transition.new;
            let step = crate::walk::step(topology, new, switch, input, lid, level);
            let Ok((channel, peer)) = step else { return false };
            if u32::from(channel.lane()) >= self.lanes {
                return false;
            }
            if let Some(from) = from {
                let (_, output) = topology.port_at(channel.port_index());
                self.graph.insert(from, output, channel.lane());
            }
            let walked = &mut self.walked[channel.lane_index(topology.port_count())];
            match std::mem::replace(walked, self.walk) {
                again if again == self.walk => return false,
                known if known >= round => return true,
                _ => {}
            }
            match peer {
                Peer::Host(host) => return topology.owner(lid) == Owner::Host(host),
                Peer::Nothing => return false,
                Peer::Switch(next, port) => (switch, input) = (next, port),
            }
            from = Some(channel);
        }
    }
}
