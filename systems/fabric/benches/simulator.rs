//! Speed and memory of the fabric simulator: `cargo bench -p ebb-system-fabric --bench simulator`.
//!
//! Prints a table and a line of JSON. With `--test` (as `cargo test --benches` passes it) the runs
//! are short and only show that the program works.

use ebb_des::Seed;
use ebb_system_fabric::routing::{self, Options};
use ebb_system_fabric::sim::{Network, Pattern, Pause, Physics, Setup, Traffic};
use ebb_system_fabric::topology::{grid, tree};
use ebb_system_fabric::{HostId, Topology};

struct Outcome {
    name: &'static str,
    simulated_ms: f64,
    cpu_s: f64,
    packets: u64,
    hops: u64,
    delivered_share: f64,
    resident_mb: f64,
}

/// Processor time of this process so far, s, in the kernel's hundredths.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after.split_whitespace().skip(11).take(2).filter_map(|it| it.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Peak resident memory of this process so far, MB.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kb.map_or(f64::NAN, |kb| kb / 1024.0)
}

fn run(name: &'static str, topology: &Topology, load: f64, end_ns: u64) -> Outcome {
    let function = routing::by_name("up-down").expect("a routing function");
    let (tables, _) =
        routing::route(function, topology, &Options::default()).expect("sound tables");
    let physics = Physics::default();
    let traffic = Traffic::constant(load, Pattern::Uniform {});
    let setup = Setup {
        topology,
        physics: &physics,
        traffic: &traffic,
        tables: &tables,
        later: &[],
        off: &[],
        gone: &[],
        manager: HostId(0),
        seed: Seed(1),
        bin_ns: 100_000,
        transient: 40_000,
    };
    let mut network = Network::new(&setup).expect("a network");
    let start = processor_s();
    assert_eq!(network.run_until(end_ns), Pause::Reached);
    let cpu_s = (processor_s() - start).max(0.01);
    assert!(network.audit().balanced());
    let meter = network.meter();
    Outcome {
        name,
        simulated_ms: end_ns as f64 / 1e6,
        cpu_s,
        packets: meter.delivered,
        hops: meter.hops,
        delivered_share: meter.delivered as f64 / meter.injected.max(1) as f64,
        resident_mb: resident_mb(),
    }
}

fn main() {
    let short = std::env::args().any(|argument| argument == "--test");
    let scale = if short { 100 } else { 1 };
    let torus = grid::torus(&[8, 8], 1).expect("a torus");
    let pods = tree::Pods { pods: 16, leaves: 8, spines: 8, cores_per_spine: 8, hosts: 8 };
    let fat_tree = pods.build().expect("a fat tree of 1,024 hosts");
    let outcomes = [
        run("torus 8x8, low", &torus, 0.03, 25_000_000 / scale),
        run("torus 8x8, high", &torus, 0.15, 25_000_000 / scale),
        run("torus 8x8, saturated", &torus, 0.5, 25_000_000 / scale),
        run("fat tree, 1024 hosts", &fat_tree, 0.2, 1_000_000 / scale),
    ];
    println!(
        "{:<22} {:>9} {:>8} {:>10} {:>12} {:>14} {:>9} {:>9}",
        "case", "simulated", "cpu", "packets", "packet-hops", "hops/s", "arrived", "peak mem"
    );
    for outcome in &outcomes {
        println!(
            "{:<22} {:>6.2} ms {:>6.2} s {:>10} {:>12} {:>14.0} {:>8.1}% {:>6.0} MB",
            outcome.name,
            outcome.simulated_ms,
            outcome.cpu_s,
            outcome.packets,
            outcome.hops,
            outcome.hops as f64 / outcome.cpu_s,
            100.0 * outcome.delivered_share,
            outcome.resident_mb,
        );
    }
    let lines: Vec<String> = outcomes
        .iter()
        .map(|outcome| {
            format!(
                "{{\"case\":\"{}\",\"simulated_ms\":{},\"cpu_s\":{:.3},\"packets\":{},\"hops\":{},\"hops_per_s\":{:.0},\"peak_mb\":{:.0}}}",
                outcome.name,
                outcome.simulated_ms,
                outcome.cpu_s,
                outcome.packets,
                outcome.hops,
                outcome.hops as f64 / outcome.cpu_s,
                outcome.resident_mb,
            )
        })
        .collect();
    println!("{{\"benchmark\":\"fabric-simulator\",\"runs\":[{}]}}", lines.join(","));
}
