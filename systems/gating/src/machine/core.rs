//! One core: runs instructions at its pace until a read that is not answered holds it up.
//!
//! An out-of-order core begins up to a window of instructions behind the oldest unanswered read; an
//! in-order core up to the first use of what was read. Misses under way are limited by MSHRs. Only
//! when one of the two is full does the core stall: overlapping misses cost one stall.

use std::collections::VecDeque;

use crate::memory::{Answer, Ps, ps};
use crate::settings::CoreSettings;
use crate::stall::Token;

/// Reads remembered for those that depend on them.
const REMEMBERED: usize = 256;

/// Intervals of a core told apart, at most.
const EPOCHS_MAX: usize = 1 << 16;

/// A miss of the first level that is under way, or whose turn to be forgotten has not come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    pub(super) number: u64,
    /// Instructions before it.
    pub(super) index: u64,
    pub(super) line: u64,
    /// Time from its start to its answer if a cache answers.
    pub(super) latency: Ps,
    /// Time from its start to what would be the answer of the second cache.
    pub(super) second: Ps,
    pub(super) memory: bool,
    /// The miss that tells its address, and must be answered before it can start.
    pub(super) producer: Option<u64>,
    /// When the last cache knew that it misses.
    pub(super) missed: Option<Ps>,
    /// What the controller said: when a bank admitted it, and the bound.
    pub(super) told: Option<(Ps, Ps)>,
    /// The same said once more when it was decided on.
    pub(super) decided: Option<(Ps, Ps)>,
    pub(super) done: Option<Ps>,
}

impl Miss {
    #[inline]
    fn open(&self, now: Ps) -> bool {
        self.done.is_none_or(|done| done > now)
    }
}

/// The last reads: when each was answered, or which miss it waits for.
#[derive(Clone, Copy)]
enum Read {
    Done(Ps),
    Miss(u64),
}

/// What a core did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts {
    /// Instructions.
    pub instructions: u64,
    /// References.
    pub references: u64,
    /// Time, ps.
    pub time: Ps,
    /// Part of it in which nothing could go on, ps.
    pub stalled: Ps,
    /// How often that began.
    pub stalls: u64,
    /// How many of these memory ended.
    pub memory_stalls: u64,
    /// Reads that memory answered.
    pub memory_reads: u64,
    /// Sum of their latencies, from the core and back, ps.
    pub memory_latency: u64,
}

/// An interval of a given number of instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Time it took, ps.
    pub time: Ps,
    /// Stalled part of it, ps.
    pub stalled: Ps,
}

impl Epoch {
    /// All of them as one.
    pub fn all(epochs: &[Epoch]) -> Epoch {
        let sum = |of: fn(&Epoch) -> Ps| epochs.iter().map(of).sum();
        Epoch { time: sum(|epoch| epoch.time), stalled: sum(|epoch| epoch.stalled) }
    }
}

pub(super) struct Core {
    fs_per_instruction: u64,
    window_size: u64,
    mshrs: usize,
    pub(super) now: Ps,
    fraction: u64,
    index: u64,
    /// Reads that are not answered, and those after them, oldest first.
    window: VecDeque<Miss>,
    /// Writes that are not answered.
    stores: Vec<Miss>,
    next: u64,
    reads: [Read; REMEMBERED],
    read: usize,
    /// A fetch that must be answered before anything goes on.
    fetch: Option<u64>,
    pub(super) counts: CoreCounts,
    epoch: u64,
    epoch_end: u64,
    epoch_start: (Ps, Ps),
    pub(super) epochs: Vec<Epoch>,
}

/// Why a core cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Until this time, by the miss of this number.
    Until(Ps, u64),
    /// By a miss that memory has not decided on.
    Unknown,
}

impl Core {
    pub(super) fn new(settings: &CoreSettings, epoch: u64) -> Core {
        Core {
            fs_per_instruction: (settings.cpi / settings.ghz * 1e6).round() as u64,
            window_size: settings.window,
            mshrs: settings.mshrs,
            now: 0,
            fraction: 0,
            index: 0,
            window: VecDeque::with_capacity(128),
            stores: Vec::with_capacity(32),
            next: 0,
            reads: [Read::Done(0); REMEMBERED],
            read: 0,
            fetch: None,
            counts: CoreCounts::default(),
            epoch,
            epoch_end: epoch,
            epoch_start: (0, 0),
            epochs: Vec::new(),
        }
    }

