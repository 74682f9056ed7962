//! Whatever the kernel's tables say, in whatever order: nothing ends the process, and the forwarding tables say
//! of every address what plain maps say. Every sequence ends with empty tables, out of which nothing is left
//! behind.

use std::net::IpAddr;
use std::time::Duration;

use ebb_apps::route::{Decision, FibError, FibWriter, Interface, InterfaceId, Target};
use ebb_graph::PortId;
use ebb_host::netlink::{
    Address, Event, Link, Neighbour, NeighbourState, NextHopObject, NextHopTarget, Part, Route,
    RouteHop, RouteKind,
};
use ebb_units::Time;
use ipnet::IpNet;

use super::Recorder;
use crate::rib::{Rib, Scope, Tables};

/// `EBB_SEQUENCES=1000000` tries as many.
fn sequences() -> u64 {
    std::env::var("EBB_SEQUENCES").ok().and_then(|text| text.parse().ok()).unwrap_or(4000)
}

const V4: [&str; 12] = [
    "10.1.2.3",
    "10.1.2.4",
    "10.1.2.255",
    "10.1.2.0",
    "10.9.2.1",
    "10.9.2.2",
    "192.0.2.1",
    "0.0.0.0",
    "127.0.0.1",
    "224.0.0.5",
    "255.255.255.255",
    "240.0.0.1",
];
const V6: [&str; 9] = [
    "2001:db8::1",
    "2001:db8::2",
    "2001:db8:0:1::1",
    "fd09::2",
    "fe80::1",
    "::",
    "::1",
    "ff02::1",
    "::ffff:10.1.2.3",
];

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as u64) as usize]
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    fn address(&mut self) -> IpAddr {
        let text = if self.one_in(2) { self.of(&V4) } else { self.of(&V6) };
        text.parse().expect("an address")
    }

    /// Mostly long ones: a change of a short one costs a large part of the table.
    fn prefix(&mut self) -> IpNet {
        let address = self.address();
        let len = match (address, self.one_in(40)) {
            (IpAddr::V4(_), false) => self.of(&[32, 32, 32, 31, 30, 25, 24, 24, 16, 0]),
            (IpAddr::V4(_), true) => self.of(&[8, 9]),
            (IpAddr::V6(_), false) => self.of(&[128, 128, 128, 127, 64, 64, 48, 33, 32]),
            (IpAddr::V6(_), true) => self.of(&[24, 20]),
        };
        IpNet::new(address, len).expect("a length").trunc()
    }

    fn link(&mut self) -> Link {
        let index = 1 + self.roll(8) as u32;
        let names = ["p0", "p1", "p0.7", "p1.8", "other", "lo"];
        let name = if self.one_in(10) { self.of(&names) } else { names[index as usize % 6] };
        let up = !self.one_in(4);
        Link {
            discipline: String::new(),
            index,
            name: name.to_owned(),
            mac: (!self.one_in(8)).then_some([2, 0, 0, 0, 0, index as u8]),
            mtu: self.of(&[1500, 1500, 0, 9000, u32::MAX]),
            up,
            admin_up: up || self.one_in(2),
            loopback: self.one_in(10),
            parent: self.one_in(2).then(|| 1 + self.roll(8) as u32),
            vlan: self.one_in(2).then(|| self.of(&[7, 8, 0, 4094, u16::MAX])),
            priorities: self.one_in(8),
            kind: self.one_in(2).then(|| self.of(&["vlan", "vlan", "bridge"]).to_owned()),
            master: self.one_in(8).then_some(9),
            claims_parent: self.one_in(8),
            promiscuity: self.of(&[0, 0, 0, 1, 2]),
            promiscuous: self.one_in(4),
            alternative_names: Vec::new(),
            mtu_max: 0,
        }
    }

    fn index(&mut self) -> u32 {
        1 + self.roll(9) as u32
    }

    fn assigned(&mut self) -> Address {
        let net = self.prefix();
        let address = IpNet::new(self.address(), net.prefix_len().min(32)).expect("a length");
        Address { link: self.index(), address, peer: None, tentative: self.one_in(6) }
    }

    fn neighbour(&mut self) -> Neighbour {
        let states = [
            NeighbourState::Reachable,
            NeighbourState::Stale,
            NeighbourState::Failed,
            NeighbourState::Incomplete,
            NeighbourState::NoArp,
            NeighbourState::Permanent,
        ];
        let mac = (!self.one_in(6)).then(|| [2, 1, 0, 0, 0, self.roll(3) as u8]);
        Neighbour {
            link: self.index(),
            address: self.address(),
            mac,
            state: self.of(&states),
            usable: !self.one_in(4),
        }
    }

    fn hop(&mut self) -> RouteHop {
        let link = (!self.one_in(12)).then(|| self.index());
        let gateway = (!self.one_in(3)).then(|| self.address());
        let weight = self.of(&[1, 1, 2, 256, 0]);
        RouteHop { weight, encapsulated: self.one_in(12), ..RouteHop::new(link, gateway) }
    }

    fn object(&mut self) -> NextHopObject {
        let target = match self.roll(5) {
            0 => NextHopTarget::Blackhole,
            1 => {
                let count = self.roll(4);
                NextHopTarget::Group(
                    (0..count).map(|_| (self.roll(6) as u32, 1 + self.roll(3) as u16)).collect(),
                )
            }
            _ => NextHopTarget::Hop(self.hop()),
        };
        NextHopObject { id: self.roll(6) as u32, target }
    }

    fn route(&mut self) -> Route {
        let count = self.of(&[0, 1, 1, 1, 1, 2, 2, 3]);
        let hops: Vec<RouteHop> = (0..count).map(|_| self.hop()).collect();
        let kinds = [
            RouteKind::Blackhole,
            RouteKind::Unreachable,
            RouteKind::Prohibit,
            RouteKind::Local,
            RouteKind::Broadcast,
            RouteKind::Multicast,
            RouteKind::Other,
        ];
        let kind = if self.one_in(6) { self.of(&kinds) } else { RouteKind::Unicast };
        Route {
            kind,
            metric: self.of(&[0, 1024, 1024, 20]),
            table: self.of(&[254, 254, 254, 254, 255, 253, 100]),
            tos: if self.one_in(16) { 16 } else { 0 },
            protocol: self.of(&[2, 4, 9, 12]),
            source: self.one_in(16).then(|| self.prefix()),
            lifetime_ms: self.one_in(8).then(|| self.of(&[-500, 0, 10, 900, 30_000])),
            preference: self.of(&[0, 0, 0, 1, -1]),
            digest: self.roll(2),
            mtu: self.of(&[0, 0, 0, 1300, 70_000]),
            nexthop_id: self.one_in(6).then(|| self.roll(6) as u32),
            ..Route::unicast(self.prefix(), hops)
        }
    }

    fn event(&mut self, known: &mut Vec<Route>) -> Event {
        match self.roll(32) {
            0..4 => Event::Link(self.link()),
            4 => Event::LinkGone(self.index()),
            5 => Event::Address(self.assigned()),
            6 => Event::AddressGone(self.assigned()),
            7..11 => Event::Neighbour(self.neighbour()),
            11 => Event::NeighbourGone(self.neighbour()),
            12 | 13 => Event::NextHop(self.object()),
            14 => Event::NextHopGone(self.roll(6) as u32),
            15 if self.one_in(4) => Event::Overrun,
            16..22 if !known.is_empty() => {
                let at = self.roll(known.len() as u64) as usize;
                let mut route = known.swap_remove(at);
                if self.one_in(4) && route.hops.len() > 1 {
                    route.hops.remove(0);
                }
                Event::RouteGone(route)
            }
            _ => {
                let route = self.route();
                known.push(route.clone());
                Event::Route { route, replace: self.one_in(8), append: self.one_in(8) }
            }
        }
    }
}

