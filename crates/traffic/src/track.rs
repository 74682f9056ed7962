//! What became of the packets: loss, reordering, duplicates and latency by flow.

use core::time::Duration;

use ebb_units::Time;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Probe;

/// Which number the first packet of a flow should have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Zero: the receiver listened before the sender started.
    Zero,
    /// Whatever is seen first: the receiver may have joined later.
    FirstSeen,
}

/// Sequence numbers remembered behind the highest, to tell late packets from duplicates.
const WINDOW: u64 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;

/// One flow's history.
#[derive(Clone, Debug)]
struct Track {
    /// One more than the highest number seen; RFC 4737's NextExp.
    next: u64,
    first: u64,
    received: u64,
    seen: [u64; WORDS],
    started: bool,
}

enum Verdict {
    InOrder,
    Reordered,
    Duplicate,
}

impl Track {
    const NEW: Track = Track { next: 0, first: 0, received: 0, seen: [0; WORDS], started: false };

    fn record(&mut self, low: u32, start: Start) -> Verdict {
        if !self.started {
            self.started = true;
            if start == Start::FirstSeen {
                self.next = u64::from(low);
                self.first = self.next;
            }
        }
        let sequence = self.extend(low);
        if sequence >= self.next {
            self.advance(sequence);
            self.received += 1;
            return Verdict::InOrder;
        }
        // Beyond the window a duplicate cannot be told from a late packet; late is the worse news.
        if self.next - sequence <= WINDOW && self.mark(sequence) {
            return Verdict::Duplicate;
        }
        if sequence < self.first {
            self.first = sequence;
        }
        self.received += 1;
        Verdict::Reordered
    }

    /// The full number nearest to the next expected one that ends in `low`.
    fn extend(&self, low: u32) -> u64 {
        let ahead = low.wrapping_sub(self.next as u32) as i32;
        let sequence = self.next as i64 + i64::from(ahead);
        if sequence < 0 { u64::from(low) } else { sequence as u64 }
    }

    fn advance(&mut self, sequence: u64) {
        if sequence - self.next >= WINDOW {
            self.seen = [0; WORDS];
        } else {
            for skipped in self.next..sequence {
                self.clear(skipped);
            }
        }
        self.mark(sequence);
        self.next = sequence + 1;
    }

    /// Marks a number as seen and returns whether it was already.
    fn mark(&mut self, sequence: u64) -> bool {
        let bit = sequence % WINDOW;
        let word = &mut self.seen[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        let before = *word & mask != 0;
        *word |= mask;
        before
    }

    fn clear(&mut self, sequence: u64) {
        let bit = sequence % WINDOW;
        self.seen[(bit / 64) as usize] &= !(1 << (bit % 64));
    }

    /// Numbers up to the highest seen that never came.
    fn missing(&self) -> u64 {
        (self.next - self.first).saturating_sub(self.received)
    }
}

/// Follows the sequence numbers of all flows at the receiving end.
///
/// ```
/// use ebb_traffic::{Probe, Start, Tracker};
/// use ebb_units::Time;
/// let mut tracker = Tracker::new(1, Start::Zero);
/// for sequence in [0, 2, 1, 1, 4] {
///     let sent = Time::from_nanos(10);
///     tracker.record(&Probe { flow: 0, sequence, sent }, Time::from_nanos(1_010));
/// }
/// let summary = tracker.summary(Some(6));
/// assert_eq!((summary.received, summary.lost), (4, 2));
/// assert_eq!((summary.reordered, summary.duplicated), (1, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Tracker {
    tracks: Vec<Track>,
    start: Start,
    received: u64,
    reordered: u64,
    duplicated: u64,
    strangers: u64,
    backwards: u64,
    latency: Histogram<u64>,
    recent: Histogram<u64>,
}

impl Tracker {
    /// Longest latency told apart, in nanoseconds; longer ones count as this.
    const LATENCY_MAX_NS: u64 = 10_000_000_000;

    /// For flows 0 to `flows` - 1.
    pub fn new(flows: u32, start: Start) -> Tracker {
        let histogram =
            || Histogram::new_with_bounds(1, Self::LATENCY_MAX_NS, 3).expect("valid bounds");
        Tracker {
            tracks: vec![Track::NEW; flows as usize],
            start,
            received: 0,
            reordered: 0,
            duplicated: 0,
            strangers: 0,
            backwards: 0,
            latency: histogram(),
            recent: histogram(),
        }
    }

