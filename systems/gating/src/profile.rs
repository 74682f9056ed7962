//! Programs that cannot be had, by how they use memory: reads of memory in so many instructions, how
//! many of them go to the row before, how many wait for the read before.
//!
//! References are those behind the last cache, and reads that it answers itself (`cached_mpki`).

use ebb_des::{Rng, Seed};
use ebb_memtrace::{Access, Kind, TraceError};
use ebb_scenario::{Check, Described, Invalid};
use rand::Rng as _;
use rand_distr::Exp1;
use serde::Deserialize;

use crate::machine::Feed;

/// The references that the last cache answers are from here on.
pub(crate) const LAST_CACHE: u64 = 1 << 63;

/// What a profile is.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Reads of memory in a thousand instructions.
    #[schema(above = 0, most = 500)]
    pub read_mpki: f64,
    /// Reads in a thousand instructions that the last cache answers.
    #[serde(default)]
    #[schema(least = 0, most = 500)]
    pub cached_mpki: f64,
    /// Lines written back in a thousand instructions, at most `read_mpki`.
    #[serde(default)]
    #[schema(least = 0, most = 500)]
    pub write_mpki: f64,
    /// The part of reads that go to the line after the one before.
    #[serde(default)]
    #[schema(least = 0, most = 1)]
    pub sequential: f64,
    /// The part of reads whose address the read before tells: chains of pointers.
    #[serde(default)]
    #[schema(least = 0, most = 1)]
    pub chained: f64,
    /// Reads that come together: their mean number.
    #[serde(default = "Profile::default_cluster")]
    #[schema(least = 1, most = 64, default = 1.0)]
    pub cluster: f64,
    /// Instructions that those which come together lie in, anywhere; 0 when they follow each other at once.
    #[serde(default)]
    #[schema(most = 100_000)]
    pub within: u32,
    /// Memory in use.
    #[serde(default = "Profile::default_footprint_mib")]
    #[schema(least = 1, most = 65_536, default = 256)]
    pub footprint_mib: u64,
    /// Instructions.
    #[serde(default = "Profile::default_instructions")]
    #[schema(default = 5_000_000)]
    pub instructions: u64,
}

impl Check for Profile {
    fn check(&self) -> Result<(), Invalid> {
        let fewer = self.write_mpki <= self.read_mpki;
        Invalid::unless(fewer, "write_mpki", "is out of range", "expected 0 to profile.read_mpki")
    }
}

/// The references of one core.
pub struct ProfileFeed {
    profile: Profile,
    rng: Rng,
    line: u64,
    base: u64,
    ran: u64,
    left: u64,
    /// Instructions that the cluster at hand may still take.
    room: f64,
    /// Instructions to the next read that the last cache answers.
    cached: f64,
}

impl ProfileFeed {
    /// Of core number `core`.
    pub fn new(profile: &Profile, seed: Seed, core: usize) -> ProfileFeed {
        let rng = seed.nth(core as u64).stream("profile");
        let base = (core as u64) << 36;
        let mut feed = ProfileFeed {
            profile: profile.clone(),
            rng,
            line: 0,
            base,
            ran: 0,
            left: 0,
            room: 0.0,
            cached: f64::INFINITY,
        };
        feed.next_cached();
        feed
    }

    /// Draws when the last cache answers next.
    fn next_cached(&mut self) {
        if self.profile.cached_mpki > 0.0 {
            self.cached = self.rng.sample::<f64, _>(Exp1) * 1000.0 / self.profile.cached_mpki;
        }
    }

    /// The reads that the last cache answers in the next `gap` instructions; instructions behind the last.
    fn cached(&mut self, gap: u64, into: &mut Vec<Access>) -> u64 {
        let mut left = gap;
        while self.cached < left as f64 {
            let instructions = self.cached as u64;
            left -= instructions;
            let address = LAST_CACHE | self.rng.random_range(0..1 << 40) << 6;
            into.push(Access {
                instructions: instructions as u32,
                size: 1,
                ..Access::new(Kind::Read, address)
            });
            self.next_cached();
        }
        self.cached -= left as f64;
        left
    }

