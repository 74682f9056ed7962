//! Power and throughput of several cores at several frequencies (Bolla et al. 2009).

use ebb_scenario::{Check, Document, Invalid, ScenarioError};
use ebb_units::{Hertz, PacketsPerSecond, Watts};
use serde::{Deserialize, Serialize};

use crate::chi::Chi;

/// Power and throughput of a router's cores (Bolla et al., "Performance and power consumption
/// modeling for green COTS software router", eqs. 4 to 10).
///
/// ```text
/// Φ = base + Σ over active cores of ( idle(f) + [active(f) - idle(f)] · χ( r_c / (γ/n · r_max(f)) ) )
/// r = Σ over active cores of min( l_c, γ/n · r_max(f) ),   γ = γ(n) for n active cores, γ(1) = 1
/// ```
///
/// `base` is not in the paper, which drops "this additional power consumption contribution"
/// (section IV.A); with 0 the equations are the paper's. The model is a finite table of frequencies
/// and numbers of cores; a frequency is named by its index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreModel {
    /// What the numbers describe.
    pub name: String,
    /// Power that no core causes.
    #[serde(rename = "base_w", default)]
    pub base: Watts,
    /// χ, eight coefficients from a0.
    pub chi: Chi,
    /// γ for each number of active cores that the model knows, ascending, 1 core first.
    pub gain: Vec<Gain>,
    /// The table of frequencies, ascending.
    pub point: Vec<CorePoint>,
    /// How well it fitted, where it was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitQuality>,
}

/// What several cores gain over one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gain {
    /// Active cores.
    pub cores: u16,
    /// γ: their throughput as a multiple of one core's; as large as `cores` if nothing is shared.
    pub gamma: f64,
}

/// One frequency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorePoint {
    /// The clock.
    #[serde(rename = "frequency_hz")]
    pub frequency: Hertz,
    /// Φ idle: a core without traffic.
    #[serde(rename = "idle_w")]
    pub idle: Watts,
    /// Φ active: a core at its full throughput.
    #[serde(rename = "active_w")]
    pub active: Watts,
    /// Throughput of one core alone.
    #[serde(rename = "r_max_pps")]
    pub r_max: PacketsPerSecond,
}

/// How well a model fits the samples it was fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitQuality {
    /// Samples.
    pub samples: u64,
    /// Root of the mean square of the residuals of power.
    #[serde(rename = "rms_w")]
    pub rms: Watts,
    /// Largest |modelled - measured| / measured of power, a share (Bolla et al., figure 8).
    pub power_error_max: f64,
    /// The same of throughput.
    pub throughput_error_max: f64,
}

/// A way to run: so many cores at one frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Active cores.
    pub cores: u16,
    /// Index of the frequency.
    pub frequency: usize,
    /// The clock.
    pub clock: Hertz,
    /// The most it forwards.
    pub capacity: PacketsPerSecond,
    /// What it draws under the load in question.
    pub watts: Watts,
}

impl CoreModel {
    /// Reads a model file; `file` is its name for messages.
    ///
    /// # Errors
    /// When it is not TOML, has unknown or missing keys, or describes no machine.
    pub fn from_toml(file: &str, text: &str) -> Result<CoreModel, ScenarioError> {
        Document::parse(file, text)?.read()
    }

