//! Packets that a back-end routes back to the balancer: whether it forwards, and what was before them.

use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use ebb_units::Time;
use ebb_wire::Template;
use ring::{hmac, rand};

use super::topology::Topology;

/// Begins the payload of every probe; its last sign is the format's number. Whoever reads a probe is the
/// process that wrote it, so that formats never meet.
const MAGIC: [u8; 8] = *b"ebbprob3";
/// BFD's echo port (RFC 5881, section 4): what routers in between know it as.
const PORT: u16 = 3785;
/// Magic, row, pair, worker, drain, number, time of sending.
const WORDS: usize = 8 + 2 + 2 + 2 + 8 + 8 + 8;
const SEAL: usize = 32;

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The row of the back-end that it was sent through.
    pub row: u16,
    /// Which pair of sides it crosses: from `pair / sides` to `pair % sides`.
    pub pair: u16,
    /// The balancer's worker that sent it.
    pub worker: u16,
    /// 0: only asks whether the back-end forwards; otherwise the number of the drain that it ends.
    pub drain: u64,
    /// Its number on this way.
    pub number: u64,
    /// When it was sent, by the balancer's clock.
    pub sent: Time,
}

/// The key of one process, which nobody else has: what it seals it knows again, and nobody can make up.
#[derive(Clone)]
pub struct Seal(hmac::Key);

impl Seal {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn random() -> Result<Seal> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new());
        Ok(Seal(key.map_err(|_| anyhow!("cannot get random bytes for a key"))?))
    }

    /// The frame that takes a probe through its back-end.
    pub fn frame(&self, probe: &Probe, topology: &Topology) -> Vec<u8> {
        let Probe { row, pair, worker, drain, number, sent } = *probe;
        let sides = topology.sides.len();
        let (from, to) = (usize::from(pair) / sides, usize::from(pair) % sides);
        let address = |side: usize| SocketAddr::new(topology.probe(side), PORT);
        let mut payload = Vec::with_capacity(WORDS + SEAL);
        payload.extend(MAGIC);
        payload.extend([row, pair, worker].map(u16::to_be_bytes).as_flattened());
        payload.extend([drain, number, sent.as_nanos()].map(u64::to_be_bytes).as_flattened());
        let seal = hmac::sign(&self.0, &payload);
        payload.extend(seal.as_ref());
        let mut frame = Template::udp(address(from), address(to)).to_frame(&payload);
        frame[..6].copy_from_slice(&topology.back_ends[usize::from(row)].macs[from]);
        frame[6..12].copy_from_slice(&topology.probe_mac(from));
        frame
    }

    /// What a frame says that came back on the segment of side `at`: a probe under this seal, from the
    /// back-end and over the side that it was sent to.
    ///
    /// # Errors
    /// `Foreign`.
    pub fn read(&self, topology: &Topology, at: usize, frame: &[u8]) -> Result<Probe, Foreign> {
        let (said, seal) = payload(frame).ok_or(Foreign::Other)?;
        let short = |at: usize| u16::from_be_bytes([said[at], said[at + 1]]);
        let long =
            |at: usize| u64::from_be_bytes(said[at..at + 8].try_into().expect("eight bytes"));
        let (row, pair, worker) = (short(8), short(10), short(12));
        let sides = topology.sides.len();
        let back_end = topology.back_ends.get(usize::from(row)).ok_or(Foreign::Forged)?;
        let way = usize::from(pair) < sides * sides && usize::from(pair) % sides == at;
        // Before the seal: it costs most.
        let known = way && frame[6..12] == back_end.macs[at];
        if !known || hmac::verify(&self.0, said, seal).is_err() {
            return Err(Foreign::Forged);
        }
        let sent = Time::from_nanos(long(30));
        Ok(Probe { row, pair, worker, drain: long(14), number: long(22), sent })
    }
}

/// Why a frame is no answer to a probe of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It does not look like one.
    Other,
    /// It does.
    Forged,
}

/// The words of what looks like a probe, and its seal.
fn payload(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let packet = &frame[ebb_wire::link(frame)?.payload..];
    let start = match packet.first()? >> 4 {
        4 => 28,
        _ => 48,
    };
    let payload = packet.get(start..start + WORDS + SEAL)?;
    payload.starts_with(&MAGIC).then(|| payload.split_at(WORDS))
}
