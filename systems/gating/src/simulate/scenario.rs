//! What a simulation is asked.

use ebb_memtrace::{Format, TraceError};
use ebb_scenario::schema::{checked, listed};
use ebb_scenario::{Check, Described, Invalid};
use serde::Deserialize;

use crate::circuit::Keeping;
use crate::compare::{Comparison, names};
use crate::keeper::Slots;
use crate::machine::{CacheSettings, CoreSettings, MachineSettings};
use crate::memory::MemorySettings;
use crate::power::Idle;
use crate::profile::LAST_CACHE;
use crate::profile::Profile;
use crate::stream::StreamSettings;

/// A scenario of `ebb sim gating`: one of `trace`, `stream` and `profile`, and a machine.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Trace files, one for each core; repeated if there are more cores.
    pub trace: Names,
    /// Their format; default: detected from their names and first bytes.
    #[schema(choices = formats())]
    pub format: Option<String>,
    /// They contain the references behind the last cache, which go to memory directly.
    pub filtered: bool,
    /// One trace with several threads: thread t goes to core t modulo the cores, in one address space.
    pub split: bool,
    /// STREAM, a thread on every core, instead of a trace.
    pub stream: Option<StreamSettings>,
    /// A profile of references, on every core, instead of a trace.
    pub profile: Option<Profile>,
    /// Cores with a program.
    #[schema(least = 1, most = 64)]
    pub cores: usize,
    /// References of each core that only fill the caches.
    pub warmup: u64,
    /// References of each core after those; 0 for all.
    pub references: u64,
    /// `all`, or names of controllers, in a list or with commas: `none`, `oracle`, `counter`, `tap`, `fupg`,
    /// `dvfs-mean`, `dvfs-oracle`, `cyclic`, `hybrid`.
    pub controllers: Names,
    /// Leakage as a share of a core's power at work.
    #[schema(above = 0, most = 1)]
    pub leakage_share: f64,
    /// What retention cells add to the power of a core in every state, share (section 2.5.1: 0.2 %).
    #[schema(least = 0, most = 1)]
    pub retention: f64,
    /// Time to charge a core, instead of the core's own (10.2 of `ev6`, 8.06 of `io`).
    #[schema(above = 0, most = 1_000_000)]
    pub wake_ns: Option<f64>,
    /// How wake-ups of neighbours are separated. Wake-ups take the safe time of that scheme, unless `wake_ns`
    /// is set.
    pub keeping: Keeping,
    /// Slots that come again and again, eta, where they keep wake-ups apart.
    #[schema(least = 1, most = 64)]
    pub slots: usize,
    /// From slot to slot, psi.
    #[schema(above = 0, most = 1000)]
    pub slot_ns: f64,
    /// Share of the time with work: the trace is that part.
    #[schema(above = 0, most = 1)]
    pub load: f64,
    /// What cores do in the rest of the time.
    pub idle: Idle,
    /// The cores.
    #[serde(deserialize_with = "crate::settings::core")]
    pub core: CoreSettings,
    /// Their caches.
    pub caches: CacheSettings,
    /// Memory.
    #[serde(deserialize_with = "crate::memory::memory")]
    pub memory: MemorySettings,
}

fn formats() -> [(&'static str, &'static str); 9] {
    Format::ALL.map(|format| (format.name(), ""))
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            trace: Names::Several(Vec::new()),
            format: None,
            filtered: false,
            split: false,
            stream: None,
            profile: None,
            cores: 1,
            warmup: 0,
            references: 0,
            controllers: Names::One("all".to_owned()),
            leakage_share: 0.4,
            retention: 0.002,
            wake_ns: None,
            keeping: Keeping::None,
            slots: Slots::default().count,
            slot_ns: Slots::default().apart_ns,
            load: 1.0,
            idle: Idle::default(),
            core: CoreSettings::ev6(),
            caches: CacheSettings::default(),
            memory: MemorySettings::default(),
        }
    }
}

/// One name or several.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(untagged)]
pub enum Names {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Names {
    /// All of them.
    pub fn names(&self) -> Vec<String> {
        match self {
            Names::One(name) => vec![name.clone()],
            Names::Several(names) => names.clone(),
        }
    }
}

impl From<Vec<String>> for Names {
    fn from(names: Vec<String>) -> Names {
        Names::Several(names)
    }
}

impl Scenario {
    /// The controllers by name, `all` resolved.
    ///
    /// # Errors
    /// When a name is none.
    pub fn controllers(&self) -> Result<Vec<String>, Invalid> {
        let known: Vec<&str> = names().collect();
        let asked = self.controllers.names();
        listed(asked.iter().map(String::as_str), &known, &[]).map_err(|name| {
            let remedy = format!("use all, or some of {}", known.join(", "));
            Invalid::new("controllers", format!("there is no controller `{name}`"), remedy)
        })
    }

    pub(super) fn format(&self) -> Result<Option<Format>, TraceError> {
        Ok(self.format.as_deref().and_then(Format::named))
    }

    /// The machine.
    pub fn machine(&self) -> MachineSettings {
        MachineSettings {
            core: self.core.clone(),
            cores: self.cores,
            caches: self.caches.clone(),
            memory: self.memory.clone(),
            filtered: self.filtered || self.profile.is_some(),
            cached_from: self.profile.as_ref().map(|_| LAST_CACHE),
        }
    }

    /// The core with the time that its wake-ups take, or at most take.
    pub fn charged_core(&self) -> CoreSettings {
        self.compared().core()
    }

    fn compared(&self) -> Comparison {
        Comparison {
            leakage_share: self.leakage_share,
            retention: self.retention,
            wake_ns: self.wake_ns,
            warmup: self.warmup,
            keeping: self.keeping,
            slots: Slots { count: self.slots, apart_ns: self.slot_ns },
            load: self.load,
            idle: self.idle,
            ..Comparison::new(self.machine())
        }
    }

    /// What is compared.
    ///
    /// # Errors
    /// The first value at fault.
    pub fn comparison(&self) -> Result<Comparison, Invalid> {
        checked(self)?;
        Ok(Comparison { controllers: self.controllers()?, ..self.compared() })
    }
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        let traces = self.trace.names();
        let sources = [!traces.is_empty(), self.stream.is_some(), self.profile.is_some()];
        let one = sources.iter().filter(|given| **given).count() == 1;
        let remedy = "set exactly one of trace, [stream] and [profile]";
        Invalid::unless(one, "trace", "there is no workload, or more than one", remedy)?;
        let lone = !self.split || traces.len() == 1;
        Invalid::unless(lone, "split", "needs one trace with several threads", "give one trace")?;
        if let Some(profile) = &self.profile {
            profile.check().map_err(|fault| fault.within("profile"))?;
        }
        self.controllers()?;
        self.caches.check()?;
        self.memory.check()
    }
}
