//! Any bytes as a trace of coflows: what is read is a demand, what is not is refused with its line.
#![no_main]

use ebb_system_circuit::coflow;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match coflow::read("fuzz", data) {
        Ok(read) => assert!((read.demand.busiest() - 1.0).abs() < 1e-9),
        Err(error) => assert!(error.line.is_some_and(|line| line >= 1) && !error.message.is_empty()),
    }
});
