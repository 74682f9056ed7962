//! Collective operations as traffic: hosts that wait for each other's data instead of offering a load.
//!
//! All-reduce in a ring (Patarasuk and Yuan 2009): a vector is cut into as many parts as there are hosts;
//! in each of 2 (N - 1) steps every host sends a part to the next one, from the second on when it has
//! received the part of the step before. All-to-all: in each of N - 1 steps a part goes to the host that
//! many further; a host begins another round when it has received everything of the last.

use super::physics::Physics;

/// One collective operation, repeated.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, ebb_scenario::Described,
)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// Length of each host's vector, bytes.
    #[schema(least = 1)]
    pub bytes: u64,
    /// How often it is repeated.
    #[serde(default = "Collective::default_rounds")]
    #[schema(least = 1, most = 1_000_000, default = 1)]
    pub rounds: u32,
}

/// How far every host is.
#[derive(Clone, Debug)]
pub(super) struct Script {
    ring: bool,
    hosts: u32,
    /// Steps of a round.
    steps: u64,
    /// Steps of all rounds.
    total: u64,
    /// Packets of a step, and the length of the last of them.
    packets: u64,
    last_bytes: u16,
    bytes: u16,
    sent: Vec<u64>,
    received: Vec<u64>,
    /// When each host last became able to go on.
    ready: Vec<u64>,
    finished: u32,
    pub(super) done_ns: Option<u64>,
}

/// The next packet of a host: to whom, how long, since when it may go.
pub(super) struct Next {
    pub(super) target: u32,
    pub(super) bytes: u16,
    pub(super) since: u64,
}

impl Script {
    pub(super) fn new(what: Collective, ring: bool, hosts: u32, physics: &Physics) -> Script {
        let payload = u64::from(physics.packet_bytes - physics.header_bytes);
        let part = what.bytes.div_ceil(u64::from(hosts.max(1))).max(1);
        let others = u64::from(hosts.saturating_sub(1));
        let steps = if ring { 2 * others } else { others };
        let count = hosts as usize;
        Script {
            ring,
            hosts,
            steps,
            total: steps * u64::from(what.rounds),
            packets: part.div_ceil(payload),
            last_bytes: ((part - 1) % payload + 1) as u16 + physics.header_bytes,
            bytes: physics.packet_bytes,
            sent: vec![0; count],
            received: vec![0; count],
            ready: vec![0; count],
            finished: 0,
            done_ns: None,
        }
    }

    /// Packets that a host must have received before it sends one of `step`.
    fn needed(&self, step: u64) -> u64 {
        let whole = if self.ring { step } else { step / self.steps * self.steps };
        whole * self.packets
    }

    /// The next packet of a host, if it may go already.
    pub(super) fn next(&self, host: u32) -> Option<Next> {
        let (step, packet) =
            (self.sent[host as usize] / self.packets, self.sent[host as usize] % self.packets);
        if step >= self.total || self.received[host as usize] < self.needed(step) {
            return None;
        }
        let far = if self.ring { 1 } else { 1 + (step % self.steps) as u32 };
        let bytes = if packet + 1 == self.packets { self.last_bytes } else { self.bytes };
        let target = (host + far) % self.hosts;
        Some(Next { target, bytes, since: self.ready[host as usize] })
    }

    pub(super) fn sent(&mut self, host: u32) {
        self.sent[host as usize] += 1;
    }

    /// A packet has arrived at a host; whether it may go on now and could not before.
    pub(super) fn received(&mut self, host: u32, now: u64) -> bool {
        let could = self.next(host).is_some();
        let received = &mut self.received[host as usize];
        *received += 1;
        if received.is_multiple_of(self.packets) {
            self.ready[host as usize] = now;
        }
        if *received == self.total * self.packets {
            self.finished += 1;
            if self.finished == self.hosts {
                self.done_ns = Some(now);
            }
        }
        !could && self.next(host).is_some()
    }
}
