//! The books: no packet vanishes and none appears.

use super::network::Network;
use super::packet::Kind;

/// What an audit found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Data packets found in buffers and on links to hosts.
    pub found: u64,
    /// Data packets that must be there: injected less delivered, dropped and lost.
    pub expected: u64,
    /// Whether every packet that was sent arrived once and unchanged; `None` while some have not
    /// arrived.
    pub exactly_once: Option<bool>,
}

impl Audit {
    /// Whether the books are in order.
    #[must_use]
    pub fn balanced(&self) -> bool {
        self.found == self.expected && self.exactly_once != Some(false)
    }
}

impl Network {
    /// Counts every packet in the network and compares.
    #[must_use]
    pub fn audit(&self) -> Audit {
        let queues = self.inputs.iter().map(|input| input.queue);
        let queues = queues.chain(self.outputs.iter().map(|output| output.queue));
        let data = |index: &u32| self.pool.get(*index).kind == Kind::Data;
        let queued: usize = queues.map(|queue| queue.iter(&self.pool).filter(data).count()).sum();
        let meter = &self.meter;
        let all = meter.injected == meter.delivered;
        let exactly_once = all.then_some(meter.sent_mark == meter.received_mark);
        Audit { found: queued as u64 + self.flying, expected: meter.inside(), exactly_once }
    }

    /// Stops all hosts for good, so that the network runs empty.
    pub fn stop_sources(&mut self) {
        self.sources.all.iter_mut().for_each(|source| source.next = u64::MAX);
    }

    /// Packets of all kinds that exist.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.pool.alive()
    }
}
