//! A [`CoreModel`] from measurements.
//!
//! Two steps, each a least-squares problem. First the throughput: r_max(f) and γ(n) from loads
//! that exceeded them (eqs. 6 and 10). Then the power: idle(f), active(f) and χ together over all
//! samples (eqs. 4, 5 and 9), χ through 0 and 1, idle powers not below 0. Power that no core causes
//! is found only where several numbers of cores were measured, and kept only where it explains
//! more than noise.
//!
//! The paper shifts and normalises each curve by its own ends and then fits χ (section V.A). Here
//! the ends are fitted with it, so that a noisy end does not bend the form.

mod capacity;
mod power;
mod samples;
mod shape;

use ebb_units::{Hertz, PacketsPerSecond, Watts};

use crate::core_model::{CoreModel, CorePoint, FitQuality, Gain};
pub use samples::{Sample, read_samples, write_samples};

/// A model and how well it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The model; its numbers are rounded to nine digits.
    pub model: CoreModel,
    /// Each sample's deviation, in the order of the samples.
    pub residuals: Vec<Residual>,
}

/// How far the model is from one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Modelled less measured power.
    pub watts: Watts,
    /// The same as a share of the measured power.
    pub relative: f64,
    /// Modelled less measured throughput.
    pub forwarded: PacketsPerSecond,
}

/// Samples that give no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// They do not determine every number of the model.
    #[error("the samples do not determine the model; missing: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// A sample that is none, by its position from 0.
    #[error("sample {index}: `{field}` is {value}")]
    Value {
        /// Which sample.
        index: usize,
        /// Which field of it.
        field: &'static str,
        /// What it holds.
        value: f64,
    },
    /// More traffic, less power.
    #[error(
        "power does not rise with load at {0}: the meter does not measure the cores, or its \
        readings and the loads are from different times"
    )]
    Falling(Hertz),
    /// The solver gave up.
    #[error("the least-squares solver stopped: {0}")]
    Solver(String),
    /// The solver could not begin.
    #[error("linear algebra: {0}")]
    Algebra(&'static str),
}

impl Fit {
    /// Fits a model called `name`.
    ///
    /// ```
    /// use ebb_power::{CoreModel, Fit, Sample};
    /// use ebb_units::PacketsPerSecond;
    /// let truth = CoreModel::example();
    /// let mut samples = Vec::new();
    /// for (cores, frequency) in [(1, 0), (1, 3), (2, 0), (2, 3)] {
    ///     for step in 0..=12 {
    ///         let offered = PacketsPerSecond(f64::from(step) * 2e5);
    ///         samples.push(Sample {
    ///             frequency: truth.point[frequency].frequency,
    ///             cores,
    ///             offered,
    ///             forwarded: truth.throughput(cores, frequency, offered).expect("known"),
    ///             watts: truth.power(cores, frequency, offered).expect("known"),
    ///         });
    ///     }
    /// }
    /// let fit = Fit::new("lab", &samples)?;
    /// assert!(fit.quality().power_error_max < 1e-6);
    /// assert!((fit.model.gamma(2).unwrap() - 1.9).abs() < 1e-6);
    /// # Ok::<(), ebb_power::FitError>(())
    /// ```
    ///
    /// # Errors
    /// When the samples do not determine the model, naming what is missing; when power falls with
    /// load; when a sample is no measurement.
    pub fn new(name: &str, samples: &[Sample]) -> Result<Fit, FitError> {
        check(samples)?;
        let capacities = capacity::fit(samples)?;
        let power = power::fit(samples, &capacities)?;
        let gain = |(cores, gamma): (&u16, &f64)| Gain { cores: *cores, gamma: rounded(*gamma) };
        let point = |(index, (frequency, r_max)): (usize, (&Hertz, &f64))| CorePoint {
            frequency: *frequency,
            idle: Watts(rounded(power.idle[index])),
            active: Watts(rounded(power.idle[index] + power.range[index])),
            r_max: PacketsPerSecond(rounded(*r_max)),
        };
        let mut chi = shape::powers(&power.free);
        chi.0 = chi.0.map(rounded);
        let mut model = CoreModel {
            name: name.to_owned(),
            base: Watts(rounded(power.base)),
            chi,
            gain: capacities.gamma.iter().map(gain).collect(),
            point: capacities.r_max.iter().enumerate().map(point).collect(),
            fit: None,
        };
        let residuals = residuals(&model, samples);
        model.fit = Some(quality(samples, &residuals));
        Ok(Fit { model, residuals })
    }

    /// How well it fits.
    pub fn quality(&self) -> FitQuality {
        self.model.fit.expect("set with the fit")
    }

    /// Position of the sample whose power is modelled worst.
    pub fn worst(&self) -> Option<usize> {
        let apart = |index: &usize| self.residuals[*index].relative.abs();
        (0..self.residuals.len()).max_by(|a, b| apart(a).total_cmp(&apart(b)))
    }
}

fn check(samples: &[Sample]) -> Result<(), FitError> {
    if samples.is_empty() {
        return Err(FitError::Missing(vec!["samples".to_owned()]));
    }
    for (index, sample) in samples.iter().enumerate() {
        let values = [
            ("frequency", sample.frequency.0 as f64, sample.frequency.0 > 0),
            ("cores", f64::from(sample.cores), sample.cores > 0),
            ("offered", sample.offered.0, sample.offered.0 >= 0.0),
            ("forwarded", sample.forwarded.0, sample.forwarded.0 >= 0.0),
            ("watts", sample.watts.0, sample.watts.0 > 0.0),
        ];
        let bad = |(_, value, good): &(&str, f64, bool)| !*good || !value.is_finite();
        if let Some((field, value, _)) = values.into_iter().find(bad) {
            return Err(FitError::Value { index, field, value });
        }
    }
    Ok(())
}

/// Nine significant digits: what is left after arithmetic that differs between machines, and far
/// more than any meter has.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().expect("a number's own writing")
}

fn residuals(model: &CoreModel, samples: &[Sample]) -> Vec<Residual> {
    let residual = |sample: &Sample| {
        let known = "fitted to it";
        let index = model.point.binary_search_by_key(&sample.frequency, |point| point.frequency);
        let frequency = index.expect(known);
        let watts = model.power(sample.cores, frequency, sample.forwarded).expect(known);
        let forwarded = model.throughput(sample.cores, frequency, sample.offered).expect(known);
        let apart = watts - sample.watts;
        Residual {
            watts: apart,
            relative: apart.0 / sample.watts.0,
            forwarded: PacketsPerSecond(forwarded.0 - sample.forwarded.0),
        }
    };
    samples.iter().map(residual).collect()
}

fn quality(samples: &[Sample], residuals: &[Residual]) -> FitQuality {
    let squares: f64 = residuals.iter().map(|residual| residual.watts.0.powi(2)).sum();
    let largest = |values: &mut dyn Iterator<Item = f64>| values.map(f64::abs).fold(0.0, f64::max);
    let carried = samples.iter().zip(residuals).filter(|(sample, _)| sample.forwarded.0 > 0.0);
    FitQuality {
        samples: samples.len() as u64,
        rms: Watts(rounded((squares / samples.len() as f64).sqrt())),
        power_error_max: rounded(largest(&mut residuals.iter().map(|residual| residual.relative))),
        throughput_error_max: rounded(largest(
            &mut carried.map(|(sample, residual)| residual.forwarded.0 / sample.forwarded.0),
        )),
    }
}

#[cfg(test)]
mod tests;
