//! Mean, variance and confidence interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Mean, variance and confidence interval of independent values, in one pass (Welford 1962).
///
/// ```
/// let mut waits_us = ebb_des::Summary::new();
/// [4.0, 6.0, 5.0, 5.0].into_iter().for_each(|wait| waits_us.push(wait));
/// assert_eq!(waits_us.mean(), 5.0);
/// assert!((waits_us.half_width_95().unwrap() - 1.299).abs() < 1e-3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Summary {
    /// Without values.
    pub fn new() -> Summary {
        Summary::default()
    }

    /// Adds a value.
    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// Values added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 without values.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Their unbiased variance; 0 with fewer than two.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares / (self.count - 1) as f64 }
    }

    /// Half the width of the 95 % confidence interval of the mean, after Student; `None` with
    /// fewer than two values.
    pub fn half_width_95(&self) -> Option<f64> {
        let freedom = self.count.checked_sub(1).filter(|&freedom| freedom > 0)?;
        let student = StudentsT::new(0.0, 1.0, freedom as f64).expect("positive freedom");
        Some(student.inverse_cdf(0.975) * (self.variance() / self.count as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_no_interval() {
        let mut summary = Summary::new();
        assert_eq!(summary.half_width_95(), None);
        summary.push(3.0);
        assert_eq!((summary.mean(), summary.variance(), summary.half_width_95()), (3.0, 0.0, None));
    }

    #[test]
    fn far_from_zero_nothing_is_lost() {
        let mut summary = Summary::new();
        for value in [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0] {
            summary.push(value);
        }
        assert!((summary.variance() - 30.0).abs() < 1e-6);
    }
}
