//! The two engines hold each other to the same figures.
//!
//! Bounds, over constant loads from 5 % to 110 % under every policy, and over a day compressed to
//! seconds: mean power within 3 %, mean active cores within 0.6, loss within 0.5 points, mean packets
//! in the router within 35 % and 12 packets.

use ebb_system_router::Outcome;

use crate::run;

/// Holds so short that a policy comes to rest within the run.
const QUICK: &str = "settings = { hold_ms = 4, hold_max_ms = 100 }\n";

fn both(more: &str) -> (Outcome, Outcome) {
    (run(&format!("engine = \"packet\"\n{more}"), 1), run(&format!("engine = \"slot\"\n{more}"), 1))
}

fn loss(outcome: &Outcome) -> f64 {
    outcome.counts.lost as f64 / outcome.counts.arrived.max(1) as f64
}

fn compare(name: &str, more: &str) {
    let (exact, slots) = both(more);
    let line = format!(
        "{name}: {:.1} and {:.1} W, {:.2} and {:.2} cores, {:.2} and {:.2} GHz, {} and {} changes, \
         loss {:.4} and {:.4}, {:.1} and {:.1} packets inside, {:.1} and {:.1} µs, {} and {} decisions",
        exact.power.0, slots.power.0, exact.cores, slots.cores, exact.ghz, slots.ghz,
        exact.changes, slots.changes, loss(&exact), loss(&slots), exact.occupancy, slots.occupancy,
        exact.latency.mean_us, slots.latency.mean_us, exact.decisions, slots.decisions,
    );
    println!("{line}");
    assert!((exact.power.0 / slots.power.0 - 1.0).abs() < 0.03, "power of {line}");
    assert!((exact.cores - slots.cores).abs() < 0.6, "cores of {line}");
    assert!((loss(&exact) - loss(&slots)).abs() < 0.005, "loss of {line}");
    let apart = (exact.occupancy - slots.occupancy).abs();
    assert!(apart < 12.0 + 0.35 * exact.occupancy, "packets inside of {line}");
}

#[test]
fn constant_loads_under_every_policy() {
    for policy in ["poll", "napi", "powersave", "model"] {
        for load in [0.05, 0.3, 0.6, 0.9, 1.1] {
            let more = format!(
                "load = {load}\nduration_s = 0.3\nwarmup_s = 0.3\n[policy]\nname = \"{policy}\"\n{QUICK}"
            );
            compare(&format!("{policy} at {load}"), &more);
        }
    }
}

#[test]
fn arrivals_sizes_and_skew() {
    for more in [
        "load = 0.3\n[traffic]\narrivals = \"constant\"\n",
        "load = 0.3\n[traffic]\narrivals = \"onoff\"\nburst_packets = 64\n",
        "load = 0.3\n[traffic]\nsizes = \"imix\"\nskew = 0.5\n",
        "load = 0.3\n[application]\nname = \"ipsec\"\n[traffic]\nsizes = \"imix\"\n",
    ] {
        compare(more, &format!("duration_s = 0.3\nwarmup_s = 0.3\n{more}[policy]\n{QUICK}"));
    }
}

#[test]
fn a_compressed_day() {
    for policy in ["powersave", "model"] {
        let more = format!(
            "load = 0.25\n[policy]\nname = \"{policy}\"\n{QUICK}[traffic]\nprofile = \"uk\"\ncompress = 28800\n"
        );
        compare(&format!("{policy} over a day in three seconds"), &more);
    }
}

#[test]
#[ignore]
fn debug() {
    use ebb_control::{Action, Decision, Observation, Recording};
    let more = format!("engine = \"slot\"\nload = 0.6\nduration_s = 0.3\nwarmup_s = 0.3\n[policy]\nname = \"model\"\n{QUICK}");
    let twin = crate::twin(&more, 1);
    let mut last = None;
    let mut n = 0u64;
    let mut policy = Recording::new(twin.policy(), |d: &Decision<Observation, Action>| {
        n += 1;
        if last != Some(d.action.point) || (d.seen.queue_len > 32 && n < 100_000) {
            println!("{} {:?} {:?}", d.at, d.seen, d.action);
        }
        last = Some(d.action.point);
    });
    twin.run(&mut policy, &ebb_scenario::Silent).unwrap();
}
