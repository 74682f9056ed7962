//! Rate over time as pieces of constant rate.

use ebb_scenario::{Files, Invalid, ScenarioError};
use ebb_traffic::DayProfile;

use super::trace::{self, Steps};
use crate::machine::{PER_SECOND, Picos};
use crate::scenario::TrafficChoice;

/// A time of constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Its end; it begins where the piece before ends.
    pub until_ps: Picos,
    /// Packets a second.
    pub pps: f64,
}

/// Rate over time, from 0 to the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    pieces: Vec<Piece>,
}

impl Rates {
    /// Pieces in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The highest rate, packets a second.
    pub fn peak_pps(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.pps).fold(0.0, f64::max)
    }

    /// Packets expected between two instants.
    pub fn expected(&self, from: Picos, to: Picos) -> f64 {
        let mut start = 0;
        let mut sum = 0.0;
        for piece in &self.pieces {
            let overlap = piece.until_ps.min(to).saturating_sub(start.max(from));
            sum += overlap as f64 / PER_SECOND * piece.pps;
            start = piece.until_ps;
        }
        sum
    }

    /// Number of the piece in force at `at`.
    pub fn at(&self, at: Picos) -> usize {
        let index = self.pieces.partition_point(|piece| piece.until_ps <= at);
        index.min(self.pieces.len() - 1)
    }
}

/// How the rate moves, before it is scaled and laid over a run.
pub(super) enum Shape {
    /// The scenario's `load` or a rate, packets a second.
    Constant(Option<f64>),
    /// A day.
    Day(DayProfile),
    /// A file.
    Steps(Steps),
}

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
/// A profile's straight lines become steps so long, at most, in seconds of its own time.
const PROFILE_STEP_S: f64 = 60.0;

pub(super) fn shape(
    traffic: &TrafficChoice,
    files: &dyn Files,
    mean_bytes: f64,
) -> Result<Shape, ScenarioError> {
    if let Some(day) = traffic.day() {
        return Ok(Shape::Day(day));
    }
    if let Some(choice) = &traffic.trace {
        let bytes = files.read(&choice.file)?;
        return Ok(Shape::Steps(trace::read(choice, &bytes, mean_bytes)?));
    }
    let gbps = traffic.rate_gbps.map(|gbps| gbps * 1e9 / 8.0 / mean_bytes);
    let constant = traffic.rate_mpps.map(|mpps| mpps * 1e6).or(gbps);
    Ok(Shape::Constant(constant))
}

impl Shape {
    /// How long it lasts by itself, seconds of the run.
    pub(super) fn natural_s(&self, compress: f64) -> f64 {
        match self {
            Shape::Constant(_) => 1.0,
            Shape::Day(_) => DAY_S / compress,
            Shape::Steps(steps) => steps.len_s() / compress,
        }
    }

    /// The rates of a run of `all_s` seconds, of which the first `warm_s` are not reported on,
    /// scaled so that the mean of the others is `target`.
    pub(super) fn rates(
        &self,
        traffic: &TrafficChoice,
        warm_s: f64,
        all_s: f64,
        target: Option<f64>,
    ) -> Result<Rates, Invalid> {
        let pieces = match self {
            Shape::Constant(pps) => {
                let Some(pps) = target.or(*pps) else {
                    let message = "there is no load";
                    let remedy = "set `load`, or a rate in `[traffic]`";
                    return Err(Invalid::new("load", message, remedy));
                };
                vec![Piece { until_ps: (all_s * PER_SECOND) as Picos, pps }]
            }
            Shape::Day(day) => day_pieces(day, traffic, all_s),
            Shape::Steps(steps) => step_pieces(steps, traffic, all_s)?,
        };
        let mut rates = Rates { pieces };
        let relative = match self {
            Shape::Constant(_) => return Ok(rates),
            Shape::Day(_) => true,
            Shape::Steps(steps) => steps.relative,
        };
        let (from, to) = ((warm_s * PER_SECOND) as Picos, (all_s * PER_SECOND) as Picos);
        let mean = rates.expected(from, to) / (all_s - warm_s);
        match target {
            Some(target) if mean > 0.0 => {
                rates.pieces.iter_mut().for_each(|piece| piece.pps *= target / mean);
            }
            None if relative => {
                let message = "the traffic is relative, but there is no mean load";
                return Err(Invalid::new("load", message, "set the mean load, for example 0.35"));
            }
            _ => {}
        }
        Ok(rates)
    }
}

fn day_pieces(day: &DayProfile, traffic: &TrafficChoice, all_s: f64) -> Vec<Piece> {
    let step_s = PROFILE_STEP_S / traffic.compress;
    let count = (all_s / step_s).ceil().max(1.0) as u64;
    let at = |index: u64| {
        let seconds = (index as f64 + 0.5) * PROFILE_STEP_S + traffic.start_hour * 3600.0;
        day.at(seconds / DAY_S)
    };
    let until = |index: u64| (((index + 1) as f64 * step_s).min(all_s) * PER_SECOND) as Picos;
    (0..count).map(|index| Piece { until_ps: until(index), pps: at(index) }).collect()
}

fn step_pieces(steps: &Steps, traffic: &TrafficChoice, all_s: f64) -> Result<Vec<Piece>, Invalid> {
    let len_s = steps.len_s() / traffic.compress;
    if all_s > len_s * (1.0 + 1e-9) {
        let message =
            format!("the run lasts {all_s} s with its warm-up, but the traffic {len_s} s");
        return Err(Invalid::new("duration_s", message, "use a shorter run or a longer file"));
    }
    let step_s = steps.step_s / traffic.compress;
    let count = ((all_s / step_s).ceil() as usize).clamp(1, steps.pps.len());
    let end = (all_s * PER_SECOND) as Picos;
    let until = |index: usize| (((index + 1) as f64 * step_s) * PER_SECOND) as Picos;
    let piece = |index: usize| Piece { until_ps: until(index).min(end), pps: steps.pps[index] };
    let mut pieces: Vec<Piece> = (0..count).map(piece).collect();
    pieces.last_mut().expect("at least one").until_ps = end;
    Ok(pieces)
}
