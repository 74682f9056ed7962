//! Virtual output queues: one per destination rack, so that what waits for a circuit holds up
//! nobody else. In each, a flow keeps its order; interfaces take turns by bytes, so do the sources of each, and so do the flows
//! of each source (deficit round robin, Shreedhar and Varghese 1995): the acknowledgements of a host do not wait behind
//! all that it sends itself. Who has most loses where a queue is full.

use std::collections::VecDeque;
use std::net::IpAddr;

use ebb_graph::{Batch, Packet};
use ebb_wire::Flow;

/// Bytes of a frame on the link beside those in memory: preamble, check sequence, gap.
pub const FRAMING: u64 = 24;
/// Bytes that whoever has the turn may send: a usual packet.
const QUANTUM: u64 = 1_514 + FRAMING;
/// Lots into which the sources of an interface are dealt.
const SOURCES: usize = 16;
/// And lines into which the flows of those are.
const FLOWS: usize = 8;
/// Length of an Ethernet header.
const LINK: usize = 14;

/// What a frame takes of the link.
pub fn wire_len(packet: &Packet) -> u64 {
    packet.len() as u64 + FRAMING
}

/// Who has the turn among those for whom something waits.
#[derive(Debug, Default)]
struct Turns(VecDeque<(usize, u64)>);

impl Turns {
    /// Something waits for one for whom nothing did.
    fn join(&mut self, who: usize) {
        self.0.push_back((who, 0));
    }

    /// Whose turn it is; `first` says what the first frame of somebody takes.
    fn next(&mut self, mut first: impl FnMut(usize) -> u64) -> Option<usize> {
        loop {
            let (who, left) = self.0.front_mut()?;
            if *left >= first(*who) {
                return Some(*who);
            }
            *left += QUANTUM;
            self.0.rotate_left(1);
        }
    }

    /// Who has the turn has sent so much, and has nothing more where it is `empty`.
    fn spend(&mut self, len: u64, empty: bool) {
        match self.0.front_mut() {
            Some(_) if empty => _ = self.0.pop_front(),
            Some((_, left)) => *left -= len,
            None => {}
        }
    }

    fn leave(&mut self, who: usize) {
        self.0.retain(|(other, _)| *other != who);
    }
}

/// What waits somewhere, and leaves by turns. Where in it a packet belongs is a path: a number for each level below.
trait Waiting: Default {
    /// Bytes that wait.
    fn bytes(&self) -> u64;
    /// What the frame that has the turn takes of the link, 0 for none.
    fn first(&mut self) -> u64;
    fn put(&mut self, place: &[usize], packet: Packet, at_front: bool);
    /// Takes the frame that has the turn.
    fn pop(&mut self) -> Option<Packet>;
    /// Takes the last frame of whoever has most, at each level.
    fn drop_last(&mut self) -> Option<Packet>;
}

/// Frames in the order in which they came.
#[derive(Debug, Default)]
struct Line {
    frames: VecDeque<Packet>,
    bytes: u64,
}

impl Line {
    fn taken(&mut self, packet: Option<Packet>) -> Option<Packet> {
        self.bytes -= packet.as_ref().map_or(0, wire_len);
        packet
    }
}

impl Waiting for Line {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn first(&mut self) -> u64 {
        self.frames.front().map_or(0, wire_len)
    }

    fn put(&mut self, _: &[usize], packet: Packet, at_front: bool) {
        self.bytes += wire_len(&packet);
        match at_front {
            true => self.frames.push_front(packet),
            false => self.frames.push_back(packet),
        }
    }

    fn pop(&mut self) -> Option<Packet> {
        let first = self.frames.pop_front();
        self.taken(first)
    }

    fn drop_last(&mut self) -> Option<Packet> {
        let last = self.frames.pop_back();
        self.taken(last)
    }
}

/// Some that take turns.
#[derive(Debug, Default)]
struct Shared<One> {
    /// As many as there were places for.
    of: Vec<One>,
    turns: Turns,
    bytes: u64,
}

