//! What a machine is made of; the values that are there are those of Table 2.3.

use ebb_scenario::Described;
use ebb_scenario::schema::over;
use serde::{Deserialize, Deserializer};

use crate::caches::CacheSettings;
use crate::memory::MemorySettings;

/// A core: how fast it runs when nothing is missing, and how far it runs on when something is.
///
/// Defaults are those of `ev6`; with `name = "io"` those of that core.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct CoreSettings {
    /// Its name: `ev6` (out of order, six wide, 3.3 GHz) or `io` (in order, two wide, 2 GHz), whose values
    /// are the defaults; any other begins from `ev6`.
    pub name: String,
    /// Clock,.
    #[schema(above = 0, most = 20)]
    pub ghz: f64,
    /// Cycles an instruction takes when memory never makes it wait.
    ///
    /// Our assumption where a trace does not say: half of what a wide core could do at best is lost to
    /// dependencies and branches.
    #[schema(above = 0, most = 100)]
    pub cpi: f64,
    /// Instructions behind the oldest unanswered read that may begin before it is answered: the
    /// reorder buffer of an out-of-order core (80 in the EV6), the distance to the first use in an
    /// in-order one.
    #[schema(least = 1, most = 4096)]
    pub window: u64,
    /// Misses of the first level under way at a time.
    #[schema(least = 1, most = 256)]
    pub mshrs: usize,
    /// Power it leaks, W.
    #[schema(above = 0, most = 1000)]
    pub leakage_w: f64,
    /// The part of that which gating saves: retention registers, header switches and memories at half the
    /// supply still leak (section 2.2.2), all of which the tables count in.
    #[schema(least = 0, most = 1)]
    pub gating_saves: f64,
    /// The part of the leakage that is of memories kept by source biasing (section 2.3.6) and that
    /// `gating_saves` leaves out; 0 where it counts them in, as Table 2.3 does.
    #[schema(least = 0, most = 1)]
    pub sram_share: f64,
    /// The part of their leakage that is left at half the supply.
    #[schema(least = 0, most = 1)]
    pub sram_biased: f64,
    /// Energy of a wake-up, nJ.
    #[schema(least = 0, most = 1_000_000)]
    pub wake_nj: f64,
    /// Time to charge it, ns.
    #[schema(above = 0, most = 1_000_000)]
    pub wake_ns: f64,
    /// Time to restore registers and fill the pipeline, ns.
    #[schema(least = 0, most = 1_000_000)]
    pub refill_ns: f64,
    /// The functional units' share of the leakage (section 2.5.1).
    #[schema(least = 0, most = 1)]
    pub units_share: f64,
    /// Energy of a wake-up of the functional units, nJ.
    #[schema(least = 0, most = 1_000_000)]
    pub units_wake_nj: f64,
    /// Time to charge them, ns.
    #[schema(least = 0, most = 1_000_000)]
    pub units_wake_ns: f64,
}

/// Reads a core by name with some values replaced.
pub(crate) fn core<'de, D: Deserializer<'de>>(given: D) -> Result<CoreSettings, D::Error> {
    over(given, |table| {
        let name = table.get("name").and_then(|name| name.as_str());
        name.and_then(CoreSettings::named).unwrap_or_default()
    })
}

impl Default for CoreSettings {
    fn default() -> CoreSettings {
        CoreSettings::ev6()
    }
}

impl CoreSettings {
    /// Out of order, six wide (Table 2.3, section 2.5.1).
    pub fn ev6() -> CoreSettings {
        CoreSettings {
            name: "ev6".to_owned(),
            ghz: 3.3,
            cpi: 0.5,
            window: 80,
            mshrs: 20,
            leakage_w: 0.916,
            gating_saves: 0.9765,
            sram_share: 0.0,
            sram_biased: 0.0,
            wake_nj: 15.358,
            wake_ns: 10.2,
            refill_ns: 2.12,
            units_share: 0.61,
            units_wake_nj: 9.641,
            units_wake_ns: 6.4,
        }
    }

    /// In order, two wide (Table 2.3, section 2.5.1).
    pub fn in_order() -> CoreSettings {
        CoreSettings {
            name: "io".to_owned(),
            ghz: 2.0,
            cpi: 1.0,
            window: 4,
            mshrs: 4,
            leakage_w: 0.486,
            gating_saves: 0.9774,
            sram_share: 0.0,
            sram_biased: 0.0,
            wake_nj: 4.02,
            wake_ns: 8.06,
            refill_ns: 2.0,
            units_share: 0.36,
            units_wake_nj: 1.78,
            units_wake_ns: 6.0,
        }
    }

    /// The core called `name`.
    pub fn named(name: &str) -> Option<CoreSettings> {
        match name {
            "ev6" => Some(CoreSettings::ev6()),
            "io" => Some(CoreSettings::in_order()),
            _ => None,
        }
    }

    /// The part of the leakage that gating the core saves.
    pub fn saved_share(&self) -> f64 {
        let (memories, left) = (self.sram_share, self.sram_biased);
        self.gating_saves * (1.0 - memories) + memories * (1.0 - left)
    }
}

/// Cores with their caches and their memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineSettings {
    /// Each core.
    pub core: CoreSettings,
    /// Its number.
    pub cores: usize,
    /// Caches.
    pub caches: CacheSettings,
    /// Memory.
    pub memory: MemorySettings,
    /// The trace was filtered by the last cache: its references go straight to memory.
    pub filtered: bool,
    /// Of such a trace the last cache answers references from this address on: a profile knows of those, too.
    pub cached_from: Option<u64>,
}

impl MachineSettings {
    /// From the core to a miss of the last cache and its token back, ns (Table 2.3: 17.5).
    pub fn path_ns(&self) -> f64 {
        self.caches.l1.ns + self.caches.l2.ns + self.caches.l3.ns
    }
}
