//! Scenarios that are run for the browser, each on a thread of its own, watched and stopped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::StatusCode;
use ebb_scenario::{Document, Progress, Sweep};
use ebb_study::{
    Directory, Event, Job, Program, Repeat, Study, StudyError, Threads, Until, Watcher,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};
use crate::studies::find;

/// Jobs at once: each computes on as many threads as it is given.
const RUNNING_MAX: usize = 2;
/// Jobs that are remembered.
const KEPT_MAX: usize = 50;

/// What is asked for.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    kind: String,
    system: String,
    /// What its directory is called.
    name: String,
    /// The scenario in TOML.
    text: String,
    /// Settings as they are written for `--set`; several values make a sweep.
    #[serde(default)]
    set: Vec<String>,
    seed: Option<u64>,
    seeds: Option<u32>,
    until: Option<String>,
    /// Threads.
    jobs: Option<u16>,
}

/// A job and how far it is.
struct Work {
    number: u64,
    wanted: Wanted,
    place: PathBuf,
    id: String,
    stop: AtomicBool,
    begun: Instant,
    done: AtomicU64,
    state: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    note: String,
    reused: usize,
    /// Why it ended, if it did; nothing where all went well.
    ended: Option<Result<(), String>>,
    seconds: f64,
}

impl Work {
    fn state(&self) -> MutexGuard<'_, Told> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.state().ended.is_none()
    }

    fn told(&self) -> Value {
        let state = self.state();
        let seconds =
            if state.ended.is_some() { state.seconds } else { self.begun.elapsed().as_secs_f64() };
        let word = match &state.ended {
            None if self.stop.load(Relaxed) => "stopping",
            None => "running",
            Some(_) if self.stop.load(Relaxed) => "stopped",
            Some(Ok(())) => "done",
            Some(Err(_)) => "failed",
        };
        json!({
            "number": self.number,
            "kind": self.wanted.kind,
            "system": self.wanted.system,
            "name": self.wanted.name,
            "place": self.place,
            "run": self.id,
            "state": word,
            "done": f64::from_bits(self.done.load(Relaxed)),
            "note": state.note,
            "reused": state.reused,
            "error": state.ended.as_ref().and_then(|ended| ended.as_ref().err()),
            "seconds": seconds,
        })
    }
}

impl Progress for Work {
    fn at(&self, done: f64, note: &str) {
        self.done.store(done.to_bits(), Relaxed);
        let mut state = self.state();
        if state.note != note {
            note.clone_into(&mut state.note);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

impl Watcher for Work {
    fn event(&self, event: &Event) {
        let (Event::RunsReused(count) | Event::PointsReused { finished: count, .. }) = *event;
        self.state().reused = count;
    }
}

/// All jobs of this dashboard, oldest first.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<Vec<Arc<Work>>>);

impl Jobs {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Work>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all to end.
    pub(crate) fn stop(&self) {
        self.all().iter().for_each(|work| work.stop.store(true, Relaxed));
    }

    /// How many are at work.
    pub(crate) fn running(&self) -> usize {
        self.all().iter().filter(|work| work.is_running()).count()
    }

    /// Starts a job that leaves its run in the first of `runs`; its scenario names files below `files`.
    pub(crate) fn start(
        &self,
        wanted: Wanted,
        runs: &[PathBuf],
        files: &Path,
        program: Program<'static>,
    ) -> Answer<Value> {
        let study = find(&wanted.kind, &wanted.system)?;
        let name = checked(&wanted.name)?.to_owned();
        let prepared = prepare(&wanted, study).map_err(Refusal::wrong)?;
        let root = runs.first().ok_or_else(|| Refusal::wrong("there is no directory for runs"))?;
        let (place, id) = (root.join(&name), format!("0/{name}"));
        let mut all = self.all();
        let running = all.iter().filter(|work| work.is_running());
        if running.clone().any(|work| work.place == place) {
            let message = format!("`{name}` is being computed: cancel it or choose another name");
            return Err(Refusal(StatusCode::CONFLICT, message));
        }
        if running.count() >= RUNNING_MAX {
            let message = format!("{RUNNING_MAX} jobs are running: wait for one or cancel it");
            return Err(Refusal(StatusCode::CONFLICT, message));
        }
        let work = Arc::new(Work {
            number: all.last().map_or(1, |last| last.number + 1),
            wanted,
            place,
            id,
            stop: AtomicBool::new(false),
            begun: Instant::now(),
            done: AtomicU64::new(0),
            state: Mutex::default(),
        });
        let (files, mine) = (files.to_owned(), work.clone());
        let thread = std::thread::Builder::new().name("ebb-job".to_owned());
        let begun = thread.spawn(move || perform(&mine, &prepared, &files, program));
        begun.map_err(|error| Refusal::busy(format!("no thread can be started: {error}")))?;
        let told = work.told();
        all.push(work);
        if all.len() > KEPT_MAX
            && let Some(at) = all.iter().position(|work| !work.is_running())
        {
            all.remove(at);
        }
        Ok(axum::Json(told))
    }

    /// All jobs, the newest first.
    pub(crate) fn told(&self) -> Vec<Value> {
        self.all().iter().rev().map(|work| work.told()).collect()
    }

    /// Asks a job to end; what is finished is kept.
    pub(crate) fn cancel(&self, number: u64) -> Answer<Value> {
        let all = self.all();
        let work = all.iter().find(|work| work.number == number);
        let work = work.ok_or_else(|| Refusal::unknown(format!("there is no job {number}")))?;
        if work.is_running() {
            work.stop.store(true, Relaxed);
        }
        Ok(axum::Json(work.told()))
    }
}

/// What a job is made of.
struct Prepared {
    study: &'static Study,
    document: Document,
    sweep: Sweep,
    seed: u64,
    repeat: Option<Repeat>,
}

fn prepare(wanted: &Wanted, study: &'static Study) -> Result<Prepared, StudyError> {
    let mut document = Document::parse("scenario", &wanted.text)?;
    let written = document.take_seed()?;
    let sweep = Sweep::parse(&wanted.set)?;
    let until = wanted.until.as_deref().filter(|until| !until.trim().is_empty());
    let until = until.map(Until::parse).transpose();
    let until = until.map_err(|message| StudyError::in_file("until", message))?;
    let repeat = Repeat::new(wanted.seeds, until.as_ref())?;
    let seed = wanted.seed.or(written).unwrap_or(study.seed);
    Ok(Prepared { study, document, sweep, seed, repeat })
}

/// A name for a directory: letters, digits, dashes, underlines and dots, not a hidden one.
fn checked(name: &str) -> Result<&str, Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(name);
    }
    let message =
        "name: 1 to 64 letters, digits, dashes, underlines and dots, the first of which is no dot";
    Err(Refusal::wrong(message))
}

fn perform(work: &Work, prepared: &Prepared, files: &Path, program: Program<'static>) {
    let compute = || {
        let job = Job {
            study: prepared.study,
            document: &prepared.document,
            files: &Directory::at(files),
            seed: prepared.seed,
            sweep: &prepared.sweep,
            repeat: prepared.repeat.as_ref(),
            saturation: None,
            shard: None,
            place: Some(&work.place),
            policies: None,
            fresh: false,
            program,
            executor: &Threads::new(work.wanted.jobs),
            watcher: work,
        };
        job.run().map(drop).map_err(|error| error.to_string())
    };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compute));
    let ended =
        caught.unwrap_or_else(|_| Err("a fault in the program; its log says more".to_owned()));
    let mut state = work.state();
    state.seconds = work.begun.elapsed().as_secs_f64();
    state.ended = Some(ended);
}
