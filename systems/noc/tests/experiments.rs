//! Every experiment runs and answers for each of its claims.
#![cfg(feature = "solver")]

use ebb_report::Context;
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
        if !experiment.id().starts_with("zhang2011") {
            continue;
        }
        let quick = std::env::var_os("EBB_FULL").is_none();
        let context = Context { seed: 1, jobs: 1, quick, data: Some(&Shared), progress: &Silent };
        let findings =
            experiment.run(&context).unwrap_or_else(|error| panic!("{}: {error}", experiment.id()));
        assert!(!findings.report.title.is_empty());
        eprintln!("{findings:#?}");
    }
}
