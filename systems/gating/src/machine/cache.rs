//! One cache: sets of lines, the least recently used goes first.

use ebb_scenario::Invalid;
use serde::Deserialize;

/// Bytes of a line, everywhere.
pub const LINE: u64 = 64;
const EMPTY: u64 = u64::MAX;

/// How large a cache is, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheShape {
    /// Capacity, KiB.
    pub kib: u64,
    /// Lines a set.
    pub ways: usize,
    /// From the cache above it to its answer, ns.
    #[serde(default)]
    pub ns: f64,
}

impl CacheShape {
    /// Sets.
    pub fn sets(&self) -> usize {
        (self.kib * 1024 / LINE) as usize / self.ways.max(1)
    }

    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// The field at fault.
    pub fn check(&self, field: &str) -> Result<(), Invalid> {
        let sets = self.sets();
        let fits = self.ways > 0
            && self.ways <= 64
            && sets.is_power_of_two()
            && (sets * self.ways) as u64 * LINE == self.kib * 1024;
        let remedy = "capacity and ways that give a power of two of sets of 64-byte lines";
        Invalid::unless(fits, field, "has no power of two of sets", remedy)?;
        let ns = (0.0..=1e6).contains(&self.ns);
        Invalid::unless(ns, format!("{field}.ns"), "is no latency", "ns, such as 4")
    }
}

/// Lines with their dirty marks, most recently used first in each set.
#[derive(Clone, Debug)]
pub struct Cache {
    /// A line's number, shifted left by one; the lowest bit says that it is dirty.
    lines: Vec<u64>,
    ways: usize,
    mask: u64,
}

/// What an access found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The line.
    Hit,
    /// Not the line: it is there now, and what had to leave for it left, with its dirty mark.
    Miss(Option<(u64, bool)>),
}

impl Cache {
    /// An empty cache.
    pub fn new(shape: &CacheShape) -> Cache {
        let sets = shape.sets();
        Cache { lines: vec![EMPTY; sets * shape.ways], ways: shape.ways, mask: sets as u64 - 1 }
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let start = (line & self.mask) as usize * self.ways;
        &mut self.lines[start..start + self.ways]
    }

    /// Reads or writes a line, which is brought in if it is not there.
    #[inline]
    pub fn access(&mut self, line: u64, dirty: bool) -> Found {
        let set = self.set(line);
        let mark = u64::from(dirty);
        if set[0] >> 1 == line {
            set[0] |= mark;
            return Found::Hit;
        }
        match set.iter().position(|&entry| entry >> 1 == line) {
            Some(way) => {
                let entry = set[way] | mark;
                set.copy_within(0..way, 1);
                set[0] = entry;
                Found::Hit
            }
            None => {
                let last = set[set.len() - 1];
                set.copy_within(0..set.len() - 1, 1);
                set[0] = line << 1 | mark;
                Found::Miss((last != EMPTY).then_some((last >> 1, last & 1 == 1)))
            }
        }
    }

    /// Whether a line is there; nothing changes.
    pub fn holds(&self, line: u64) -> bool {
        let start = (line & self.mask) as usize * self.ways;
        self.lines[start..start + self.ways].iter().any(|&entry| entry >> 1 == line)
    }

    /// Takes a line out, if it is there; whether it was dirty.
    pub fn remove(&mut self, line: u64) -> Option<bool> {
        let set = self.set(line);
        let way = set.iter().position(|&entry| entry >> 1 == line)?;
        let dirty = set[way] & 1 == 1;
        set.copy_within(way + 1.., way);
        set[set.len() - 1] = EMPTY;
        Some(dirty)
    }
}
