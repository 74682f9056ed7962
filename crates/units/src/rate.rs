//! Rates.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Frequency, in hertz.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Hertz(pub u64);

impl Hertz {
    /// From kilohertz, the unit of Linux's cpufreq files.
    pub const fn from_khz(khz: u64) -> Self {
        Hertz(khz * 1_000)
    }

    /// In kilohertz, rounded down.
    pub const fn as_khz(self) -> u64 {
        self.0 / 1_000
    }

    /// In gigahertz.
    pub fn as_ghz(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} GHz", self.as_ghz())
    }
}

/// Packet rate, in packets per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PacketsPerSecond(pub f64);

/// Data rate, in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitsPerSecond(pub f64);

impl fmt::Display for PacketsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mpps", self.0 / 1e6)
    }
}

impl fmt::Display for BitsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Gb/s", self.0 / 1e9)
    }
}
