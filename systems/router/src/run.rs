//! A run from scenario to outcome.

use ebb_control::policies::{Patient, PointCost, Points, with_points};
use ebb_control::{
    Action, Decision, Divergence, Limits, Observation, Policy, RouterPolicy, drive, replay,
};
use ebb_des::Seed;
use ebb_power::{PacketCost, Server};
use ebb_report::Timeline;
use ebb_scenario::{Document, Files, Progress};
use ebb_study::StudyError;
use ebb_units::{Joules, PacketsPerSecond, Time, Watts};

use crate::engine::{Counts, Latency, Options, Recorder, Sample, Stopped, shares};
use crate::load::Load;
use crate::machine::{Machine, PER_NANO, PER_SECOND};
use crate::packet::Exact;
use crate::scenario::{EngineKind, Scenario};
use crate::slot::Slotted;
use crate::watch::Watch;

/// Why a record of decisions was not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A line is no decision.
    #[error("line {line} of the record is not a decision: {message}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The policy decided otherwise.
    #[error(transparent)]
    Divergence(#[from] Divergence<Action>),
}

/// The decisions of a record, a line of JSON for each.
pub(crate) fn decisions(record: &str) -> Result<Vec<Decision<Observation, Action>>, ReplayError> {
    let read = |(index, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| ReplayError::Line { line: index + 1, message: error.to_string() })
    };
    let lines = record.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(read).collect()
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Simulated seconds that it is about.
    pub span_s: f64,
    /// What became of the packets.
    pub counts: Counts,
    /// Mean power.
    pub power: Watts,
    /// Energy drawn.
    pub energy: Joules,
    /// Energy by component.
    pub parts: Vec<(&'static str, Joules)>,
    /// Latency of the delivered packets. In a slotted run an estimate.
    pub latency: Latency,
    /// Mean packets in the router's queues and cores (Little's law over what was delivered).
    pub occupancy: f64,
    /// The router over time.
    pub samples: Vec<Sample>,
    /// Mean active cores.
    pub cores: f64,
    /// Mean clock in GHz.
    pub ghz: f64,
    /// Share of all core time by state, in the order of [`crate::CORE_STATES`].
    pub states: Vec<f64>,
    /// Changes of the operating point.
    pub changes: u64,
    /// Decisions of the policy.
    pub decisions: u64,
    /// Cores woken by packets.
    pub wakeups: u64,
    /// Redirect-table entries moved.
    pub entries_moved: u64,
    /// Least and most the server can draw with this traffic.
    pub bounds: (Watts, Watts),
    /// What happened when, if that was asked for.
    pub timeline: Option<Timeline<Vec<u8>>>,
}

/// A scenario with everything it names read in: what runs can be made of.
#[derive(Debug)]
pub struct Twin {
    scenario: Scenario,
    server: Server,
    application: PacketCost,
    machine: Machine,
    load: Load,
    limits: Limits,
    seed: Seed,
}

