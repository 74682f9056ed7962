//! The router at the other end of a link on which redundancy is eliminated: it takes what was encoded, and says so.

use std::sync::Arc;

use anyhow::{Result, ensure};
use ebb_apps::Application as _;
use ebb_apps::dedup::{Dedup, Peer, Settings, random};
use ebb_graph::{Batch, Pool, PortId};
use ebb_routerd::config;
use ebb_units::Time;

use super::app::Forwarder;

/// Packets between what the two tell each other.
const BURST: usize = 256;
/// How far time is set on for each of these talks, so that both are willing to speak.
const BURST_NS: u64 = 6_000_000;

/// Both peers, and what decodes.
pub(super) struct FarEnd {
    app: Arc<Dedup>,
    near: Arc<Peer>,
    far: Arc<Peer>,
    graph: Forwarder,
    pool: Pool,
    packets: usize,
    passes: u64,
}

impl FarEnd {
    /// The application to be measured, with the settings that a router has by default, and its peer. They know each
    /// other already.
    pub(super) fn new(now: &mut u64) -> Result<(Arc<Dedup>, FarEnd)> {
        let settings = Settings { seed: 9, ..config::Dedup::default().settings() };
        let bell = Arc::new(|| ()) as _;
        let make = || Arc::new(Dedup::new(1, &settings, &[(PortId(0), random())], &bell));
        let (near, far) = (make(), make());
        let mut end = FarEnd {
            app: near.clone(),
            near: near.peers()[0].clone(),
            far: far.peers()[0].clone(),
            // What it forwards goes elsewhere: it is encoded once.
            graph: Forwarder::new(&[far], PortId(1))?,
            pool: Pool::standalone(1024),
            packets: 0,
            passes: 0,
        };
        end.talk(now);
        Ok((near, end))
    }

    /// Gives every second of the payloads bytes that it never had; the others have come before.
    pub(super) fn renew(&mut self, batch: &mut Batch) {
        self.passes += 1;
        for (at, packet) in batch.iter_mut().enumerate().filter(|(at, _)| at % 2 == 0) {
            let mut state = (self.passes << 8 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for word in packet.data_mut()[42..].chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.iter_mut().zip(state.to_le_bytes()).for_each(|(byte, more)| *byte ^= more);
            }
        }
    }

    /// The part of the payloads' bytes that the link was spared, of payloads that are long enough to be looked at.
    pub(super) fn saved(&self) -> f64 {
        let counters = self.app.counters();
        let count = |wanted| {
            counters.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, count)| *count)
        };
        count("saved_bytes") as f64 / count("out_bytes").max(1) as f64
    }

    /// Decodes what has left, and answers now and then.
    pub(super) fn take(&mut self, sent: &Batch, now: &mut u64) -> Result<()> {
        let mut batch = Batch::new();
        let pool = &mut self.pool;
        batch.extend(sent.iter().map(|packet| pool.get().expect("a frame").fill(packet.data())));
        let left = self.graph.forward(&mut batch, Time::from_nanos(*now));
        let came = left.len();
        self.pool.put_batch(left);
        ensure!(came == sent.len(), "a packet was not decoded");
        self.packets += came;
        if self.packets >= BURST {
            self.packets = 0;
            self.talk(now);
        }
        Ok(())
    }

    fn talk(&mut self, now: &mut u64) {
        *now += BURST_NS;
        let time = Time::from_nanos(*now);
        let mut datagram = Vec::new();
        for _ in 0..4 {
            for (from, to) in [(&self.near, &self.far), (&self.far, &self.near)] {
                while from.send(time, &mut datagram) {
                    to.receive(&datagram, time);
                }
            }
        }
    }
}
