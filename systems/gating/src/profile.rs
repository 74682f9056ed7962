//! Programs that cannot be had, by how they use memory: reads of memory in so many instructions, how
//! many of them go to the row before, how many wait for the read before.
//!
//! References are those behind the last cache.

use ebb_des::{Rng, Seed};
use ebb_memtrace::{Access, Kind, TraceError};
use ebb_scenario::{Check, Described, Invalid};
use rand::Rng as _;
use rand_distr::Exp1;
use serde::Deserialize;

use crate::machine::Feed;

/// What a profile is.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Reads of memory in a thousand instructions.
    #[schema(above = 0, most = 500)]
    pub read_mpki: f64,
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
}

impl ProfileFeed {
    /// Of core number `core`.
    pub fn new(profile: &Profile, seed: Seed, core: usize) -> ProfileFeed {
        let rng = seed.nth(core as u64).stream("profile");
        let base = (core as u64) << 36;
        ProfileFeed { profile: profile.clone(), rng, line: 0, base, ran: 0, left: 0 }
    }

    /// Instructions to the next read: none of note within a cluster, geometric between clusters.
    fn gap(&mut self) -> u64 {
        if self.left > 0 {
            self.left -= 1;
            return 2;
        }
        let cluster = self.profile.cluster.max(1.0);
        let more = 1.0 - 1.0 / cluster;
        while self.rng.random::<f64>() < more && self.left < 64 {
            self.left += 1;
        }
        let mean = (1000.0 / self.profile.read_mpki * cluster - 2.0 * (cluster - 1.0)).max(1.0);
        1 + (self.rng.sample::<f64, _>(Exp1) * mean) as u64
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
            let chained = self.rng.random::<f64>() < self.profile.chained;
            let address = (self.base + self.line) << 6;
            into.push(Access {
                instructions: gap as u32,
                after: u16::from(chained),
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
