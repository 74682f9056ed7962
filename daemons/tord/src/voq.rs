//! Virtual output queues: one per destination rack, so that what waits for a circuit holds up
//! nobody else. In each, what came by one interface and from one source keeps its order; interfaces take turns by bytes, and
//! so do the sources of each (deficit round robin, Shreedhar and Varghese 1995); who has most there loses where it is full.

use std::collections::VecDeque;

use ebb_graph::{Batch, Packet};

/// Bytes of a frame on the link beside those in memory: preamble, check sequence, gap.
pub const FRAMING: u64 = 24;
/// Bytes that whoever has the turn may send: a usual packet.
const QUANTUM: u64 = 1_514 + FRAMING;
/// Lines into which the sources of an interface are dealt.
const LINES: usize = 16;
/// Where a packet begins in its frame, behind its EtherType.
const IP: usize = 14;

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

/// Frames of some sources of one interface, in the order in which they came.
#[derive(Debug, Default)]
struct Line {
    frames: VecDeque<Packet>,
    bytes: u64,
}

impl Line {
    fn first(&self) -> u64 {
        self.frames.front().map_or(0, wire_len)
    }
}

/// What came by one interface.
#[derive(Debug, Default)]
struct Input {
    lines: [Line; LINES],
    turns: Turns,
    bytes: u64,
}

impl Input {
    fn next(&mut self) -> Option<usize> {
        let lines = &self.lines;
        self.turns.next(|line| lines[line].first())
    }

    fn first(&mut self) -> u64 {
        self.next().map_or(0, |line| self.lines[line].first())
    }

    fn put(&mut self, line: usize, packet: Packet, at_front: bool) {
        let (len, of) = (wire_len(&packet), &mut self.lines[line]);
        if of.frames.is_empty() {
            self.turns.join(line);
        }
        match at_front {
            true => of.frames.push_front(packet),
            false => of.frames.push_back(packet),
        }
        of.bytes += len;
        self.bytes += len;
    }

    fn pop(&mut self) -> Option<Packet> {
        let line = &mut self.lines[self.turns.0.front()?.0];
        let packet = line.frames.pop_front()?;
        let len = wire_len(&packet);
        line.bytes -= len;
        self.bytes -= len;
        self.turns.spend(len, line.frames.is_empty());
        Some(packet)
    }

    /// The line with most.
    fn longest(&self) -> usize {
        (0..LINES).max_by_key(|line| self.lines[*line].bytes).expect("there are lines")
    }

    /// Takes the last frame of a line.
    fn drop_last(&mut self, line: usize) -> Option<Packet> {
        let of = &mut self.lines[line];
        let packet = of.frames.pop_back()?;
        let len = wire_len(&packet);
        of.bytes -= len;
        self.bytes -= len;
        if of.frames.is_empty() {
            self.turns.leave(line);
        }
        Some(packet)
    }
}

/// What waits for one rack.
#[derive(Debug, Default)]
struct Queue {
    /// By the number of the interface.
    inputs: Vec<Input>,
    turns: Turns,
    frames: usize,
}

impl Queue {
    fn put(&mut self, (input, line): (usize, usize), packet: Packet, at_front: bool) {
        if self.inputs.len() <= input {
            self.inputs.resize_with(input + 1, Input::default);
        }
        if self.inputs[input].bytes == 0 {
            self.turns.join(input);
        }
        self.inputs[input].put(line, packet, at_front);
        self.frames += 1;
    }

    fn next(&mut self) -> Option<usize> {
        let inputs = &mut self.inputs;
        self.turns.next(|input| inputs[input].first())
    }

    fn pop(&mut self) -> Option<Packet> {
        let input = self.next()?;
        let input = &mut self.inputs[input];
        input.next()?;
        let packet = input.pop()?;
        self.turns.spend(wire_len(&packet), input.bytes == 0);
        self.frames -= 1;
        Some(packet)
    }

