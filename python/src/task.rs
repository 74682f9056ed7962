//! One point of somebody else's job, computed here.
//!
//! Room: what a worker of a cluster calls. It gets the job's description and the point, and returns
//! the finished run as the text that a job keeps. It keeps nothing itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ebb_scenario::{Progress, Setting};
use ebb_study::{Event, Point, Policies, StudyError, Threads, Watcher};
use pyo3::prelude::*;
use toml::Value;

use crate::asked::Asked;
use crate::errors;
use crate::policy::Policy;
use crate::run::job;

/// How often the interpreter is asked whether somebody pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Looks for signals now and then, since the interpreter waits in this call.
struct Signals {
    looked: Mutex<(Instant, bool)>,
}

impl Progress for Signals {
    fn at(&self, _done: f64, _note: &str) {}

    fn stopped(&self) -> bool {
        let Ok(mut looked) = self.looked.try_lock() else { return false };
        if !looked.1 && looked.0.elapsed() >= LOOK {
            looked.0 = Instant::now();
            looked.1 = Python::attach(|py| py.check_signals()).is_err();
        }
        looked.1
    }
}

impl Watcher for Signals {
    fn event(&self, _event: &Event) {}
}

/// Computes the point with these settings (JSON pairs of path and value) and this seed of the job that
/// is described; returns the finished run as JSON.
#[pyfunction]
#[pyo3(signature = (description, files, settings, seed, policy=None))]
pub(crate) fn compute(
    py: Python<'_>,
    description: &str,
    files: BTreeMap<String, Vec<u8>>,
    settings: &str,
    seed: u64,
    policy: Option<Py<Policy>>,
) -> PyResult<String> {
    let asked = Asked::read(py, description, &files)?;
    let pairs: Vec<(String, Value)> = serde_json::from_str(settings)
        .map_err(|error| errors::refused(py, "", &error.to_string(), "pairs of path and value"))?;
    let settings = pairs.into_iter().map(|(path, value)| Setting::new(path, value)).collect();
    let point = Point { settings, seed };
    let signals = Signals { looked: Mutex::new((Instant::now(), false)) };
    let outcome = py.detach(|| {
        let policies = policy.as_ref().map(|policy| policy.get() as &dyn Policies);
        job(&asked, policies, &Threads::new(Some(1)), &signals).point(&point)
    });
    let text = outcome.and_then(|run| serde_json::to_string(&run).map_err(StudyError::failed));
    text.map_err(|error| errors::of_study(py, &error, &point.name()))
}

/// The digest of a file: of this module itself it is what results of this build are told by.
#[pyfunction]
pub(crate) fn digest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| {
        let mut hasher = blake3::Hasher::new();
        std::io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
        Ok(hasher.finalize().to_hex().to_string())
    })
}
