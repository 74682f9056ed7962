//! What a simulation is asked.

use ebb_memtrace::{Format, TraceError};
use ebb_scenario::{Check, Invalid};
use serde::Deserialize;

use crate::circuit::Keeping;
use crate::compare::{Comparison, names};
use crate::keeper::Slots;
use crate::machine::{CacheSettings, CoreSettings, MachineSettings};
use crate::memory::MemorySettings;
use crate::power::Idle;
use crate::profile::Profile;
use crate::stream::StreamSettings;

/// A scenario of `ebb sim gating`: one of `trace`, `stream` and `profile`, and a machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Trace files, one after another for the cores, again from the first where there are more cores.
    pub trace: Names,
    /// Their format; told from their names and first bytes if absent.
    pub format: Option<String>,
    /// They hold what the last cache let through: straight to memory.
    pub filtered: bool,
    /// One trace with several threads: thread t goes to core t modulo the cores, in one address space.
    pub split: bool,
    /// STREAM, a thread on every core, instead of a trace.
    pub stream: Option<StreamSettings>,
    /// A profile of references, on every core, instead of a trace.
    pub profile: Option<Profile>,
    /// Cores with a program.
    pub cores: usize,
    /// References of each core that only warm the caches.
    pub warmup: u64,
    /// References of each core after those; 0 for all.
    pub references: u64,
    /// Names of controllers.
    pub controllers: Names,
    /// Leakage as a part of a core's power at work, in (0, 1].
    pub leakage_share: f64,
    /// What retention cells add to the power of a core in every state, share (section 2.5.1: 0.2 %).
    pub retention: f64,
    /// Time to charge a core, ns, instead of the core's own.
    pub wake_ns: Option<f64>,
    /// How wake-ups of neighbours are kept apart: `none`, `worst`, `central`, `staggered` or `slots`.
    /// Wake-ups take what is safe then, unless `wake_ns` says otherwise.
    pub keeping: Keeping,
    /// Slots that come again and again, eta, where they keep wake-ups apart.
    pub slots: usize,
    /// From slot to slot, psi, ns.
    pub slot_ns: f64,
    /// The part of the time in which there is something to do, in (0, 1]: the trace is that part.
    pub load: f64,
    /// What cores do in the rest of it: `poll` (at work), `halt` (they leak) or `sleep` (they leak what
    /// a gated core does).
    pub idle: Idle,
    /// The cores.
    pub core: CoreSettings,
    /// Their caches.
    pub caches: CacheSettings,
    /// Memory.
    pub memory: MemorySettings,
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
        let mut chosen = Vec::new();
        let asked = self.controllers.names();
        for name in asked.iter().flat_map(|name| name.split(',')).map(str::trim) {
            let known: Vec<&str> = names().collect();
            if name == "all" {
                chosen.extend(known.iter().map(|name| (*name).to_owned()));
            } else if known.contains(&name) {
                chosen.push(name.to_owned());
            } else {
                let remedy = format!("all, or of {}", known.join(", "));
                return Err(Invalid::new("controllers", format!("no controller `{name}`"), remedy));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        chosen.retain(|name| seen.insert(name.clone()));
        Ok(chosen)
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
        self.check()?;
        Ok(Comparison { controllers: self.controllers()?, ..self.compared() })
    }
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        let traces = self.trace.names();
        let sources = [!traces.is_empty(), self.stream.is_some(), self.profile.is_some()];
        let one = sources.iter().filter(|given| **given).count() == 1;
        let remedy = "exactly one of trace, [stream] and [profile]";
        Invalid::unless(one, "trace", "there is no workload, or more than one", remedy)?;
        if let Some(format) = &self.format {
            let all = Format::ALL.map(Format::name).join(", ");
            let known = Format::named(format).is_some();
            Invalid::unless(known, "format", format!("no format `{format}`"), all)?;
        }
        let cores = (1..=64).contains(&self.cores);
        Invalid::unless(cores, "cores", "is out of range", "1 to 64")?;
        let lone = !self.split || traces.len() == 1;
        Invalid::unless(lone, "split", "asks for one trace with several threads", "one trace")?;
        let share = self.leakage_share > 0.0 && self.leakage_share <= 1.0;
        Invalid::unless(share, "leakage_share", "is no share", "above 0, at most 1, such as 0.4")?;
        let retention = (0.0..=1.0).contains(&self.retention);
        Invalid::unless(retention, "retention", "is no share", "0 to 1, such as 0.002")?;
        let wake = self.wake_ns.is_none_or(|wake| wake > 0.0 && wake <= 1e6);
        Invalid::unless(wake, "wake_ns", "is no time", "ns above 0, such as 10.2")?;
        let load = self.load > 0.0 && self.load <= 1.0;
        Invalid::unless(load, "load", "is no share", "above 0, at most 1, such as 0.1")?;
        let slots = (1..=64).contains(&self.slots);
        Invalid::unless(slots, "slots", "is out of range", "1 to 64, such as 5")?;
        let psi = self.slot_ns > 0.0 && self.slot_ns <= 1e3;
        Invalid::unless(psi, "slot_ns", "is no time", "ns above 0, such as 0.9")?;
        if let Some(profile) = &self.profile {
            let rate = profile.read_mpki > 0.0 && profile.read_mpki <= 500.0;
            Invalid::unless(rate, "profile.read_mpki", "is out of range", "above 0, at most 500")?;
            let space = (1..=1 << 16).contains(&profile.footprint_mib);
            Invalid::unless(space, "profile.footprint_mib", "is out of range", "1 to 65536")?;
            let shares = [profile.sequential, profile.chained];
            let shares = shares.iter().all(|share| (0.0..=1.0).contains(share));
            let remedy = "profile.sequential and profile.chained from 0 to 1";
            Invalid::unless(shares, "profile", "a share is out of range", remedy)?;
            let cluster = (1.0..=64.0).contains(&profile.cluster);
            Invalid::unless(cluster, "profile.cluster", "is out of range", "1 to 64")?;
            let writes = (0.0..=profile.read_mpki).contains(&profile.write_mpki);
            let remedy = "0 to profile.read_mpki";
            Invalid::unless(writes, "profile.write_mpki", "is out of range", remedy)?;
        }
        if let Some(stream) = &self.stream {
            let some = (1..=1 << 32).contains(&stream.elements) && stream.times > 0;
            Invalid::unless(
                some,
                "stream.elements",
                "or stream.times is out of range",
                "1 or more",
            )?;
        }
        self.controllers()?;
        self.core.check()?;
        self.caches.check()?;
        self.memory.check()
    }
}
