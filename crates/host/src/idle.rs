//! How deeply a CPU may sleep.

use std::time::Duration;

use crate::journal::Journal;
use crate::knob::Knob;
use crate::sysfs::{KnobError, Sysfs};
use crate::topology::CPUS;

/// The longest that a CPU may take to wake up. Values as the kernel's
/// `Documentation/ABI/testing/sysfs-devices-power` defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeLatency {
    /// Any: the deepest state is allowed (`0`).
    Unlimited,
    /// At most this many microseconds, at least 1.
    AtMost(u32),
    /// None at all: the CPU polls instead of sleeping (`n/a`).
    None,
}

impl WakeLatency {
    fn encode(self) -> String {
        match self {
            WakeLatency::Unlimited => "0".into(),
            WakeLatency::AtMost(0) | WakeLatency::None => "n/a".into(),
            WakeLatency::AtMost(micros) => micros.to_string(),
        }
    }

    fn decode(value: &str) -> Option<Self> {
        Some(match value {
            "0" => WakeLatency::Unlimited,
            "n/a" => WakeLatency::None,
            value => WakeLatency::AtMost(value.parse().ok()?),
        })
    }
}

/// The limit on the wake-up latency of one CPU (`pm_qos_resume_latency_us`).
#[derive(Debug)]
pub struct IdleDepth {
    knob: Knob,
}

impl IdleDepth {
    /// The limit of `cpu`.
    ///
    /// # Errors
    /// [`KnobError::is_absent`] when the kernel has no such limit.
    pub fn open(sysfs: &Sysfs, cpu: usize, journal: &Journal) -> Result<Self, KnobError> {
        let file = format!("{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us");
        Ok(IdleDepth { knob: Knob::open(sysfs, &file, journal)? })
    }

    /// The limit now.
    ///
    /// # Errors
    /// When it can't be read or is not understood.
    pub fn get(&self) -> Result<WakeLatency, KnobError> {
        let value = self.knob.read()?;
        WakeLatency::decode(&value).ok_or_else(|| KnobError::unreadable(&self.knob.path(), &value))
    }

    /// Sets the limit.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&mut self, latency: WakeLatency) -> Result<(), KnobError> {
        self.knob.write(&latency.encode())
    }

    /// Puts the original limit back.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn restore(&mut self) -> Result<(), KnobError> {
        self.knob.restore()
    }
}

/// An idle state of a CPU and how much it was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Name, as in `C1`.
    pub name: String,
    /// Time to wake up from it.
    pub latency: Duration,
    /// Shortest stay that saves energy.
    pub residency: Duration,
    /// Times it was entered since boot.
    pub entered: u64,
    /// Time spent in it since boot.
    pub time: Duration,
    /// Switched off by hand.
    pub disabled: bool,
}

/// The idle states of `cpu`, shallowest first; none where the machine has none, as many virtual
/// ones do.
pub fn states(sysfs: &Sysfs, cpu: usize) -> Vec<IdleState> {
    let directory = format!("{CPUS}/cpu{cpu}/cpuidle");
    let numbered = sysfs.list(&directory).into_iter();
    let mut numbers: Vec<u32> =
        numbered.filter_map(|name| name.strip_prefix("state")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .filter_map(|n| state(sysfs, &format!("{directory}/state{n}")).ok())
        .collect()
}

fn state(sysfs: &Sysfs, directory: &str) -> Result<IdleState, KnobError> {
    let number = |file: &str| sysfs.read_number(&format!("{directory}/{file}"));
    Ok(IdleState {
        name: sysfs.read(&format!("{directory}/name"))?,
        latency: Duration::from_micros(number("latency")?),
        residency: Duration::from_micros(number("residency").unwrap_or(0)),
        entered: number("usage").unwrap_or(0),
        time: Duration::from_micros(number("time").unwrap_or(0)),
        disabled: number("disable").unwrap_or(0) != 0,
    })
}

/// The limit that allows the first sleeping state of `states` (C1) and nothing deeper; 1 us where
/// no state says what it takes.
pub fn shallow(states: &[IdleState]) -> WakeLatency {
    let first = states.iter().map(|state| state.latency.as_micros()).find(|&micros| micros > 0);
    WakeLatency::AtMost(first.and_then(|micros| u32::try_from(micros).ok()).unwrap_or(1))
}
