//! Any bytes as a sync frame: read or refused, and whatever is read leaves a plan in which days
//! never overlap time backwards.
#![no_main]

use ebb_tord::plan::{Clock, Phase, Plan};
use ebb_tord::sync;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut plan = Plan::new(Clock::Sync, 1_000_000);
    for (step, part) in bytes.chunks(1000).enumerate() {
        let now = 1_000_000_000 + step as u64 * 300_000;
        match sync::read(part) {
            Ok(frame) => plan.hear(now, &frame),
            Err(_) => plan.malformed(),
        }
        plan.turn(now);
        if let Phase::Day(day) = plan.at(now) {
            assert!(day.begin_ns <= now && now < day.end_ns);
        }
    }
});
