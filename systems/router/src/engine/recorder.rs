//! What a run saw: counts, latency, order, and the state of the router over time.

use ebb_des::Histogram;
use ebb_units::{Hertz, Watts};
use serde::Serialize;

use crate::account::Account;
use crate::machine::{Machine, PER_NANO, PER_SECOND, Picos};

/// What became of the packets of a span. `queued_before + arrived = delivered + lost + queued`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// In queues when the span began.
    pub queued_before: u64,
    /// Offered.
    pub arrived: u64,
    /// Left through the other side.
    pub delivered: u64,
    /// Found their queue full.
    pub lost: u64,
    /// In queues at the end; a packet that a core has begun to work on counts as delivered.
    pub queued: u64,
    /// Left after a later packet of their flow.
    pub reordered: u64,
    /// Bytes of the delivered, as frames with check sequence.
    pub bytes: u64,
}

impl Counts {
    /// Whether every packet is accounted for.
    pub fn conserved(&self) -> bool {
        self.queued_before + self.arrived == self.delivered + self.lost + self.queued
    }
}

/// The router over one sampling interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// End of the interval, seconds since the start of the run.
    pub at_s: f64,
    /// Its length, seconds.
    pub span_s: f64,
    /// Mean power.
    pub watts: Watts,
    /// Active cores at its end.
    pub cores: u16,
    /// Clock at its end.
    pub frequency: Hertz,
    /// Offered, packets a second.
    pub offered_pps: f64,
    /// Longest queue at its end, packets.
    pub queue_len: u32,
}

/// Buckets of 2^15 picoseconds below a quarter of a millisecond; beyond, the histogram itself.
const FINE: usize = 8192;
const FINE_SHIFT: u32 = 15;

/// Collects the figures of a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) counts: Counts,
    fine: Vec<u64>,
    coarse: Histogram,
    latency_sum_ps: f64,
    latency_max_ps: Picos,
    latency_min_ps: Picos,
    /// Arrival and departure of each flow's latest packet.
    latest: Vec<(Picos, Picos)>,
    pub(crate) samples: Vec<Sample>,
    sampled: (Picos, f64, u64),
    pub(crate) changes: u64,
    pub(crate) decisions: u64,
    pub(crate) wakeups: u64,
    pub(crate) entries_moved: u64,
    /// Integrals of active cores and of frequency over time, and until when.
    point_seconds: (f64, f64, Picos),
}

/// Latency of the delivered packets.
#[derive(Clone, Debug)]
pub struct Latency {
    /// By nanoseconds.
    pub histogram: Histogram,
    /// Mean, microseconds.
    pub mean_us: f64,
    /// Least, microseconds.
    pub min_us: f64,
    /// Most, microseconds.
    pub max_us: f64,
}

impl Latency {
    /// The latency that the share `quantile` of packets does not exceed, microseconds; 0 without
    /// packets.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.histogram.quantile(quantile).map_or(0.0, |nanos| nanos as f64 / 1e3)
    }
}

impl Recorder {
    pub(crate) fn new(flows: usize) -> Recorder {
        Recorder {
            counts: Counts::default(),
            fine: vec![0; FINE],
            coarse: Histogram::new(),
            latency_sum_ps: 0.0,
            latency_max_ps: 0,
            latency_min_ps: Picos::MAX,
            latest: vec![(0, 0); flows],
            samples: Vec::new(),
            sampled: (0, 0.0, 0),
            changes: 0,
            decisions: 0,
            wakeups: 0,
            entries_moved: 0,
            point_seconds: (0.0, 0.0, 0),
        }
    }

    /// Forgets the warm-up; `queued` packets remain.
    pub(crate) fn reset(&mut self, now: Picos, queued: u64) {
        let latest = std::mem::take(&mut self.latest);
        *self = Recorder::new(0);
        self.latest = latest;
        self.counts.queued_before = queued;
        self.sampled.0 = now;
        self.point_seconds.2 = now;
    }

