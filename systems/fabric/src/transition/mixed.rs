//! Tables that change one entry at a time, in any order: what a subnet manager does without a
//! protocol.
//!
//! Room: everything packets can do while each switch has, for each address, either the old or the
//! new entry, independently of every other switch and address, and likewise for levels and lanes.
//! The union of the old and the new dependency graph is not enough: a packet may take an old hop
//! after a new one and make dependencies that neither set of tables has, or go in circles.

use crate::dependency::cycle::Cycles;
use crate::dependency::{Channel, DependencyGraph};
use crate::tables::{LANES, Lane, ServiceLevel, Tables};
use crate::topology::{HostId, Lid, Owner, Peer, PortNumber, SwitchId};

use super::Transition;
use crate::walk::Senders;

/// What mixed tables can do.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// Every dependency that some mixture makes.
    pub graph: DependencyGraph,
    /// Its cycles.
    pub cycles: Cycles,
    /// Addresses for which some mixture sends packets in a circle of switches.
    pub loop_destinations: u64,
    /// The switches of one such circle and the ports they would use; empty when there is none.
    pub first_loop: Vec<(SwitchId, PortNumber)>,
    /// Addresses for which some mixture loses packets of hosts that stay.
    pub lost_destinations: u64,
}

impl Mixed {
    /// Explores every mixture.
    #[must_use]
    pub fn of(transition: &Transition) -> Mixed {
        let mut explorer = Explorer::new(transition);
        for destination in transition.all_destinations() {
            explorer.destination(destination);
        }
        let cycles = Cycles::of(&explorer.mixed.graph);
        Mixed { cycles, ..explorer.mixed }
    }

    /// Whether no mixture can deadlock.
    #[must_use]
    pub fn is_acyclic(&self) -> bool {
        self.cycles.is_acyclic()
    }
}

/// The next hops of either table, without repetition.
fn next_hops(transition: &Transition, switch: SwitchId, lid: Lid) -> [Option<PortNumber>; 2] {
    let old = transition.old.forwarding.get(switch, lid);
    let new = transition.new.forwarding.get(switch, lid);
    [old, new.filter(|_| new != old)]
}

/// The lanes of either table, without repetition.
fn lanes_of(
    transition: &Transition,
    switch: SwitchId,
    input: PortNumber,
    output: PortNumber,
    level: ServiceLevel,
) -> [Option<Lane>; 2] {
    let lane = |tables: &Tables| tables.lanes.lane(switch, input, output, level);
    let (old, new) = (lane(&transition.old), lane(&transition.new));
    [old, new.filter(|_| new != old)]
}

struct Explorer<'a> {
    transition: &'a Transition,
    mixed: Mixed,
    /// The round in which a channel was seen, by [`Channel::lane_index`].
    seen: Vec<u32>,
    round: u32,
    stack: Vec<Channel>,
    /// Hosts that stay, and those that leave or arrive.
    hosts: [Senders; 2],
    lost: bool,
    colour: Vec<u8>,
}