    /// The model as a file that [`CoreModel::from_toml`] reads back to the same values.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a model is tables of numbers and text")
    }

    /// γ of `cores` active cores; `None` for a number that the model does not know.
    pub fn gamma(&self, cores: u16) -> Option<f64> {
        self.gain.iter().find(|gain| gain.cores == cores).map(|gain| gain.gamma)
    }

    /// The most cores that the model knows.
    pub fn cores_max(&self) -> u16 {
        self.gain.last().map_or(0, |gain| gain.cores)
    }

    /// The most that `cores` cores forward at a frequency, spread evenly (eq. 10); `None` for
    /// cores or a frequency that the model does not have.
    pub fn capacity(&self, cores: u16, frequency: usize) -> Option<PacketsPerSecond> {
        let point = self.point.get(frequency)?;
        Some(PacketsPerSecond(self.gamma(cores)? * point.r_max.0))
    }

    /// What is forwarded of `offered`: the smaller of it and the capacity (eq. 6 and 10).
    pub fn throughput(
        &self,
        cores: u16,
        frequency: usize,
        offered: PacketsPerSecond,
    ) -> Option<PacketsPerSecond> {
        let capacity = self.capacity(cores, frequency)?;
        Some(PacketsPerSecond(offered.0.max(0.0).min(capacity.0)))
    }

    /// Power of `cores` cores at a frequency under `offered`, spread evenly (eq. 5 and 9).
    pub fn power(&self, cores: u16, frequency: usize, offered: PacketsPerSecond) -> Option<Watts> {
        let (point, capacity) = (self.point.get(frequency)?, self.capacity(cores, frequency)?);
        let share = (offered.0 / capacity.0).clamp(0.0, 1.0);
        Some(self.base + self.core(point, share) * f64::from(cores))
    }

    fn core(&self, point: &CorePoint, share: f64) -> Watts {
        point.idle + (point.active - point.idle) * self.chi.at(share)
    }

    /// Every way to run under `offered`, in ascending order of cores and frequency.
    pub fn operations(&self, offered: PacketsPerSecond) -> impl Iterator<Item = Operation> + '_ {
        let pairs =
            self.gain.iter().flat_map(|gain| (0..self.point.len()).map(|f| (gain.cores, f)));
        pairs.filter_map(move |(cores, frequency)| {
            Some(Operation {
                cores,
                frequency,
                clock: self.point[frequency].frequency,
                capacity: self.capacity(cores, frequency)?,
                watts: self.power(cores, frequency, offered)?,
            })
        })
    }

    /// The cheapest way to carry `load` with `headroom`: among all cores and frequencies of the
    /// table whose capacity is at least `load · (1 + headroom)`, the one that draws least under
    /// `load`. Fewer cores, then the lower frequency win a tie. `None` when nothing carries it.
    ///
    /// Exact by exhaustion: the table has at most thousands of entries, and the published χ is not
    /// monotone, so that no bound would be safe. The paper leaves this "green optimization" to
    /// future work (section VI).
    ///
    /// ```
    /// use ebb_power::CoreModel;
    /// use ebb_units::PacketsPerSecond;
    /// let model = CoreModel::example();
    /// let light = model.cheapest(PacketsPerSecond(1e5), 0.25).expect("carried");
    /// let heavy = model.cheapest(PacketsPerSecond(1.2e6), 0.0).expect("carried");
    /// assert!(light.watts.0 < heavy.watts.0 && light.cores <= heavy.cores);
    /// assert_eq!(model.cheapest(PacketsPerSecond(1e9), 0.0), None);
    /// ```
    pub fn cheapest(&self, load: PacketsPerSecond, headroom: f64) -> Option<Operation> {
        let wanted = load.0.max(0.0) * (1.0 + headroom.max(0.0));
        let carries = |operation: &Operation| operation.capacity.0 >= wanted;
        self.operations(load).filter(carries).min_by(|a, b| a.watts.0.total_cmp(&b.watts.0))
    }

    /// A two-core machine of the kind that the paper measures, for examples and tests. Its watts
    /// and rates are made up; χ is the published one.
    pub fn example() -> CoreModel {
        let point = |mhz: u64, idle, active, kpps: f64| CorePoint {
            frequency: Hertz(mhz * 1_000_000),
            idle: Watts(idle),
            active: Watts(active),
            r_max: PacketsPerSecond(kpps * 1e3),
        };
        CoreModel {
            name: "an example".to_owned(),
            base: Watts(0.0),
            chi: Chi::published(),
            gain: vec![Gain { cores: 1, gamma: 1.0 }, Gain { cores: 2, gamma: 1.9 }],
            point: vec![
                point(2000, 60.0, 72.0, 780.0),
                point(2330, 61.0, 76.0, 870.0),
                point(2670, 62.0, 81.0, 960.0),
                point(3000, 63.0, 87.0, 1040.0),
            ],
            fit: None,
        }
    }
}

impl Check for CoreModel {
    fn check(&self) -> Result<(), Invalid> {
        let finite = |value: f64| value.is_finite() && value >= 0.0;
        Invalid::unless(
            finite(self.base.0),
            "base_w",
            "is not a power",
            "expected 0 or more watts",
        )?;
        let finite_form = self.chi.0.iter().all(|coefficient| coefficient.is_finite());
        Invalid::unless(
            finite_form,
            "chi",
            "has a coefficient that is not a number",
            "expected eight numbers",
        )?;
        let rooted = self.chi.0[0] == 0.0;
        Invalid::unless(rooted, "chi", "does not begin with 0", "set a0 = 0")?;
        let one = matches!(self.gain.first(), Some(gain) if gain.cores == 1 && gain.gamma == 1.0);
        Invalid::unless(
            one,
            "gain",
            "does not begin with one core",
            "begin with cores = 1, gamma = 1.0",
        )?;
        for (index, pair) in self.gain.windows(2).enumerate() {
            let field = |name: &str| format!("gain[{}].{name}", index + 1);
            let rises = pair[0].cores < pair[1].cores;
            Invalid::unless(
                rises,
                field("cores"),
                "is not in ascending order",
                "list each number once, in ascending order",
            )?;
            let gamma = pair[1].gamma;
            let positive = gamma.is_finite() && gamma > 0.0;
            Invalid::unless(
                positive,
                field("gamma"),
                "is not a factor",
                "expected a number above 0",
            )?;
        }
        Invalid::unless(!self.point.is_empty(), "point", "is empty", "add a [[point]]")?;
        for (index, point) in self.point.iter().enumerate() {
            check_point(index, point)?;
            let before =
                index.checked_sub(1).map_or(Hertz(0), |before| self.point[before].frequency);
            let field = format!("point[{index}].frequency_hz");
            let rises = point.frequency > before;
            Invalid::unless(
                rises,
                field,
                "is not in ascending order",
                "expected frequencies above 0, in ascending order",
            )?;
        }
        Ok(())
    }
}

