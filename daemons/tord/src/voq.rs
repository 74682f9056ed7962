//! Virtual output queues: one per destination rack, so that what waits for a circuit holds up
//! nobody else.

use std::collections::VecDeque;

use ebb_graph::Packet;

/// Bytes of a frame on the link beside those in memory: preamble, check sequence, gap.
pub const FRAMING: u64 = 24;

/// What a frame takes of the link.
pub fn wire_len(packet: &Packet) -> u64 {
    packet.len() as u64 + FRAMING
}

/// The queues of a rack.
#[derive(Debug)]
pub struct Voqs {
    queues: Vec<VecDeque<Packet>>,
    bytes: Vec<u64>,
    limit: u64,
    mark: u64,
}

impl Voqs {
    /// One queue for each of `racks`, each for `limit` bytes; it is long from `mark` on.
    pub fn new(racks: usize, limit: u64, mark: u64) -> Voqs {
        let queues = (0..racks).map(|_| VecDeque::new()).collect();
        Voqs { queues, bytes: vec![0; racks], limit, mark }
    }

    /// Whether a queue is so long that senders are to slow down.
    pub fn is_long(&self, to: usize) -> bool {
        self.bytes[to] > self.mark
    }

    /// Appends a frame, or gives it back where the queue is full.
    ///
    /// # Errors
    /// The frame itself.
    pub fn push(&mut self, to: usize, packet: Packet) -> Result<(), Packet> {
        let len = wire_len(&packet);
        if self.bytes[to] + len > self.limit {
            return Err(packet);
        }
        self.bytes[to] += len;
        self.queues[to].push_back(packet);
        Ok(())
    }

    /// What the first frame takes of the link.
    pub fn first(&self, to: usize) -> Option<u64> {
        self.queues[to].front().map(wire_len)
    }

    /// Takes the first frame.
    pub fn pop(&mut self, to: usize) -> Option<Packet> {
        let packet = self.queues[to].pop_front()?;
        self.bytes[to] -= wire_len(&packet);
        Some(packet)
    }

    /// Puts a frame back where it was, whatever the limit: it was let in before.
    pub fn put_back(&mut self, to: usize, packet: Packet) {
        self.bytes[to] += wire_len(&packet);
        self.queues[to].push_front(packet);
    }

    /// Bytes that wait, by destination.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// Changes how much a queue takes and from where on it is long; what waits stays.
    pub fn set_limits(&mut self, limit: u64, mark: u64) {
        (self.limit, self.mark) = (limit, mark);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes.iter().all(|bytes| *bytes == 0)
    }

    /// Frames that wait.
    pub fn frames(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_graph::Pool;

    #[test]
    fn frames_keep_their_order_when_some_come_back() {
        let mut pool = Pool::standalone(16);
        let mut voqs = Voqs::new(3, 1000, 500);
        for number in 0..5u8 {
            voqs.push(1, pool.get().expect("a frame").fill(&[number; 60])).expect("room");
        }
        let first = voqs.pop(1).expect("five");
        let second = voqs.pop(1).expect("four");
        voqs.put_back(1, second);
        voqs.put_back(1, first);
        let order: Vec<u8> = std::iter::from_fn(|| voqs.pop(1)).map(|p| p.data()[0]).collect();
        assert_eq!(order, [0, 1, 2, 3, 4]);
        assert!(voqs.is_empty());
        let long = pool.get().expect("a frame").fill(&[0; 980]);
        assert!(voqs.push(2, long).is_err(), "980 and the framing are more than 1,000");
    }
}