impl<'a> Explorer<'a> {
    fn new(transition: &'a Transition) -> Explorer<'a> {
        let graph = DependencyGraph::new(&transition.topology);
        let bound = graph.channel_bound();
        let mixed = Mixed {
            graph,
            cycles: Cycles::default(),
            loop_destinations: 0,
            first_loop: Vec::new(),
            lost_destinations: 0,
        };
        let hosts = transition.senders();
        Explorer {
            transition,
            mixed,
            seen: vec![0; bound],
            round: 0,
            stack: Vec::new(),
            hosts,
            lost: false,
            colour: vec![0; transition.topology.switches().len()],
        }
    }

    fn destination(&mut self, lid: Lid) {
        let transition = self.transition;
        let own = transition.topology.owner(lid);
        let mask = |host: HostId| {
            transition.old.levels.mask(host, lid) | transition.new.levels.mask(host, lid)
        };
        let uniform = transition.old.levels.is_uniform() && transition.new.levels.is_uniform();
        let hosts = std::mem::replace(&mut self.hosts, [Senders::none(), Senders::none()]);
        let all = || hosts.iter().flat_map(Senders::groups);
        let levels = match uniform {
            true => 1,
            false => all().flatten().fold(0, |levels, host| levels | mask(*host)),
        };
        let mut lost = false;
        for level in (0..LANES as ServiceLevel).filter(|level| levels >> level & 1 == 1) {
            self.round += 1;
            // What a host that leaves or arrives loses is its own affair; what it can block is not.
            for (senders, counts) in hosts.iter().zip([true, false]) {
                self.lost = false;
                let sends =
                    |host: &&HostId| own != Owner::Host(**host) && mask(**host) >> level & 1 == 1;
                for host in senders.groups().filter_map(|group| group.iter().find(sends)) {
                    let host = transition.topology.host(*host);
                    self.send_on(None, host.switch, host.port, lid, level);
                }
                self.run_on(lid, level);
                lost |= self.lost && counts;
            }
        }
        self.mixed.lost_destinations += u64::from(lost && transition.remains(lid));
        let others = |group: &[HostId]| group.iter().copied().find(|it| own != Owner::Host(*it));
        let switches = all().filter_map(others).map(|it| transition.topology.host(it).switch);
        let found = self.circle(switches, lid);
        self.hosts = hosts;
        if let Some(circle) = found {
            self.mixed.loop_destinations += 1;
            if self.mixed.first_loop.is_empty() {
                self.mixed.first_loop = circle;
            }
        }
    }

    /// Follows every packet that was sent on to its end.
    fn run_on(&mut self, lid: Lid, level: ServiceLevel) {
        let topology = &self.transition.topology;
        let own = topology.owner(lid);
        while let Some(channel) = self.stack.pop() {
            match topology.peer_at(channel.port_index()) {
                Peer::Switch(switch, input) => {
                    self.send_on(Some(channel), switch, input, lid, level);
                }
                Peer::Host(host) => self.lost |= own != Owner::Host(host),
                Peer::Nothing => self.lost = true,
            }
        }
    }

    /// Sends a packet on from a switch by every mixture.
    fn send_on(
        &mut self,
        from: Option<Channel>,
        switch: SwitchId,
        input: PortNumber,
        lid: Lid,
        level: ServiceLevel,
    ) {
        let transition = self.transition;
        let hops = next_hops(transition, switch, lid);
        self.lost |= hops[0].is_none() || transition.new.forwarding.get(switch, lid).is_none();
        for output in hops.into_iter().flatten() {
            if output == 0 {
                self.lost = true;
                continue;
            }
            let lanes = lanes_of(transition, switch, input, output, level);
            self.lost |= lanes[0].is_none()
                || transition.new.lanes.lane(switch, input, output, level).is_none();
            for lane in lanes.into_iter().flatten() {
                let channel = Channel::new(&transition.topology, switch, output, lane);
                match from {
                    Some(from) => drop(self.mixed.graph.insert(from, output, lane)),
                    None => self.mixed.graph.touch(channel),
                }
                let seen = &mut self.seen[channel.lane_index(transition.topology.port_count())];
                if std::mem::replace(seen, self.round) != self.round {
                    self.stack.push(channel);
                }
            }
        }
    }

    /// A circle in the graph of old and new next hops that packets from these switches can enter.
    fn circle(
        &mut self,
        sources: impl Iterator<Item = SwitchId>,
        lid: Lid,
    ) -> Option<Vec<(SwitchId, PortNumber)>> {
        const OPEN: u8 = 1;
        const CLOSED: u8 = 2;
        self.colour.fill(0);
        let topology = &self.transition.topology;
        let mut path: Vec<(SwitchId, usize)> = Vec::new();
        for source in sources {
            if self.colour[source.index()] != 0 {
                continue;
            }
            path.push((source, 0));
            self.colour[source.index()] = OPEN;
            while let Some((switch, tried)) = path.last_mut() {
                let (at, choice) = (*switch, *tried);
                *tried += 1;
                let hops = next_hops(self.transition, at, lid);
                let Some(hop) = hops.get(choice) else {
                    self.colour[at.index()] = CLOSED;
                    path.pop();
                    continue;
                };
                let Some(port) = hop.filter(|port| *port != 0) else { continue };
                let Peer::Switch(next, _) = topology.peer(at, port) else { continue };
                match self.colour[next.index()] {
                    OPEN => {
                        let start = path.iter().position(|(switch, _)| *switch == next)?;
                        let hop = |&(switch, tried): &(SwitchId, usize)| {
                            let port = next_hops(self.transition, switch, lid)[tried - 1];
                            (switch, port.unwrap_or(0))
                        };
                        return Some(path[start..].iter().map(hop).collect());
                    }
                    CLOSED => {}
                    _ => {
                        self.colour[next.index()] = OPEN;
                        path.push((next, 0));
                    }
                }
            }
        }
        None
    }
}
