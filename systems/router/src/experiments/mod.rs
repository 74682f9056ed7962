//! Published figures computed again, one file per figure or group of figures, each number beside
//! the paper's.
//!
//! Room: figures as data and their registry. A figure asks the server's formulas ([`crate::plan`])
//! where the paper measured a steady state, and runs the twin where time matters.

mod bolla;
mod gap;
mod niccolini;

use ebb_report::Experiment;

/// Every experiment of this system.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    let figures = niccolini::FIGURES.iter().copied().chain([&gap::GAP]);
    let figures = figures.chain(bolla::FIGURES.iter().copied());
    figures.map(|figure| figure as &dyn Experiment).collect()
}
