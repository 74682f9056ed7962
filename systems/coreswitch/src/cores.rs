//! Cores of different size and clock, and how fast they run which code.
//!
//! A core's speed is the time that it takes for what a complex core at 3 GHz does in one: a part that
//! scales with the clock, and a part that waits for caches and memory and does not.

use std::str::FromStr;

/// Clock of a fast core, MHz (Table 3.2).
pub const FAST_MHZ: f64 = 3000.0;
/// Clock of a slow core, MHz (Table 3.2).
pub const SLOW_MHZ: f64 = 750.0;

/// Kernel code on a simple core of the system, with 8 KiB caches that have its side of a call alone: fitted to
/// `sim_CS` under V5, Table 3.5.
pub const SIMPLE_SYSTEM: f64 = 2.0 * (4087.0 - 120.0) / (2042.0 - 120.0) - 1.0;
/// Kernel code on a simple core that has the program as well: fitted to `sim_SS` under V5, Table 3.5.
pub const SIMPLE_KERNEL: f64 = 2.0 * (6689.0 - 130.0) / (2042.0 - 120.0) - SIMPLE_SYSTEM;
/// The part of either which scales with the clock: fitted to `sim_Cs` under V5, Table 3.5.
pub const SIMPLE_CLOCKED: f64 = 0.325_7;
/// User code on a simple core: fitted to `sim_SS`, bound, of the web benchmark at 1 Gbit/s, Table 3.8.
pub const SIMPLE_USER: f64 = 1.92;
/// Stalls that are left with 16 KiB, direct-mapped: fitted to `sim_SS`, Table 3.6.
pub const STALLS_16K: f64 = 0.774_6;
/// Stalls that are left with 16 KiB, two-way: fitted to `sim_SS`, Table 3.6.
pub const STALLS_16K_2WAY: f64 = 0.343_9;
/// The part of a complex core's time that scales with the clock: fitted to `sim_Cc` under V5 of the
/// outgoing stream at 10 Gbit/s, Table 3.14.
pub const COMPLEX_CLOCKED: f64 = 0.822;
/// What a simple core draws of what a complex one does, both busy: fitted to the web benchmark, bound,
/// of Table 3.17.
pub const SIMPLE_POWER: f64 = 0.064;
/// What a busy complex core at 3 GHz draws: fitted to the outgoing stream under V5 on `sim_CC`, Table
/// 3.17 (48,031 KB in 167 ms at 46.89 MB/s/W).
pub const COMPLEX_WATTS: f64 = 48.031 / 0.167 / 46.89;

/// How big a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Out of order, as an Alpha EV6 (21264).
    Complex,
    /// In order, as an Alpha EV4 (21064).
    Simple,
}

/// First-level caches of simple cores.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described,
)]
pub enum Cache {
    /// 8 KiB, direct-mapped.
    #[default]
    #[serde(rename = "8k")]
    Small,
    /// 16 KiB, direct-mapped.
    #[serde(rename = "16k")]
    Double,
    /// 16 KiB, two-way.
    #[serde(rename = "16k-2way")]
    TwoWay,
}

/// Whose code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The program's.
    User,
    /// The system's.
    Kernel,
}

/// One core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    /// How big.
    pub kind: Kind,
    /// Clock, MHz.
    pub mhz: f64,
    /// Its first-level caches, which matter where it is simple.
    pub cache: Cache,
    /// Whether it only serves calls and interrupts, so that its caches have no program in them.
    pub serves: bool,
}

impl Core {
    /// How much longer `code` takes here than on a complex core at 3 GHz.
    pub fn slowdown(&self, code: Code) -> f64 {
        let clock = FAST_MHZ / self.mhz;
        match self.kind {
            Kind::Complex => COMPLEX_CLOCKED * clock + (1.0 - COMPLEX_CLOCKED),
            Kind::Simple => {
                let stalls = match self.cache {
                    Cache::Small => 1.0,
                    Cache::Double => STALLS_16K,
                    Cache::TwoWay => STALLS_16K_2WAY,
                };
                let base = match code {
                    Code::User => SIMPLE_USER,
                    Code::Kernel if self.serves => SIMPLE_SYSTEM,
                    Code::Kernel => SIMPLE_KERNEL,
                };
                base * (SIMPLE_CLOCKED * clock + (1.0 - SIMPLE_CLOCKED) * stalls)
            }
        }
    }

