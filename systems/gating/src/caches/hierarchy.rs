//! The caches of all cores: where a reference is answered, and what goes back to memory for it.

use ebb_memtrace::Kind;
use ebb_scenario::{Described, Invalid};
use serde::Deserialize;

use super::cache::{Cache, CacheShape, Found};
use super::prefetch::Strides;

/// Private first and second levels, a shared third (Table 2.3).
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSettings {
    /// The first level of data, in each core.
    pub l1: CacheShape,
    /// The first level of instructions, in each core.
    pub l1i: CacheShape,
    /// The second level, in each core.
    pub l2: CacheShape,
    /// The third level, shared.
    pub l3: CacheShape,
    /// Whether what leaves the third level leaves the others too.
    pub inclusive: bool,
    /// Lines that a stride prefetcher at each second level fetches ahead; 0 for none.
    #[schema(most = 16)]
    pub prefetch: u32,
}

impl Default for CacheSettings {
    fn default() -> CacheSettings {
        let l1 = CacheShape { kib: 32, ways: 8, ns: 0.5 };
        CacheSettings {
            l1,
            l1i: l1,
            l2: CacheShape { kib: 256, ways: 8, ns: 4.0 },
            l3: CacheShape { kib: 8192, ways: 16, ns: 13.0 },
            inclusive: false,
            prefetch: 0,
        }
    }
}

impl CacheSettings {
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.l1.check("caches.l1")?;
        self.l1i.check("caches.l1i")?;
        self.l2.check("caches.l2")?;
        self.l3.check("caches.l3")
    }
}

/// Who answers a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The core's own first level.
    L1,
    /// Its second.
    L2,
    /// The shared third.
    L3,
    /// None of them.
    Memory,
}

/// References by where they were answered, and lines written back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Answered by L1, L2, L3, memory.
    pub answered: [u64; 4],
    /// Lines written to memory.
    pub written_back: u64,
    /// Lines fetched ahead from memory.
    pub prefetched: u64,
}

struct Private {
    l1: Cache,
    l1i: Cache,
    l2: Cache,
    strides: Strides,
}

/// All caches of a machine.
pub struct Hierarchy {
    private: Vec<Private>,
    l3: Cache,
    inclusive: bool,
    prefetch: u32,
    counts: CacheCounts,
    /// Lines that go back to memory for the reference at hand.
    written: Vec<u64>,
    /// Lines that the prefetcher fetches from memory after it.
    fetched: Vec<u64>,
}

impl Hierarchy {
    /// Empty caches.
    pub fn new(settings: &CacheSettings, cores: usize) -> Hierarchy {
        let private = || Private {
            l1: Cache::new(&settings.l1),
            l1i: Cache::new(&settings.l1i),
            l2: Cache::new(&settings.l2),
            strides: Strides::default(),
        };
        Hierarchy {
            private: (0..cores).map(|_| private()).collect(),
            l3: Cache::new(&settings.l3),
            inclusive: settings.inclusive,
            prefetch: settings.prefetch,
            counts: CacheCounts::default(),
            written: Vec::new(),
            fetched: Vec::new(),
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Forgets what was counted, and what is to be written; the caches keep what they hold.
    pub fn start_over(&mut self) {
        self.counts = CacheCounts::default();
        self.written.clear();
        self.fetched.clear();
    }

    /// Lines to write to memory since they were last taken.
    pub fn take_written(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.written.drain(..)
    }

    /// Lines to read from memory ahead, since they were last taken.
    pub fn take_fetched(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.fetched.drain(..)
    }

    /// Whether there are such lines.
    pub fn has_traffic(&self) -> bool {
        !self.written.is_empty() || !self.fetched.is_empty()
    }

    /// Whether a line that is in a private cache is in the shared one, too.
    pub fn is_included(&self, line: u64) -> bool {
        let own = |own: &Private| own.l1.holds(line) || own.l1i.holds(line) || own.l2.holds(line);
        self.l3.holds(line) || !self.private.iter().any(own)
    }

    /// A reference of `core` to `line`.
    #[inline]
    pub fn access(&mut self, core: usize, line: u64, kind: Kind) -> Level {
        let own = &mut self.private[core];
        let l1 = if kind == Kind::Fetch { &mut own.l1i } else { &mut own.l1 };
        let victim = match l1.access(line, kind == Kind::Write) {
            Found::Hit => {
                self.counts.answered[0] += 1;
                return Level::L1;
            }
            Found::Miss(victim) => victim,
        };
        let level = self.below(core, line, victim);
        self.counts.answered[level as usize] += 1;
        level
    }

    /// After a miss of the first level, whose victim may be dirty.
    fn below(&mut self, core: usize, line: u64, victim: Option<(u64, bool)>) -> Level {
        if let Some((dirty, true)) = victim {
            self.dirty_to_second(core, dirty);
        }
        let ahead = if self.prefetch > 0 {
            self.private[core].strides.next(line, self.prefetch)
        } else {
            None
        };
        let level = match self.private[core].l2.access(line, false) {
            Found::Hit => Level::L2,
            Found::Miss(victim) => {
                self.leaves_second(victim);
                self.third(line)
            }
        };
        if let Some(ahead) = ahead {
            for line in ahead {
                self.fetch_ahead(core, line);
            }
        }
        level
    }

    fn third(&mut self, line: u64) -> Level {
        match self.l3.access(line, false) {
            Found::Hit => Level::L3,
            Found::Miss(victim) => {
                self.leaves_third(victim);
                Level::Memory
            }
        }
    }

    fn dirty_to_second(&mut self, core: usize, line: u64) {
        if let Found::Miss(victim) = self.private[core].l2.access(line, true) {
            self.leaves_second(victim);
        }
    }

    fn leaves_second(&mut self, victim: Option<(u64, bool)>) {
        let Some((line, true)) = victim else { return };
        if let Found::Miss(victim) = self.l3.access(line, true) {
            self.leaves_third(victim);
        }
    }

    fn leaves_third(&mut self, victim: Option<(u64, bool)>) {
        let Some((line, mut dirty)) = victim else { return };
        if self.inclusive {
            for own in &mut self.private {
                for cache in [&mut own.l1, &mut own.l1i, &mut own.l2] {
                    dirty |= cache.remove(line).unwrap_or(false);
                }
            }
        }
        if dirty {
            self.counts.written_back += 1;
            self.written.push(line);
        }
    }

    fn fetch_ahead(&mut self, core: usize, line: u64) {
        if self.private[core].l2.holds(line) {
            return;
        }
        if let Found::Miss(victim) = self.private[core].l2.access(line, false) {
            self.leaves_second(victim);
        }
        if self.third(line) == Level::Memory {
            self.counts.prefetched += 1;
            self.fetched.push(line);
        }
    }
}
