//! Redundancy elimination between two routers: what a link has carried before, it carries once more as a reference
//! (Spring and Wetherall 2000, "A protocol-independent technique for eliminating redundant network traffic"; Anand and
//! others 2008 and 2009).
//!
//! [`Dedup`] is the application: its egress nodes encode what leaves for a peer, its ingress nodes decode what comes
//! from one. The README beside this file tells how it works. Neighbours: `application`, which puts the nodes around
//! routing. Reads no clock and no socket: [`Peer::receive`] and [`Peer::send`] are for who has them.

mod counters;
mod encoder;
mod fingerprint;
mod flows;
mod frame;
mod node;
mod peer;
mod polynomial;
mod report;
mod sampling;
mod store;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ebb_graph::{Node, PortId};

pub use fingerprint::WINDOW;
pub use peer::Peer;
pub use report::REPORT_LEN_MAX;
pub use sampling::Sampling;

use crate::application::Application;
use counters::Counters;
use encoder::Sampler;
use node::{Decode, Encode};

/// Rung by workers when a peer should be told something soon.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// What all peers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which windows are remembered.
    pub sampling: Sampling,
    /// One window of so many, 4 to 512.
    pub period: usize,
    /// Bytes of payloads that are kept, for each peer and direction.
    pub cache_bytes: usize,
    /// A random number that nobody outside knows: which windows are kept in the same place.
    pub seed: u64,
}

/// A number that nobody can guess, for a session or a seed: from the system's source (getrandom on Linux).
///
/// # Panics
/// When the system has none to give.
pub fn random() -> u128 {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 16];
    ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    u128::from_ne_bytes(bytes)
}

/// The application.
#[derive(Debug)]
pub struct Dedup {
    peers: Arc<[Arc<Peer>]>,
    counters: Vec<Arc<Counters>>,
    sampler: Sampler,
}

impl Dedup {
    /// For so many workers, with a peer behind each of these ports, for which the random number is used this once.
    pub fn new(
        workers: usize,
        settings: &Settings,
        peers: &[(PortId, u128)],
        bell: &Bell,
    ) -> Dedup {
        let peer =
            |(port, session): &(PortId, u128)| Arc::new(Peer::new(*port, settings, *session, bell));
        let period = settings.period.clamp(4, 512);
        Dedup {
            peers: peers.iter().map(peer).collect(),
            counters: (0..workers).map(|_| Arc::default()).collect(),
            sampler: Sampler { sampling: settings.sampling, period, key: settings.seed },
        }
    }

    /// The peers, in the order in which they were given.
    pub fn peers(&self) -> &[Arc<Peer>] {
        &self.peers
    }
}

impl Application for Dedup {
    fn name(&self) -> &'static str {
        "dedup"
    }

    fn ingress(&self, worker: usize) -> Option<Box<dyn Node>> {
        Some(Box::new(Decode::new(self.peers.clone(), self.counters[worker].clone())))
    }

    fn egress(&self, worker: usize) -> Option<Box<dyn Node>> {
        let counters = self.counters[worker].clone();
        Some(Box::new(Encode::new(self.peers.clone(), counters, self.sampler)))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut sums = [0u64; counters::NAMES.len()];
        for worker in &self.counters {
            sums.iter_mut().zip(worker.get()).for_each(|(sum, more)| *sum += more);
        }
        let told = |of: fn(&peer::Told) -> &std::sync::atomic::AtomicU64| {
            self.peers.iter().map(|peer| of(&peer.told).load(Relaxed)).sum()
        };
        let told = [
            ("reports_sent", told(|told| &told.sent)),
            ("reports_heard", told(|told| &told.heard)),
            ("reports_refused", told(|told| &told.refused)),
            ("peer_sessions", told(|told| &told.sessions)),
        ];
        counters::NAMES.into_iter().zip(sums).chain(told).collect()
    }
}