    /// What it draws while it is busy, W. In proportion to the clock, which no table shows.
    pub fn watts(&self) -> f64 {
        let size = if self.kind == Kind::Complex { 1.0 } else { SIMPLE_POWER };
        COMPLEX_WATTS * size * self.mhz / FAST_MHZ
    }
}

/// A row's name in the tables: `CS` is a complex core for the program and a simple one for the system;
/// small letters are cores at 750 MHz.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration(Vec<(Kind, bool)>);

/// The cores of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Those of the program.
    pub app: Vec<Core>,
    /// Those of the system; none in a machine of one core.
    pub os: Vec<Core>,
}

impl Configuration {
    /// Reads `C`, or an even number of letters of `CcSs`, the program's cores first.
    pub fn parse(name: &str) -> Option<Configuration> {
        let core = |letter| match letter {
            'C' => Some((Kind::Complex, false)),
            'c' => Some((Kind::Complex, true)),
            'S' => Some((Kind::Simple, false)),
            's' => Some((Kind::Simple, true)),
            _ => None,
        };
        let cores: Option<Vec<_>> = name.chars().map(core).collect();
        let count = name.chars().count();
        let fits = (count == 1 || count.is_multiple_of(2)) && (1..=64).contains(&count);
        cores.filter(|_| fits).map(Configuration)
    }

    /// The cores, simple ones with `cache`.
    pub fn machine(&self, cache: Cache) -> Machine {
        let cores = |letters: &[(Kind, bool)], serves| {
            let core = |&(kind, slow): &(Kind, bool)| {
                let mhz = if slow { SLOW_MHZ } else { FAST_MHZ };
                Core { kind, mhz, cache, serves }
            };
            letters.iter().map(core).collect()
        };
        let (app, os) = self.0.split_at(self.0.len().div_ceil(2));
        Machine { app: cores(app, false), os: cores(os, true) }
    }
}

impl FromStr for Configuration {
    type Err = String;

    fn from_str(name: &str) -> Result<Configuration, String> {
        Configuration::parse(name).ok_or_else(|| {
            format!(
                "`{name}` is not a configuration such as C, CC, SS, Cc, CS, Cs \
                or CCSS"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_letters_are_read_as_the_tables_write_them() {
        let machine = Configuration::parse("CCss").unwrap().machine(Cache::Double);
        assert_eq!((machine.app.len(), machine.os.len()), (2, 2));
        assert_eq!((machine.app[1].kind, machine.os[0].mhz), (Kind::Complex, SLOW_MHZ));
        assert_eq!(Configuration::parse("C").unwrap().machine(Cache::Small).os.len(), 0);
        for wrong in ["", "CSC", "CX", "5"] {
            assert_eq!(Configuration::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_slower_clock_and_smaller_caches_never_help(mhz in 100.0..3000.0_f64) {
            for kind in [Kind::Complex, Kind::Simple] {
                for code in [Code::User, Code::Kernel] {
                    let at = |mhz, cache| Core { kind, mhz, cache, serves: false }.slowdown(code);
                    prop_assert!(at(mhz, Cache::Small) >= at(FAST_MHZ, Cache::Small));
                    prop_assert!(at(mhz, Cache::Small) >= at(mhz, Cache::Double));
                    prop_assert!(at(mhz, Cache::Double) >= at(mhz, Cache::TwoWay));
                    prop_assert!(at(mhz, Cache::TwoWay) >= 1.0 || kind == Kind::Simple);
                }
            }
        }
    }
}
