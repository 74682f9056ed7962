//! What the twin promises.

mod clocks;
mod engines;
mod errors;
mod examples;
mod paths;
mod proof;
mod queueing;
mod replay;
mod table;

use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_system_router::{Outcome, Twin};

/// The twin of a scenario.
fn twin(text: &str, seed: u64) -> Twin {
    let document = Document::parse("test.toml", text).expect("TOML");
    Twin::new(&document, &MemoryFiles::new(), seed).expect("a scenario")
}

/// The outcome of a scenario.
fn run(text: &str, seed: u64) -> Outcome {
    let twin = twin(text, seed);
    let mut policy = twin.policy();
    twin.run(&mut *policy, &Silent).expect("not stopped")
}
