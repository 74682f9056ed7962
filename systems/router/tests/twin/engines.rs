//! The two engines hold each other to the same figures.
//!
//! Bounds, over constant loads from 5 % to 110 % and over a day compressed to seconds: mean power
//! within 1 % under policies that keep their operating point and 7 % under those that move it (a few
//! steps at random decide about a short run), mean active cores within 1.2, loss within 0.5 points,
//! mean packets in the router within 35 % and 12 packets.

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

fn compare(name: &str, more: &str, watts: f64) {
    let (exact, slots) = both(more);
    let line = format!(
        "{name}: {:.1} and {:.1} W, {:.2} and {:.2} cores, {:.2} and {:.2} GHz, {} and {} changes, \
         loss {:.4} and {:.4}, {:.1} and {:.1} packets inside, {:.1} and {:.1} µs, {} and {} decisions",
        exact.power.0,
        slots.power.0,
        exact.cores,
        slots.cores,
        exact.ghz,
        slots.ghz,
        exact.changes,
        slots.changes,
        loss(&exact),
        loss(&slots),
        exact.occupancy,
        slots.occupancy,
        exact.latency.mean_us,
        slots.latency.mean_us,
        exact.decisions,
        slots.decisions,
    );
    println!("{line}");
    assert!((exact.power.0 / slots.power.0 - 1.0).abs() < watts, "power of {line}");
    assert!((exact.cores - slots.cores).abs() < 1.2, "cores of {line}");
    assert!((loss(&exact) - loss(&slots)).abs() < 0.005, "loss of {line}");
    let apart = (exact.occupancy - slots.occupancy).abs();
    assert!(apart < 12.0 + 0.35 * exact.occupancy, "packets inside of {line}");
}

#[test]
fn constant_loads_under_every_policy() {
    for policy in ["poll", "napi", "powersave", "model"] {
        for load in [0.05, 0.3, 0.55, 0.9, 1.1] {
            let more = format!(
                "load = {load}\nduration_s = 0.3\nwarmup_s = 0.3\n[policy]\nname = \"{policy}\"\n{QUICK}"
            );
            let moves = ["powersave", "model"].contains(&policy);
            compare(&format!("{policy} at {load}"), &more, if moves { 0.07 } else { 0.01 });
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
        compare(more, &format!("duration_s = 0.3\nwarmup_s = 0.3\n{more}[policy]\n{QUICK}"), 0.03);
    }
}

#[test]
fn a_compressed_day() {
    for policy in ["powersave", "model"] {
        let more = format!(
            "load = 0.25\n[policy]\nname = \"{policy}\"\n{QUICK}[traffic]\nprofile = \"uk\"\ncompress = 28800\n"
        );
        compare(&format!("{policy} over a day in three seconds"), &more, 0.05);
    }
}
