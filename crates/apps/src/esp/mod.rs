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
mod policy;
mod window;

use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;

use ebb_graph::Node;
use ipnet::IpNet;

pub use cipher::{Algorithm, Key, KeyError};

use crate::application::Application;
use association::{Inbound, Outbound};
use cipher::Cipher;
use counters::Counters;
use encapsulate::Outer;
use node::{Guard, Tunnels};
use policy::Policy;

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
    /// Longest sealed packet.
    pub mtu: u16,
}

/// A tunnel at work.
#[derive(Debug)]
struct Pair {
    outer: Outer,
    out: Outbound,
    /// Longest packet that may be sealed.
    room: u16,
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
}

/// The application.
#[derive(Debug)]
pub struct Esp {
    shared: Arc<Shared>,
    counters: Vec<Arc<Counters>>,
}

impl Esp {
    /// For so many workers, at `started` since 1970: keys that are used again after a restart must not meet their
    /// IVs again, which therefore begin at the time. The clock may not have gone back since the last start.
    pub fn new(workers: usize, tunnels: &[Tunnel], started: Duration) -> Esp {
        let iv_base = started.as_nanos() as u64;
        let pair = |tunnel: &Tunnel| {
            let outer = Outer { local: tunnel.local, remote: tunnel.remote, udp: tunnel.udp };
            let cipher = Cipher::new(tunnel.algorithm, &tunnel.out.1);
            let out = Outbound::new(tunnel.out.0, cipher, tunnel.extended_sequence, iv_base);
            Pair { outer, out, room: outer.room(tunnel.mtu) }
        };
        let into = |(number, tunnel): (usize, &Tunnel)| {
            let cipher = Cipher::new(tunnel.algorithm, &tunnel.into.1);
            let extended = tunnel.extended_sequence;
            (Inbound::new(tunnel.into.0, cipher, extended, tunnel.window), number)
        };
        let mut into: Vec<_> = tunnels.iter().enumerate().map(into).collect();
        into.sort_by_key(|(one, _)| one.spi);
        let mut locals: Vec<IpAddr> = tunnels.iter().map(|tunnel| tunnel.local).collect();
        locals.sort_unstable();
        locals.dedup();
        let shared = Shared {
            policy: Policy::new(tunnels),
            pairs: tunnels.iter().map(pair).collect(),
            into,
            locals,
            in_udp: tunnels.iter().any(|tunnel| tunnel.udp),
        };
        let counters = (0..workers).map(|_| Arc::default()).collect();
        Esp { shared: Arc::new(shared), counters }
    }

    /// Never uses the next `count` sequence numbers of a tunnel.
    pub fn pass_over(&self, tunnel: usize, count: u64) {
        self.shared.pairs[tunnel].out.take(count);
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
}
