//! All cores in turn, whoever is furthest behind first, over one memory.

use ebb_memtrace::{Access, Kind, TraceError};

use super::LINE;
use super::core::{Core, CoreCounts, Epoch, Held, Miss, latencies};
use crate::caches::{CacheCounts, Hierarchy, Level};
use crate::memory::{Answer, ChannelCounts, Memory, Ps, ps};
use crate::settings::MachineSettings;
use crate::stall::{Stall, Stalls, Token};

/// References of one core, some at a time.
pub trait Feed: Send {
    /// Puts the next references into `into`, which is empty; leaves it empty at the end.
    ///
    /// # Errors
    /// When the trace is damaged.
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError>;
}

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// A trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It was told to.
    #[error("interrupted")]
    Stopped,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Each core.
    pub cores: Vec<CoreCounts>,
    /// Each core's intervals.
    pub epochs: Vec<Vec<Epoch>>,
    /// All caches.
    pub caches: CacheCounts,
    /// Each channel.
    pub channels: Vec<ChannelCounts>,
}

/// From the memory controller back to the core, ns: the half of the shortest token (Table 2.3).
const BACK_NS: f64 = 0.5;
/// References of a core between two looks at the watch.
const LOOK: u64 = 1 << 16;
/// Writes and lines fetched ahead have no one who waits.
const NOBODY: u64 = u64::MAX;
/// Stalls shorter than this are too short for every controller, ps.
const SHORT: Ps = 5_000;

/// A machine in the middle of a run.
pub struct Machine<'a> {
    filtered: bool,
    /// References of a filtered trace from here on are answered by the last cache.
    cached_from: u64,
    latencies: [Ps; 3],
    /// From the memory controller to the core: tokens, data.
    back: (Ps, Ps),
    cores: Vec<Core>,
    state: Vec<State>,
    feeds: Vec<Box<dyn Feed + 'a>>,
    caches: Hierarchy,
    memory: Memory,
    answers: Vec<Answer>,
    tokens: Vec<Token>,
    /// The earliest of the cores that an answer let go on since another one's turn began.
    freed: Ps,
    /// Memory says nothing before it has decided: what the counters of banks change.
    #[cfg(test)]
    pub(crate) told_late: bool,
}

/// Where a core is in its trace.
#[derive(Default)]
struct State {
    batch: Vec<Access>,
    at: usize,
    /// The reference at hand: the instruction it ends at, once known.
    target: Option<u64>,
    /// Where the caches found the line at hand, once asked.
    level: Option<Level>,
    /// Lines of the reference that are done.
    line: u64,
    held: bool,
    over: bool,
}

