//! Power and energy.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub};
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Power, in watts.
///
/// ```
/// use core::time::Duration;
/// use ebb_units::{Joules, Watts};
/// assert_eq!(Watts(3.0) * Duration::from_secs(2), Joules(6.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Watts(pub f64);

/// Energy, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Joules(pub f64);

impl Mul<Duration> for Watts {
    type Output = Joules;
    fn mul(self, span: Duration) -> Joules {
        Joules(self.0 * span.as_secs_f64())
    }
}

impl Div<Duration> for Joules {
    type Output = Watts;
    fn div(self, span: Duration) -> Watts {
        Watts(self.0 / span.as_secs_f64())
    }
}

macro_rules! additive {
    ($unit:ident, $symbol:literal) => {
        impl Add for $unit {
            type Output = $unit;
            fn add(self, other: $unit) -> $unit {
                $unit(self.0 + other.0)
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: $unit) {
                self.0 += other.0;
            }
        }
        impl Sub for $unit {
            type Output = $unit;
            fn sub(self, other: $unit) -> $unit {
                $unit(self.0 - other.0)
            }
        }
        impl Mul<f64> for $unit {
            type Output = $unit;
            fn mul(self, factor: f64) -> $unit {
                $unit(self.0 * factor)
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = $unit>>(parts: I) -> $unit {
                $unit(parts.map(|part| part.0).sum())
            }
        }
        impl fmt::Display for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:.2} ", $symbol), self.0)
            }
        }
    };
}

additive!(Watts, "W");
additive!(Joules, "J");