impl<One: Waiting> Waiting for Shared<One> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn first(&mut self) -> u64 {
        let of = &mut self.of;
        self.turns.next(|one| of[one].first()).map_or(0, |one| of[one].first())
    }

    fn put(&mut self, place: &[usize], packet: Packet, at_front: bool) {
        let (one, place) = place.split_first().expect("a number for each level");
        if self.of.len() <= *one {
            self.of.resize_with(one + 1, One::default);
        }
        if self.of[*one].bytes() == 0 {
            self.turns.join(*one);
        }
        self.bytes += wire_len(&packet);
        self.of[*one].put(place, packet, at_front);
    }

    fn pop(&mut self) -> Option<Packet> {
        let of = &mut self.of;
        let one = self.turns.next(|one| of[one].first())?;
        let one = &mut of[one];
        let packet = one.pop()?;
        let len = wire_len(&packet);
        self.bytes -= len;
        self.turns.spend(len, one.bytes() == 0);
        Some(packet)
    }

    fn drop_last(&mut self) -> Option<Packet> {
        let most = (0..self.of.len()).max_by_key(|one| self.of[*one].bytes())?;
        let packet = self.of[most].drop_last()?;
        self.bytes -= wire_len(&packet);
        if self.of[most].bytes() == 0 {
            self.turns.leave(most);
        }
        Some(packet)
    }
}

/// What waits for one rack: by interface, source and flow.
type Queue = Shared<Shared<Shared<Line>>>;

/// The queues of a rack.
#[derive(Debug)]
pub struct Voqs {
    queues: Vec<Queue>,
    bytes: Vec<u64>,
    frames: usize,
    limit: u64,
    mark: u64,
    seed: u64,
}

impl Voqs {
    /// One queue for each of `racks`, each for `limit` bytes; it is long from `mark` on. By the seed, which nobody is to
    /// know, sources and flows share lines.
    pub fn new(racks: usize, limit: u64, mark: u64, seed: u64) -> Voqs {
        let queues = (0..racks).map(|_| Queue::default()).collect();
        Voqs { queues, bytes: vec![0; racks], frames: 0, limit, mark, seed }
    }

    /// Whether a queue is so long that whoever sent this packet is to slow down: those are not by whose interface no
    /// more waits than were it alone to keep the queue short.
    pub fn is_long(&self, to: usize, packet: &Packet) -> bool {
        let queue = &self.queues[to];
        let own = queue.of.get(usize::from(packet.input.0)).map_or(0, Waiting::bytes);
        let share = self.mark / queue.turns.0.len().max(1) as u64;
        self.bytes[to] > self.mark && own > share
    }

    /// Appends a frame. Where the queue is full, the last frames are given to `dropped` of who has most there.
    pub fn push(&mut self, to: usize, packet: Packet, dropped: &mut Batch) {
        if wire_len(&packet) > self.limit {
            return dropped.push(packet);
        }
        self.put(to, packet, false);
        while self.bytes[to] > self.limit {
            let last = self.queues[to].drop_last();
            dropped.push(self.taken(to, last).expect("the queue is not empty"));
        }
    }

    /// What the first frame takes of the link.
    pub fn first(&mut self, to: usize) -> Option<u64> {
        self.waits(to).then(|| self.queues[to].first())
    }

    /// Whether something waits for a rack.
    pub fn waits(&self, to: usize) -> bool {
        self.bytes[to] > 0
    }

    /// Takes the first frame.
    pub fn pop(&mut self, to: usize) -> Option<Packet> {
        let first = self.queues[to].pop();
        self.taken(to, first)
    }

    /// Puts a frame back where it was among those of its flow, whatever the limit: it was let in before.
    pub fn put_back(&mut self, to: usize, packet: Packet) {
        self.put(to, packet, true);
    }

    fn put(&mut self, to: usize, packet: Packet, at_front: bool) {
        let place = self.place(&packet);
        self.bytes[to] += wire_len(&packet);
        self.frames += 1;
        self.queues[to].put(&place, packet, at_front);
    }

    fn taken(&mut self, to: usize, packet: Option<Packet>) -> Option<Packet> {
        if let Some(packet) = &packet {
            self.bytes[to] -= wire_len(packet);
            self.frames -= 1;
        }
        packet
    }

    /// By which interface a packet came, and the lines of its source and its flow.
    fn place(&self, packet: &Packet) -> [usize; 3] {
        let flow = Flow::of(packet.data().get(LINK..).unwrap_or_default());
        let mixed = |number: u128| {
            let folded = (number >> 64) as u64 ^ number as u64 ^ self.seed;
            (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
        };
        let source = flow.map_or(0, |flow| match flow.source {
            IpAddr::V4(source) => u128::from(source.to_bits()),
            IpAddr::V6(source) => source.to_bits(),
        });
        let flow = flow.map_or(0, |flow| flow.hash());
        [usize::from(packet.input.0), mixed(source) % SOURCES, mixed(flow.into()) % FLOWS]
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
        self.frames
    }
}

#[cfg(test)]
mod tests;
