//! Points that other processes and machines compute, on behalf of a job.
//!
//! Room: an executor of `ebb_study` that only asks and listens: it hands the points to Python, which
//! knows processes and clusters, and takes what comes back, in whatever order. It computes nothing.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

use ebb_scenario::Progress;
use ebb_study::{Executor, Finished, Outcome, Point, Take};

use crate::told::{Said, Told};

/// What came of a point.
pub(crate) enum Answer {
    /// The point of this index is finished.
    Finished(usize, Box<Finished>),
    /// Nothing comes of it: Python has told its user why.
    Nothing,
    /// Nobody computes any longer.
    Ended,
}

/// Asks by `told`, listens to `answers`.
pub(crate) struct Elsewhere<'a> {
    told: &'a Told,
    answers: Mutex<Receiver<Answer>>,
}

impl<'a> Elsewhere<'a> {
    pub(crate) fn new(told: &'a Told, answers: Receiver<Answer>) -> Elsewhere<'a> {
        Elsewhere { told, answers: Mutex::new(answers) }
    }
}

impl Executor for Elsewhere<'_> {
    fn run(
        &self,
        points: &[Point],
        _each: &(dyn Fn(&Point) -> Outcome + Sync),
        take: &mut Take<'_>,
    ) {
        if points.is_empty() {
            return;
        }
        self.told.say(Said::Points(points.to_vec()));
        let answers = self.answers.lock().expect("one job has one thread");
        for _ in 0..points.len() {
            let flow = match answers.recv() {
                Ok(Answer::Finished(index, finished)) if index < points.len() => {
                    take(index, Ok(*finished))
                }
                Ok(Answer::Nothing | Answer::Finished(..)) => ControlFlow::Continue(()),
                Ok(Answer::Ended) | Err(_) => ControlFlow::Break(()),
            };
            if flow.is_break() || self.told.stopped() {
                break;
            }
        }
    }
}
