//! Clocks that follow the load: what a scenario says of them, and what a run's power is then.

use ebb_report::{Axis, Plot, Series};
use ebb_scenario::{Described, Invalid};
use ebb_units::Watts;
use serde::Deserialize;

use super::prepare::Prepared;
use super::scenario::Scenario;
use crate::flit::{Control, Outcome, Span};
use crate::{RouterPowerError, RouterTable};

/// How planes' clocks follow the load: every `epoch` what was offered, times the part of it that comes over the fullest
/// link or port, decides the next factor, within `headroom` and `alpha_max`; each plane for itself.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct ClockControl {
    /// Processing elements' cycles between decisions.
    #[schema(least = 1)]
    pub epoch: u64,
    /// How fast it is forgotten which links and ports traffic took before: an epoch's part of the exponential mean.
    #[schema(above = 0, most = 1)]
    pub weight: f64,
    /// A clock is slowed only by more than this part; it is made faster when half of `headroom` is in use.
    #[schema(least = 0)]
    pub hysteresis: f64,
    /// Processing elements' cycles in which a plane stands still at a change.
    pub transition: u64,
    /// What a change costs, as so many flits over one hop at full voltage.
    #[schema(least = 0)]
    pub transition_hops: f64,
    /// Factors that there are; any up to `alpha_max` if empty.
    pub levels: Vec<f64>,
}

impl Default for ClockControl {
    fn default() -> ClockControl {
        ClockControl {
            epoch: 1000,
            weight: 0.1,
            hysteresis: 0.1,
            transition: 100,
            transition_hops: 0.0,
            levels: Vec::new(),
        }
    }
}

impl Scenario {
    /// What decides, if the clocks follow the load.
    pub(super) fn governor(&self) -> Option<Control> {
        let how = self.control.clone()?;
        Some(Control {
            epoch: how.epoch,
            weight: how.weight,
            headroom: self.headroom,
            hysteresis: how.hysteresis,
            transition: how.transition,
            levels: how.levels,
            alpha_max: self.alpha_max,
        })
    }

    /// Profile and control.
    pub(super) fn check_control(&self) -> Result<(), Invalid> {
        let rule = Invalid::unless;
        let remedy = "remove it: the trace has the times of packets";
        let alone = self.profile.is_empty() || self.trace().is_none();
        rule(alone, "profile", "cannot be combined with a trace", remedy)?;
        let ascending = self.profile.is_sorted_by(|a, b| a.0 < b.0);
        let parts = self.profile.iter().all(|(_, part)| (0.0..=1.0).contains(part));
        let remedy = "expected pairs of a cycle and a part from 0 to 1, for example [[0, 0.2], [50000, 1.0]]";
        rule(
            ascending && parts,
            "profile",
            "has cycles that do not ascend or an invalid part",
            remedy,
        )?;
        let Some(control) = &self.control else { return Ok(()) };
        let fit = control.levels.iter().all(|level| (1.0..=self.alpha_max).contains(level));
        let remedy = "use factors from 1 to alpha_max";
        rule(fit, "control.levels", "has a factor outside the range", remedy)
    }
}

/// What the runs of a plane come to whose clock follows the load.
pub(super) struct Followed {
    /// Flit-hops per element's cycle, each at the square of its voltage, and what changes cost.
    pub(super) power: f64,
    /// The mean factor over time, the least and the largest.
    pub(super) alpha: f64,
    pub(super) alpha_min: f64,
    pub(super) alpha_max: f64,
    /// Changes per million of the elements' cycles.
    pub(super) changes: f64,
    /// Watts of the routers by their table.
    pub(super) watts: Option<Watts>,
}

impl Followed {
    /// Of the runs of a plane, if its clock follows the load.
    pub(super) fn of(
        scenario: &Scenario,
        prepared: &Prepared,
        outcomes: &[Outcome],
    ) -> Result<Option<Followed>, RouterPowerError> {
        let Some(control) = &scenario.control else { return Ok(None) };
        let spans = || outcomes.iter().flat_map(|outcome| &outcome.spans);
        let sum = |of: &dyn Fn(&Span) -> f64| spans().map(of).sum::<f64>();
        let cycles = sum(&|span| span.pe_cycles as f64).max(1.0);
        let changes = spans().count().saturating_sub(outcomes.len()) as f64;
        let hops = sum(&|span| span.hops as f64 / (span.alpha * span.alpha));
        let joules = |table| {
            let each = spans().map(|span| watt_cycles(table, prepared.mesh.nodes(), span));
            each.sum::<Result<f64, _>>()
        };
        Ok(Some(Followed {
            power: (hops + changes * control.transition_hops) / cycles,
            alpha: sum(&|span| span.alpha * span.pe_cycles as f64) / cycles,
            alpha_min: spans().map(|span| span.alpha).fold(f64::INFINITY, f64::min),
            alpha_max: spans().map(|span| span.alpha).fold(0.0, f64::max),
            changes: changes * 1e6 / cycles,
            watts: prepared
                .routers
                .as_ref()
                .map(joules)
                .transpose()?
                .map(|all| Watts(all / cycles)),
        }))
    }
}

/// What all routers draw in a span, in watts times the elements' cycles (eq. 7.14): each flit that comes to a router takes a
/// fifth of its ports' places in one of the network's cycles, which is `alpha` of the elements'.
fn watt_cycles(table: &RouterTable, routers: usize, span: &Span) -> Result<f64, RouterPowerError> {
    let point = table.at((table.high_ghz() / span.alpha).max(table.low_ghz()))?;
    let busy = (span.hops + span.entered) as f64 / 5.0 * span.alpha;
    let idle = routers as f64 * span.pe_cycles as f64;
    Ok(idle * point.idle.0 + busy * (point.full - point.idle).0)
}

/// The factors of the first run of each plane over time.
pub(super) fn plot(outcomes: &[Vec<Outcome>]) -> Plot {
    let mut plot = Plot::new("The clock over time, in the first run", Axis::new("time", "cycles"))
        .panel(Axis::new("times slower than the elements'", "").reaching(0.0, 1.0));
    for (plane, outcomes) in outcomes.iter().enumerate() {
        let spans = &outcomes[0].spans;
        let end = spans.last().map(|span| ((span.from + span.pe_cycles) as f64, span.alpha));
        let points = spans.iter().map(|span| (span.from as f64, span.alpha)).chain(end);
        plot = plot.series(Series::step(format!("plane {}", plane + 1), points.collect()));
    }
    plot
}
