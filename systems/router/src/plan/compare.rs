//! Policies and the best schedule under one load.

use core::time::Duration;

use ebb_scenario::{Document, Files, Progress, Setting};
use ebb_study::StudyError;
use ebb_units::{Joules, PacketsPerSecond, Watts};

use super::problem::WARMUP_S;
use super::{Estimate, Problem};
use crate::optimum::{Schedule, solve};
use crate::run::{Outcome, Twin};

/// What the policies draw under one load over time, and what the best schedule would have.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The server by formula.
    pub estimate: Estimate,
    /// How much faster than real time the load passed in the twin.
    pub compress: f64,
    /// Seconds of the load, in its own time.
    pub span_s: f64,
    /// Mean offered packets a second.
    pub mean: PacketsPerSecond,
    /// What each policy did in the twin.
    pub runs: Vec<(String, Outcome)>,
    /// The load in equal slots.
    pub loads: Vec<PacketsPerSecond>,
    /// Length of a slot as the twin saw it.
    pub slot: Duration,
    /// The schedule of least energy, without headroom.
    pub optimum: Schedule,
    /// What of a trace's file was read, left out or taken to be meant.
    pub notes: Vec<String>,
}

/// Slots of the optimum at most.
const SLOTS: usize = 20_000;
/// Simulated seconds for each step of a trace by default: policies hold capacity for seconds.
const STEP_S: f64 = 2.0;
/// Simulated seconds of a whole trace by default, at most.
const SIMULATED_S_MAX: f64 = 4000.0;

impl Comparison {
    /// Runs every policy of the problem in the slotted twin and solves for the optimum.
    ///
    /// # Errors
    /// What is wrong with the problem or a file that it names, or that it was stopped.
    pub fn new(
        document: &Document,
        files: &dyn Files,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Comparison, StudyError> {
        let problem: Problem = document.read_described()?;
        let file = document.file();
        let plain = problem.document(file, &problem.policies[0], 1.0)?;
        let plain = plain.with(&[Setting::parse("warmup_s=0.0")?])?;
        let whole = Twin::new(&plain, files, seed)?;
        let span_s = length_s(&whole);
        let compress = compress(&problem, &whole, span_s);
        let estimate = estimate(&problem, &whole, document)?;
        let mut runs = Vec::new();
        for (index, name) in problem.policies.iter().enumerate() {
            progress.at(index as f64 / problem.policies.len() as f64, name);
            let document = problem.document(file, name, compress)?;
            let document = document.with(&within(&problem, span_s / compress)?)?;
            let twin = Twin::new(&document, files, seed)?;
            let outcome = twin.run(&mut *twin.policy(), progress)?;
            runs.push((name.clone(), outcome));
        }
        let (loads, slot) = slots(&whole, span_s);
        let slot = slot.div_f64(compress);
        let draws = |cores, frequency, load| estimate.watts(cores, frequency, load);
        let optimum = solve(&estimate.grid(0.0), &loads, slot, &estimate.switching(), draws);
        let mean = loads.iter().map(|load| load.0).sum::<f64>() / loads.len().max(1) as f64;
        let mean = PacketsPerSecond(mean);
        let notes = whole.notes().to_vec();
        Ok(Comparison { estimate, compress, span_s, mean, runs, loads, slot, optimum, notes })
    }

    /// Mean power of the optimum.
    pub fn optimum_watts(&self) -> Watts {
        self.optimum.energy / (self.slot * self.loads.len() as u32)
    }

    /// By how much a mean power exceeds the optimum's, percent.
    pub fn gap_percent(&self, watts: Watts) -> f64 {
        100.0 * (watts.0 / self.optimum_watts().0 - 1.0)
    }

    /// The run of a policy.
    pub fn run(&self, policy: &str) -> Option<&Outcome> {
        self.runs.iter().find(|(name, _)| name == policy).map(|(_, outcome)| outcome)
    }

    /// Energy of a mean power over the whole load in its own time.
    pub fn energy(&self, watts: Watts) -> Joules {
        Joules(watts.0 * self.span_s)
    }
}

/// A trace has nothing before its first row: the warm-up is taken from its first hundredth, which
/// is not reported on.
fn within(problem: &Problem, run_s: f64) -> Result<Vec<Setting>, StudyError> {
    let traffic = &problem.traffic;
    if traffic.trace.is_none() && traffic.pcap.is_none() {
        return Ok(Vec::new());
    }
    let warmup_s = (run_s / 100.0).min(WARMUP_S);
    let warmup = Setting::parse(&format!("warmup_s={warmup_s}"))?;
    // Not beyond the end by a rounding.
    let left_s = (run_s - warmup_s) * (1.0 - 1e-9);
    Ok(vec![warmup, Setting::parse(&format!("duration_s={left_s}"))?])
}

fn length_s(twin: &Twin) -> f64 {
    twin.rates().pieces().last().map_or(0.0, |piece| piece.until_ps as f64 / 1e12)
}

fn compress(problem: &Problem, twin: &Twin, span_s: f64) -> f64 {
    let traffic = &problem.traffic;
    if traffic.compress != 1.0 && problem.simulated_s.is_none() {
        return traffic.compress;
    }
    let steps = twin.rates().pieces().len() as f64;
    let usual = (steps * STEP_S).min(SIMULATED_S_MAX).min(span_s);
    let wanted = problem.simulated_s.unwrap_or(usual);
    if problem.varies() { span_s / wanted } else { 1.0 }
}

fn estimate(problem: &Problem, twin: &Twin, document: &Document) -> Result<Estimate, StudyError> {
    let server = twin.server().clone();
    let kept = problem.limits.frequencies(&server).map_err(|fault| document.fault(fault))?;
    let whole = Estimate::new(server, twin.application().clone(), twin.mean_bytes());
    Ok(whole.limited(twin.limits().cores, &kept))
}

/// The load in equal slots: as many as the trace has steps, or enough for the shortest of them.
fn slots(twin: &Twin, span_s: f64) -> (Vec<PacketsPerSecond>, Duration) {
    let pieces = twin.rates().pieces();
    let lengths = pieces.iter().scan(0, |start, piece| {
        let length = piece.until_ps - *start;
        *start = piece.until_ps;
        Some(length)
    });
    let shortest = lengths.filter(|length| *length > 0).min().unwrap_or(1) as f64 / 1e12;
    let count = ((span_s / shortest).round() as usize).clamp(1, SLOTS);
    let slot_s = span_s / count as f64;
    let middle = |index: usize| ((index as f64 + 0.5) * slot_s * 1e12) as u64;
    let load = |index| PacketsPerSecond(pieces[twin.rates().at(middle(index))].pps);
    ((0..count).map(load).collect(), Duration::from_secs_f64(slot_s))
}