    /// Takes note of a packet that arrived at `now`, by the clock that stamped it.
    ///
    /// Reordered is a packet whose number is below the highest before it (RFC 4737, section 3.3:
    /// `s < NextExp`); further copies of one already seen are duplicates and nothing else.
    #[inline]
    pub fn record(&mut self, probe: &Probe, now: Time) {
        let Some(track) = self.tracks.get_mut(probe.flow as usize) else {
            self.strangers += 1;
            return;
        };
        match track.record(probe.sequence, self.start) {
            Verdict::InOrder => self.received += 1,
            Verdict::Reordered => {
                self.received += 1;
                self.reordered += 1;
            }
            Verdict::Duplicate => {
                self.duplicated += 1;
                return;
            }
        }
        self.backwards += u64::from(now < probe.sent);
        let span_ns = (now - probe.sent).as_nanos().max(1) as u64;
        self.latency.saturating_record(span_ns);
        self.recent.saturating_record(span_ns);
    }

    /// Distinct packets received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How alike flows fared, by the parts of their packets that arrived (Jain's index): 1 when all lose the same part, 1/n when
    /// one of n gets everything. Flows of which nothing has come count as having got nothing.
    pub fn fairness(&self) -> f64 {
        let part = |track: &Track| match track.next - track.first {
            0 => 0.0,
            sent => track.received as f64 / sent as f64,
        };
        let (sum, squares) = self
            .tracks
            .iter()
            .map(part)
            .fold((0.0, 0.0), |(sum, squares), part| (sum + part, squares + part * part));
        if squares > 0.0 { sum * sum / (self.tracks.len() as f64 * squares) } else { 1.0 }
    }

    /// Latency recorded so far.
    pub fn latency(&self) -> Latency {
        Latency::of(&self.latency)
    }

    /// Packets reordered so far.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Latency recorded since the last call of this.
    pub fn take_recent(&mut self) -> Latency {
        let latency = Latency::of(&self.recent);
        self.recent.reset();
        latency
    }

    /// The result. `sent` is how many packets the sender sent, where that is known; without it,
    /// loss is what is missing below each flow's highest number, blind to lost tails.
    pub fn summary(&self, sent: Option<u64>) -> Summary {
        let missing: u64 = self.tracks.iter().map(Track::missing).sum();
        let lost = sent.map_or(missing, |sent| sent.saturating_sub(self.received));
        Summary {
            sent: sent.unwrap_or(self.received + missing),
            received: self.received,
            lost,
            reordered: self.reordered,
            duplicated: self.duplicated,
            strangers: self.strangers,
            backwards: self.backwards,
            flows: self.tracks.iter().filter(|track| track.started).count() as u32,
            latency_us: self.latency(),
        }
    }
}

/// What became of the packets of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Packets sent, or inferred from the highest numbers where the sender did not say.
    pub sent: u64,
    /// Distinct packets received.
    pub received: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came after one with a higher number in their flow.
    pub reordered: u64,
    /// Further copies of packets received.
    pub duplicated: u64,
    /// Test packets of flows that are not expected.
    pub strangers: u64,
    /// Packets that arrived before they were sent: the clocks disagree and latency means nothing.
    pub backwards: u64,
    /// Flows seen.
    pub flows: u32,
    /// One-way latency, microseconds.
    pub latency_us: Latency,
}

/// A latency distribution, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
}

