//! Published numbers beside ours: experiments, several at the same time.

use std::ops::ControlFlow;

use ebb_report::{Context, Experiment, Reproduction};
use ebb_scenario::Progress;

use crate::executor::Threads;

/// Runs experiments with what `context` gives them; they share its progress.
pub fn reproduce(
    chosen: &[&'static dyn Experiment],
    context: &Context<'_>,
    threads: Threads,
) -> Reproduction {
    /// Several experiments at a time share one line of progress: each only learns whether to end.
    struct Ending<'a>(&'a dyn Progress);
    impl Progress for Ending<'_> {
        fn at(&self, _done: f64, _note: &str) {}
        fn stopped(&self) -> bool {
            self.0.stopped()
        }
    }
    let ending = Ending(context.progress);
    let inner = Context { progress: &ending, ..*context };
    let mut outcomes: Vec<_> = chosen.iter().map(|_| None).collect();
    let mut done = 0;
    threads.spread(chosen.len(), &|index| chosen[index].run(&inner), &mut |index, outcome| {
        outcomes[index] = Some(outcome);
        done += 1;
        context.progress.at(done as f64 / chosen.len() as f64, chosen[index].id());
        if context.progress.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut reproduction = Reproduction::quick(context.quick);
    for (experiment, outcome) in chosen.iter().zip(outcomes) {
        if let Some(outcome) = outcome {
            reproduction.add(*experiment, outcome);
        }
    }
    reproduction
}
