//! What is counted while packets travel.

use ebb_des::Histogram;

/// Lanes as reports show them: control, data of set 0, data of set 1.
pub const LANE_CLASSES: usize = 3;

/// Counts of one span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Packets delivered.
    pub delivered: u64,
    /// Sum of their latencies from generation to the last byte, ns.
    pub latency_ns: u64,
    /// The greatest of them, ns.
    pub latency_ns_max: u64,
    /// Bytes put on links between switches: control, set 0, set 1.
    pub bytes: [u64; LANE_CLASSES],
}

impl Bin {
    /// Mean latency, ns.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.delivered > 0).then(|| self.latency_ns as f64 / self.delivered as f64)
    }
}

/// Everything counted in a run.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Length of a bin, ns.
    pub bin_ns: u64,
    /// From the start of the run.
    pub bins: Vec<Bin>,
    /// Latency from generation to the last byte after the transient, ns.
    pub latency: Histogram,
    /// Latency from the first byte on the host's link to the last, after the transient, ns.
    pub network: Histogram,
    /// Packets that entered.
    pub injected: u64,
    /// Packets that arrived at their host.
    pub delivered: u64,
    /// Packets dropped because a scheme drops them.
    pub dropped: u64,
    /// Packets lost because a table had no way for them.
    pub lost: u64,
    /// Packets lost because their source or their destination leaves or arrives.
    pub strays: u64,
    /// Packets that arrived behind a later one of their flow.
    pub reordered: u64,
    /// Packets that crossed more switches than there are.
    pub looped: u64,
    /// Links crossed by data packets.
    pub hops: u64,
    /// Control packets sent.
    pub control: u64,
    /// Most packets that were in the network at a time.
    pub inside_max: u64,
    /// Packets delivered before `latency` begins.
    pub transient: u64,
    /// When it began, ns.
    pub started_ns: Option<u64>,
    pub(super) area: u128,
    area_at: u64,
    pub(super) sent_mark: u64,
    pub(super) received_mark: u64,
}

impl Meter {
    pub(super) fn new(bin_ns: u64, transient: u64) -> Meter {
        Meter {
            bin_ns,
            bins: Vec::new(),
            latency: Histogram::new(),
            network: Histogram::new(),
            injected: 0,
            delivered: 0,
            dropped: 0,
            lost: 0,
            strays: 0,
            reordered: 0,
            looped: 0,
            hops: 0,
            control: 0,
            inside_max: 0,
            transient,
            started_ns: (transient == 0).then_some(0),
            area: 0,
            area_at: 0,
            sent_mark: 0,
            received_mark: 0,
        }
    }

    /// Packets in the network.
    #[must_use]
    pub fn inside(&self) -> u64 {
        self.injected - self.delivered - self.dropped - self.lost - self.strays
    }

    /// Mean number of packets in the network since the transient, by the clock.
    #[must_use]
    pub fn inside_mean(&self) -> f64 {
        let span = self.area_at.saturating_sub(self.started_ns.unwrap_or(self.area_at));
        self.area as f64 / span.max(1) as f64
    }

    /// Adds the time since the last change of [`Self::inside`] to its integral.
    #[inline]
    pub(super) fn clock(&mut self, now: u64) {
        if self.started_ns.is_some() {
            self.area += u128::from(self.inside()) * u128::from(now - self.area_at);
        }
        self.area_at = now;
    }

    #[inline]
    pub(super) fn bin(&mut self, now: u64) -> &mut Bin {
        let index = (now / self.bin_ns) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    #[inline]
    pub(super) fn arrived(&mut self, now: u64, born: u64, entered: u64) {
        self.clock(now);
        self.delivered += 1;
        let latency = now - born;
        let bin = self.bin(now);
        bin.delivered += 1;
        bin.latency_ns += latency;
        bin.latency_ns_max = bin.latency_ns_max.max(latency);
        if self.started_ns.is_some() {
            self.latency.record(latency);
            self.network.record(now - entered);
        } else if self.delivered >= self.transient {
            self.started_ns = Some(now);
        }
    }
}

/// A number that depends on a packet's flow and sequence: sums of it are equal when the packets
/// are, but for one chance in 2^64.
pub(super) fn mark(source: u32, target: u32, sequence: u32) -> u64 {
    let flow = (u64::from(source) << 32 | u64::from(target)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mut bits = (flow ^ u64::from(sequence)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
