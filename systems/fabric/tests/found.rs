//! Verdicts that were wrong once, by an independent search.

use std::path::Path;

use ebb_system_fabric::Fabric;
use ebb_system_fabric::format::set;
use ebb_system_fabric::transition::{Options, Scheme, TransitionVerdict, check_transition};

/// The verdict on a change, where the data are.
fn verdict(name: &str, reverse: bool) -> Option<TransitionVerdict> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let folder = root.join("../shared/data/fabric/regressions").join(name);
    if !folder.exists() {
        assert!(std::env::var_os("CI").is_none(), "{} is missing", folder.display());
        eprintln!("skipped: {} is missing", folder.display());
        return None;
    }
    let [old, new] = if reverse { ["n", "o"] } else { ["o", "n"] }.map(|side| {
        let bytes = |file: &str| std::fs::read(folder.join(side).join(file)).ok();
        let file = |name, bytes| set::File { name, bytes };
        let (topology, forwarding) = (bytes(set::TOPOLOGY)?, bytes(set::FORWARDING)?);
        let (levels, lanes) = (bytes(set::LEVELS), bytes(set::LANES));
        set::read(&set::Set {
            topology: file(set::TOPOLOGY, &topology),
            forwarding: file(set::FORWARDING, &forwarding),
            levels: levels.as_deref().map(|bytes| file(set::LEVELS, bytes)),
            lanes: lanes.as_deref().map(|bytes| file(set::LANES, bytes)),
        })
        .ok()
    });
    let (old, new): (Fabric, Fabric) = (old?, new?);
    Some(check_transition(&old, &new, Options::default()).expect("one fabric"))
}

#[test]
fn new_lane_rows_of_fifteen_lose_packets_of_mixtures() {
    for reverse in [false, true] {
        let Some(verdict) = verdict("lane15", reverse) else { return };
        let found = verdict.scheme(Scheme::Unsynchronised);
        assert!(!found.safe && found.figures["lost_destinations"] > 0, "{found:?}");
    }
}

/// Rows of a port that is off are absent from what a subnet manager dumps.
#[test]
fn absent_lane_rows_lose_packets_of_mixtures() {
    for name in ["unsynchronised_1", "unsynchronised_2", "unsynchronised_3"] {
        let Some(verdict) = verdict(name, false) else { return };
        assert!(!verdict.scheme(Scheme::Unsynchronised).safe, "{name}");
    }
}

#[test]
fn hosts_that_leave_go_on_sending() {
    let Some(verdict) = verdict("depart", false) else { return };
    for scheme in [Scheme::Instant, Scheme::Unsynchronised, Scheme::Upr] {
        let found = verdict.scheme(scheme);
        assert!(!found.safe && !found.cycle.is_empty(), "{scheme:?}: {found:?}");
    }
}

/// Packets that step over at S2 would close a cycle of the second lane set: they may not.
#[test]
fn nothing_steps_over_where_that_closes_a_cycle() {
    let Some(verdict) = verdict("dsover", false) else { return };
    let found = verdict.scheme(Scheme::Ds);
    assert_eq!((found.safe, found.figures["packets_step_over"]), (true, 0), "{found:?}");
}

/// Stepped-over packets would use lanes that the set lacks.
#[test]
fn nothing_steps_over_to_lanes_that_a_set_lacks() {
    for name in ["ds_1", "ds_2", "ds_3"] {
        let Some(verdict) = verdict(name, false) else { return };
        assert_eq!(verdict.scheme(Scheme::Ds).figures["packets_step_over"], 0, "{name}");
    }
}