    /// Instructions to the next read: anywhere in what is left of a cluster, geometric between clusters.
    fn gap(&mut self) -> u64 {
        if self.left > 0 {
            let gap = match self.profile.within {
                0 => 2.0,
                // The first of as many as are left, each anywhere.
                _ => self.room * (1.0 - self.rng.random::<f64>().powf(1.0 / self.left as f64)),
            };
            self.room -= gap;
            self.left -= 1;
            return gap as u64;
        }
        let cluster = self.profile.cluster.max(1.0);
        let more = 1.0 - 1.0 / cluster;
        while self.rng.random::<f64>() < more && self.left < 64 {
            self.left += 1;
        }
        self.room = f64::from(self.profile.within);
        let mean = (1000.0 / self.profile.read_mpki * cluster - self.span()).max(1.0);
        1 + (self.rng.sample::<f64, _>(Exp1) * mean) as u64
    }

    /// Instructions from the first to the last of a cluster, in the mean: of n that lie anywhere the last is
    /// one part in n before the end, and n is geometric.
    fn span(&self) -> f64 {
        let more = self.profile.cluster.max(1.0) - 1.0;
        match self.profile.within {
            0 => 2.0 * more,
            _ if more < 1e-9 => 0.0,
            within => f64::from(within) * (1.0 - more.ln_1p() / more),
        }
    }
}

impl Feed for ProfileFeed {
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError> {
        let lines = self.profile.footprint_mib << 14;
        while into.len() < 4096 && self.ran < self.profile.instructions {
            let gap = self.gap().min(u64::from(u32::MAX));
            self.ran += gap;
            let near = self.rng.random::<f64>() < self.profile.sequential;
            self.line =
                if near { (self.line + 1) % lines } else { self.rng.random_range(0..lines) };
            let before = into.len();
            let gap = self.cached(gap, into);
            let between = (into.len() - before) as u16;
            let chained = self.rng.random::<f64>() < self.profile.chained;
            let address = (self.base + self.line) << 6;
            into.push(Access {
                instructions: gap as u32,
                after: if chained { 1 + between } else { 0 },
                size: 1,
                ..Access::new(Kind::Read, address)
            });
            let writes = self.profile.write_mpki / self.profile.read_mpki;
            if self.rng.random::<f64>() < writes {
                let address = (self.base + self.rng.random_range(0..lines)) << 6;
                into.push(Access { instructions: 0, size: 1, ..Access::new(Kind::Write, address) });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However far apart the reads of a cluster are, there are as many in a thousand instructions, and those of a
    /// cluster lie in its window.
    #[test]
    fn reads_of_a_cluster_lie_in_its_window() {
        for within in [0, 40, 128] {
            let profile = Profile {
                read_mpki: 2.0,
                write_mpki: 0.0,
                cached_mpki: 0.0,
                sequential: 0.0,
                chained: 0.0,
                cluster: 3.0,
                within,
                footprint_mib: 1,
                instructions: 20_000_000,
            };
            let mut feed = ProfileFeed::new(&profile, Seed(1), 0);
            let (mut all, mut batch) = (Vec::new(), Vec::new());
            while feed.fill(&mut batch).is_ok() && !batch.is_empty() {
                all.append(&mut batch);
            }
            let instructions: u64 = all.iter().map(|one| u64::from(one.instructions)).sum();
            let mpki = 1e3 * all.len() as f64 / instructions as f64;
            assert!((mpki / 2.0 - 1.0).abs() < 0.03, "{within}: {mpki}");
            let limit = within.max(2);
            let near = all.iter().filter(|one| one.instructions <= limit).count();
            let part = near as f64 / all.len() as f64;
            // Two of three are not the first of theirs; a tenth of the first come as soon by chance.
            assert!((0.62..0.76).contains(&part), "{within}: {part}");
        }
    }
}
