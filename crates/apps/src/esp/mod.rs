//! IPsec tunnels: seals packets by policy before they are routed, opens what comes for the router (RFC 4303).
//!
//! [`Esp`] is the application: its ingress nodes seal and open, its egress nodes let nothing out in clear that belongs
//! into a tunnel. The README beside this file tells how it works. Neighbours: `application`, which puts the nodes
//! around routing; `route`, whose ICMP errors it borrows. Reads no clock and no file.

mod association;
mod cbc;
mod changing;
mod cipher;
mod counters;
mod encapsulate;
mod node;
mod numbers;
mod path;
mod policy;
mod reassembly;
mod window;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use ebb_graph::{Node, Reserve};
use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6};
use ipnet::IpNet;

pub use association::{Inbound, Outbound};
pub use cipher::{Algorithm, Key, KeyError};
pub use encapsulate::{DontFragment, Outer};
pub use numbers::{Claim, Used};
pub use policy::outside;

use crate::application::Application;
use changing::{Bounds, Fixed};
use counters::Counters;
use node::{Guard, Tunnels};
use path::{Path, Request};
use policy::Policy;
use reassembly::Reassembly;

/// A tunnel to one peer: two associations, and what has to go through them.
#[derive(Debug)]
pub struct Tunnel {
    /// Own address, of the same version as the peer's.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Destinations whose packets are sealed; sources whose packets must have come sealed.
    pub remote_prefixes: Vec<IpNet>,
    /// The other ends of those; none: all. What is between them stays outside the tunnel.
    pub local_prefixes: Vec<IpNet>,
    /// What of the remote prefixes stays outside the tunnel.
    pub clear_prefixes: Vec<IpNet>,
    /// How both directions are sealed.
    pub algorithm: Algorithm,
    /// Index and key of what is sealed here.
    pub out: (u32, Key),
    /// Index and key of what is opened here; no other tunnel's index.
    pub into: (u32, Key),
    /// Numbers that are remembered at least, against replays.
    pub window: u32,
    /// Whether sequence numbers have 64 bits (RFC 4303 section 2.2.1).
    pub extended_sequence: bool,
    /// Whether ESP is in UDP, port 4500 (RFC 3948); IPv4 only.
    pub udp: bool,
    /// Longest sealed packet, until routers on the way ask for less.
    pub mtu: u16,
    /// Whether sealed packets may be cut on their way.
    pub df: DontFragment,
}

/// Numbers that are remembered of a peer whose associations come and go.
const WINDOW: u32 = 1024;

/// Rung when numbers should be claimed soon; by any worker.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Where a tunnel goes on: what is remembered of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Numbers of what is sealed, on record as used.
    pub claim: Claim,
    /// The highest number that has come.
    pub seen: u64,
}

/// An association with its key.
#[derive(Debug)]
pub struct Keyed {
    /// Its index.
    pub spi: u32,
    /// How it seals.
    pub algorithm: Algorithm,
    /// Its key.
    pub key: Key,
    /// Whether sequence numbers have 64 bits.
    pub extended: bool,
    /// Numbers up to this one were used, or have come, before anything was sealed or opened here.
    pub used: u64,
}

/// A peer whose associations come and go.
#[derive(Debug)]
pub struct Peer {
    /// How its packets look outside.
    pub outer: Outer,
    /// Longest sealed packet.
    pub mtu: u16,
    /// What is sealed with now; without, nothing leaves.
    pub out: Option<Keyed>,
    /// All that may come.
    pub into: Vec<Keyed>,
}

/// Of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It seals.
    Out,
    /// It opens.
    In,
}

/// What becomes of packets between two prefixes: the first that matches decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Own side.
    pub local: IpNet,
    /// The peer's side.
    pub remote: IpNet,
    /// Index of the peer; none: they pass as they are.
    pub tunnel: Option<usize>,
}

/// A tunnel at work.
#[derive(Clone, Debug)]
struct Pair {
    outer: Outer,
    out: Option<Arc<Outbound>>,
    path: Arc<Path>,
}

