//! Any text as a configuration: a checked configuration or its problems, never a panic.
#![no_main]

use ebb_routerd::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Config::from_str("fuzz.toml", text) {
        assert!(!error.to_string().is_empty());
    }
});
