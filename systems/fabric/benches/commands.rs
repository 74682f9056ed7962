//! How long `ebb fabric route`, `check` and `check-transition` take from files to verdict, and how much memory
//! they need: a fat tree before and after one link goes off, its tables in the compact form.
//!
//! `cargo bench -p ebb-system-fabric --bench commands [-- RADIX]` (32 unless stated); with `--test` (as
//! `cargo test` passes) small.

use std::time::Instant;

use ebb_system_fabric::Fabric;
use ebb_system_fabric::check::check;
use ebb_system_fabric::format::set;
use ebb_system_fabric::routing::{self, Options, keep, up_down};
use ebb_system_fabric::topology::{Topology, tree::Pods};
use ebb_system_fabric::transition::{self, check_transition};

/// Prints how long something takes and the most memory that the process has while it does; the result and
/// these figures.
fn timed<T>(name: &str, work: impl FnOnce() -> T) -> (T, serde_json::Value) {
    // Where the kernel allows it, its record of the most memory begins anew.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (start, start_cpu_s) = (Instant::now(), processor_s());
    let result = work();
    let (seconds, most) = (start.elapsed().as_secs_f64(), memory_mb("VmHWM:"));
    let cpu_s = processor_s() - start_cpu_s;
    println!("{name:22} {seconds:8.2} s {cpu_s:8.2} s of CPU {most:8.0} MB at most");
    let figures =
        serde_json::json!({ "name": name, "seconds": seconds, "cpu_s": cpu_s, "memory_mb": most });
    (result, figures)
}

/// Processor time of this process so far, s, in the kernel's hundredths.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after.split_whitespace().skip(11).take(2).filter_map(|it| it.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn memory_mb(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kb.map_or(f64::NAN, |kb| kb / 1024.0)
}

/// The files of a set of tables.
struct Files(Vec<(&'static str, Vec<u8>)>);

impl Files {
    fn of(fabric: Fabric) -> Files {
        let bytes = |writes: &ebb_report::Writes| {
            let mut bytes = Vec::new();
            writes.to(&mut bytes).expect("memory can be written");
            bytes
        };
        Files(set::writes(fabric, true).iter().map(|(name, file)| (*name, bytes(file))).collect())
    }

    fn read(&self) -> Fabric {
        let file = |(name, bytes)| set::File { name, bytes };
        let [topology, forwarding] = [0, 1].map(|at: usize| (self.0[at].0, &self.0[at].1[..]));
        let (topology, forwarding) = (file(topology), file(forwarding));
        set::read(&set::Set { topology, forwarding, levels: None, lanes: None }).expect("a fabric")
    }
}

fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let radix = std::env::args().find_map(|argument| argument.parse().ok());
    let radix = radix.unwrap_or(if small { 4 } else { 32 });
    let topology = Pods::of_radix(radix).build().expect("a tree");
    let middle = topology.links().nth(topology.links().count() / 2).expect("a link");
    let options = Options::default();
    println!("pods:{radix}: {} LIDs, {middle:?} off", topology.top_lid());
    let route = |topology: &Topology| {
        routing::route(&up_down::UpDown, topology, &options).expect("sound").0
    };
    let (tables, routed) = timed("route", || route(&topology));
    let less = topology.without(&[middle]);
    let home = Fabric { topology, tables };
    let old = Files::of(home.clone());
    let (kept, repaired) = timed("route --keep", || keep::keep(&home, &[middle], &options));
    let kept = Files::of(Fabric { topology: less.clone(), tables: kept.expect("sound").0 });
    let anew = Files::of(Fabric { tables: route(&less), topology: less });
    drop(home);
    let (safe, checked) = timed("check", || {
        let fabric = old.read();
        check(&fabric.topology, &fabric.tables).safe
    });
    assert!(safe);
    let change = |new: &Files| {
        let options = transition::Options::default();
        check_transition(&old.read(), &new.read(), options).expect("one fabric")
    };
    let (one, kept) = timed("check-transition, kept", || change(&kept));
    let (other, anew) = timed("check-transition, anew", || change(&anew));
    println!("{} and {} entries changed", one.changed_entries, other.changed_entries);
    let figures = [routed, repaired, checked, kept, anew];
    let line =
        serde_json::json!({ "benchmark": "fabric-commands", "radix": radix, "results": figures });
    println!("{line}");
}
