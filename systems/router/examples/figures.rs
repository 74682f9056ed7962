//! Prints published numbers beside ours: `figures [ID] [--quick]`, data in `../shared/data`.

use ebb_report::{Context, Reproduction, Terminal};
use ebb_scenario::{FileError, Files, Silent};
use ebb_system_router::experiments::experiments;

/// Files below a directory.
struct Below(std::path::PathBuf);

impl Files for Below {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let error =
            |error: std::io::Error| FileError { name: name.to_owned(), message: error.to_string() };
        std::fs::read(self.0.join(name)).map_err(error)
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "--quick");
    let wanted = words.iter().find(|word| !word.starts_with("--"));
    let data = Below("../shared/data".into());
    let context = Context { seed: 1, jobs: 1, quick, data: Some(&data), progress: &Silent };
    let mut reproduction = Reproduction::new();
    for experiment in experiments() {
        if wanted.is_none_or(|id| experiment.id().contains(id.as_str())) {
            let began = std::time::Instant::now();
            reproduction.run(experiment, &context);
            eprintln!("{}: {:.2} s", experiment.id(), began.elapsed().as_secs_f64());
        }
    }
    println!("{}", reproduction.report(wanted.is_none()).to_terminal(&Terminal::plain()));
}
