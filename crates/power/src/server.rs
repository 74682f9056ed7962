//! Power of a server as the sum of what its cores add.

use ebb_scenario::Described;
use ebb_units::{BitsPerSecond, Hertz, Watts};
use serde::{Deserialize, Serialize};

/// Power of a server that forwards packets, as the sum of what its cores add to an idle machine.
///
/// ```text
/// P = base + Σ over cores of ( (1 - busy) · idle(depth) + busy · active(f) ) + traffic
/// active(f) = idle(C1) + (active(f_max) - idle(C1)) · f / f_max
/// ```
///
/// A core that is awake draws what its clock makes it draw: nothing clocked is C1, which is clock
/// gated (Niccolini et al. 2012, section 4), and the rest grows with the frequency. Growth is
/// linear because the paper's is: "active power consumption grows much more slowly with frequency
/// than expected" (section 5.1), far below the cube of the textbooks.
///
/// `busy` is the share of time a core is not idle, as an operating system counts it. It is not
/// the load: waking for every packet keeps a core awake far longer than the packet's work.
///
/// # Source and fit
/// [`ServerModel::niccolini2012`] is the machine of Niccolini et al., "Building a
/// power-proportional software router", USENIX ATC 2012: two Xeon 5680 with six cores of 1.6 to
/// 3.3 GHz and four 10 Gb/s ports. Fitted, and met exactly: 115, 120 and 133 W with all cores idle
/// in C6, C3 and C1 (table 1), 262 W polling without traffic and 269 W at 40 Gb/s (section 3).
/// Implied, since a line through fitted ends was taken: halving the frequency at the highest rate
/// saves 4 % with one core and 25 % with twelve, published as "about 5 %" and 25 % (section 5.1);
/// interrupts instead of polling save 49 % without traffic, published as 50 % (section 3).
/// What a core adds includes the memory and NIC power that its work causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerModel {
    /// What the numbers describe.
    pub name: String,
    /// Cores of the machine.
    pub cores: u16,
    /// Highest frequency; the model scales with the ratio to it.
    pub frequency_max: Hertz,
    /// The machine with every core in C6.
    pub base: Watts,
    /// What an idle core adds in C6; zero by definition of `base`.
    pub core_c6: Watts,
    /// What an idle core adds in C3.
    pub core_c3: Watts,
    /// What an idle core adds in C1.
    pub core_c1: Watts,
    /// What a core adds that is never idle at the highest frequency.
    pub core_active: Watts,
    /// What each bit per second carried adds, in watts (that is, joules per bit).
    pub per_bit: f64,
}

/// What one core did over an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreState {
    /// Its clock while awake; the model's highest where the machine does not tell.
    pub frequency: Hertz,
    /// Share of the time it was not idle, 0 to 1.
    pub busy: f64,
    /// Its idle state the rest of the time.
    pub depth: Depth,
}

/// Idle states of a core, from clock gated to without power.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Described,
)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Clock gated; under a microsecond to leave.
    C1,
    /// First and second level caches off; 60 µs to leave.
    C3,
    /// Without power; 87 µs to leave.
    C6,
}

/// A number of the model, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Which.
    pub name: &'static str,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// How it was obtained.
    pub origin: Origin,
    /// From where.
    pub source: &'static str,
}

/// How a parameter was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Printed in the source.
    Published,
    /// Computed so that the model meets printed values.
    Fitted,
    /// Taken from elsewhere or guessed, because the source does not say.
    Assumed,
}

/// A model that is not one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// No cores or no clock.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// Not a power.
    #[error("`{field}` is {value}; expected a finite number of 0 or more")]
    Value {
        /// The field at fault.
        field: &'static str,
        /// What it holds.
        value: f64,
    },
    /// A deeper state that draws more.
    #[error("`core_c6` <= `core_c3` <= `core_c1` <= `core_active` is required")]
    Order,
    /// Components that are not the whole.
    #[error("the sum of the components' {sum} is {found}; expected {wanted}")]
    Sum {
        /// What was added up.
        sum: &'static str,
        /// To this.
        found: f64,
        /// Instead of this.
        wanted: f64,
    },
    /// No table of frequencies.
    #[error("`p_states` must be above 0 and ascend to `frequency_max`")]
    Frequencies,
    /// No table of idle states.
    #[error(
        "`c_states` needs at least one state; deeper states follow shallower ones and are not \
        faster"
    )]
    IdleStates,
}

const TABLE_1: &str = "Niccolini et al. 2012, table 1: (system power - 115 W) / 12 cores";

impl ServerModel {
    /// The router of Niccolini et al. 2012, sections 3 to 5.
    pub fn niccolini2012() -> ServerModel {
        ServerModel {
            name: "Niccolini et al. 2012: 2 x Xeon 5680, 4 x 10 Gb/s".to_owned(),
            cores: 12,
            frequency_max: Hertz(3_300_000_000),
            base: Watts(115.0),
            core_c6: Watts(0.0),
            core_c3: Watts((120.0 - 115.0) / 12.0),
            core_c1: Watts((133.0 - 115.0) / 12.0),
            core_active: Watts((262.0 - 115.0) / 12.0),
            per_bit: (269.0 - 262.0) / 40e9,
        }
    }

