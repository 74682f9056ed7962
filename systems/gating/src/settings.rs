//! What a machine is made of; the values that are there are those of Table 2.3.

use ebb_scenario::Invalid;
use serde::Deserialize;

use crate::caches::CacheSettings;
use crate::memory::MemorySettings;

/// A core: how fast it runs when nothing is missing, and how far it runs on when something is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, from = "Given")]
pub struct CoreSettings {
    /// Its name.
    pub name: String,
    /// Clock, GHz.
    pub ghz: f64,
    /// Cycles an instruction takes when memory never makes it wait. Our assumption where a trace does
    /// not say: half of what a wide core could do at best is lost to dependencies and branches.
    pub cpi: f64,
    /// Instructions behind the oldest unanswered read that may begin before it is answered: the
    /// reorder buffer of an out-of-order core (80 in the EV6), the distance to the first use in an
    /// in-order one.
    pub window: u64,
    /// Misses of the first level under way at a time.
    pub mshrs: usize,
    /// Power it leaks, W.
    pub leakage_w: f64,
    /// The part of that which gating saves: retention registers and header switches leak on, and so do
    /// memories that are kept at half the supply (section 2.2.2), all of which the tables count in.
    pub gating_saves: f64,
    /// The part of the leakage that is of memories kept by source biasing (section 2.3.6) and that
    /// `gating_saves` leaves out; 0 where it counts them in, as Table 2.3 does.
    pub sram_share: f64,
    /// The part of their leakage that is left at half the supply.
    pub sram_biased: f64,
    /// Energy of a wake-up, nJ.
    pub wake_nj: f64,
    /// Time to charge it, ns.
    pub wake_ns: f64,
    /// Time to restore registers and fill the pipeline, ns.
    pub refill_ns: f64,
    /// The functional units' share of the leakage (section 2.5.1).
    pub units_share: f64,
    /// Energy of a wake-up of the functional units, nJ.
    pub units_wake_nj: f64,
    /// Time to charge them, ns.
    pub units_wake_ns: f64,
}

/// A core by name with some values replaced.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    name: Option<String>,
    ghz: Option<f64>,
    cpi: Option<f64>,
    window: Option<u64>,
    mshrs: Option<usize>,
    leakage_w: Option<f64>,
    gating_saves: Option<f64>,
    sram_share: Option<f64>,
    sram_biased: Option<f64>,
    wake_nj: Option<f64>,
    wake_ns: Option<f64>,
    refill_ns: Option<f64>,
    units_share: Option<f64>,
    units_wake_nj: Option<f64>,
    units_wake_ns: Option<f64>,
}

impl From<Given> for CoreSettings {
    fn from(given: Given) -> CoreSettings {
        let name = given.name.unwrap_or_else(|| "ev6".to_owned());
        let base = if name == "io" { CoreSettings::in_order() } else { CoreSettings::ev6() };
        let mut made = CoreSettings { name, ..base };
        macro_rules! replace {
            ($($field:ident)*) => { $(if let Some(value) = given.$field { made.$field = value; })* };
        }
        replace!(ghz cpi window mshrs leakage_w gating_saves wake_nj wake_ns refill_ns);
        replace!(units_share units_wake_nj units_wake_ns sram_share sram_biased);
        made
    }
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

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let positive = [
            ("ghz", self.ghz, 20.0),
            ("cpi", self.cpi, 100.0),
            ("leakage_w", self.leakage_w, 1e3),
            ("wake_ns", self.wake_ns, 1e6),
        ];
        for (name, value, most) in positive {
            let sane = value > 0.0 && value <= most;
            let remedy = format!("above 0, at most {most}");
            Invalid::unless(sane, format!("core.{name}"), "is out of range", remedy)?;
        }
        let others = [
            ("wake_nj", self.wake_nj, 1e6),
            ("refill_ns", self.refill_ns, 1e6),
            ("units_wake_nj", self.units_wake_nj, 1e6),
            ("units_wake_ns", self.units_wake_ns, 1e6),
            ("gating_saves", self.gating_saves, 1.0),
            ("units_share", self.units_share, 1.0),
            ("sram_share", self.sram_share, 1.0),
            ("sram_biased", self.sram_biased, 1.0),
        ];
        for (name, value, most) in others {
            let sane = (0.0..=most).contains(&value);
            let remedy = format!("0 to {most}");
            Invalid::unless(sane, format!("core.{name}"), "is out of range", remedy)?;
        }
        let window = (1..=4096).contains(&self.window);
        Invalid::unless(window, "core.window", "is out of range", "1 to 4096 instructions")?;
        let mshrs = (1..=256).contains(&self.mshrs);
        Invalid::unless(mshrs, "core.mshrs", "is out of range", "1 to 256")
    }
}

/// Cores with their caches and their memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineSettings {
    /// Each core.
    pub core: CoreSettings,
    /// How many.
    pub cores: usize,
    /// Caches.
    pub caches: CacheSettings,
    /// Memory.
    pub memory: MemorySettings,
    /// The trace was filtered by the last cache: its references go straight to memory.
    pub filtered: bool,
}

impl MachineSettings {
    /// From the core to a miss of the last cache and its token back, ns (Table 2.3: 17.5).
    pub fn path_ns(&self) -> f64 {
        self.caches.l1.ns + self.caches.l2.ns + self.caches.l3.ns
    }
}
