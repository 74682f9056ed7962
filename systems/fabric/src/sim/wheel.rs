//! What is on its way: events a few hundred nanoseconds ahead, one list per nanosecond.
//!
//! Nearly every event of a packet lies within one packet time and one flight of now, and a busy
//! fabric has several in every nanosecond: a ring of lists beats any heap. What lies further ahead
//! waits in a calendar until the ring has come round.

use ebb_des::Calendar;
use ebb_units::Time;

const NONE: u32 = u32::MAX;

/// An event: what happens (4 bits) to which element (28 bits), and a number that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: u8,
    pub(super) element: u32,
    pub(super) extra: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    element: u32,
    extra: u32,
    kind: u8,
}

/// Events in the order of their nanosecond, those of one nanosecond in the order of scheduling.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    slots: Vec<(u32, u32)>,
    filled: Vec<u64>,
    nodes: Vec<Node>,
    free: u32,
    now: u64,
    near: u64,
    far: Calendar<Event>,
}

impl Wheel {
    /// A wheel whose ring reaches `ahead_ns` ahead.
    pub(super) fn new(ahead_ns: u64) -> Wheel {
        let slots = (ahead_ns + 2).next_power_of_two().max(64) as usize;
        Wheel {
            slots: vec![(NONE, NONE); slots],
            filled: vec![0; slots / 64],
            nodes: Vec::new(),
            free: NONE,
            now: 0,
            near: 0,
            far: Calendar::new(),
        }
    }

    /// The nanosecond of the event taken last.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Puts an event on the wheel; what lies in the past happens now.
    #[inline]
    pub(super) fn schedule(&mut self, at: u64, event: Event) {
        let at = at.max(self.now);
        if at - self.now >= self.slots.len() as u64 {
            self.far.schedule(Time::from_nanos(at), event);
        } else {
            self.place(at, event);
        }
    }

    #[inline]
    fn place(&mut self, at: u64, event: Event) {
        let Event { kind, element, extra } = event;
        let node = Node { next: NONE, element, extra, kind };
        let index = self.free;
        let index = if index == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        let slot = at as usize & (self.slots.len() - 1);
        let (first, last) = &mut self.slots[slot];
        if *first == NONE {
            *first = index;
            self.filled[slot / 64] |= 1 << (slot % 64);
        } else {
            self.nodes[*last as usize].next = index;
        }
        *last = index;
        self.near += 1;
    }

    /// Takes the next event before `end`. Without one the time becomes `end`.
    #[inline]
    pub(super) fn pop(&mut self, end: u64) -> Option<Event> {
        if self.now >= end {
            return None;
        }
        let slot = self.now as usize & (self.slots.len() - 1);
        if self.slots[slot].0 == NONE && !self.advance(end) {
            return None;
        }
        let slot = self.now as usize & (self.slots.len() - 1);
        let (first, _) = &mut self.slots[slot];
        let index = *first;
        let node = self.nodes[index as usize];
        *first = node.next;
        if node.next == NONE {
            self.filled[slot / 64] &= !(1 << (slot % 64));
        }
        self.nodes[index as usize].next = self.free;
        self.free = index;
        self.near -= 1;
        Some(Event { kind: node.kind, element: node.element, extra: node.extra })
    }

    /// Moves to the next nanosecond with an event; false when there is none before `end`.
    #[inline]
    fn advance(&mut self, end: u64) -> bool {
        let far = self.far.peek().map_or(u64::MAX, Time::as_nanos);
        let near = if self.near > 0 { self.next_filled() } else { u64::MAX };
        let at = near.min(far);
        if at >= end {
            self.now = self.now.max(end);
            self.admit(self.now);
            return false;
        }
        self.now = at;
        self.admit(at);
        true
    }

    /// Moves far events that the ring reaches by now onto it, before anything nearer is added.
    fn admit(&mut self, now: u64) {
        let reach = now + self.slots.len() as u64;
        while self.far.peek().is_some_and(|at| at.as_nanos() < reach) {
            if let Some((at, event)) = self.far.pop() {
                self.place(at.as_nanos(), event);
            }
        }
    }

    fn next_filled(&self) -> u64 {
        let words = self.filled.len();
        let start = self.now as usize & (self.slots.len() - 1);
        let (word, bit) = (start / 64, start % 64);
        let first = self.filled[word] >> bit;
        if first != 0 {
            return self.now + u64::from(first.trailing_zeros());
        }
        for step in 1..=words {
            let other = self.filled[(word + step) & (words - 1)];
            if other != 0 {
                let distance = step * 64 + other.trailing_zeros() as usize - bit;
                return self.now + distance as u64;
            }
        }
        unreachable!("the ring holds an event")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The wheel yields what a sorted list would, whatever is scheduled while it turns.
        #[test]
        fn keeps_the_order_of_a_calendar(
            steps in prop::collection::vec((0u64..400, any::<bool>()), 1..200)
        ) {
            let mut wheel = Wheel::new(100);
            let mut expected: Vec<(u64, u32)> = Vec::new();
            let mut number = 0;
            for (ahead, take) in steps {
                if take && !expected.is_empty() {
                    expected.sort_by_key(|entry| entry.0);
                    let seen = wheel.pop(1 << 40).map(|event| (wheel.now(), event.element));
                    let first = (!expected.is_empty()).then(|| expected.remove(0));
                    prop_assert_eq!(seen, first);
                } else {
                    wheel.schedule(wheel.now() + ahead, Event { kind: 3, element: number, extra: 0 });
                    expected.push((wheel.now() + ahead, number));
                    number += 1;
                }
            }
        }
    }

    #[test]
    fn stops_before_the_end() {
        let mut wheel = Wheel::new(64);
        wheel.schedule(1000, Event { kind: 0, element: 0, extra: 0 });
        assert_eq!(wheel.pop(1000), None);
        assert_eq!(wheel.now(), 1000);
        assert!(wheel.pop(1001).is_some());
    }
}