impl Pair {
    /// Longest packet that may be sealed.
    fn room(&self, now: Time) -> u16 {
        let shape = self.out.as_ref().map(|out| out.shape());
        shape.map_or(u16::MAX, |shape| self.outer.room(self.path.mtu(now), shape))
    }
}

/// What all workers share.
#[derive(Clone, Debug)]
struct Shared {
    policy: Policy,
    /// What it has of tunnels that come and go: rules, and their own ends.
    selectors: Vec<Selector>,
    ends: Vec<IpAddr>,
    pairs: Vec<Pair>,
    /// How many of them stay; keys of the others are exchanged outside, and more associations may be there than ours.
    fixed: usize,
    /// Whether there may be such others.
    follows: bool,
    /// With their tunnels, by index.
    into: Vec<(Arc<Inbound>, usize)>,
    locals: Vec<IpAddr>,
    in_udp: bool,
    /// Frames for the pieces of what is cut.
    reserve: Arc<Reserve>,
}

impl Shared {
    /// Does as a router on the way asks, if it is about a packet of ours.
    fn heed(&self, request: Request, now: Time) {
        let is_ours = |pair: &&Pair| {
            (pair.outer.local, pair.outer.remote) == request.ends
                && pair.out.as_ref().is_some_and(|out| out.spi == request.spi)
        };
        if let Some(pair) = self.pairs.iter().find(is_ours) {
            pair.path.learn(request.mtu, request.ends.0.is_ipv4(), now);
        }
    }

    fn settle(mut self) -> Shared {
        self.into.sort_by_key(|(one, _)| one.spi);
        self.locals = self.pairs.iter().map(|pair| pair.outer.local).collect();
        self.locals.sort_unstable();
        self.locals.dedup();
        self.in_udp = self.pairs.iter().any(|pair| pair.outer.udp);
        self
    }
}

/// The application.
pub struct Esp {
    /// Tunnels with fixed keys, without those that come and go. Held while any of them change.
    fixed: Mutex<Fixed>,
    shared: Arc<ArcSwap<Shared>>,
    /// Own ends that there were: what comes for them is still the workers'.
    locals: Mutex<BTreeSet<IpAddr>>,
    bell: Bell,
    counters: Vec<Arc<Counters>>,
    /// Pieces of one packet may come to several workers.
    joining: Arc<Mutex<Reassembly>>,
}

impl std::fmt::Debug for Esp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.shared)
    }
}

impl Esp {
    /// For so many workers; each tunnel goes on where its start says. Frames of `reserve` are for the pieces of
    /// packets that are cut.
    pub fn new(
        workers: usize,
        tunnels: &[Tunnel],
        starts: &[Start],
        bell: &Bell,
        reserve: &Arc<Reserve>,
    ) -> Esp {
        let mut shared = Shared {
            policy: Policy::new(&[]),
            selectors: Vec::new(),
            ends: Vec::new(),
            pairs: Vec::new(),
            fixed: 0,
            follows: false,
            into: Vec::new(),
            locals: Vec::new(),
            in_udp: false,
            reserve: reserve.clone(),
        };
        let mut fixed = Fixed::default();
        for (tunnel, start) in tunnels.iter().zip(starts) {
            fixed.put(tunnel, *start, bell);
        }
        shared = fixed.below(&shared);
        let locals = Mutex::new(shared.locals.iter().copied().collect());
        let shared = Arc::new(ArcSwap::from_pointee(shared));
        let counters = (0..workers).map(|_| Arc::default()).collect();
        let joining = Arc::default();
        Esp { fixed: Mutex::new(fixed), shared, locals, bell: bell.clone(), counters, joining }
    }

