//! The twin under a policy from outside, which sees and says what a policy of [`ebb_control`] does.
//!
//! Room: from values to observations and actions and back. What the policy fails with ends the run.
//! Neighbours: `run.rs` drives any policy, `replay.rs` shows one a record.

use std::sync::{Arc, Mutex};

use ebb_control::policies::Patient;
use ebb_control::{Action, Idle, IdleDepth, Limits, Observation, OperatingPoint, Policy};
use ebb_report::Report;
use ebb_scenario::{Document, Files, Invalid, Progress};
use ebb_study::{Decided, Decides, Policies, StudyError};
use ebb_units::Time;
use serde_json::{Value, json};

use crate::report::report;
use crate::run::Twin;

/// What a decision looks like.
const SHAPE: &str = "return for example {\"point\": {\"cores\": 1, \"frequency\": 0, \"depth\": \"shallow\"}, \
    \"idle\": \"halt\"}; depth may be \"deep\", idle \"poll\" or {\"gather\": {\"nanos\": 1000}}, and `next_at` \
    a later time than now, or None";

/// Runs the scenario under a policy from outside instead of its own.
pub(crate) fn govern(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
    policies: &dyn Policies,
) -> Result<Report, StudyError> {
    let twin = Twin::new(document, files, seed)?;
    let (policy, failed) = Outsider::new(&twin, policies)?;
    let mut policy = Patient::with(Box::new(policy), &twin.scenario().policy.settings);
    let watched = Watched { progress, failed: &failed };
    let outcome = twin.run(&mut *policy, &watched);
    failed.taken()?;
    Ok(report(&twin, &outcome?, seed, policies.name()))
}

/// What is told to a policy about its router: how much there is to be powered, what each operating point
/// carries and draws, and the settings of the scenario's policies.
fn plant(twin: &Twin) -> Value {
    let point = |point: &ebb_control::policies::PointCost| {
        json!({
            "cores": point.cores,
            "frequency": point.frequency,
            "capacity_pps": point.capacity.0,
            "idle_w": point.idle.0,
            "full_w": point.full.0,
        })
    };
    json!({
        "cores": twin.limits().cores,
        "frequencies": twin.limits().frequencies,
        "points": twin.points().iter().map(point).collect::<Vec<_>>(),
        "settings": twin.scenario().policy.settings,
    })
}

/// Why the policy could not decide; the first failure counts.
#[derive(Clone, Default)]
pub(crate) struct Failed(Arc<Mutex<Option<StudyError>>>);

impl Failed {
    fn keep(&self, error: StudyError) {
        let mut kept = self.0.lock().expect("no thread panicked");
        kept.get_or_insert(error);
    }

    fn any(&self) -> bool {
        self.0.lock().expect("no thread panicked").is_some()
    }

    /// The failure, if there is one.
    pub(crate) fn taken(&self) -> Result<(), StudyError> {
        self.0.lock().expect("no thread panicked").take().map_or(Ok(()), Err)
    }
}

/// Ends a run whose policy failed.
struct Watched<'a> {
    progress: &'a dyn Progress,
    failed: &'a Failed,
}

impl Progress for Watched<'_> {
    fn at(&self, done: f64, note: &str) {
        self.progress.at(done, note);
    }

    fn stopped(&self) -> bool {
        self.progress.stopped() || self.failed.any()
    }
}

/// A policy from outside as a policy of the router.
pub(crate) struct Outsider {
    policy: Box<dyn Decides>,
    limits: Limits,
    failed: Failed,
    /// What is done once it has failed, and before.
    last: Action,
    next_at: Option<Time>,
    broken: bool,
}

impl Outsider {
    /// A fresh one for the twin's router, and where its failure is kept.
    pub(crate) fn new(
        twin: &Twin,
        policies: &dyn Policies,
    ) -> Result<(Outsider, Failed), StudyError> {
        let failed = Failed::default();
        let point = OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow };
        let outsider = Outsider {
            policy: policies.fresh(&plant(twin))?,
            limits: twin.limits(),
            failed: failed.clone(),
            last: Action { point, idle: Idle::Halt },
            next_at: None,
            broken: false,
        };
        Ok((outsider, failed))
    }

    fn ask(&mut self, now: Time, seen: &Observation) -> Result<Action, StudyError> {
        let seen = serde_json::to_value(seen).map_err(StudyError::failed)?;
        let Decided { action, next_nanos } = self.policy.decide(now.as_nanos(), &seen)?;
        self.next_at = next_nanos.map(Time::from_nanos);
        let refused = |why: String| StudyError::from(Invalid::new("policy", why, SHAPE));
        let read: Action = serde_json::from_value(action.clone())
            .map_err(|error| refused(format!("decided {action}: {error}")))?;
        let Limits { cores, frequencies } = self.limits;
        if !(1..=cores).contains(&read.point.cores) || read.point.frequency >= frequencies {
            let has = format!("there are {cores} cores and frequencies 0 to {}", frequencies - 1);
            return Err(refused(format!("decided {action}, but {has}")));
        }
        if let Some(next) = self.next_at.filter(|next| *next <= now) {
            let (next, now) = (next.as_nanos(), now.as_nanos());
            return Err(refused(format!("wants to decide next at {next} ns, but it is {now} ns")));
        }
        Ok(read)
    }
}

impl Policy for Outsider {
    type Observation = Observation;
    type Action = Action;

    fn decide(&mut self, now: Time, seen: &Observation) -> Action {
        if self.broken {
            return self.last;
        }
        match self.ask(now, seen) {
            Ok(action) => self.last = action,
            Err(error) => {
                self.failed.keep(error);
                (self.broken, self.next_at) = (true, None);
            }
        }
        self.last
    }

    fn next_at(&self) -> Option<Time> {
        self.next_at
    }
}