impl<'a> Machine<'a> {
    /// A machine at rest with one trace for each core. Intervals of `epoch` instructions are told
    /// apart.
    pub fn new(
        settings: &MachineSettings,
        feeds: Vec<Box<dyn Feed + 'a>>,
        epoch: u64,
    ) -> Machine<'a> {
        let cores = feeds.len();
        Machine {
            filtered: settings.filtered,
            cached_from: settings.cached_from.unwrap_or(u64::MAX),
            latencies: latencies(&settings.caches),
            back: (ps(BACK_NS), ps(BACK_NS + settings.memory.return_ns)),
            cores: (0..cores).map(|_| Core::new(&settings.core, epoch)).collect(),
            state: (0..cores).map(|_| State::default()).collect(),
            feeds,
            caches: Hierarchy::new(&settings.caches, cores),
            memory: Memory::new(&settings.memory),
            answers: Vec::new(),
            tokens: Vec::new(),
            freed: Ps::MAX,
            #[cfg(test)]
            told_late: false,
        }
    }

    /// The memory, to look at its commands.
    pub fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Lets the first `references` of each core pass through the caches, in turn, without time.
    ///
    /// # Errors
    /// When a trace is damaged.
    pub fn warm(&mut self, references: u64) -> Result<(), MachineError> {
        let mut left = vec![references; self.cores.len()];
        while left.iter().any(|left| *left > 0) {
            for (core, left) in left.iter_mut().enumerate() {
                let state = &mut self.state[core];
                if state.at == state.batch.len() {
                    state.batch.clear();
                    state.at = 0;
                    self.feeds[core].fill(&mut state.batch)?;
                }
                let Some(access) = state.batch.get(state.at).filter(|_| *left > 0) else {
                    *left = 0;
                    continue;
                };
                (state.at, *left) = (state.at + 1, *left - 1);
                let last = access.address.saturating_add(u64::from(access.size) - 1) / LINE;
                for line in access.address / LINE..=last {
                    if !self.filtered {
                        self.caches.access(core, line, access.kind);
                    }
                }
            }
        }
        self.caches.start_over();
        Ok(())
    }

    /// Runs the traces to their ends. `watch` hears how many references are done, now and then, and
    /// says whether to go on.
    ///
    /// # Errors
    /// When a trace is damaged, or the watch ends the run.
    pub fn run(
        &mut self,
        stalls: &mut dyn Stalls,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Outcome, MachineError> {
        let mut looked = 0;
        loop {
            let Some((core, limit)) = self.furthest_behind() else {
                if self.state.iter().all(|state| state.over) {
                    return Ok(self.outcome());
                }
                assert!(self.decide_next(), "a core waits for a read that memory does not have");
                continue;
            };
            self.freed = Ps::MAX;
            self.decide_until(self.cores[core].now + self.latencies[2]);
            if self.freed < Ps::MAX {
                continue;
            }
            let done = self.run_core(core, limit, stalls)?;
            looked += done;
            if looked >= LOOK {
                let all = self.cores.iter().map(|core| core.counts.references).sum();
                looked = 0;
                if !watch(all) {
                    return Err(MachineError::Stopped);
                }
            }
        }
    }

    /// The core that is not held and furthest behind, and how far it may run ahead of the next.
    fn furthest_behind(&self) -> Option<(usize, Ps)> {
        let (mut first, mut second) = (None, Ps::MAX);
        let mut least = Ps::MAX;
        for (index, (core, state)) in self.cores.iter().zip(&self.state).enumerate() {
            if state.held || state.over {
                continue;
            }
            if first.is_none() || core.now < least {
                second = least;
                (first, least) = (Some(index), core.now);
            } else {
                second = second.min(core.now);
            }
        }
        first.map(|first| (first, second))
    }

    /// Lets memory decide what it does before `until`, or until it lets a held core go on.
    fn decide_until(&mut self, until: Ps) {
        while self.freed == Ps::MAX && self.memory.next().is_some_and(|next| next < until) {
            self.decide_next();
        }
    }

    fn decide_next(&mut self) -> bool {
        let any = self.memory.step(&mut self.answers);
        self.deliver();
        any
    }

    fn deliver(&mut self) {
        for answer in self.answers.drain(..) {
            if answer.id == NOBODY {
                continue;
            }
            let core = (answer.id >> 48) as usize;
            #[cfg(test)]
            let answer = if self.told_late {
                Answer { told: answer.decided, bound: answer.least, ..answer }
            } else {
                answer
            };
            let memory = &mut self.memory;
            self.cores[core].answered(&answer, self.back, |number, line, at| {
                memory.submit((core as u64) << 48 | number, line, false, at);
            });
            if std::mem::take(&mut self.state[core].held) {
                self.freed = self.freed.min(self.cores[core].now);
            }
        }
    }

    /// Runs one core until it passes `limit`, is held, or its trace ends; references done.
    fn run_core(
        &mut self,
        core: usize,
        limit: Ps,
        stalls: &mut dyn Stalls,
    ) -> Result<u64, MachineError> {
        let mut done = 0;
        // A core that an answer lets go on meanwhile is not overtaken either: what it asks of memory next may
        // come before what this one would, and memory does not go back.
        while self.cores[core].now <= limit.min(self.freed) && done < LOOK {
            let state = &mut self.state[core];
            if state.at == state.batch.len() {
                state.batch.clear();
                state.at = 0;
                self.feeds[core].fill(&mut state.batch)?;
            }
            let Some(access) = state.batch.get(state.at).copied() else {
                match self.cores[core].drain() {
                    Ok(()) => {
                        self.finish(core);
                        return Ok(done);
                    }
                    Err(held) => {
                        if !self.hold(core, held, stalls) {
                            return Ok(done);
                        }
                        continue;
                    }
                }
            };
            match self.reference(core, &access) {
                Ok(()) => {
                    let state = &mut self.state[core];
                    state.at += 1;
                    state.target = None;
                    self.cores[core].counts.references += 1;
                    done += 1;
                    if self.memory.next().is_some() {
                        self.decide_until(self.cores[core].now.min(limit) + self.latencies[2]);
                    }
                }
                Err(held) => {
                    if !self.hold(core, held, stalls) {
                        return Ok(done);
                    }
                }
            }
        }
        Ok(done)
    }

    fn finish(&mut self, core: usize) {
        let state = &mut self.state[core];
        state.over = true;
        let core = &mut self.cores[core];
        core.end_epoch();
        core.counts.time = core.now;
        core.counts.instructions = core.instructions();
    }

    /// Stalls the core if it is known how long; whether it can go on.
    fn hold(&mut self, core: usize, held: Held, stalls: &mut dyn Stalls) -> bool {
        let Held::Until(until, blocking) = held else {
            self.state[core].held = true;
            return false;
        };
        let from = self.cores[core].now;
        let late = if until - from < SHORT {
            0
        } else {
            if stalls.listens() {
                self.cores[core].tokens(blocking, &mut self.tokens);
            }
            stalls.stalled(core, &Stall { from, until, tokens: &self.tokens })
        };
        self.cores[core].resume(until, late, blocking);
        true
    }

    /// Does the reference, or as much of it as can be.
    #[inline]
    fn reference(&mut self, core: usize, access: &Access) -> Result<(), Held> {
        let own = &mut self.cores[core];
        let first = access.address / LINE;
        let target = match self.state[core].target {
            Some(target) => target,
            None => {
                let target = own.target(access.instructions);
                let state = &mut self.state[core];
                (state.target, state.line, state.level) = (Some(target), first, None);
                target
            }
        };
        own.advance(target)?;
        let last = access.address.saturating_add(u64::from(access.size) - 1) / LINE;
        while self.state[core].line <= last {
            let line = self.state[core].line;
            self.touch(core, line, access)?;
            let state = &mut self.state[core];
            (state.line, state.level) = (line + 1, None);
        }
        Ok(())
    }

    #[inline]
    fn touch(&mut self, core: usize, line: u64, access: &Access) -> Result<(), Held> {
        let read = access.kind == Kind::Read;
        if self.filtered && access.kind == Kind::Write {
            let at = self.cores[core].now;
            self.memory.submit(NOBODY, line, true, at + self.latencies[2]);
            return Ok(());
        }
        let level = match self.state[core].level {
            Some(level) => level,
            None if self.filtered && access.address >= self.cached_from => Level::L3,
            None if self.filtered => Level::Memory,
            None => self.caches.access(core, line, access.kind),
        };
        if level == Level::L1 {
            if read {
                let own = &mut self.cores[core];
                let waits = own.open_miss(line);
                own.quick_read(waits);
            }
            return Ok(());
        }
        self.state[core].level = Some(level);
        self.cores[core].room()?;
        self.miss(core, line, level, access);
        Ok(())
    }

    fn miss(&mut self, core: usize, line: u64, level: Level, access: &Access) {
        let own = &mut self.cores[core];
        let memory = level == Level::Memory;
        let latency = self.latencies[if level == Level::L2 { 1 } else { 2 }];
        let (producer, start) = match own.producer(access.after) {
            Ok(done) => (None, Some(done.max(own.now))),
            Err(number) => (Some(number), None),
        };
        let answered = start.map(|start| start + latency);
        let miss = Miss {
            number: 0,
            index: 0,
            line,
            latency,
            second: self.latencies[1],
            memory,
            producer,
            missed: if memory { answered } else { None },
            told: None,
            decided: None,
            done: if memory { None } else { answered },
        };
        let number = own.add(miss, access.kind == Kind::Read, access.kind == Kind::Fetch);
        if let (true, Some(at)) = (memory, answered) {
            self.memory.submit((core as u64) << 48 | number, line, false, at);
        }
        if self.caches.has_traffic() {
            // What leaves the last cache does so when the last cache is reached.
            let at = answered.unwrap_or(0).max(own.now + self.latencies[2]);
            for line in self.caches.take_written() {
                self.memory.submit(NOBODY, line, true, at);
            }
            for line in self.caches.take_fetched() {
                self.memory.submit(NOBODY, line, false, at);
            }
        }
    }

    fn outcome(&mut self) -> Outcome {
        Outcome {
            cores: self.cores.iter().map(|core| core.counts).collect(),
            epochs: self.cores.iter_mut().map(|core| std::mem::take(&mut core.epochs)).collect(),
            caches: self.caches.counts(),
            channels: self.memory.counts().collect(),
        }
    }
}
