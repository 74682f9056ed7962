//! What was published about microsecond circuits, computed again (Strong 2013, "Low-latency techniques for
//! improving system energy efficiency", chapter 4, "Integrating microsecond circuit switching into the data
//! center"), and shares of demand that schedulers serve, computed once by others than us.

mod formulas;
mod live;
mod power;
mod shares;
mod tokens;

use ebb_report::Experiment;

/// Every experiment of this system.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    vec![
        &formulas::FORMULAS,
        &power::FIGURE_42,
        &shares::SHARES,
        &tokens::FIGURE_414,
        &live::PROTOTYPE,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_report::{Context, Reproduction};
    use ebb_scenario::Silent;

    /// What every claim comes to; `cargo test -p ebb-system-circuit claims -- --nocapture`.
    #[test]
    fn claims_are_computed() {
        let mut reproduction = Reproduction::quick(true);
        for experiment in experiments() {
            let context = Context { seed: 1, jobs: 1, quick: true, data: None, progress: &Silent };
            reproduction.add(experiment, experiment.run(&context));
        }
        assert!(reproduction.failed().is_empty());
        println!("{}", reproduction.to_json());
    }
}
