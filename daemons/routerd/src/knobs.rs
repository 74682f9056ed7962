//! The machine's frequency and idle-depth knobs and its energy counters, as the governor uses them.
//!
//! Whatever the machine lacks or refuses is reported once and left alone.

use ebb_control::IdleDepth;
use ebb_host::energy::Rapl;
use ebb_host::idle::{self, WakeLatency};
use ebb_host::journal::Journal;
use ebb_host::{Frequency, KnobError, Sysfs};
use ebb_power::ServerModel;
use ebb_units::Hertz;

use crate::config::Config;
use crate::energy::Meter;
use crate::governor::Knobs;
use crate::power::Fitted;

/// Knobs of the workers' CPUs.
pub struct MachineKnobs {
    frequencies: Vec<Frequency>,
    levels: Vec<Hertz>,
    idle: Vec<Option<idle::IdleDepth>>,
    shallow: WakeLatency,
    set: (Option<u16>, Vec<Option<IdleDepth>>),
    /// Whether some ports' packets, and all, are forwarded by the kernel.
    kernel_path: (bool, bool),
}

impl MachineKnobs {
    /// Opens what `config` allows and the machine has, for the workers' CPUs; every knob's value is
    /// in the journal before it is first turned. The strings say what is missing.
    pub fn open(
        config: &Config,
        cpus: &[Option<usize>],
        journal: &Journal,
    ) -> (MachineKnobs, Vec<String>) {
        let sysfs = Sysfs::new(&config.governor.sysfs_root);
        let mut notes = Vec::new();
        let mut frequencies: Vec<Frequency> = Vec::new();
        let mut idle_knobs = Vec::new();
        for cpu in cpus {
            let Some(cpu) = *cpu else {
                idle_knobs.push(None);
                continue;
            };
            let covered = frequencies.iter().any(|known| known.domain().contains(&cpu));
            if config.governor.frequency && !covered {
                match Frequency::open(&sysfs, cpu, journal) {
                    Ok(knob) => frequencies.push(knob),
                    Err(error) => note(&mut notes, "the clock frequency is not controlled", &error),
                }
            }
            let knob = config.governor.idle.then(|| idle::IdleDepth::open(&sysfs, cpu, journal));
            idle_knobs.push(match knob {
                Some(Ok(knob)) => Some(knob),
                Some(Err(error)) => {
                    note(&mut notes, "the idle depth is not controlled", &error);
                    None
                }
                None => None,
            });
        }
        let levels = common_levels(&frequencies);
        let first = cpus.iter().flatten().next().copied().unwrap_or(0);
        let shallow = match config.powersave.latency_budget_us {
            0 => idle::shallow(&idle::states(&sysfs, first)),
            // What a packet may wait is what its core may take to wake.
            budget => WakeLatency::AtMost(budget),
        };
        let set = (None, vec![None; cpus.len()]);
        let kernel_path = (false, false);
        let knobs =
            MachineKnobs { frequencies, levels, idle: idle_knobs, shallow, set, kernel_path };
        (knobs, notes)
    }

    /// Frequencies that all workers' cores have, ascending; empty without control of frequency.
    pub fn levels(&self) -> &[Hertz] {
        &self.levels
    }
}

fn note(notes: &mut Vec<String>, what: &str, error: &KnobError) {
    let known = notes.iter().any(|note| note.starts_with(what));
    if !known {
        notes.push(format!("{what}: {error}"));
    }
}

fn common_levels(frequencies: &[Frequency]) -> Vec<Hertz> {
    let Some((first, others)) = frequencies.split_first() else { return Vec::new() };
    let everywhere = |level: &&Hertz| others.iter().all(|other| other.levels().contains(level));
    first.levels().iter().filter(everywhere).copied().collect()
}

impl Knobs for MachineKnobs {
    fn set_frequency(&mut self, index: u16) -> Result<(), String> {
        let Some(level) = self.levels.get(usize::from(index)).copied() else { return Ok(()) };
        if self.set.0 == Some(index) {
            return Ok(());
        }
        for frequency in &mut self.frequencies {
            let set = match self.kernel_path {
                (true, _) => frequency.set_least(level),
                (false, _) => frequency.set(level),
            };
            set.map_err(|error| error.to_string())?;
        }
        self.set.0 = Some(index);
        Ok(())
    }

    fn set_depth(&mut self, worker: usize, depth: IdleDepth) -> Result<(), String> {
        let Some(knob) = self.idle.get_mut(worker).and_then(Option::as_mut) else { return Ok(()) };
        if self.set.1[worker] == Some(depth) {
            return Ok(());
        }
        let latency = match depth {
            IdleDepth::Shallow if self.kernel_path.1 => WakeLatency::Unlimited,
            IdleDepth::Shallow => self.shallow,
            IdleDepth::Deep => WakeLatency::Unlimited,
        };
        knob.set(latency).map_err(|error| error.to_string())?;
        self.set.1[worker] = Some(depth);
        Ok(())
    }

    fn set_kernel_path(&mut self, some: bool, all: bool) -> Result<(), String> {
        if std::mem::replace(&mut self.kernel_path, (some, all)) == (some, all) {
            return Ok(());
        }
        let depths = self.set.1.clone();
        let clock = self.set.0.take().map(|index| self.set_frequency(index));
        self.set.1.fill(None);
        let set = |(worker, depth): (usize, &Option<IdleDepth>)| Some((worker, (*depth)?));
        let known: Vec<(usize, IdleDepth)> = depths.iter().enumerate().filter_map(set).collect();
        let depths = known.into_iter().map(|(worker, depth)| self.set_depth(worker, depth));
        let refused: Vec<String> = depths.chain(clock).filter_map(Result::err).collect();
        if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
    }

    fn restore(&mut self) {
        for frequency in &mut self.frequencies {
            if let Err(error) = frequency.restore() {
                tracing::warn!(code = "EBB-R007", "{error}");
            }
        }
        for knob in self.idle.iter_mut().flatten() {
            if let Err(error) = knob.restore() {
                tracing::warn!(code = "EBB-R007", "{error}");
            }
        }
    }
}

/// The machine's energy counters; where it has none the model fitted to this machine, or else the
/// published server model, that of a server whose only cores are the workers': its name says so.
pub fn meter(
    config: &Config,
    workers: usize,
    levels: &[Hertz],
    fitted: Option<&Fitted>,
) -> (Meter, Option<String>) {
    let sysfs = Sysfs::new(&config.governor.sysfs_root);
    match Rapl::open(&sysfs) {
        Ok(mut rapl) => {
            let read = move || rapl.energy().map_err(|error| error.to_string());
            (Meter::Measured(Box::new(read)), None)
        }
        Err(error) => {
            let why = format!("energy is modelled, not measured: {error}");
            let fitted = fitted.map(|fitted| Meter::Fitted(fitted.clone()));
            (fitted.unwrap_or_else(|| modelled(workers, levels)), Some(why))
        }
    }
}

/// The published server model with as many cores as there are workers.
pub fn modelled(workers: usize, levels: &[Hertz]) -> Meter {
    let model = ServerModel::niccolini2012().scaled_to(u16::try_from(workers).unwrap_or(u16::MAX));
    let frequencies = if levels.is_empty() { vec![model.frequency_max] } else { levels.to_vec() };
    let model = match levels.last() {
        Some(top) => ServerModel { frequency_max: *top, ..model },
        None => model,
    };
    Meter::Modelled { model, frequencies }
}
