//! A thousand random reconfigurations held against their promises:
//! `cargo bench -p ebb-system-fabric --bench reconfigurations [-- SEED COUNT]`.
//!
//! Prints a table by scheme and a line of JSON; ends with status 1 when a promise was broken.

use std::collections::BTreeMap;
use std::process::ExitCode;

use ebb_des::Seed;
use ebb_system_fabric::schemes::trial::{Trial, trial};

#[derive(Default)]
struct Sum {
    runs: u64,
    packets: u64,
    dropped: u64,
    reordered: u64,
    changed_ns: u64,
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let short = std::env::args().any(|argument| argument == "--test");
    let seed = Seed(numbers.first().copied().unwrap_or(1));
    let count = numbers.get(1).copied().unwrap_or(if short { 3 } else { 1000 });
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    let (mut done, mut draws, mut broken) = (0, 0, Vec::new());
    while done < count {
        let outcome = trial(seed.nth(draws));
        draws += 1;
        match outcome {
            Ok(None) => continue,
            Ok(Some(trial)) => add(sums.entry(trial.scheme).or_default(), &trial),
            Err(what) => broken.push(what),
        }
        done += 1;
    }
    println!(
        "{:<15} {:>6} {:>12} {:>9} {:>10} {:>12}",
        "scheme", "runs", "packets", "dropped", "reordered", "mean time"
    );
    for (scheme, sum) in &sums {
        let mean = sum.changed_ns as f64 / sum.runs.max(1) as f64 / 1e3;
        println!(
            "{scheme:<15} {:>6} {:>12} {:>9} {:>10} {mean:>9.1} µs",
            sum.runs, sum.packets, sum.dropped, sum.reordered
        );
    }
    broken.iter().for_each(|what| println!("BROKEN {what}"));
    println!(
        "{{\"benchmark\":\"fabric-reconfigurations\",\"runs\":{done},\"draws\":{draws},\"broken\":{}}}",
        broken.len()
    );
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn add(sum: &mut Sum, trial: &Trial) {
    sum.runs += 1;
    sum.packets += trial.packets;
    sum.dropped += trial.dropped;
    sum.reordered += trial.reordered;
    sum.changed_ns += trial.changed_ns;
}
