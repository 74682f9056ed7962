//! Any text as a BookSim configuration: a scenario that can be parsed, or an error with words.
#![no_main]

use ebb_system_noc::booksim;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    _ = booksim::is_config(text);
    match booksim::to_toml(text) {
        Ok(toml) => assert!(!toml.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