    /// The index after `instructions` more.
    pub(super) fn target(&self, instructions: u32) -> u64 {
        self.index + u64::from(instructions)
    }

    #[inline]
    fn run_to(&mut self, index: u64) {
        self.fraction += (index - self.index) * self.fs_per_instruction;
        self.now += self.fraction / 1000;
        self.fraction %= 1000;
        self.index = index;
        if index >= self.epoch_end {
            self.end_epoch();
        }
    }

    pub(super) fn end_epoch(&mut self) {
        let (time, stalled) = self.epoch_start;
        let epoch = Epoch { time: self.now - time, stalled: self.counts.stalled - stalled };
        self.epochs.push(epoch);
        // However long a trace is, its intervals take no more memory: they become longer instead. They
        // are counted in instructions, so they do so alike at every clock.
        if self.epochs.len() == EPOCHS_MAX {
            self.epochs = self.epochs.chunks(2).map(Epoch::all).collect();
            self.epoch *= 2;
        }
        self.epoch_start = (self.now, self.counts.stalled);
        self.epoch_end = self.index + self.epoch;
    }

    /// Runs to `target`, or to where it is held.
    #[inline]
    pub(super) fn advance(&mut self, target: u64) -> Result<(), Held> {
        if let Some(number) = self.fetch {
            if let Some(miss) = self.find(number) {
                let miss = *miss;
                match miss.done {
                    None => return Err(Held::Unknown),
                    Some(done) if done > self.now => return Err(Held::Until(done, number)),
                    Some(_) => {}
                }
            }
            self.fetch = None;
        }
        while let Some(front) = self.window.front() {
            let limit = front.index + self.window_size;
            if limit > target {
                break;
            }
            let (done, number) = (front.done, front.number);
            if limit > self.index {
                self.run_to(limit);
            }
            match done {
                None => return Err(Held::Unknown),
                Some(done) if done > self.now => return Err(Held::Until(done, number)),
                Some(_) => self.window.pop_front(),
            };
        }
        self.run_to(target);
        Ok(())
    }

    /// Whether one more miss can be under way.
    pub(super) fn room(&mut self) -> Result<(), Held> {
        if self.window.len() + self.stores.len() < self.mshrs {
            return Ok(());
        }
        let now = self.now;
        while self.window.front().is_some_and(|miss| !miss.open(now)) {
            self.window.pop_front();
        }
        self.stores.retain(|miss| miss.open(now));
        let open = self.window.iter().chain(&self.stores).filter(|miss| miss.open(now));
        if open.clone().count() < self.mshrs {
            return Ok(());
        }
        let first = open.filter_map(|miss| Some((miss.done?, miss.number))).min();
        Err(first.map_or(Held::Unknown, |(done, number)| Held::Until(done, number)))
    }

    /// The open miss of a line that the first level holds already because it was asked for.
    #[inline]
    pub(super) fn open_miss(&self, line: u64) -> Option<u64> {
        if self.window.is_empty() && self.stores.is_empty() {
            return None;
        }
        let all = self.window.iter().chain(&self.stores);
        let mut same = all.filter(|miss| miss.line == line && miss.open(self.now));
        same.next().map(|miss| miss.number)
    }

    fn find(&self, number: u64) -> Option<&Miss> {
        let all = self.window.iter().chain(&self.stores);
        all.into_iter().find(|miss| miss.number == number)
    }

    /// Which unanswered miss the `after`th last read was, or when it was answered.
    pub(super) fn producer(&self, after: u16) -> Result<Ps, u64> {
        let after = usize::from(after);
        if after == 0 || after > REMEMBERED {
            return Ok(0);
        }
        match self.reads[(self.read + REMEMBERED - after) % REMEMBERED] {
            Read::Done(done) => Ok(done),
            Read::Miss(number) => match self.find(number) {
                None => Ok(0),
                Some(miss) => miss.done.ok_or(number),
            },
        }
    }

    /// A read that the first level answered at once.
    #[inline]
    pub(super) fn quick_read(&mut self, waits: Option<u64>) {
        self.reads[self.read] = waits.map_or(Read::Done(self.now), Read::Miss);
        self.read = (self.read + 1) % REMEMBERED;
    }

