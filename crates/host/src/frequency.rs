//! A core's frequency, through the files that every cpufreq driver has.

use ebb_units::Hertz;

use crate::journal::Journal;
use crate::knob::Knob;
use crate::sysfs::{KnobError, Sysfs};
use crate::topology::{CPUS, parse_list};

/// Levels offered where the driver does not list its own.
const STEPS: u64 = 8;
/// Such levels are multiples of this.
const GRAIN_KHZ: u64 = 100_000;

/// The frequency of one CPU and of those that share its clock.
///
/// Pins it by setting `scaling_min_freq` and `scaling_max_freq` to the same value, which all
/// drivers and governors obey, `intel_pstate` and `amd-pstate` included.
#[derive(Debug)]
pub struct Frequency {
    sysfs: Sysfs,
    directory: String,
    levels: Vec<Hertz>,
    domain: Vec<usize>,
    min: Knob,
    max: Knob,
    set: Option<u64>,
}

impl Frequency {
    /// Finds the levels of `cpu`, within the limits that are set now.
    ///
    /// # Errors
    /// [`KnobError::is_absent`] when the machine has no control of frequency.
    pub fn open(sysfs: &Sysfs, cpu: usize, journal: &Journal) -> Result<Self, KnobError> {
        let directory = format!("{CPUS}/cpu{cpu}/cpufreq");
        let knob = |file: &str| Knob::open(sysfs, &format!("{directory}/{file}"), journal);
        let (min, max) = (knob("scaling_min_freq")?, knob("scaling_max_freq")?);
        let number = |knob: &Knob| {
            let value = knob.original();
            value.parse().map_err(|_| KnobError::unreadable(&knob.path(), value))
        };
        let (low, high): (u64, u64) = (number(&min)?, number(&max)?);
        let listed = sysfs.read(&format!("{directory}/scaling_available_frequencies")).ok();
        let mut khz: Vec<u64> = match listed {
            Some(list) => list.split_whitespace().filter_map(|khz| khz.parse().ok()).collect(),
            None => steps(
                sysfs.read_number(&format!("{directory}/cpuinfo_min_freq")).unwrap_or(low),
                sysfs.read_number(&format!("{directory}/cpuinfo_max_freq")).unwrap_or(high),
            ),
        };
        khz.retain(|khz| (low..=high).contains(khz));
        if khz.is_empty() {
            khz.push(high);
        }
        khz.sort_unstable();
        khz.dedup();
        let related = sysfs.read(&format!("{directory}/related_cpus")).unwrap_or_default();
        let domain = parse_list(&related.replace(' ', ",")).filter(|cpus| cpus.contains(&cpu));
        Ok(Frequency {
            sysfs: sysfs.clone(),
            levels: khz.into_iter().map(Hertz::from_khz).collect(),
            domain: domain.unwrap_or_else(|| vec![cpu]),
            directory,
            min,
            max,
            set: None,
        })
    }

    /// The frequencies to choose from, ascending, at least one.
    pub fn levels(&self) -> &[Hertz] {
        &self.levels
    }

    /// The CPUs that change together, in order.
    pub fn domain(&self) -> &[usize] {
        &self.domain
    }

    /// The cpufreq governor at work, as in `schedutil`.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn governor(&self) -> Result<String, KnobError> {
        self.sysfs.read(&format!("{}/scaling_governor", self.directory))
    }

    /// The driver, as in `intel_pstate`.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn driver(&self) -> Result<String, KnobError> {
        self.sysfs.read(&format!("{}/scaling_driver", self.directory))
    }

    /// The frequency now, as the driver knows it.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn current(&self) -> Result<Hertz, KnobError> {
        self.sysfs.read_number(&format!("{}/scaling_cur_freq", self.directory)).map(Hertz::from_khz)
    }

    /// Pins the frequency. Values between levels are the driver's to round.
    ///
    /// # Errors
    /// When the driver refuses; the limits may then be apart but never crossed.
    pub fn set(&mut self, frequency: Hertz) -> Result<(), KnobError> {
        let khz = frequency.as_khz();
        // The lower limit may never pass the upper one: older kernels refuse that.
        let rising = match self.set {
            Some(before) => khz >= before,
            None => self.max.read()?.parse().is_ok_and(|max: u64| khz >= max),
        };
        self.set = None;
        let value = khz.to_string();
        if rising {
            self.max.write(&value)?;
            self.min.write(&value)?;
        } else {
            self.min.write(&value)?;
            self.max.write(&value)?;
        }
        self.set = Some(khz);
        Ok(())
    }

    /// Has the clock at least so fast; above that the kernel chooses, by all that it does.
    ///
    /// # Errors
    /// As [`Frequency::set`].
    pub fn set_least(&mut self, frequency: Hertz) -> Result<(), KnobError> {
        self.set = None;
        self.max.restore()?;
        self.min.write(&frequency.as_khz().to_string())?;
        self.set = Some(frequency.as_khz());
        Ok(())
    }

    /// Puts the original limits back. They enclose every level, so their order does not matter.
    ///
    /// # Errors
    /// The first refusal; both are tried.
    pub fn restore(&mut self) -> Result<(), KnobError> {
        self.set = None;
        let max = self.max.restore();
        self.min.restore().and(max)
    }
}

/// Evenly spaced levels from `low` to `high`, both included.
fn steps(low: u64, high: u64) -> Vec<u64> {
    let span = high.saturating_sub(low);
    (0..STEPS)
        .map(|step| match step {
            0 => low,
            step if step == STEPS - 1 => high,
            step => (low + span * step / (STEPS - 1)) / GRAIN_KHZ * GRAIN_KHZ,
        })
        .filter(|khz| (low..=high).contains(khz))
        .collect()
}
