//! One worker's sampler: takes packets that leave at random, with their headers, for sFlow.
//!
//! Neighbours: `lane` takes samples to the exporter, `sflow` makes datagrams of them. It stands where `meter` stands
//! for flows, and keeps nothing of a packet that it does not take but its count.

use std::sync::Arc;

use ebb_graph::{Packet, PortId};
use ebb_units::Time;

use super::Metering;
use super::flow::Seen;
use super::lane::{Lane, Sums, Traffic};
use super::select::Selection;
use crate::application::Observer;

/// Bytes of a packet that are reported at most, as most agents do.
pub(super) const HEADER_MAX: usize = 128;

/// A packet that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) worker: usize,
    /// Where it came in; nothing of what the router made itself.
    pub(super) input: Option<PortId>,
    pub(super) output: PortId,
    /// VLANs with which it came and left, 0 for none.
    pub(super) vlans: [u16; 2],
    /// Of the frame, without checksum.
    pub(super) frame_len: usize,
    /// Of the IP packet.
    pub(super) bytes: u64,
    /// Packets that might have been taken at this output so far, and samples of it that were lost, both of this
    /// worker and modulo 2^32.
    pub(super) pool: u32,
    pub(super) drops: u32,
    header: [u8; HEADER_MAX],
}

impl Sample {
    /// The beginning of the frame, as it left.
    pub(super) fn header(&self) -> &[u8] {
        &self.header[..self.frame_len.min(HEADER_MAX)]
    }
}

/// Packets and lost samples of one output.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    pool: u32,
    drops: u32,
}

/// See the module.
pub(super) struct Sampler {
    worker: usize,
    lane: Arc<Lane>,
    selection: Selection,
    sampling: u32,
    random: u64,
    /// Packets until the next that is taken.
    skip: u32,
    sources: Vec<Source>,
    sums: Sums,
}

impl Sampler {
    pub(super) fn new(worker: usize, metering: &Metering, lane: Arc<Lane>) -> Sampler {
        let mut sampler = Sampler {
            worker,
            lane,
            selection: metering.selection.clone(),
            sampling: metering.sampling.max(1),
            // Never 0, which the generator would not leave.
            random: metering.seed.wrapping_add(worker as u64) | 1 << 63,
            skip: 0,
            sources: vec![Source::default(); usize::from(u8::MAX) + 1],
            sums: Sums::default(),
        };
        sampler.skip = sampler.gap();
        sampler
    }

    /// Packets to pass over: evenly spread from 0 to twice the rate less 2, so that one of `sampling` is taken on
    /// average, and nobody can tell which (sFlow version 5, section 4.2.1). By xorshift64* (Vigna 2016).
    fn gap(&mut self) -> u32 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let drawn = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((drawn * (2 * u64::from(self.sampling) - 1)) >> 32) as u32
    }

    #[inline]
    fn look(&mut self, packet: &Packet) {
        // What is neither IPv4 nor IPv6 is none of a prefix, and counted as that.
        if !self.selection.is_all() {
            match Seen::of(packet) {
                Some(seen) if self.selection.has(&seen.key) => {}
                Some(_) => return self.sums.unselected += 1,
                None => return self.sums.other += 1,
            }
        }
        let source = &mut self.sources[usize::from(packet.output.0)];
        source.pool = source.pool.wrapping_add(1);
        if self.skip > 0 {
            self.skip -= 1;
            self.sums.unsampled += 1;
            return;
        }
        self.take(packet);
    }

    fn take(&mut self, packet: &Packet) {
        self.skip = self.gap();
        let Some(seen) = Seen::of(packet) else {
            self.sums.other += 1;
            return;
        };
        self.sums.packets += 1;
        self.sums.bytes += u64::from(seen.bytes);
        let own = packet.flags & Packet::ORIGINATED != 0;
        let (frame, source) = (packet.data(), &mut self.sources[usize::from(packet.output.0)]);
        let mut header = [0; HEADER_MAX];
        let len = frame.len().min(HEADER_MAX);
        header[..len].copy_from_slice(&frame[..len]);
        let sample = Sample {
            worker: self.worker,
            input: (!own).then_some(packet.input),
            output: packet.output,
            vlans: [if own { 0 } else { packet.vlan }, seen.post_vlan],
            frame_len: frame.len(),
            bytes: u64::from(seen.bytes),
            pool: source.pool,
            drops: source.drops,
            header,
        };
        if !self.lane.offer_sample(sample, &mut self.sums) {
            source.drops = source.drops.wrapping_add(1);
            let lost = Traffic { flows: 1, packets: 1, bytes: sample.bytes };
            self.sums.lost = self.sums.lost.and(lost);
        }
    }
}

impl Observer for Sampler {
    fn observe(&mut self, _: Time, packets: &[Packet]) {
        packets.iter().for_each(|packet| self.look(packet));
        self.lane.publish(&mut self.sums);
    }
}
