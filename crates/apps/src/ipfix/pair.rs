//! Joins the two directions of a conversation into one record (RFC 5103).
//!
//! Both end at about the same time, but as a rule on different workers: the exporter keeps a record for a
//! while until its other direction comes. Room: records; knows no messages.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use ebb_units::Time;

use super::flow::Record;

/// Records that wait; beyond, the oldest goes alone.
const WAITING_MAX: usize = 65_536;

/// One or both directions; the first packet of the first came before that of the second.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// From who began, as far as was seen.
    pub forward: Record,
    /// The answers.
    pub reverse: Option<Record>,
}

/// Which conversation, and which direction of it.
type Side = ([u64; 5], bool);

/// See the module.
#[derive(Debug)]
pub(super) struct Pairing {
    patience: Duration,
    waiting: HashMap<Side, (u64, Record)>,
    /// In order of arrival; those that are no more waiting are passed over.
    order: VecDeque<(Time, u64, Side)>,
    serial: u64,
}

impl Pairing {
    /// Waits so long for the other direction.
    pub(super) fn new(patience: Duration) -> Pairing {
        Pairing { patience, waiting: HashMap::new(), order: VecDeque::new(), serial: 0 }
    }

    /// Takes a record in; what is complete, or has to leave, goes to `out`.
    pub(super) fn add(&mut self, now: Time, record: Record, out: &mut impl FnMut(Flow)) {
        let (conversation, first) = record.conversation();
        if let Some((_, other)) = self.waiting.remove(&(conversation, !first)) {
            let earlier = (record.first_ms().wrapping_sub(other.first_ms()) as i32) < 0;
            let (forward, reverse) = if earlier { (record, other) } else { (other, record) };
            return out(Flow { forward, reverse: Some(reverse) });
        }
        self.serial += 1;
        let side = (conversation, first);
        self.order.push_back((now, self.serial, side));
        // A second record of the same direction: the former has waited long enough.
        if let Some((_, former)) = self.waiting.insert(side, (self.serial, record)) {
            out(Flow { forward: former, reverse: None });
        }
        while self.waiting.len() > WAITING_MAX || self.order.len() > 2 * WAITING_MAX {
            self.release_oldest(out);
        }
    }

    /// Lets go what has waited long enough.
    pub(super) fn poll(&mut self, now: Time, out: &mut impl FnMut(Flow)) {
        while self.order.front().is_some_and(|(since, ..)| now.since(*since) >= self.patience) {
            self.release_oldest(out);
        }
    }

    /// Lets everything go.
    pub(super) fn finish(&mut self, out: &mut impl FnMut(Flow)) {
        while !self.order.is_empty() {
            self.release_oldest(out);
        }
    }

    fn release_oldest(&mut self, out: &mut impl FnMut(Flow)) {
        let Some((_, serial, side)) = self.order.pop_front() else { return };
        if self.waiting.get(&side).is_some_and(|(known, _)| *known == serial)
            && let Some((_, forward)) = self.waiting.remove(&side)
        {
            out(Flow { forward, reverse: None });
        }
    }
}