impl Twin {
    /// Reads the scenario.
    ///
    /// # Errors
    /// What is wrong with it or a file that it names.
    pub fn new(document: &Document, files: &dyn Files, seed: u64) -> Result<Twin, StudyError> {
        let scenario: Scenario = document.read_described()?;
        let located = |fault| document.fault(fault);
        let seed = scenario.seed.map_or(Seed(seed), |replication| Seed(replication).nth(seed));
        let server = scenario.server.resolve(files)?;
        let application = scenario.application.on(&server).map_err(located)?;
        let whole = Machine::new(&server, &application);
        let load = Load::new(document, &scenario, &whole, files, seed)?;
        let frequencies = scenario.limits.frequencies(&server).map_err(located)?;
        let cores = scenario.limits.cores(&server).map_err(located)?;
        let machine = whole.with_frequencies(&frequencies);
        let limits = Limits { cores, frequencies: frequencies.len() as u16 };
        Ok(Twin { scenario, server, application, machine, load, limits, seed })
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// What was left out of the file of a trace, or taken to be meant.
    pub(crate) fn notes(&self) -> &[String] {
        &self.load.notes
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What happens to each packet.
    pub fn application(&self) -> &PacketCost {
        &self.application
    }

    /// The server as the engines see it, frequencies outside the limits left out.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What the policy may use.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The offered rate over time, warm-up included.
    pub fn rates(&self) -> &crate::load::Rates {
        &self.load.rates
    }

    /// Mean frame length, bytes with check sequence.
    pub fn mean_bytes(&self) -> f64 {
        self.load.sizes.mean()
    }

    /// The operating points as the policy `model` wants them.
    pub fn points(&self) -> Points {
        let machine = &self.machine;
        let bits = self.load.sizes.mean() * 8.0;
        let naps = |nap: crate::machine::Nap| machine.nap(nap).watts.0;
        let (awake_idle, parked) =
            (naps(self.scenario.server.shallow), naps(self.scenario.server.parked));
        let mut points = Vec::new();
        for cores in 1..=self.limits.cores {
            for frequency in 0..self.limits.frequencies {
                let capacity = machine.capacity_pps(cores, frequency, self.load.sizes.mean());
                let active = f64::from(cores);
                let rest = machine.base.0 + f64::from(machine.cores - cores) * parked;
                let traffic = machine.joules_per_bit * bits * capacity;
                let awake = machine.awake[usize::from(frequency)].0;
                points.push(PointCost {
                    cores,
                    frequency,
                    capacity: PacketsPerSecond(capacity),
                    idle: Watts(rest + active * awake_idle),
                    full: Watts(rest + active * awake + traffic),
                });
            }
        }
        let parked = machine.nap(self.scenario.server.parked);
        let wake_s = (parked.exit_ps + machine.interrupt(0)) as f64 / PER_SECOND;
        let wake = Joules(machine.awake.last().expect("a frequency").0 * wake_s);
        Points::new(points, wake).expect("a machine has points")
    }

    /// The policy of the scenario, fresh.
    pub fn policy(&self) -> Box<RouterPolicy> {
        Patient::with(self.hasty_policy(), &self.scenario.policy.settings)
    }

    /// The same without patience, which live workers keep to themselves.
    pub(crate) fn hasty_policy(&self) -> Box<RouterPolicy> {
        let choice = &self.scenario.policy;
        with_points(&choice.name, self.limits, &choice.settings, &self.points())
            .expect("the scenario was checked")
    }

    /// Shows the scenario's policy what a live router's policy saw (a line of JSON for each
    /// decision) and compares what it decides; returns the number of decisions.
    ///
    /// # Errors
    /// The first decision that differs, or the first line that is none.
    pub fn replay(&self, record: &str) -> Result<usize, ReplayError> {
        Ok(replay(&mut *self.hasty_policy(), decisions(record)?)?)
    }

    /// Runs the scenario's engine under `policy`.
    ///
    /// # Errors
    /// When the run was stopped.
    pub fn run<P>(&self, policy: &mut P, progress: &dyn Progress) -> Result<Outcome, Stopped>
    where
        P: Policy<Observation = Observation, Action = Action> + ?Sized,
    {
        let (machine, load) = (&self.machine, &self.load);
        let options = Options::new(&self.scenario, load.end_ps - load.warm_ps);
        let end = Time::from_nanos(load.end_ps / PER_NANO);
        match self.scenario.engine {
            EngineKind::Packet => {
                let mut plant = Exact::new(machine, load, options, self.seed, progress);
                drive(policy, &mut plant, end)?;
                plant.recorder.counts.queued = plant.queued();
                let watch = plant.account.watch.take();
                Ok(self.outcome(&plant.account, &plant.recorder, watch))
            }
            EngineKind::Slot => {
                let slot_ps = (self.scenario.slot_us * 1e6) as u64;
                let setup = (options, slot_ps);
                let mut plant = Slotted::new(machine, load, setup, self.seed, progress);
                drive(policy, &mut plant, end)?;
                plant.finish();
                let timeline = options.timelines.begin();
                let watch = timeline.map(|timeline| Box::new(Watch::new(timeline, 0)));
                Ok(self.outcome(&plant.account, &plant.recorder, watch))
            }
        }
    }

    fn outcome(
        &self,
        account: &crate::account::Account,
        recorder: &Recorder,
        watch: Option<Box<Watch>>,
    ) -> Outcome {
        let span_s = (self.load.end_ps - self.load.warm_ps) as f64 / PER_SECOND;
        let latency = recorder.latency();
        let (cores, ghz) = recorder.means(span_s);
        let parts = account.by_part(&self.machine);
        let names = self.machine.parts.iter().map(|part| part.name);
        let pipeline_us = self.machine.pipeline_ps as f64 / 1e6;
        let inside_s = (latency.mean_us - pipeline_us).max(0.0) / 1e6;
        Outcome {
            span_s,
            counts: recorder.counts,
            power: Watts(account.joules() / span_s),
            energy: Joules(account.joules()),
            parts: names.zip(parts.into_iter().map(Joules)).collect(),
            occupancy: inside_s * recorder.counts.delivered as f64 / span_s,
            latency,
            samples: recorder.samples.clone(),
            cores,
            ghz,
            states: shares(account, &self.machine, span_s),
            changes: recorder.changes,
            decisions: recorder.decisions,
            wakeups: recorder.wakeups,
            entries_moved: recorder.entries_moved,
            bounds: self.machine.bounds(account.bits / span_s),
            timeline: watch.map(|watch| watch.finish(self.load.end_ps, &recorder.samples)),
        }
    }
}
