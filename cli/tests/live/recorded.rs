//! A router that ran leaves a record of its decisions, and the simulator's policy takes the same.

use std::time::{Duration, Instant};

use ebb_routerd::config::Config;
use ebb_routerd::memory_run;
use ebb_scenario::{Document, MemoryFiles};
use ebb_system_router::Twin;

const CONFIG: &str = "\
[router]
workers = 2
mode = \"powersave\"
[powersave]
count_up = 4
count_down = 64
[governor]
record = \"RECORD\"
[[port]]
name = \"m0\"
address = [\"192.168.0.1/24\"]
[[port]]
name = \"m1\"
address = [\"192.168.1.1/24\"]
";

const SCENARIO: &str = "\
load = 0.3
[limits]
cores = 2
frequencies_ghz = [3.3]
[policy]
name = \"powersave\"
[policy.settings]
count_up = 4
count_down = 64
";

/// Frames that nobody forwards; the policy sees queues all the same.
fn disturb(far: &mut memory_run::MemoryRun, until: Instant) {
    let frame = [0xffu8; 64];
    let mut turn = 0u64;
    while Instant::now() < until {
        // Bursts with pauses, so that queues fill and empty.
        let burst = if turn % 40 < 20 { 1_500 } else { 1 };
        far.far[0].send((0..burst).map(|_| &frame[..]));
        turn += 1;
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn the_twin_takes_the_decisions_of_a_router_that_ran() {
    let directory = tempfile::tempdir().expect("a directory");
    let record = directory.path().join("decisions.jsonl");
    let text = CONFIG.replace("RECORD", record.to_str().expect("text"));
    let config = Config::from_str("router.toml", &text).expect("a configuration");
    let mut run = memory_run::start(&config, vec![None; 2]).expect("a router");
    disturb(&mut run, Instant::now() + Duration::from_millis(500));
    run.router.stop();
    drop(run);
    let record = std::fs::read_to_string(&record).expect("a record");
    let lines = record.lines().count();
    assert!(lines > 100, "{lines} decisions");
    assert!(record.contains("\"cores\":2"), "the policy never asked for the second core");
    let document = Document::parse("twin.toml", SCENARIO).expect("TOML");
    let twin = Twin::new(&document, &MemoryFiles::new(), 1).expect("a scenario");
    assert_eq!(twin.replay(&record), Ok(lines));
}
