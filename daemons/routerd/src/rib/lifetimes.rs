//! Routes whose life ends by itself (IPv6), and when.
//!
//! The kernel stops to use such a route in the moment in which its life ends (`fib6_check_expired`) and says
//! so only when it next collects garbage, up to half a minute later; that a router advertisement prolongs a
//! life it does not say at all. So it is asked shortly before an end whether that still stands, and what is
//! past its end is the kernel's until it is gone or has a new life.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_units::Time;

use super::prefixes::Key;

/// How long before an end the kernel is asked whether it still stands.
const AHEAD: Duration = Duration::from_secs(2);
/// Least time between two such questions.
const PAUSE: Duration = Duration::from_secs(1);
/// By how much an end is taken to be earlier: the kernel says it in hundredths of a second, of its own clock.
const MARGIN: Duration = Duration::from_millis(20);

/// An end that has come already.
pub(super) const OVER: Time = Time::ZERO;

/// A prefix with one of its candidates.
type Mortal = (Key, u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    ends: BTreeMap<Mortal, Time>,
    due: BTreeSet<(Time, Mortal)>,
    ended: BTreeSet<Mortal>,
    asked: Option<Time>,
    /// Ends up to this one have been asked about.
    asked_until: Time,
    /// Something has ended since.
    ended_since: bool,
}

impl Lifetimes {
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Sets the end of a candidate, or that it has none; with [`OVER`] it is past it at once.
    pub(super) fn set(&mut self, key: Key, slot: u32, end: Option<Time>) {
        self.remove(key, slot);
        let Some(end) = end else { return };
        self.ends.insert((key, slot), end);
        if end == OVER {
            self.ended.insert((key, slot));
        } else {
            self.due.insert((end, (key, slot)));
        }
    }

    /// The end of a candidate, if it has one.
    pub(super) fn end(&self, key: Key, slot: u32) -> Option<Time> {
        self.ends.get(&(key, slot)).copied()
    }

    /// Forgets a candidate; whether it had an end.
    pub(super) fn remove(&mut self, key: Key, slot: u32) -> bool {
        self.ended.remove(&(key, slot));
        let Some(end) = self.ends.remove(&(key, slot)) else { return false };
        self.due.remove(&(end, (key, slot)));
        true
    }

    /// Whether a candidate of the prefix is past its end.
    pub(super) fn has_ended(&self, key: Key) -> bool {
        self.ended.range((key, 0)..=(key, u32::MAX)).next().is_some()
    }

    /// The prefixes of which something ends until `now`.
    pub(super) fn pass(&mut self, now: Time) -> BTreeSet<Key> {
        let mut passed = BTreeSet::new();
        while let Some((end, mortal)) = self.due.first().copied() {
            if end > now + MARGIN {
                break;
            }
            self.due.pop_first();
            self.ended.insert(mortal);
            passed.insert(mortal.0);
        }
        self.ended_since |= !passed.is_empty();
        passed
    }

    /// When the first end comes that has not been asked about.
    fn ask_at(&self) -> Option<Time> {
        let unasked = self.due.iter().find(|(end, _)| *end > self.asked_until);
        let ahead = unasked.map(|(end, _)| {
            Time::from_nanos(end.as_nanos().saturating_sub(AHEAD.as_nanos() as u64))
        });
        let at = if self.ended_since { Some(Time::ZERO) } else { ahead };
        let earliest = self.asked.map_or(Time::ZERO, |asked| asked + PAUSE);
        at.map(|at| at.max(earliest))
    }

    /// Whether the kernel is to be asked for its routes now; it then counts as asked.
    pub(super) fn asks(&mut self, now: Time) -> bool {
        let asks = self.ask_at().is_some_and(|at| at <= now);
        if asks {
            (self.asked, self.asked_until) = (Some(now), now + AHEAD);
            self.ended_since = false;
        }
        asks
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Time> {
        let end = self.due.first().map(|(end, _)| *end);
        end.into_iter().chain(self.ask_at()).min()
    }
}
