//! Any text as a configuration of Noxim: a scenario that can be parsed, or an error with words.
#![no_main]

use ebb_system_noc::noxim;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    _ = noxim::is_config(text);
    match noxim::to_toml(text) {
        Ok(toml) => assert!(!toml.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