/// The forwarding tables, and plain maps beside them.
struct Both {
    fib: FibWriter,
    plain: Recorder,
}

impl Tables for Both {
    fn set_interface(&mut self, id: InterfaceId, interface: Interface) {
        self.fib.set_interface(id, interface.clone());
        self.plain.set_interface(id, interface);
    }
    fn remove_interface(&mut self, id: InterfaceId) {
        self.fib.remove_interface(id);
        self.plain.remove_interface(id);
    }
    fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError> {
        self.fib.set_route(prefix, target)?;
        self.plain.set_route(prefix, target)
    }
    fn remove_route(&mut self, prefix: IpNet) -> bool {
        let was = self.plain.remove_route(prefix);
        assert_eq!(self.fib.remove_route(prefix), was, "whether there was {prefix}");
        was
    }
    fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]) {
        self.fib.set_neighbour(interface, address, mac);
        self.plain.set_neighbour(interface, address, mac);
    }
    fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr) {
        self.fib.remove_neighbour(interface, address);
        self.plain.remove_neighbour(interface, address);
    }
}

impl Both {
    fn way(&self, interface: InterfaceId, address: IpAddr) -> Decision {
        if !self.plain.interfaces.get(&interface).is_some_and(|interface| interface.up) {
            return Decision::Down;
        }
        match self.plain.neighbours.get(&(interface, address)) {
            Some(mac) => Decision::Forward { interface, address, mac: *mac },
            None => Decision::Resolve { interface, address },
        }
    }

