//! Decisions of the policy on file, so that what a live router did can be replayed elsewhere.
//!
//! Neighbours: `ebb_control::Recording` hears the decisions; `ebb_system_router::Twin::replay` and
//! `ebb_control::replay` read the file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use ebb_control::{Action, Decision, Observation, Recording, RouterPolicy};
use tracing::warn;

/// The policy, with every decision written to `path` as a line of JSON, if there is a path. The
/// record ends when another policy takes over. A file that cannot be written any more ends the
/// record, not the router.
///
/// # Errors
/// When the file cannot be made.
pub fn recorded(policy: Box<RouterPolicy>, path: Option<&Path>) -> Result<Box<RouterPolicy>> {
    let Some(path) = path else { return Ok(policy) };
    let shown = path.display().to_string();
    let file = File::create(path).with_context(|| format!("cannot record decisions in {shown}"))?;
    let mut file = Some(BufWriter::new(file));
    Ok(Box::new(Recording::new(policy, move |decision: &Decision<Observation, Action>| {
        let Some(open) = &mut file else { return };
        let line = serde_json::to_string(decision).expect("plain data");
        if let Err(error) = writeln!(open, "{line}") {
            warn!(code = "EBB-R070", "recording of decisions stopped: {shown}: {error}");
            file = None;
        }
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_control::policies::{Settings, named};
    use ebb_control::{Limits, Policy, replay};
    use ebb_units::Time;

    const LIMITS: Limits = Limits { cores: 2, frequencies: 1 };

    #[test]
    fn a_full_disk_ends_the_record_and_not_the_policy() {
        let policy = || named("powersave", LIMITS, &Settings::default()).expect("known");
        let mut recorded = recorded(policy(), Some(Path::new("/dev/full"))).expect("made");
        let mut plain = policy();
        for turn in 0..10_000 {
            let seen = Observation { queue_len: turn % 100, received: 1, ..Observation::default() };
            let now = Time::from_nanos(u64::from(turn) * 1_000);
            assert_eq!(recorded.decide(now, &seen), plain.decide(now, &seen));
        }
    }

    #[test]
    fn what_was_recorded_replays() {
        let path = std::env::temp_dir().join(format!("ebb-record-{}.jsonl", std::process::id()));
        let policy = || named("powersave", LIMITS, &Settings::default()).expect("known");
        let mut recorded = recorded(policy(), Some(&path)).expect("made");
        for turn in 0..1_000 {
            let seen = Observation { queue_len: turn % 100, received: 1, ..Observation::default() };
            recorded.decide(Time::from_nanos(u64::from(turn) * 1_000), &seen);
        }
        drop(recorded);
        let text = std::fs::read_to_string(&path).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        let read = |line: &str| serde_json::from_str(line).expect("a decision");
        let record: Vec<Decision<Observation, Action>> = text.lines().map(read).collect();
        assert_eq!(replay(&mut *policy(), record), Ok(1_000));
    }
}
