//! Power as a polynomial of throughput (Bolla et al. 2009).

use serde::{Deserialize, Serialize};

/// Order of the polynomial: "the minimum order polynomial, which guarantees an acceptable accuracy
/// level" (Bolla et al., section V.A).
pub const ORDER: usize = 7;

/// The normalised form χ: the share of its power range that a core draws at a share of its
/// throughput (Bolla et al., eq. 4).
///
/// ```text
/// χ(t) = a0 + a1 t + … + a7 t⁷,   0 ≤ t ≤ 1,   a0 = 0
/// ```
///
/// ```
/// let chi = ebb_power::Chi::published();
/// assert_eq!(chi.at(0.0), 0.0);
/// assert!((chi.sum() - 1.0021).abs() < 5e-5, "as printed, the coefficients do not sum to 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chi(pub [f64; ORDER + 1]);

impl Chi {
    /// The coefficients printed in section V.A, fitted there to all measured platforms.
    ///
    /// They sum to 1.0021: at full throughput the published form is 0.21 % of a core's range above
    /// its active power. It falls by 0.014 between 0.83 and 0.93 of the throughput. Neither is
    /// corrected here.
    pub const fn published() -> Chi {
        Chi([0.0, 0.470_487, 15.0124, -89.8629, 223.074, -256.469, 130.477, -21.6999])
    }

    /// A form that is the throughput itself.
    pub const fn linear() -> Chi {
        Chi([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    }

    /// The value at `share` of the throughput, 0 to 1. Outside, the polynomial goes its way and
    /// means nothing.
    pub fn at(&self, share: f64) -> f64 {
        self.0.iter().rev().fold(0.0, |value, coefficient| value * share + coefficient)
    }

    /// The sum of the coefficients: the value at full throughput.
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The largest fall between two of `steps + 1` evenly spaced shares; 0 if it never falls.
    pub fn largest_fall(&self, steps: u32) -> f64 {
        let (mut high, mut fall) = (f64::NEG_INFINITY, 0.0f64);
        for step in 0..=steps {
            let value = self.at(f64::from(step) / f64::from(steps.max(1)));
            high = high.max(value);
            fall = fall.max(high - value);
        }
        fall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_form_is_as_printed() {
        let chi = Chi::published();
        assert_eq!(chi.0[0], 0.0);
        assert!((chi.sum() - 1.002_087).abs() < 1e-9);
        assert!((chi.at(1.0) - chi.sum()).abs() < 1e-12);
        assert!((chi.largest_fall(1000) - 0.014).abs() < 1e-4, "{}", chi.largest_fall(1000));
        assert_eq!(Chi::linear().largest_fall(1000), 0.0);
    }

    #[test]
    fn horner_is_the_sum_of_powers() {
        let chi = Chi::published();
        for step in 0..=20i32 {
            let share = f64::from(step) / 20.0;
            let powers = chi.0.iter().zip(0i32..).map(|(a, i)| a * share.powi(i));
            assert!((chi.at(share) - powers.sum::<f64>()).abs() < 1e-9);
        }
    }
}
