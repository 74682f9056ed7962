//! Every experiment runs and answers for each of its claims.
#![cfg(feature = "solver")]

use ebb_report::{Context, Reproduction, Verdict};
use ebb_scenario::{FileError, Files, Silent};
use ebb_system_noc::experiments;

struct Shared;

impl Files for Shared {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let path = format!("{}/../../../shared/data/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path)
            .map_err(|error| FileError { name: name.to_owned(), message: error.to_string() })
    }
}

#[test]
fn every_experiment_runs() {
    for experiment in experiments() {
        let only = std::env::var("EBB_ONLY").unwrap_or_default();
        if !experiment.id().starts_with(&only) {
            continue;
        }
        let quick = std::env::var_os("EBB_FULL").is_none();
        let context = Context { seed: 1, jobs: 1, quick, data: Some(&Shared), progress: &Silent };
        let mut reproduction = Reproduction::quick(quick);
        let outcome = experiment.run(&context);
        let alone =
            outcome.as_ref().map_or_else(|_| Vec::new(), |found| found.plots_of_ours_alone());
        assert!(alone.is_empty(), "{}: nothing published in {alone:?}", experiment.id());
        reproduction.add(experiment, outcome);
        assert_eq!(reproduction.failed(), [], "{}", experiment.id());
        for row in reproduction.rows() {
            let ran = row.verdict != Verdict::NotRun;
            assert_eq!(row.ours.is_some(), ran, "{}: {}", row.id, row.note);
            // A quick run may have one seed, which has no interval.
            assert!(!ran || quick || row.half_width_95.is_some(), "{}: one seed", row.id);
            assert!(row.verdict != Verdict::Missed || row.note.len() > 20, "{}", row.id);
        }
        println!("{}\n{}", reproduction.to_json(), reproduction.summary());
    }
}
