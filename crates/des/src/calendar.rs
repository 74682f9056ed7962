//! Events in order of time, in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ebb_units::Time;

/// Events in the order of their times; events of one instant in the order of their scheduling.
#[derive(Clone, Debug)]
pub struct Calendar<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    scheduled: u64,
    now: Time,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: Time,
    turn: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.turn)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Calendar::new()
    }
}

impl<E> Calendar<E> {
    /// Without events, at the start of time.
    pub fn new() -> Calendar<E> {
        Calendar { heap: BinaryHeap::new(), scheduled: 0, now: Time::ZERO }
    }

    /// Puts an event on the calendar.
    ///
    /// # Panics
    /// When `at` lies before the event that was taken last: time does not run backwards.
    pub fn schedule(&mut self, at: Time, event: E) {
        assert!(at >= self.now, "an event for {at}, but it is {} already", self.now);
        self.heap.push(Reverse(Entry { at, turn: self.scheduled, event }));
        self.scheduled += 1;
    }

    /// Takes the next event and moves the time to it.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some((entry.at, entry.event))
    }

    /// When the next event is due.
    pub fn peek(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The time of the event taken last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events still to come, in no order that matters.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        self.heap.iter().map(|Reverse(entry)| &entry.event)
    }

    /// Events still to come.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none is to come.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn by_time_and_then_by_turn(times in prop::collection::vec(0u64..20, 0..200)) {
            let mut calendar = Calendar::new();
            for (turn, &at) in times.iter().enumerate() {
                calendar.schedule(Time::from_nanos(at), turn);
            }
            let mut expected: Vec<(u64, usize)> = times.iter().copied().zip(0..).collect();
            expected.sort();
            let taken = std::iter::from_fn(|| calendar.pop());
            let taken: Vec<(u64, usize)> = taken.map(|(at, turn)| (at.as_nanos(), turn)).collect();
            prop_assert_eq!(taken, expected);
            prop_assert!(calendar.is_empty());
        }
    }

    #[test]
    #[should_panic(expected = "it is 0.000001")]
    fn the_past_stays_as_it_was() {
        let mut calendar = Calendar::new();
        calendar.schedule(Time::from_nanos(1000), ());
        calendar.pop();
        calendar.schedule(Time::from_nanos(999), ());
    }
}
