//! Packets, as records of a pool that queues chain together.

use super::wiring::NONE;

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Token,
    Control,
}

/// A packet. Control packets name a message as their source and an end as their target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) next: u32,
    pub(super) source: u32,
    pub(super) target: u32,
    pub(super) sequence: u32,
    pub(super) born: u64,
    pub(super) entered: u64,
    pub(super) ready: u64,
    /// When the last byte is where the first one is now.
    pub(super) tail: u64,
    pub(super) bytes: u16,
    pub(super) units: u16,
    pub(super) hops: u16,
    pub(super) level: u8,
    /// Which of its target's addresses it carries.
    pub(super) path: u8,
    pub(super) epoch: u8,
    pub(super) kind: Kind,
}

/// All packets on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    packets: Vec<Packet>,
    free: Vec<u32>,
}

impl Pool {
    pub(super) fn put(&mut self, packet: Packet) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.packets[index as usize] = packet;
                index
            }
            None => {
                self.packets.push(packet);
                self.packets.len() as u32 - 1
            }
        }
    }

    pub(super) fn take(&mut self, index: u32) -> Packet {
        self.free.push(index);
        self.packets[index as usize]
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Packet {
        &self.packets[index as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Packet {
        &mut self.packets[index as usize]
    }

    pub(super) fn alive(&self) -> usize {
        self.packets.len() - self.free.len()
    }
}

/// A first-in-first-out chain of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) head: u32,
    tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(super) fn push(&mut self, pool: &mut Pool, index: u32) {
        pool.get_mut(index).next = NONE;
        if self.head == NONE {
            self.head = index;
        } else {
            pool.get_mut(self.tail).next = index;
        }
        self.tail = index;
    }

    #[inline]
    pub(super) fn pop(&mut self, pool: &Pool) -> u32 {
        let index = self.head;
        self.head = pool.get(index).next;
        index
    }

    pub(super) fn iter(self, pool: &Pool) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let index = at;
            (index != NONE).then(|| at = pool.get(index).next)?;
            Some(index)
        })
    }
}