fn check_point(index: usize, point: &CorePoint) -> Result<(), Invalid> {
    let field = |name: &str| format!("point[{index}].{name}");
    let (idle, active, r_max) = (point.idle.0, point.active.0, point.r_max.0);
    let good = idle.is_finite() && idle >= 0.0;
    Invalid::unless(good, field("idle_w"), "is not a power", "expected 0 or more watts")?;
    let good = active.is_finite() && active >= idle;
    Invalid::unless(
        good,
        field("active_w"),
        "is below `idle_w`",
        "expected at least the idle power",
    )?;
    let good = r_max.is_finite() && r_max > 0.0;
    Invalid::unless(
        good,
        field("r_max_pps"),
        "is not a throughput",
        "expected packets per second above 0",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pps(rate: f64) -> PacketsPerSecond {
        PacketsPerSecond(rate)
    }

    #[test]
    fn one_core_is_equation_5() {
        let model = CoreModel::example();
        assert_eq!(model.power(1, 3, pps(0.0)), Some(Watts(63.0)));
        let half = model.power(1, 3, pps(520e3)).expect("known");
        assert!((half.0 - (63.0 + 24.0 * Chi::published().at(0.5))).abs() < 1e-12);
        let full = model.power(1, 3, pps(9e9)).expect("known");
        assert!((full.0 - (63.0 + 24.0 * 1.002_087)).abs() < 1e-9, "no clamp at 1: {full}");
        assert_eq!(model.throughput(1, 3, pps(9e9)), Some(pps(1.04e6)));
    }

    #[test]
    fn several_cores_are_equations_9_and_10() {
        let model = CoreModel::example();
        let (chi, each) = (Chi::published(), 1.9f64 / 2.0 * 960e3);
        for offered in [0.0, 3e5, 1.7e6, 5e6] {
            let share = (offered / 2.0 / each).min(1.0);
            let power = model.power(2, 2, pps(offered)).expect("known").0;
            assert!((power - 2.0 * (62.0 + 19.0 * chi.at(share))).abs() < 1e-9);
            let carried = model.throughput(2, 2, pps(offered)).expect("known").0;
            assert!((carried - offered.min(2.0 * each)).abs() < 1e-6);
        }
        assert_eq!(model.power(1, 9, pps(1.0)), None);
        assert_eq!(model.power(3, 0, pps(1.0)), None);
    }

    #[test]
    fn a_file_reads_back_and_names_its_faults() {
        let model = CoreModel::example();
        let text = model.to_toml();
        assert_eq!(CoreModel::from_toml("m.toml", &text), Ok(model));
        let refused =
            |text: String| CoreModel::from_toml("m.toml", &text).expect_err("bad").to_string();
        let text = &text;
        for (from, to, field) in [
            ("idle_w = 60.0", "idle_w = -1.0", "point[0].idle_w"),
            ("r_max_pps = 870000.0", "r_max_pps = nan", "point[1].r_max_pps"),
            ("gamma = 1.9", "gamma = 0.0", "gain[1].gamma"),
            ("base_w = 0.0", "base_w = 0.0\nturbo = 1", "turbo"),
            ("frequency_hz = 2330000000", "frequency_hz = 1", "point[1].frequency_hz"),
        ] {
            assert!(text.contains(from), "{text}");
            let message = refused(text.replacen(from, to, 1));
            assert!(message.starts_with("m.toml:") && message.contains(field), "{message}");
        }
    }

    proptest! {
        #[test]
        fn the_cheapest_is_the_best_of_all(load in 0.0f64..2.2e6, headroom in 0.0f64..1.0) {
            let model = CoreModel::example();
            let best = model.cheapest(pps(load), headroom);
            let mut found: Option<(f64, u16, usize)> = None;
            for cores in 1..=2 {
                for frequency in 0..4 {
                    let capacity = model.capacity(cores, frequency).expect("known").0;
                    let watts = model.power(cores, frequency, pps(load)).expect("known").0;
                    let carries = capacity >= load * (1.0 + headroom);
                    if carries && found.is_none_or(|(least, ..)| watts < least) {
                        found = Some((watts, cores, frequency));
                    }
                }
            }
            prop_assert_eq!(best.map(|one| (one.watts.0, one.cores, one.frequency)), found);
        }

        #[test]
        fn power_stays_between_idle_and_full(load in 0.0f64..4e6, cores in 1u16..=2, f in 0usize..4) {
            let model = CoreModel::example();
            let power = model.power(cores, f, pps(load)).expect("known").0;
            let (n, point) = (f64::from(cores), model.point[f]);
            let full = point.idle.0 + (point.active.0 - point.idle.0) * model.chi.sum();
            prop_assert!(power >= n * point.idle.0 - 1e-9 && power <= n * full + 1e-9);
        }
    }
}