    fn compare(&self, seed: u64) {
        for text in V4.iter().chain(&V6) {
            let address: IpAddr = text.parse().expect("an address");
            let found = self.fib.lookup(address);
            let covering = self.plain.routes.iter().filter(|(prefix, _)| prefix.contains(&address));
            let target =
                covering.max_by_key(|(prefix, _)| prefix.prefix_len()).map(|(_, target)| target);
            let expected = match target {
                None => Decision::NoRoute,
                Some(Target::Kernel) => Decision::Kernel,
                Some(Target::Blackhole) => Decision::Blackhole,
                Some(Target::Unreachable) => Decision::Unreachable,
                Some(Target::Prohibit) => Decision::Prohibit,
                Some(Target::OnLink(id)) => self.way(*id, address),
                Some(Target::Paths(paths)) => {
                    let ways: Vec<Decision> = paths
                        .iter()
                        .map(|path| self.way(path.interface, path.gateway.unwrap_or(address)))
                        .collect();
                    if let Decision::Balance(shares) = &found {
                        for (way, _) in shares {
                            assert!(
                                *way == Decision::Down || ways.contains(way),
                                "sequence {seed}: {address}: {way} of {ways:?}"
                            );
                        }
                        continue;
                    }
                    ways.into_iter().next().expect("a path")
                }
            };
            assert_eq!(found, expected, "sequence {seed}: {address}");
        }
    }

    fn assert_is_empty(&self, seed: u64) {
        assert_eq!(self.fib.routes(), self.plain.routes.len(), "sequence {seed}");
        assert_eq!(self.plain.routes.len(), 6, "sequence {seed}: {:?}", self.plain.routes);
        assert_eq!(self.fib.neighbours(), 0, "sequence {seed}");
        assert_eq!(self.fib.next_hops().count(), 0, "sequence {seed}: next hops that nobody uses");
    }
}

fn run(rib: &mut Rib, both: &mut Both, seed: u64, now: &mut Time) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut known = Vec::new();
    let mut running = false;
    for _ in 0..1 + dice.roll(40) {
        match dice.roll(24) {
            0 if running => {
                let unread: Vec<Part> = Part::ALL.into_iter().filter(|_| dice.one_in(3)).collect();
                rib.finish_without(&unread, both);
                running = false;
            }
            0 => {
                let scope = rib.wanted().unwrap_or(Scope::Part(dice.of(&Part::ALL)));
                rib.begin(scope);
                running = true;
            }
            1 => {
                *now += Duration::from_millis(dice.of(&[0, 10, 1000, 60_000]));
                rib.pass(*now, both);
            }
            2 if dice.one_in(8) => {
                let first = dice.roll(2) as u8;
                let ports =
                    [(PortId(first), "p0".to_owned()), (PortId(1 - first), "p1".to_owned())];
                rib.set_ports(&ports, both);
            }
            _ => rib.apply(&dice.event(&mut known), both),
        }
        if dice.one_in(8) {
            both.compare(seed);
        }
    }
    both.compare(seed);
    if running {
        rib.finish(both);
    }
    rib.begin(Scope::All);
    rib.finish(both);
    while rib.wanted().is_some() {}
    both.compare(seed);
    both.assert_is_empty(seed);
    rib.take_updates();
    rib.take_stale();
}

#[test]
fn no_sequence_of_events_ends_the_process_or_leaves_something_behind() {
    let ports = [(PortId(0), "p0".to_owned()), (PortId(1), "p1".to_owned())];
    let (mut rib, mut now) = (Rib::new(&ports), Time::ZERO);
    let mut both = Both { fib: FibWriter::new().0, plain: Recorder::default() };
    rib.start(&mut both);
    for seed in 0..sequences() {
        run(&mut rib, &mut both, seed, &mut now);
    }
}
