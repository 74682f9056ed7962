//! What R. D. Strong, "Low-latency techniques for improving system energy efficiency" (2013), chapter
//! 2, printed, computed again.

mod circuits;
mod formula;
#[cfg(test)]
mod reach;
mod spec;
mod stagger;
mod streams;
mod suite;
mod wake;

use ebb_report::Experiment;

/// Every experiment of this system.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    vec![
        &circuits::CIRCUITS,
        &spec::FIGURES_213,
        &formula::FORMULA,
        &wake::FIGURE_216,
        &streams::FIGURE_217,
        &stagger::FIGURES_218,
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use ebb_report::{Context, Reproduction, Verdict};
    use ebb_scenario::{FileError, Files, Silent};

    use super::experiments;

    pub(super) struct Shared;

    impl Files for Shared {
        fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
            let path = format!("{}/../../../shared/data/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read(path)
                .map_err(|error| FileError { name: name.to_owned(), message: error.to_string() })
        }
    }

    /// Every experiment runs, with the data and without, and answers for each of its claims.
    #[test]
    fn every_claim_is_answered() {
        let full = std::env::var_os("EBB_FULL").is_some();
        let only = std::env::var("EBB_ONLY").unwrap_or_default();
        if !Shared.has("gating/spec2006.csv") {
            assert!(std::env::var_os("CI").is_none(), "../shared/data is missing");
            println!("skipped in part: ../shared/data/gating is not there");
        }
        for data in [Some(&Shared as &dyn Files), None] {
            for experiment in experiments().into_iter().filter(|one| one.id().starts_with(&only)) {
                let context = Context { seed: 1, jobs: 1, quick: !full, data, progress: &Silent };
                let mut reproduction = Reproduction::quick(!full);
                reproduction.run(experiment, &context);
                assert_eq!(reproduction.failed(), [], "{}", experiment.id());
                for row in reproduction.rows() {
                    assert!(row.ours.is_some() || row.verdict == Verdict::NotRun, "{}", row.id);
                    assert!(row.verdict != Verdict::Missed || row.note.len() > 20, "{}", row.id);
                }
                println!("{}\n{}", reproduction.to_json(), reproduction.summary());
            }
        }
    }
}
