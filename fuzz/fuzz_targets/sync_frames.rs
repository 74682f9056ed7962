//! Any bytes as a sync frame: read or refused, and whatever is read leaves a plan in which days
//! never overlap time backwards. Where there are keys none of them is read.
#![no_main]

use ebb_tord::plan::{Clock, Phase, Plan};
use ebb_tord::seal::Keys;
use ebb_tord::sync::{self, SyncError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let keys = Keys::parse("a token that no fuzzer finds out").expect("a key");
    let clock = if bytes.len() % 2 == 0 { Clock::Sync } else { Clock::Shared };
    let mut plan = Plan::new(clock, 1_000_000);
    for (step, part) in bytes.chunks(1000).enumerate() {
        let now = 1_000_000_000 + step as u64 * 300_000;
        match sync::read(part, &Keys::default()) {
            Ok(heard) => plan.hear(now, &heard),
            Err(_) => plan.malformed(),
        }
        if let Err(error) = sync::read(part, &keys) {
            assert!(error != SyncError::Range && error != SyncError::Matching, "read unsealed");
        } else {
            panic!("a seal was guessed");
        }
        plan.turn(now);
        if let Phase::Day(day) = plan.at(now) {
            assert!(day.begin_ns <= now && now < day.end_ns);
        }
    }
});
