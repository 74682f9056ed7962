//! IPsec tunnels: seals packets by policy before they are routed, opens what comes for the router (RFC 4303).
//!
//! [`Esp`] is the application: its ingress nodes seal and open, its egress nodes let nothing out in clear that belongs
//! into a tunnel. The README beside this file tells how it works. Neighbours: `application`, which puts the nodes
//! around routing; `route`, whose ICMP errors it borrows. Reads no clock and no file.

mod association;
mod cipher;
mod counters;
mod encapsulate;
mod node;
mod numbers;
mod path;
mod policy;
mod window;

use std::net::IpAddr;
use std::sync::Arc;

use ebb_graph::{Node, Reserve};
use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6};
use ipnet::IpNet;

pub use cipher::{Algorithm, Key, KeyError};
pub use encapsulate::DontFragment;
pub use numbers::{Claim, Used};

use crate::application::Application;
use association::{Inbound, Outbound};
use cipher::Cipher;
use counters::Counters;
use encapsulate::Outer;
use node::{Guard, Tunnels};
use numbers::Numbers;
use path::{Path, Request};
use policy::Policy;
use window::Window;

/// A tunnel to one peer: two associations, and what has to go through them.
#[derive(Debug)]
pub struct Tunnel {
    /// Own address, of the same version as the peer's.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Destinations whose packets are sealed; sources whose packets must have come sealed.
    pub remote_prefixes: Vec<IpNet>,
    /// The other ends of those; none: all.
    pub local_prefixes: Vec<IpNet>,
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

/// A tunnel at work.
#[derive(Debug)]
struct Pair {
    outer: Outer,
    out: Outbound,
    path: Path,
}

impl Pair {
    /// Longest packet that may be sealed.
    fn room(&self, now: Time) -> u16 {
        self.outer.room(self.path.mtu(now))
    }
}

/// What all workers share.
#[derive(Debug)]
struct Shared {
    policy: Policy,
    pairs: Vec<Pair>,
    /// With their tunnels, by index.
    into: Vec<(Inbound, usize)>,
    locals: Vec<IpAddr>,
    in_udp: bool,
    /// Frames for the pieces of what is cut.
    reserve: Arc<Reserve>,
}

impl Shared {
    /// Does as a router on the way asks, if it is about a packet of ours.
    fn heed(&self, request: Request, now: Time) {
        let is_ours = |pair: &&Pair| {
            (pair.outer.local, pair.outer.remote) == request.ends && pair.out.spi == request.spi
        };
        if let Some(pair) = self.pairs.iter().find(is_ours) {
            pair.path.learn(request.mtu, request.ends.0.is_ipv4(), now);
        }
    }
}

/// The application.
#[derive(Debug)]
pub struct Esp {
    shared: Arc<Shared>,
    counters: Vec<Arc<Counters>>,
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
        let pair = |(tunnel, start): (&Tunnel, &Start)| {
            let Tunnel { local, remote, udp, df, .. } = *tunnel;
            let outer = Outer { local, remote, udp, df };
            let cipher = Cipher::new(tunnel.algorithm, &tunnel.out.1);
            let numbers = Numbers::new(start.claim, bell.clone());
            let out = Outbound::new(tunnel.out.0, cipher, tunnel.extended_sequence, numbers);
            Pair { outer, out, path: Path::new(tunnel.mtu) }
        };
        let into = |(number, tunnel): (usize, &Tunnel)| {
            let cipher = Cipher::new(tunnel.algorithm, &tunnel.into.1);
            let extended = tunnel.extended_sequence;
            let window = Window::new(tunnel.window, starts[number].seen);
            (Inbound::new(tunnel.into.0, cipher, extended, window), number)
        };
        let mut into: Vec<_> = tunnels.iter().enumerate().map(into).collect();
        into.sort_by_key(|(one, _)| one.spi);
        let mut locals: Vec<IpAddr> = tunnels.iter().map(|tunnel| tunnel.local).collect();
        locals.sort_unstable();
        locals.dedup();
        let shared = Shared {
            policy: Policy::new(tunnels),
            pairs: tunnels.iter().zip(starts).map(pair).collect(),
            into,
            locals,
            in_udp: tunnels.iter().any(|tunnel| tunnel.udp),
            reserve: reserve.clone(),
        };
        let counters = (0..workers).map(|_| Arc::default()).collect();
        Esp { shared: Arc::new(shared), counters }
    }

    /// What a tunnel holds of numbers, and how many of them are taken.
    pub fn numbers(&self, tunnel: usize) -> (Claim, u64) {
        self.shared.pairs[tunnel].out.numbers.standing()
    }

    /// Gives a tunnel numbers, which are on record as used.
    pub fn hold(&self, tunnel: usize, claim: Claim) {
        self.shared.pairs[tunnel].out.numbers.hold(claim);
    }

    /// The highest number that has come in a tunnel.
    pub fn seen(&self, tunnel: usize) -> u64 {
        self.window(tunnel).map_or(0, Window::top)
    }

    /// Numbers up to `top` have come in a tunnel; before any worker has begun.
    pub fn saw(&self, tunnel: usize, top: u64) {
        if let Some(window) = self.window(tunnel) {
            window.begin(top);
        }
    }

    fn window(&self, tunnel: usize) -> Option<&Window> {
        let of = self.shared.into.iter().find(|(_, of)| *of == tunnel);
        of.map(|(one, _)| &one.window)
    }
}

impl Application for Esp {
    fn name(&self) -> &'static str {
        "esp"
    }

    fn ingress(&self, worker: usize) -> Option<Box<dyn Node>> {
        Some(Box::new(Tunnels::new(self.shared.clone(), self.counters[worker].clone())))
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
        self.shared.locals.clone()
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
            self.shared.heed(request, now);
        }
    }
}
