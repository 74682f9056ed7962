//! The two engines hold each other to the same figures.
//!
//! Bounds, over constant loads from 5 % to 110 % and over a day compressed to seconds: mean power
//! within 1 % under policies that keep their operating point and 7 % under those that move it (a few
//! steps at random decide about a short run), mean active cores within 1.5, loss within 0.5 points,
//! mean packets in the router within 35 % and 12 packets. Bursts stay below the length at which
//! `powersave` doubles the cores: within a slot the slotted engine does not see them.

use ebb_system_router::Outcome;

use crate::run;

/// Holds so short that a policy comes to rest within the run.
const QUICK: &str = "settings = { hold_ms = 4, hold_max_ms = 100 }\n";

/// What the engines have to agree about, means over runs of some seeds.
#[derive(Debug)]
struct Figures {
    watts: f64,
    cores: f64,
    loss: f64,
    inside: f64,
}

fn figures(engine: &str, more: &str, seeds: u64) -> Figures {
    let runs: Vec<Outcome> =
        (1..=seeds).map(|seed| run(&format!("engine = \"{engine}\"\n{more}"), seed)).collect();
    let mean = |of: &dyn Fn(&Outcome) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    Figures {
        watts: mean(&|run| run.power.0),
        cores: mean(&|run| run.cores),
        loss: mean(&|run| run.counts.lost as f64 / run.counts.arrived.max(1) as f64),
        inside: mean(&|run| run.occupancy),
    }
}

fn compare(name: &str, more: &str, (seeds, watts): (u64, f64)) {
    let (exact, slots) = (figures("packet", more, seeds), figures("slot", more, seeds));
    let line = format!("{name}:\npacket {exact:.4?}\nslot   {slots:.4?}");
    println!("{line}");
    assert!((exact.watts / slots.watts - 1.0).abs() < watts, "power of {line}");
    assert!((exact.cores - slots.cores).abs() < 1.5, "cores of {line}");
    assert!((exact.loss - slots.loss).abs() < 0.005, "loss of {line}");
    let apart = (exact.inside - slots.inside).abs();
    assert!(apart < 12.0 + 0.35 * exact.inside, "packets inside of {line}");
}

#[test]
fn constant_loads_under_every_policy() {
    for policy in ["poll", "napi", "powersave", "model"] {
        for load in [0.05, 0.3, 0.55, 0.9, 1.1] {
            let more = format!(
                "load = {load}\nduration_s = 0.3\nwarmup_s = 0.3\n[policy]\nname = \"{policy}\"\n{QUICK}"
            );
            let moves = ["powersave", "model"].contains(&policy);
            let (seeds, watts) = if moves { (1, 0.07) } else { (1, 0.01) };
            compare(&format!("{policy} at {load}"), &more, (seeds, watts));
        }
    }
}

#[test]
fn arrivals_sizes_and_skew() {
    for more in [
        "load = 0.3\n[traffic]\narrivals = \"constant\"\n",
        "load = 0.3\n[traffic]\narrivals = \"onoff\"\nburst_packets = 32\n",
        "load = 0.3\n[traffic]\nsizes = \"imix\"\nskew = 0.5\n",
        "load = 0.3\n[application]\nname = \"ipsec\"\n[traffic]\nsizes = \"imix\"\n",
    ] {
        // Ten cores for slow packets: at the edge of a core more, a single run is a matter of luck.
        let (span, seeds) = if more.contains("ipsec") { (1.0, 4) } else { (0.3, 1) };
        let more = format!("duration_s = {span}\nwarmup_s = 0.3\n{more}[policy]\n{QUICK}");
        compare(&more, &more, (seeds, 0.03));
    }
}

#[test]
fn a_compressed_day() {
    for policy in ["powersave", "model"] {
        let more = format!(
            "load = 0.25\n[policy]\nname = \"{policy}\"\n{QUICK}[traffic]\nprofile = \"uk\"\ncompress = 28800\n"
        );
        compare(&format!("{policy} over a day in three seconds"), &more, (1, 0.05));
    }
}