impl Latency {
    /// The distribution of a histogram of nanoseconds; all zero when it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let micros = |ns: u64| Duration::from_nanos(ns).as_nanos() as f64 / 1e3;
        Latency {
            min: micros(histogram.min()),
            mean: histogram.mean() / 1e3,
            p50: micros(histogram.value_at_quantile(0.5)),
            p99: micros(histogram.value_at_quantile(0.99)),
            max: micros(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(sequence: &[u32], start: Start) -> Summary {
        let mut tracker = Tracker::new(1, start);
        for number in sequence {
            let probe = Probe { flow: 0, sequence: *number, sent: Time::from_nanos(1) };
            tracker.record(&probe, Time::from_nanos(2_001));
        }
        tracker.summary(None)
    }

    #[test]
    fn sequences_and_their_verdicts() {
        let cases: [(&str, &[u32], Start, [u64; 4]); 8] = [
            ("in order", &[0, 1, 2, 3], Start::Zero, [4, 0, 0, 0]),
            ("one lost", &[0, 1, 3], Start::Zero, [3, 1, 0, 0]),
            ("head lost", &[2, 3], Start::Zero, [2, 2, 0, 0]),
            ("joined later", &[2, 3], Start::FirstSeen, [2, 0, 0, 0]),
            ("swapped", &[0, 2, 1, 3], Start::Zero, [4, 0, 1, 0]),
            ("one late by three", &[0, 2, 3, 4, 1], Start::Zero, [5, 0, 1, 0]),
            ("twice", &[0, 1, 1, 0, 2], Start::Zero, [3, 0, 0, 2]),
            ("over the edge", &[u32::MAX - 1, u32::MAX, 1, 0], Start::FirstSeen, [4, 0, 1, 0]),
        ];
        for (name, sequence, start, expected) in cases {
            let seen = run(sequence, start);
            let found = [seen.received, seen.lost, seen.reordered, seen.duplicated];
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn strangers_and_clocks_are_told() {
        let mut tracker = Tracker::new(2, Start::Zero);
        let probe = Probe { flow: 2, sequence: 0, sent: Time::ZERO };
        tracker.record(&probe, Time::ZERO);
        let early = Probe { flow: 1, sequence: 0, sent: Time::from_nanos(5) };
        tracker.record(&early, Time::from_nanos(4));
        let summary = tracker.summary(None);
        assert_eq!((summary.strangers, summary.backwards, summary.received), (1, 1, 1));
    }

    #[test]
    fn latency_is_in_microseconds() {
        let summary = run(&[0, 1, 2], Start::Zero);
        assert!((summary.latency_us.p50 - 2.0).abs() < 0.01, "{:?}", summary.latency_us);
        assert!((summary.latency_us.mean - 2.0).abs() < 0.01);
    }

    proptest! {
        /// Against a plain model that remembers every number.
        #[test]
        fn counts_agree_with_a_full_memory(
            numbers in proptest::collection::vec((0u32..400, 0u32..20), 1..400),
        ) {
            let order: Vec<u32> =
                numbers.iter().enumerate().map(|(at, (_, jitter))| at as u32 + jitter).collect();
            let mut seen = std::collections::BTreeSet::new();
            let (mut next, mut reordered, mut duplicated) = (0, 0, 0);
            for number in &order {
                if !seen.insert(*number) {
                    duplicated += 1;
                } else if *number < next {
                    reordered += 1;
                }
                next = next.max(number + 1);
            }
            let summary = run(&order, Start::Zero);
            prop_assert_eq!(summary.received, seen.len() as u64);
            prop_assert_eq!(summary.reordered, reordered);
            prop_assert_eq!(summary.duplicated, duplicated);
            prop_assert_eq!(summary.lost, u64::from(next) - seen.len() as u64);
            prop_assert_eq!(summary.sent, u64::from(next));
        }

        /// Losing packets anywhere loses exactly those.
        #[test]
        fn sent_is_received_plus_lost(kept in proptest::collection::vec(any::<bool>(), 1..3000)) {
            let mut tracker = Tracker::new(1, Start::Zero);
            for (sequence, _) in kept.iter().enumerate().filter(|(_, kept)| **kept) {
                let probe = Probe { flow: 0, sequence: sequence as u32, sent: Time::ZERO };
                tracker.record(&probe, Time::ZERO);
            }
            let summary = tracker.summary(Some(kept.len() as u64));
            prop_assert_eq!(summary.received + summary.lost, kept.len() as u64);
            prop_assert_eq!(summary.reordered + summary.duplicated, 0);
        }
    }

    #[test]
    fn fairness_is_by_the_parts_that_arrived() {
        let now = Time::from_nanos(1000);
        let told = |parts: &[u32]| {
            let mut tracker = Tracker::new(parts.len() as u32, Start::Zero);
            for (flow, every) in parts.iter().enumerate().filter(|(_, every)| **every > 0) {
                for sequence in (0..100 * every).step_by(*every as usize) {
                    tracker.record(&Probe { flow: flow as u32, sequence, sent: now }, now);
                }
            }
            (tracker.fairness() * 100.0).round() / 100.0
        };
        assert_eq!(told(&[2, 2, 2, 2]), 1.0, "all lose half");
        assert_eq!(told(&[1, 0, 0, 0]), 0.25, "one gets everything");
        assert_eq!(told(&[1, 2]), 0.9, "(1 + 1/2)^2 / (2 (1 + 1/4))");
        assert_eq!(told(&[0, 0]), 1.0, "nothing is nobody's");
    }
}
