//! Events in order of time, a list for each of the next ticks.

use ebb_units::Time;

use crate::Calendar;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<E> {
    next: u32,
    event: E,
}

/// Events a few hundred ticks ahead (nanoseconds, cycles), one list per tick: in the order of their tick,
/// those of one tick in the order of scheduling.
///
/// Where nearly every event lies near and every tick has several, a ring of lists beats any heap. What
/// lies further ahead waits in a [`Calendar`] until the ring has come round.
///
/// ```
/// let mut wheel = ebb_des::Wheel::new(64);
/// wheel.schedule(3, "later");
/// wheel.schedule(2, "sooner");
/// assert_eq!((wheel.pop(10), wheel.now()), (Some("sooner"), 2));
/// assert_eq!((wheel.pop(3), wheel.now()), (None, 3));
/// assert_eq!(wheel.pop(4), Some("later"));
/// ```
#[derive(Clone, Debug)]
pub struct Wheel<E> {
    slots: Vec<(u32, u32)>,
    filled: Vec<u64>,
    nodes: Vec<Node<E>>,
    free: u32,
    now: u64,
    near: u64,
    far: Calendar<E>,
}

impl<E: Copy> Wheel<E> {
    /// A wheel whose ring reaches `ahead` ticks ahead.
    pub fn new(ahead: u64) -> Wheel<E> {
        let slots = (ahead + 2).next_power_of_two().max(64) as usize;
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

    /// The tick of the event taken last, or up to which there was none.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Puts an event on the wheel; what lies in the past happens now.
    #[inline]
    pub fn schedule(&mut self, at: u64, event: E) {
        let at = at.max(self.now);
        if at - self.now >= self.slots.len() as u64 {
            self.far.schedule(Time::from_nanos(at), event);
        } else {
            self.place(at, event);
        }
    }

    #[inline]
    fn place(&mut self, at: u64, event: E) {
        let node = Node { next: NONE, event };
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
    pub fn pop(&mut self, end: u64) -> Option<E> {
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
        Some(node.event)
    }

    /// Moves to the next tick with an event; false when there is none before `end`.
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

    /// All events on their way, in no order that matters.
    pub fn all(&self) -> impl Iterator<Item = E> + '_ {
        let in_slot = move |&(first, _): &(u32, u32)| {
            let node = |index: u32| (index != NONE).then_some(index);
            std::iter::successors(node(first), move |&at| node(self.nodes[at as usize].next))
        };
        let near = self.slots.iter().flat_map(in_slot).map(|at| self.nodes[at as usize].event);
        near.chain(self.far.events().copied())
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
                    let seen = wheel.pop(1 << 40).map(|event| (wheel.now(), event));
                    let first = (!expected.is_empty()).then(|| expected.remove(0));
                    prop_assert_eq!(seen, first);
                    let mut left: Vec<u32> = wheel.all().collect();
                    left.sort_unstable();
                    let mut known: Vec<u32> = expected.iter().map(|entry| entry.1).collect();
                    known.sort_unstable();
                    prop_assert_eq!(left, known);
                } else {
                    wheel.schedule(wheel.now() + ahead, number);
                    expected.push((wheel.now() + ahead, number));
                    number += 1;
                }
            }
        }
    }

    #[test]
    fn stops_before_the_end() {
        let mut wheel = Wheel::new(64);
        wheel.schedule(1000, ());
        assert_eq!(wheel.pop(1000), None);
        assert_eq!(wheel.now(), 1000);
        assert!(wheel.pop(1001).is_some());
    }
}
