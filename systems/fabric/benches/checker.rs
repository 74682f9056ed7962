//! How long the checker takes: an 8 x 8 torus with 4,032 pairs on 8 lanes, and a fat tree of more
//! than 5,000 hosts, each before and after a link goes off. Prints a table and a line of JSON.
//!
//! `cargo bench -p ebb-system-fabric --bench checker`; with `--test` (as `cargo test` passes) small.

use std::time::Instant;

use ebb_system_fabric::Fabric;
use ebb_system_fabric::check::check;
use ebb_system_fabric::routing::{Options, Routing, layered, nue, up_down};
use ebb_system_fabric::tables::{ServiceLevels, Tables};
use ebb_system_fabric::topology::{Topology, grid, tree::Pods};
use ebb_system_fabric::transition::{self, check_transition};

/// Spreads the pairs over eight lanes: the service level is the host number's.
fn on_eight_lanes(topology: &Topology, mut tables: Tables) -> Tables {
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    for source in topology.host_ids() {
        for (number, host) in topology.hosts().iter().enumerate() {
            levels.add(source, host.lid, (number % 8) as u8);
        }
    }
    tables.levels = levels;
    tables
}

struct Case {
    name: &'static str,
    topology: Topology,
    function: &'static dyn Routing,
    eight_lanes: bool,
}

fn run(case: &Case) -> (String, serde_json::Value) {
    let Case { name, topology, function, eight_lanes } = case;
    let middle = topology.links().nth(topology.links().count() / 2).expect("a link");
    let fabric = |topology: Topology| {
        let options = Options::default();
        let tables = function.propose(&topology, &options).expect("tables");
        let tables = if *eight_lanes { on_eight_lanes(&topology, tables) } else { tables };
        Fabric { topology, tables }
    };
    let start = Instant::now();
    let old = fabric(topology.clone());
    let routing_s = start.elapsed().as_secs_f64();
    let new = fabric(topology.without(&[middle]));
    let start = Instant::now();
    let verdict = check(&old.topology, &old.tables);
    let check_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let change = check_transition(&old, &new, transition::Options::default()).expect("one fabric");
    let transition_s = start.elapsed().as_secs_f64();
    let (pairs, lanes) = (verdict.fabric.pairs, verdict.lanes.len());
    let hosts = topology.hosts().len();
    let safe = change.schemes.iter().filter(|(_, scheme)| scheme.safe).count();
    let line = format!(
        "{name:34} {hosts:6} {pairs:10} {lanes:5} {routing_s:10.3} {check_s:8.3} {transition_s:10.3} {safe:7}"
    );
    let json = serde_json::json!({
        "case": name, "hosts": hosts, "pairs": pairs, "lanes": lanes, "routing_s": routing_s,
        "check_s": check_s, "transition_s": transition_s, "schemes_safe": safe,
        "changed_entries": change.changed_entries,
    });
    assert!(verdict.safe, "{name}");
    (line, json)
}

fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let torus = || grid::torus(&[8, 8], 1).expect("a torus");
    let radix = if small { 8 } else { 28 };
    let tree = || Pods::of_radix(radix).build().expect("a tree");
    let cases = [
        Case {
            name: "torus 8x8, up-down, 8 lanes",
            topology: torus(),
            function: &up_down::UpDown,
            eight_lanes: true,
        },
        Case {
            name: "torus 8x8, nue, 8 lanes",
            topology: torus(),
            function: &nue::Nue,
            eight_lanes: false,
        },
        Case {
            name: "torus 8x8, layered",
            topology: torus(),
            function: &layered::Layered,
            eight_lanes: false,
        },
        Case {
            name: if small { "fat tree, radix 8, up-down" } else { "fat tree, radix 28, up-down" },
            topology: tree(),
            function: &up_down::UpDown,
            eight_lanes: false,
        },
        Case {
            name: if small { "fat tree, radix 8, 8 lanes" } else { "fat tree, radix 28, 8 lanes" },
            topology: tree(),
            function: &up_down::UpDown,
            eight_lanes: true,
        },
    ];
    println!(
        "{:34} {:>6} {:>10} {:>5} {:>10} {:>8} {:>10} {:>7}",
        "case", "hosts", "pairs", "lanes", "routing s", "check s", "change s", "schemes"
    );
    let mut results = Vec::new();
    for case in &cases {
        let (line, json) = run(case);
        println!("{line}");
        results.push(json);
    }
    println!("{}", serde_json::json!({ "benchmark": "fabric-checker", "results": results }));
}
