//! A job on a thread of its own, which Python waits for, watches and stops.
//!
//! Room: threads and the messages between them. The interpreter is free while the job computes and
//! answers Ctrl-C whatever the job does. What is asked is read in `asked.rs`, points that others
//! compute go by `elsewhere.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_study::{Executor, Job, Point, Policies, Program, StudyError, Threads, Watcher};
use pyo3::prelude::*;

use crate::asked::Asked;
use crate::elsewhere::{Answer, Elsewhere};
use crate::errors;
use crate::policy::Policy;
use crate::report::Report;
use crate::told::{Said, Shared, Told};

/// The program of this module, by its version and what `identity` says.
pub(crate) fn program(identity: Option<&str>) -> Program<'_> {
    Program { revision: env!("EBB_REVISION"), version: env!("CARGO_PKG_VERSION"), identity }
}

/// A job that runs until it is done or stopped.
#[pyclass(frozen)]
pub(crate) struct Run {
    shared: Arc<Shared>,
    said: Mutex<Receiver<Said>>,
    answers: Option<Mutex<Sender<Answer>>>,
}

#[pymethods]
impl Run {
    /// Starts a job that is described in JSON; where `elsewhere`, its points are for others.
    #[new]
    #[pyo3(signature = (description, files, elsewhere, policy=None))]
    fn start(
        py: Python<'_>,
        description: &str,
        files: BTreeMap<String, Vec<u8>>,
        elsewhere: bool,
        policy: Option<Py<Policy>>,
    ) -> PyResult<Run> {
        let asked = Asked::read(py, description, &files)?;
        let shared = Arc::new(Shared::default());
        let (sender, said) = channel();
        let told = Told { shared: shared.clone(), said: Mutex::new(sender) };
        let (answers, executor) = if elsewhere {
            let (sender, receiver) = channel();
            (Some(Mutex::new(sender)), Some(receiver))
        } else {
            (None, None)
        };
        let work = move || {
            let told = &told;
            let jobs = asked.jobs;
            let executor: Box<dyn Executor + '_> = match executor {
                Some(answers) => Box::new(Elsewhere::new(told, answers)),
                None => Box::new(Threads::new(jobs)),
            };
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let policies = policy.as_ref().map(|policy| policy.get() as &dyn Policies);
                match &asked.record {
                    None => job(&asked, policies, &*executor, told).run(),
                    Some(record) => Ok(replay(&asked, policies, record, told)?),
                }
            }));
            let outcome = caught.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
                let text = text.unwrap_or_default();
                Err(StudyError::failed(format!("a fault in the program: {text}")).into())
            });
            told.say(Said::Done(Box::new(outcome)));
        };
        let thread = std::thread::Builder::new().name("ebb".to_owned());
        thread.spawn(work)?;
        Ok(Run { shared, said: Mutex::new(said), answers })
    }

    /// Waits at most so many seconds. None, or what happened: ("points", [(settings, seed)]),
    /// ("reused", count), ("done", report).
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<(&'static str, Py<PyAny>)>> {
        let most = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let said = py.detach(|| {
            let said = self.said.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
            said.recv_timeout(most)
        });
        let value = match said {
            Err(_) => return Ok(None),
            Ok(Said::Done(outcome)) => {
                let report = outcome.map_err(|error| errors::of_job(py, &error))?;
                ("done", Bound::new(py, Report::of(report))?.into_any().unbind())
            }
            Ok(Said::Reused(count)) => ("reused", count.into_pyobject(py)?.into_any().unbind()),
            Ok(Said::Points(points)) => {
                let points: Vec<(String, u64)> =
                    points.iter().map(|point| (written(point), point.seed)).collect();
                ("points", points.into_pyobject(py)?.into_any().unbind())
            }
        };
        Ok(Some(value))
    }

    /// Hands over what came of the point of this index, as `compute` returned it.
    fn give(&self, py: Python<'_>, index: usize, finished: &str) -> PyResult<()> {
        let finished = serde_json::from_str(finished).map_err(|error| {
            let error = StudyError::failed(format!("a worker returned no result: {error}"));
            errors::of_study(py, &error, "")
        })?;
        self.answer(Answer::Finished(index, Box::new(finished)));
        Ok(())
    }

    /// Says that nothing comes of one more point.
    fn skip(&self) {
        self.answer(Answer::Nothing);
    }

    /// Asks the job to end; it looks now and then.
    fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
        self.answer(Answer::Ended);
    }

    /// The share that is done and what is being done.
    fn progress(&self) -> (f64, String) {
        let note = self.shared.note.lock().map(|note| note.clone()).unwrap_or_default();
        (f64::from_bits(self.shared.done.load(Relaxed)), note)
    }
}

impl Run {
    fn answer(&self, answer: Answer) {
        if let Some(sender) = self.answers.as_ref().and_then(|sender| sender.lock().ok()) {
            drop(sender.send(answer));
        }
    }
}

/// What is asked, run by `executor`.
pub(crate) fn job<'a>(
    asked: &'a Asked,
    policies: Option<&'a dyn Policies>,
    executor: &'a dyn Executor,
    watcher: &'a dyn Watcher,
) -> Job<'a> {
    Job {
        study: asked.study,
        document: &asked.document,
        files: &asked.files,
        seed: asked.seed,
        sweep: &asked.sweep,
        repeat: asked.repeat.as_ref(),
        saturation: asked.saturation.as_ref(),
        shard: None,
        place: asked.place.as_deref(),
        policies,
        fresh: asked.fresh,
        program: program(asked.program.as_deref()),
        executor,
        watcher,
    }
}

/// A record that is shown to a policy.
fn replay(
    asked: &Asked,
    policies: Option<&dyn Policies>,
    record: &str,
    told: &Told,
) -> Result<ebb_report::Report, StudyError> {
    asked.study.replay(policies, &asked.document, &asked.files, record, told)
}

/// A point's settings, as JSON pairs of path and value.
fn written(point: &Point) -> String {
    let pairs = point.settings.iter().map(|setting| (&setting.path, &setting.value));
    serde_json::to_string(&pairs.collect::<Vec<_>>()).unwrap_or_default()
}
