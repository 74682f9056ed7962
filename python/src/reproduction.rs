//! Published numbers beside ours.
//!
//! Room: experiments of the catalogue on a thread of their own. It computes no number itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use ebb_report::{Context, Experiment, Reproduction};
use ebb_scenario::{Files, Progress};
use ebb_study::{Directory, Threads};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors;
use crate::report::Report;

/// All experiments as JSON: name, what each shows, how many claims it has.
#[pyfunction]
pub(crate) fn experiments() -> String {
    let of = |experiment: &&dyn Experiment| {
        json!({ "id": experiment.id(), "title": experiment.title(),
            "claims": experiment.claims().len() })
    };
    Value::from(ebb_catalogue::experiments().iter().map(of).collect::<Vec<_>>()).to_string()
}

/// Whether experiments are to go on, and how far they are.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    at: Mutex<(f64, String)>,
}

impl Progress for Shared {
    fn at(&self, done: f64, note: &str) {
        if let Ok(mut at) = self.at.lock() {
            *at = (done, note.to_owned());
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// Experiments that run until they are done or stopped.
#[pyclass(frozen)]
pub(crate) struct Reproducing {
    shared: Arc<Shared>,
    done: Mutex<Receiver<Reproduction>>,
    seed: u64,
}

#[pymethods]
impl Reproducing {
    /// Starts the experiments of these names or with names that begin so; all where there is none.
    #[new]
    fn start(
        py: Python<'_>,
        ids: Vec<String>,
        seed: u64,
        quick: bool,
        data: Option<PathBuf>,
        jobs: Option<u16>,
    ) -> PyResult<Reproducing> {
        let mut chosen = ebb_catalogue::experiments();
        let matches = |id: &str, name: &str| {
            id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for id in &ids {
            if !chosen.iter().any(|experiment| matches(experiment.id(), id)) {
                let message = format!("there is no experiment `{id}`; see ebb.experiments()");
                return Err(errors::unknown(py, message));
            }
        }
        chosen.retain(|experiment| {
            ids.is_empty() || ids.iter().any(|id| matches(experiment.id(), id))
        });
        let shared = Arc::new(Shared::default());
        let (sender, done) = channel();
        let watched = shared.clone();
        std::thread::Builder::new().name("ebb".to_owned()).spawn(move || {
            let data = data.as_deref().map(Directory::at);
            let context = Context {
                seed,
                jobs: 1,
                quick,
                data: data.as_ref().map(|data| data as &dyn Files),
                progress: &*watched,
            };
            // Nobody listens any more after Ctrl-C.
            drop(sender.send(ebb_study::reproduce(&chosen, &context, Threads::new(jobs))));
        })?;
        Ok(Reproducing { shared, done: Mutex::new(done), seed })
    }

    /// Waits at most so many seconds; the report, the claims as the command writes them and what
    /// could not run, where they are there.
    #[allow(clippy::type_complexity)]
    fn wait(
        &self,
        py: Python<'_>,
        seconds: f64,
    ) -> PyResult<Option<(Report, String, Vec<(String, String)>)>> {
        let most = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let outcome = py.detach(|| {
            let done = self.done.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
            done.recv_timeout(most)
        });
        let reproduction = match outcome {
            Ok(reproduction) => reproduction,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let error = ebb_study::StudyError::failed("the experiments ended without a result");
                return Err(errors::of_study(py, &error, ""));
            }
        };
        let report = reproduction.report(false).figure("seed", self.seed);
        let report = report.figure("revision", env!("EBB_REVISION"));
        let failed = reproduction.failed().iter();
        let failed = failed.map(|(id, error)| (id.to_string(), error.to_string())).collect();
        Ok(Some((Report::of(report), reproduction.to_json(), failed)))
    }

    /// Asks them to end.
    fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
    }

    /// The share that is done and what is being done.
    fn progress(&self) -> (f64, String) {
        self.shared.at.lock().map(|at| at.clone()).unwrap_or_default()
    }
}
