//! A fitted model of this machine in the governor's terms.
//!
//! Room: between the model file that `ebb calibrate` writes and what a running router asks: what
//! its operating points draw and carry. It knows the machine's frequencies, nothing of packets.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ebb_control::Limits;
use ebb_control::policies::{PointCost, Points};
use ebb_power::{CoreModel, PathCosts};
use ebb_units::{Hertz, Joules, PacketsPerSecond, Watts};

/// How far a frequency of the machine may be from the model's: drivers round.
const CLOCK_TOLERANCE: f64 = 0.01;
/// Energy of waking a core or changing the frequency, for want of a measurement.
const WAKE: Joules = Joules(0.001);

fn read(path: &Path) -> Result<CoreModel> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the model {}", path.display()))?;
    Ok(CoreModel::from_toml(&path.display().to_string(), &text)?)
}

/// Reads what either path costs.
///
/// # Errors
/// When the file cannot be read or is none of these.
pub fn path_costs(path: &Path) -> Result<PathCosts> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the costs of paths {}", path.display()))?;
    Ok(PathCosts::from_toml(&path.display().to_string(), &text)?)
}

/// A model, and which of its frequencies each of the router's is.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    model: CoreModel,
    frequencies: Vec<usize>,
}

impl Fitted {
    /// Reads a model file for a router with `workers` workers and these frequencies, ascending;
    /// without any, the model's highest is what it runs at.
    ///
    /// # Errors
    /// When the file is no model, or the model does not know the machine's frequencies or as many
    /// cores as there are workers.
    pub fn load(path: &Path, workers: usize, levels: &[Hertz]) -> Result<Fitted> {
        Fitted::new(read(path)?, workers, levels).with_context(|| path.display().to_string())
    }

    /// Whether there is a model at all, before anything of the machine is known.
    ///
    /// # Errors
    /// When the file is no model.
    pub fn check(path: &Path) -> Result<()> {
        read(path).map(|_| ())
    }

    fn new(model: CoreModel, workers: usize, levels: &[Hertz]) -> Result<Fitted> {
        for cores in 1..=u16::try_from(workers)? {
            ensure!(
                model.gamma(cores).is_some(),
                "the model has no values for {cores} cores; measure every number of cores from 1 \
                to {workers}"
            );
        }
        let clocks: Vec<Hertz> = model.point.iter().map(|point| point.frequency).collect();
        let nearest = |level: &Hertz| -> Result<usize> {
            let apart = |clock: &Hertz| clock.0.abs_diff(level.0);
            let found = (0..clocks.len()).min_by_key(|index| apart(&clocks[*index]));
            let found = found.context("the model has no frequency")?;
            if apart(&clocks[found]) as f64 > CLOCK_TOLERANCE * level.0 as f64 {
                let known: Vec<String> = clocks.iter().map(Hertz::to_string).collect();
                bail!(
                    "the machine's frequency {level} is not in the model's table ({}); calibrate \
                    with more frequencies, or set `frequency = false` in [governor]",
                    known.join(", ")
                );
            }
            Ok(found)
        };
        let frequencies = match levels {
            [] => vec![clocks.len().saturating_sub(1)],
            levels => levels.iter().map(nearest).collect::<Result<_>>()?,
        };
        Ok(Fitted { model, frequencies })
    }

    /// Power of `cores` active cores at the router's frequency `frequency` under `offered`.
    pub fn watts(&self, cores: u16, frequency: u16, offered: PacketsPerSecond) -> Watts {
        let top = self.frequencies.len() - 1;
        let frequency = self.frequencies[usize::from(frequency).min(top)];
        let watts = self.model.power(cores.clamp(1, self.model.cores_max()), frequency, offered);
        watts.expect("checked when it was loaded")
    }

    /// What one of `cores` active cores that does nothing but work draws above one that waits.
    pub fn busy(&self, cores: u16, frequency: u16) -> Watts {
        let cores = cores.clamp(1, self.model.cores_max());
        let top = self.frequencies.len() - 1;
        let index = self.frequencies[usize::from(frequency).min(top)];
        let capacity = self.model.capacity(cores, index).expect("checked when it was loaded");
        let waiting = self.watts(cores, frequency, PacketsPerSecond(0.0));
        Watts((self.watts(cores, frequency, capacity) - waiting).0 / f64::from(cores))
    }

    /// What the policy `model` chooses from.
    pub fn points(&self, limits: Limits) -> Result<Points> {
        let mut points = Vec::new();
        for cores in 1..=limits.cores {
            for frequency in 0..limits.frequencies.max(1) {
                let Some(index) = self.frequencies.get(usize::from(frequency)) else { continue };
                let capacity = self.model.capacity(cores, *index).context("unknown cores")?;
                points.push(PointCost {
                    cores,
                    frequency,
                    capacity,
                    idle: self.watts(cores, frequency, PacketsPerSecond(0.0)),
                    full: self.watts(cores, frequency, capacity),
                });
            }
        }
        Ok(Points::new(points, WAKE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_clocks_find_their_place() {
        let levels = [Hertz(2_000_000_000), Hertz(2_993_000_000)];
        let fitted = Fitted::new(CoreModel::example(), 2, &levels).expect("known");
        assert_eq!(fitted.frequencies, [0, 3]);
        let model = CoreModel::example();
        let load = PacketsPerSecond(4e5);
        assert_eq!(Some(fitted.watts(2, 1, load)), model.power(2, 3, load));
        let points = fitted.points(Limits { cores: 2, frequencies: 2 }).expect("points");
        let light = points.cheapest(PacketsPerSecond(1e5));
        assert_eq!((light.cores, light.frequency), (1, 0));
    }

    #[test]
    fn what_the_model_does_not_know_is_named() {
        let refused = |workers, levels: &[Hertz]| {
            Fitted::new(CoreModel::example(), workers, levels).expect_err("unknown").to_string()
        };
        assert!(refused(3, &[]).contains("3 cores"));
        let message = refused(2, &[Hertz(2_200_000_000)]);
        assert!(message.contains("2.20 GHz") && message.contains("2.33 GHz"), "{message}");
    }
}
