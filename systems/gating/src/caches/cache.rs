//! One cache: sets of lines, the least recently used goes first.

use ebb_scenario::{Described, Invalid};
use serde::Deserialize;

/// Bytes of a line, everywhere.
pub const LINE: u64 = 64;
const EMPTY: u64 = u64::MAX;

/// How large a cache is, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct CacheShape {
    /// Capacity, KiB.
    pub kib: u64,
    /// Lines a set; capacity and ways give a power of two of sets of 64-byte lines.
    #[schema(least = 1, most = 64)]
    pub ways: usize,
    /// From the cache above it to its answer.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000)]
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
        let fits = sets.is_power_of_two() && (sets * self.ways) as u64 * LINE == self.kib * 1024;
        let remedy = "use a capacity and ways that give a power of two of sets of 64-byte lines";
        Invalid::unless(fits, field, "the number of sets is not a power of two", remedy)
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use ebb_memtrace::Kind;

    use super::*;
    use crate::machine::{CacheSettings, Hierarchy, Level};

    /// Small enough that a short program misses at every level.
    const CODE: CacheShape = CacheShape { kib: 8, ways: 4, ns: 1.0 };
    const DATA: CacheShape = CacheShape { kib: 8, ways: 2, ns: 1.0 };
    const LAST: CacheShape = CacheShape { kib: 64, ways: 8, ns: 1.0 };

    /// What valgrind's tool says about `sort` of this file, the same program with the same addresses
    /// whatever the tool; `None`, said, where there is no valgrind.
    fn valgrind(tool: &[&str]) -> Option<String> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/caches/cache.rs");
        let mut command = Command::new("valgrind");
        command.args(tool).args(["--", "sort", "-r", "-S", "1M", "--parallel=1", file]);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
        let Ok(output) = command.stdin(Stdio::null()).output() else {
            assert!(std::env::var_os("CI").is_none(), "valgrind is missing");
            println!("skipped: valgrind is missing");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stderr).expect("text"))
    }

    /// The number in the line of a summary that has `name`.
    fn number(text: &str, name: &str) -> u64 {
        let line = text.lines().find_map(|line| line.split_once(name));
        let (_, rest) = line.unwrap_or_else(|| panic!("no `{name}`"));
        let digits = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',');
        digits.filter(char::is_ascii_digit).collect::<String>().parse().expect("a number")
    }

    /// References and misses of instructions and of data, in our caches put together as Cachegrind
    /// has them: a reference misses if one of its lines does, and goes to the last cache as a whole;
    /// nothing is written back.
    #[derive(Debug, Default, PartialEq)]
    struct Counts {
        references: [u64; 2],
        first: [u64; 2],
        last: [u64; 2],
    }

    fn of_cachegrind(said: &str) -> Counts {
        let both = |code: &str, data: &str| [number(said, code), number(said, data)];
        Counts {
            references: both("I   refs:", "D   refs:"),
            first: both("I1  misses:", "D1  misses:"),
            last: both("LLi misses:", "LLd misses:"),
        }
    }

    fn of_ours(lines: &str) -> Counts {
        let mut firsts = [Cache::new(&CODE), Cache::new(&DATA)];
        let mut last = Cache::new(&LAST);
        let settings = CacheSettings { l1: DATA, l1i: CODE, l2: LAST, ..CacheSettings::default() };
        let mut hierarchy = Hierarchy::new(&settings, 1);
        let mut counts = Counts::default();
        let mut above = [0; 2];
        let kinds = [("I  ", 0), (" L ", 1), (" S ", 1), (" M ", 1)];
        for line in lines.lines() {
            let found =
                kinds.iter().find_map(|(tag, which)| Some((line.strip_prefix(tag)?, *which)));
            let Some((rest, which)) = found else { continue };
            let (address, size) = rest.split_once(',').expect("address,size");
            let address = u64::from_str_radix(address, 16).expect("hexadecimal");
            let size: u64 = size.parse().expect("decimal");
            let all = address / LINE..=(address + size - 1) / LINE;
            let misses = |cache: &mut Cache| {
                // Every line is looked up, whatever became of the one before.
                all.clone().filter(|line| cache.access(*line, false) != Found::Hit).count() > 0
            };
            counts.references[which] += 1;
            if misses(&mut firsts[which]) {
                counts.first[which] += 1;
                counts.last[which] += u64::from(misses(&mut last));
            }
            let kind = if which == 0 { Kind::Fetch } else { Kind::Write };
            let missed = all.filter(|line| hierarchy.access(0, *line, kind) != Level::L1).count();
            above[which] += u64::from(missed > 0);
        }
        assert_eq!(above, counts.first, "in the hierarchy, with lines that are written back");
        counts
    }

    /// Cachegrind's own counts of a real program are exactly ours.
    #[test]
    fn caches_count_what_cachegrind_counts() {
        let shape = |name: &str, shape: &CacheShape| {
            format!("--{name}={},{},{LINE}", shape.kib * 1024, shape.ways)
        };
        let (code, data, last) = (shape("I1", &CODE), shape("D1", &DATA), shape("LL", &LAST));
        let cachegrind =
            ["--tool=cachegrind", "--cachegrind-out-file=/dev/null", &code, &data, &last];
        let Some(theirs) = valgrind(&cachegrind) else { return };
        let Some(lines) = valgrind(&["--tool=lackey", "--trace-mem=yes"]) else { return };
        let theirs = of_cachegrind(&theirs);
        assert!(theirs.last.iter().all(|misses| *misses > 1000), "{theirs:?}");
        assert_eq!(of_ours(&lines), theirs);
    }
}