    /// These peers, behind the tunnels that stay, and no others from now on. Associations that were there go on; `start`
    /// says of each other's key where it begins, or that it cannot.
    pub fn replace(
        &self,
        peers: &[Peer],
        selectors: &[Selector],
        start: &mut dyn FnMut(&Keyed, Direction) -> Option<Start>,
    ) {
        let fixed = self.fixed.lock().expect("tunnels");
        let old = self.shared.load_full();
        let (sealing, opening) = (self.sealing(), self.opening());
        let mut next = fixed.alone(Shared {
            selectors: selectors.to_vec(),
            ends: peers.iter().map(|peer| peer.outer.local).collect(),
            follows: true,
            ..(*old).clone()
        });
        let first = next.fixed;
        for (number, peer) in peers.iter().enumerate() {
            let out = peer.out.as_ref().and_then(|keyed| {
                let name = keyed.key.name();
                let is_known = |one: &&Arc<Outbound>| one.spi == keyed.spi && one.name() == name;
                let known = sealing.iter().find(is_known).cloned();
                let make = |start: Start| Arc::new(Outbound::new(keyed, start.claim, &self.bell));
                known.or_else(|| start(keyed, Direction::Out).map(make))
            });
            let of = |pair: &&Pair| pair.outer == peer.outer;
            let path = old.pairs.iter().skip(first).find(of).map(|pair| pair.path.clone());
            let path = path.unwrap_or_else(|| Arc::new(Path::new(peer.mtu)));
            next.pairs.push(Pair { outer: peer.outer, out, path });
            for keyed in &peer.into {
                let name = keyed.key.name();
                let is_known = |one: &&Arc<Inbound>| one.spi == keyed.spi && one.name() == name;
                // Of another tunnel, too, with which this one shares it.
                let all = opening.iter().chain(next.into.iter().map(|(one, _)| one));
                let known = all.into_iter().find(is_known).cloned();
                let make = |start: Start| Arc::new(Inbound::new(keyed, WINDOW, start.seen));
                let into = known.or_else(|| start(keyed, Direction::In).map(make));
                next.into.extend(into.map(|into| (into, first + number)));
            }
        }
        let next = next.settle();
        self.locals.lock().expect("addresses").extend(&next.locals);
        self.shared.store(Arc::new(next));
    }

    /// What is sealed with now, in the order of the tunnels.
    pub fn sealing(&self) -> Vec<Arc<Outbound>> {
        self.shared.load().pairs.iter().filter_map(|pair| pair.out.clone()).collect()
    }

    /// What is opened now, by index.
    pub fn opening(&self) -> Vec<Arc<Inbound>> {
        self.shared.load().into.iter().map(|(into, _)| into.clone()).collect()
    }
}

impl Application for Esp {
    fn name(&self) -> &'static str {
        "esp"
    }

    fn ingress(&self, worker: usize) -> Option<Box<dyn Node>> {
        let (shared, counters) = (self.shared.clone(), self.counters[worker].clone());
        Some(Box::new(Tunnels::new(shared, counters, self.joining.clone())))
    }

    fn egress(&self, worker: usize) -> Option<Box<dyn Node>> {
        Some(Box::new(Guard::new(self.shared.clone(), self.counters[worker].clone())))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut sums = [0u64; counters::NAMES.len()];
        for worker in &self.counters {
            sums.iter_mut().zip(worker.get()).for_each(|(sum, more)| *sum += more);
        }
        counters::NAMES.into_iter().zip(sums).collect()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.locals.lock().expect("addresses").iter().copied().collect()
    }

    fn too_long(&self, now: Time, packet: &[u8], mtu: u16) {
        let about = || match Ipv4::new(packet) {
            Some(v4) if v4.version() == 4 => {
                let ends = (v4.source().into(), v4.destination().into());
                path::about(ends, v4.protocol(), v4.payload(), mtu)
            }
            _ => {
                let v6 = Ipv6::new(packet)?;
                let ends = (v6.source().into(), v6.destination().into());
                path::about(ends, v6.next_header(), v6.payload(), mtu)
            }
        };
        if let Some(request) = about() {
            self.shared.load().heed(request, now);
        }
    }
}