    /// Adds a miss; its number.
    pub(super) fn add(&mut self, mut miss: Miss, read: bool, fetch: bool) -> u64 {
        self.next += 1;
        (miss.number, miss.index) = (self.next, self.index);
        if read || fetch {
            self.window.push_back(miss);
        } else {
            self.stores.push(miss);
        }
        if read {
            self.reads[self.read] = Read::Miss(miss.number);
            self.read = (self.read + 1) % REMEMBERED;
        }
        if fetch {
            self.fetch = Some(miss.number);
        }
        miss.number
    }

    /// Memory decided on a miss; tokens take the first of the two times back, data the second. Misses whose address it tells can start: they are handed to `start`
    /// with their time, those that caches answer are answered.
    pub(super) fn answered(
        &mut self,
        answer: &Answer,
        (back, data): (Ps, Ps),
        mut start: impl FnMut(u64, u64, Ps),
    ) {
        let number = answer.id & ((1 << 48) - 1);
        let all = self.window.iter_mut().chain(&mut self.stores);
        let Some(miss) = all.into_iter().find(|miss| miss.number == number) else { return };
        let done = answer.done + data;
        miss.done = Some(done);
        miss.told = Some((answer.told + back, answer.bound + data));
        miss.decided = Some((answer.decided + back, answer.least + data));
        self.counts.memory_reads += 1;
        let began = miss.missed.unwrap_or(answer.at) - miss.latency;
        self.counts.memory_latency += done - began;
        self.release(number, done, &mut start);
    }

    fn release(&mut self, number: u64, done: Ps, start: &mut impl FnMut(u64, u64, Ps)) {
        let mut freed: Vec<(u64, Ps)> = Vec::new();
        for miss in self.window.iter_mut().chain(&mut self.stores) {
            if miss.producer != Some(number) || miss.done.is_some() || miss.missed.is_some() {
                continue;
            }
            let answer = done + miss.latency;
            if miss.memory {
                miss.missed = Some(answer);
                start(miss.number, miss.line, answer);
            } else {
                miss.done = Some(answer);
                freed.push((miss.number, answer));
            }
        }
        for (number, done) in freed {
            self.release(number, done, start);
        }
    }

    /// What can be told of the misses that are open while the core stalls for that of number
    /// `blocking`.
    pub(super) fn tokens(&self, blocking: u64, into: &mut Vec<Token>) {
        into.clear();
        for miss in self.window.iter().chain(&self.stores) {
            if !miss.open(self.now) {
                continue;
            }
            // Misses that wait for the address have not started.
            let Some(answer) = miss.missed.or(miss.done) else { continue };
            into.push(Token {
                hints: {
                    let start = answer.saturating_sub(miss.latency);
                    [(start, start + miss.second), (start + miss.second, answer)]
                },
                missed: miss.missed,
                told: miss.told,
                decided: miss.decided,
                answered: miss.done,
                blocking: miss.number == blocking,
            });
        }
    }

    /// Goes on at `until`, with the answer of miss `blocking`.
    pub(super) fn resume(&mut self, until: Ps, late: Ps, blocking: u64) {
        let memory = self.find(blocking).is_some_and(|miss| miss.memory);
        self.counts.memory_stalls += u64::from(memory);
        self.counts.stalled += until - self.now;
        self.counts.stalls += 1;
        self.now = until + late;
    }

    pub(super) fn instructions(&self) -> u64 {
        self.index
    }

    /// The last thing it waits for once its trace has ended.
    pub(super) fn drain(&mut self) -> Result<(), Held> {
        while let Some(front) = self.window.front() {
            match front.done {
                None => return Err(Held::Unknown),
                Some(done) if done > self.now => return Err(Held::Until(done, front.number)),
                Some(_) => self.window.pop_front(),
            };
        }
        Ok(())
    }
}

/// Nanoseconds of a cache on the way, as picoseconds from the core.
pub(super) fn latencies(caches: &super::CacheSettings) -> [Ps; 3] {
    let (l1, l2, l3) = (caches.l1.ns, caches.l2.ns, caches.l3.ns);
    [ps(l1), ps(l1 + l2), ps(l1 + l2 + l3)]
}
