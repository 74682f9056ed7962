//! What a job's thread tells Python, and how it learns that it is to end.
//!
//! Room: messages and what is shared, for `run.rs` and `elsewhere.rs`. It starts nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use ebb_scenario::Progress;
use ebb_study::{Event, JobError, Point, Watcher};

/// What the job's thread says.
pub(crate) enum Said {
    /// These points are to be computed by others.
    Points(Vec<Point>),
    /// So many points or runs are finished already.
    Reused(usize),
    /// It ended.
    Done(Box<Result<ebb_report::Report, JobError>>),
}

/// What the job's thread and Python share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    /// The share that is done, as bits.
    pub(crate) done: AtomicU64,
    pub(crate) note: Mutex<String>,
}

/// How a job tells Python what happens.
pub(crate) struct Told {
    pub(crate) shared: Arc<Shared>,
    pub(crate) said: Mutex<Sender<Said>>,
}

impl Told {
    pub(crate) fn say(&self, said: Said) {
        // Nobody listens any more after Ctrl-C.
        drop(self.said.lock().map(|sender| sender.send(said)));
    }
}

impl Progress for Told {
    fn at(&self, done: f64, note: &str) {
        self.shared.done.store(done.to_bits(), Relaxed);
        if let Ok(mut last) = self.shared.note.lock()
            && *last != note
        {
            note.clone_into(&mut last);
        }
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Relaxed)
    }
}

impl Watcher for Told {
    fn event(&self, event: &Event) {
        let (Event::RunsReused(count) | Event::PointsReused { finished: count, .. }) = *event;
        self.say(Said::Reused(count));
    }
}