    /// Where most waits.
    fn longest(&self) -> Option<(usize, usize)> {
        let input = (0..self.inputs.len()).max_by_key(|input| self.inputs[*input].bytes)?;
        Some((input, self.inputs[input].longest()))
    }

    fn drop_last(&mut self, (input, line): (usize, usize)) -> Option<Packet> {
        let packet = self.inputs[input].drop_last(line)?;
        if self.inputs[input].bytes == 0 {
            self.turns.leave(input);
        }
        self.frames -= 1;
        Some(packet)
    }
}

/// The queues of a rack.
#[derive(Debug)]
pub struct Voqs {
    queues: Vec<Queue>,
    bytes: Vec<u64>,
    limit: u64,
    mark: u64,
    seed: u64,
}

impl Voqs {
    /// One queue for each of `racks`, each for `limit` bytes; it is long from `mark` on. By the seed, which nobody is to
    /// know, sources share lines.
    pub fn new(racks: usize, limit: u64, mark: u64, seed: u64) -> Voqs {
        let queues = (0..racks).map(|_| Queue::default()).collect();
        Voqs { queues, bytes: vec![0; racks], limit, mark, seed }
    }

    /// Whether a queue is so long that whoever sent this packet is to slow down: those are not by whose interface no
    /// more waits than were it alone to keep the queue short.
    pub fn is_long(&self, to: usize, packet: &Packet) -> bool {
        let queue = &self.queues[to];
        let own = queue.inputs.get(usize::from(packet.input.0)).map_or(0, |input| input.bytes);
        let share = self.mark / queue.turns.0.len().max(1) as u64;
        self.bytes[to] > self.mark && own > share
    }

    /// Appends a frame. Where the queue is full, the last frames are given to `dropped` of who has most there.
    pub fn push(&mut self, to: usize, packet: Packet, dropped: &mut Batch) {
        let (place, len) = (self.place(&packet), wire_len(&packet));
        if len > self.limit {
            return dropped.push(packet);
        }
        self.queues[to].put(place, packet, false);
        self.bytes[to] += len;
        while self.bytes[to] > self.limit {
            let queue = &mut self.queues[to];
            let last = queue.longest().and_then(|place| queue.drop_last(place));
            let last = last.expect("the queue is not empty");
            self.bytes[to] -= wire_len(&last);
            dropped.push(last);
        }
    }

    /// What the first frame takes of the link.
    pub fn first(&mut self, to: usize) -> Option<u64> {
        let queue = &mut self.queues[to];
        queue.next().map(|input| queue.inputs[input].first())
    }

    /// Whether something waits for a rack.
    pub fn waits(&self, to: usize) -> bool {
        self.bytes[to] > 0
    }

    /// Takes the first frame.
    pub fn pop(&mut self, to: usize) -> Option<Packet> {
        let packet = self.queues[to].pop()?;
        self.bytes[to] -= wire_len(&packet);
        Some(packet)
    }

    /// Puts a frame back where it was among those of its source, whatever the limit: it was let in before.
    pub fn put_back(&mut self, to: usize, packet: Packet) {
        let place = self.place(&packet);
        self.bytes[to] += wire_len(&packet);
        self.queues[to].put(place, packet, true);
    }

    /// By which interface a packet came, and the line of its source.
    fn place(&self, packet: &Packet) -> (usize, usize) {
        let data = packet.data();
        let source = match data.get(IP - 2..IP) {
            Some([0x86, 0xdd]) => data.get(IP + 8..IP + 24),
            _ => data.get(IP + 12..IP + 16),
        };
        let words = source.unwrap_or_default().chunks_exact(4);
        let mixed = words.fold(self.seed, |mixed, word| {
            let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
            (mixed.rotate_left(32) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        (usize::from(packet.input.0), (mixed >> 32) as usize % LINES)
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
        self.queues.iter().map(|queue| queue.frames).sum()
    }
}

#[cfg(test)]
mod tests;