    /// A packet left.
    #[inline]
    pub(crate) fn deliver(&mut self, flow: u32, at: Picos, done: Picos, latency: Picos) {
        let fine = (latency >> FINE_SHIFT) as usize;
        match self.fine.get_mut(fine) {
            Some(count) => *count += 1,
            None => self.coarse.record(latency / PER_NANO),
        }
        self.latency_max_ps = self.latency_max_ps.max(latency);
        self.latency_min_ps = self.latency_min_ps.min(latency);
        let latest = &mut self.latest[flow as usize];
        if at >= latest.0 {
            self.counts.reordered += u64::from(done < latest.1);
            *latest = (at, done);
        } else {
            self.counts.reordered += u64::from(done > latest.1);
        }
    }

    /// A batch left: its packets have been told one by one, these are their sums.
    #[inline]
    pub(crate) fn delivered(&mut self, packets: u64, bytes: u64, latency_ps: u64) {
        self.counts.delivered += packets;
        self.counts.bytes += bytes;
        self.latency_sum_ps += latency_ps as f64;
    }

    /// `packets` left after `latency_ps` each.
    pub(crate) fn spread(&mut self, latency_ps: f64, packets: u64) {
        let latency = latency_ps as Picos;
        match self.fine.get_mut((latency >> FINE_SHIFT) as usize) {
            Some(count) => *count += packets,
            None => self.coarse.record_n(latency / PER_NANO, packets),
        }
        if packets > 0 {
            self.latency_max_ps = self.latency_max_ps.max(latency);
            self.latency_min_ps = self.latency_min_ps.min(latency);
        }
        self.latency_sum_ps += latency_ps * packets as f64;
    }

    /// The operating point held until `now`.
    pub(crate) fn held(&mut self, now: Picos, cores: u16, frequency: Hertz) {
        let seconds = now.saturating_sub(self.point_seconds.2) as f64 / PER_SECOND;
        self.point_seconds.0 += f64::from(cores) * seconds;
        self.point_seconds.1 += frequency.as_ghz() * seconds;
        self.point_seconds.2 = self.point_seconds.2.max(now);
    }

    /// Mean active cores and GHz over `span_s`.
    pub(crate) fn means(&self, span_s: f64) -> (f64, f64) {
        (self.point_seconds.0 / span_s, self.point_seconds.1 / span_s)
    }

    /// Closes a sampling interval; the account is closed up to `now`.
    pub(crate) fn sample(
        &mut self,
        now: Picos,
        account: &Account,
        (cores, frequency): (u16, Hertz),
        queue_len: u32,
    ) {
        let (since, joules, arrived) = self.sampled;
        let span_s = now.saturating_sub(since) as f64 / PER_SECOND;
        if span_s <= 0.0 {
            return;
        }
        self.samples.push(Sample {
            at_s: now as f64 / PER_SECOND,
            span_s,
            watts: Watts((account.joules() - joules) / span_s),
            cores,
            frequency,
            offered_pps: (self.counts.arrived - arrived) as f64 / span_s,
            queue_len,
        });
        self.sampled = (now, account.joules(), self.counts.arrived);
    }

    /// The latencies of everything delivered.
    pub(crate) fn latency(&self) -> Latency {
        let mut histogram = self.coarse.clone();
        for (index, count) in self.fine.iter().enumerate() {
            let middle = ((index as u64) << FINE_SHIFT) + (1 << (FINE_SHIFT - 1));
            let within =
                middle.clamp(self.latency_min_ps.min(self.latency_max_ps), self.latency_max_ps);
            histogram.record_n(within / PER_NANO, *count);
        }
        let micros = |picos: Picos| picos as f64 / 1e6;
        let none = histogram.count() == 0;
        Latency {
            mean_us: if none { 0.0 } else { self.latency_sum_ps / histogram.count() as f64 / 1e6 },
            min_us: if none { 0.0 } else { micros(self.latency_min_ps) },
            max_us: micros(self.latency_max_ps),
            histogram,
        }
    }
}

/// What the machine's cores did, as shares of all core time, in the order of
/// [`crate::account::STATE_NAMES`].
pub(crate) fn shares(account: &Account, machine: &Machine, span_s: f64) -> Vec<f64> {
    let all = f64::from(machine.cores) * span_s;
    account.core_s.iter().map(|seconds| seconds / all).collect()
}
