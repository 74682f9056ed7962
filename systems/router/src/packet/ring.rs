//! A core's receive queue.

use crate::machine::Picos;

/// A packet that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) at: Picos,
    pub(super) flow: u32,
    pub(super) bytes: u16,
}

/// First in, first out, as many as it holds.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    slots: Vec<Waiting>,
    head: u32,
    len: u32,
    limit: u32,
}

impl Ring {
    pub(super) fn new(limit: u32) -> Ring {
        let slots = vec![Waiting::default(); limit.next_power_of_two() as usize];
        Ring { slots, head: 0, len: 0, limit }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a packet; `false` when the ring is full.
    #[inline]
    pub(super) fn push(&mut self, packet: Waiting) -> bool {
        if self.len >= self.limit {
            return false;
        }
        let mask = self.slots.len() - 1;
        self.slots[self.head.wrapping_add(self.len) as usize & mask] = packet;
        self.len += 1;
        true
    }

    /// Takes the first packet.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub(super) fn pop(&mut self) -> Waiting {
        assert!(self.len > 0, "a packet waits");
        let mask = self.slots.len() - 1;
        let packet = self.slots[self.head as usize & mask];
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        packet
    }
}