    /// The same machine with another number of cores: the base stays, what cores can add grows
    /// with their number. Beyond the two packages of the original that is an extrapolation.
    #[must_use]
    pub fn scaled_to(&self, cores: u16) -> ServerModel {
        let cores = cores.max(1);
        let name = format!("{}, scaled from {} to {cores} cores", self.name, self.cores);
        ServerModel { name, cores, ..self.clone() }
    }

    /// Refuses what is not a model of power.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn check(&self) -> Result<(), ModelError> {
        if self.cores == 0 {
            return Err(ModelError::Zero("cores"));
        }
        if self.frequency_max == Hertz(0) {
            return Err(ModelError::Zero("frequency_max"));
        }
        let values = [
            ("base", self.base.0),
            ("core_c6", self.core_c6.0),
            ("core_c3", self.core_c3.0),
            ("core_c1", self.core_c1.0),
            ("core_active", self.core_active.0),
            ("per_bit", self.per_bit),
        ];
        for (field, value) in values {
            if !value.is_finite() || value < 0.0 {
                return Err(ModelError::Value { field, value });
            }
        }
        let rising = [self.core_c6, self.core_c3, self.core_c1, self.core_active];
        if rising.is_sorted() { Ok(()) } else { Err(ModelError::Order) }
    }

    /// Power of the machine while its cores did this and no traffic passed. Cores beyond the
    /// slice are in C6.
    ///
    /// A share of time outside 0 to 1 counts as the nearer end, a frequency above the highest as
    /// the highest.
    pub fn power(&self, cores: &[CoreState]) -> Watts {
        let deep = Watts(self.core_c6.0 * f64::from(self.cores).max(cores.len() as f64));
        let added: Watts = cores.iter().map(|core| self.core(core) - self.core_c6).sum();
        self.base + deep + added
    }

    /// What carrying traffic adds: the memory and the NICs work, whatever the cores do.
    pub fn traffic(&self, carried: BitsPerSecond) -> Watts {
        Watts(self.per_bit * carried.0.max(0.0))
    }

    /// What one core adds to the machine.
    pub fn core(&self, core: &CoreState) -> Watts {
        let busy = if core.busy.is_nan() { 0.0 } else { core.busy.clamp(0.0, 1.0) };
        self.idle(core.depth) * (1.0 - busy) + self.active(core.frequency) * busy
    }

    fn active(&self, frequency: Hertz) -> Watts {
        let ratio = (frequency.0 as f64 / self.frequency_max.0 as f64).min(1.0);
        self.core_c1 + (self.core_active - self.core_c1) * ratio
    }

    /// What an idle core adds in that state.
    pub fn idle(&self, depth: Depth) -> Watts {
        match depth {
            Depth::C1 => self.core_c1,
            Depth::C3 => self.core_c3,
            Depth::C6 => self.core_c6,
        }
    }

    /// Every number of the published model with its source; `None` for any other model, whose
    /// numbers have another.
    pub fn parameters(&self) -> Option<Vec<Parameter>> {
        let published = ServerModel::niccolini2012();
        let mine =
            ServerModel { name: published.name.clone(), cores: published.cores, ..self.clone() };
        if mine != published {
            return None;
        }
        let row =
            |name, value, unit, origin, source| Parameter { name, value, unit, origin, source };
        let section_3 = "Niccolini et al. 2012, section 3: (262 W polling - 115 W idle) / 12 cores";
        let traffic = "Niccolini et al. 2012, section 3: (269 W - 262 W) / 40 Gb/s";
        let base = "Niccolini et al. 2012, table 1; of these, section 3: motherboard 24 W, two CPUs about 25 W each";
        Some(vec![
            row("base", self.base.0, "W", Origin::Published, base),
            row("core_c6", self.core_c6.0, "W", Origin::Fitted, TABLE_1),
            row("core_c3", self.core_c3.0, "W", Origin::Fitted, TABLE_1),
            row("core_c1", self.core_c1.0, "W", Origin::Fitted, TABLE_1),
            row("core_active", self.core_active.0, "W", Origin::Fitted, section_3),
            row("per_bit", self.per_bit, "W per b/s", Origin::Fitted, traffic),
            row(
                "frequency_max",
                self.frequency_max.as_ghz(),
                "GHz",
                Origin::Published,
                "Niccolini et al. 2012, section 3",
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(busy: f64, frequency: Hertz, depth: Depth) -> Vec<CoreState> {
        vec![CoreState { frequency, busy, depth }; 12]
    }

    /// Total at the highest rate of 64-byte packets: 29 Mpps with twelve cores (section 3), one
    /// twelfth with one; at half the frequency 1/1.45 and 1/1.7 of that (section 5.1).
    fn at_full_rate(model: &ServerModel, cores: usize, halved: bool) -> f64 {
        let frequency = Hertz(model.frequency_max.0 / if halved { 2 } else { 1 });
        let slower = if cores == 1 { 1.7 } else { 1.45 };
        let bits = 29e6 * 64.0 * 8.0 * cores as f64 / 12.0 / if halved { slower } else { 1.0 };
        let busy = &all(1.0, frequency, Depth::C6)[..cores];
        (model.power(busy) + model.traffic(BitsPerSecond(bits))).0
    }

    #[test]
    fn meets_the_values_it_was_fitted_to() {
        let model = ServerModel::niccolini2012();
        let top = model.frequency_max;
        for (watts, cores, gbps) in [
            (115.0, all(0.0, top, Depth::C6), 0.0),
            (120.0, all(0.0, top, Depth::C3), 0.0),
            (133.0, all(0.0, top, Depth::C1), 0.0),
            (262.0, all(1.0, top, Depth::C1), 0.0),
            (269.0, all(1.0, top, Depth::C1), 40.0),
        ] {
            let ours = model.power(&cores) + model.traffic(BitsPerSecond(gbps * 1e9));
            assert!((ours.0 - watts).abs() < 1e-9, "{ours} for {watts} W");
        }
        assert_eq!(model.power(&[]), Watts(115.0));
    }

    #[test]
    fn predicts_what_halving_the_frequency_saves() {
        let model = ServerModel::niccolini2012();
        for (cores, published) in [(1, 0.05), (12, 0.25)] {
            let saved =
                1.0 - at_full_rate(&model, cores, true) / at_full_rate(&model, cores, false);
            assert!((saved - published).abs() < 0.01, "{cores} cores: {saved:.3}");
        }
    }

    #[test]
    fn predicts_what_interrupts_save_without_traffic() {
        let model = ServerModel::niccolini2012();
        let asleep = model.power(&all(0.0, model.frequency_max, Depth::C1));
        let polling = model.power(&all(1.0, model.frequency_max, Depth::C1));
        assert!((1.0 - asleep.0 / polling.0 - 0.50).abs() < 0.01);
    }

    #[test]
    fn scaling_keeps_the_base_and_the_sources() {
        let two = ServerModel::niccolini2012().scaled_to(2);
        assert_eq!(two.power(&[]), Watts(115.0));
        let polling = two.power(&all(1.0, two.frequency_max, Depth::C1)[..2]);
        assert!((polling.0 - (115.0 + 2.0 * 12.25)).abs() < 1e-9);
        assert!(two.parameters().is_some_and(|rows| rows.iter().all(|row| !row.source.is_empty())));
        assert_eq!(ServerModel { base: Watts(1.0), ..two }.parameters(), None);
    }

    #[test]
    fn what_is_no_model_is_refused() {
        let good = ServerModel::niccolini2012();
        assert_eq!(good.check(), Ok(()));
        let bad = ServerModel { base: Watts(f64::NAN), ..good.clone() };
        assert!(bad.check().expect_err("NaN").to_string().contains("`base`"));
        let bad = ServerModel { core_c3: Watts(9.0), ..good.clone() };
        assert_eq!(bad.check(), Err(ModelError::Order));
        assert!(ServerModel { cores: 0, ..good }.check().is_err());
    }

    fn state() -> impl Strategy<Value = CoreState> {
        let depth = prop_oneof![Just(Depth::C1), Just(Depth::C3), Just(Depth::C6)];
        (0u64..5_000_000_000, -0.5f64..1.5, depth).prop_map(|(hertz, busy, depth)| CoreState {
            frequency: Hertz(hertz),
            busy,
            depth,
        })
    }

    proptest! {
        #[test]
        fn bounded_by_all_asleep_and_all_awake(cores in prop::collection::vec(state(), 0..=12)) {
            let power = ServerModel::niccolini2012().power(&cores).0;
            prop_assert!((115.0 - 1e-9..=262.0 + 1e-9).contains(&power), "{}", power);
        }

        #[test]
        fn more_of_anything_never_draws_less(
            cores in prop::collection::vec(state(), 1..=12),
            which in any::<prop::sample::Index>(),
            hertz in 0u64..1_000_000_000,
            busy in 0.0f64..0.5,
        ) {
            let model = ServerModel::niccolini2012();
            let before = model.power(&cores).0;
            let change = |edit: &dyn Fn(&mut CoreState)| {
                let mut changed = cores.clone();
                edit(&mut changed[which.index(cores.len())]);
                model.power(&changed).0 + 1e-9
            };
            prop_assert!(change(&|core| core.frequency.0 += hertz) >= before);
            prop_assert!(change(&|core| core.busy += busy) >= before);
            prop_assert!(change(&|core| core.depth = Depth::C1) >= before);
        }
    }
}
