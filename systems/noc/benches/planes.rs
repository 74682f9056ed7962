//! Time of the allocations over planes at 16 x 16 and of the exact bound over two planes at 5 x 5:
//! a table and lines of JSON.

use std::time::Instant;

use ebb_des::Seed;
use ebb_scenario::Silent;
use ebb_system_noc::planes::Allocation;
use ebb_system_noc::{Mesh, Pattern, VoltageRange, bound, routing};

fn main() {
    let range = VoltageRange::new(3.0).expect("a range");
    println!("size pattern    allocation  seconds   no DVFS over it");
    for (size, pattern) in [
        (5, Pattern::Hotspot),
        (5, Pattern::Normal),
        (16, Pattern::Hotspot),
        (16, Pattern::Uniform),
        (16, Pattern::Normal),
    ] {
        let mesh = Mesh::new(size, size).expect("a mesh");
        let traffic = pattern.traffic(&mesh, &mut Seed(1).stream("traffic"));
        let xy = routing::routing("xy").expect("xy");
        let routes = xy.route(&mesh, &traffic, Seed(1)).expect("routed");
        let fullest = routes.loads(&mesh).into_iter().fold(0.0, f64::max);
        let (traffic, routes) = (traffic.scaled(1.0 / fullest), routes.scaled(1.0 / fullest));
        let show = |name: &str, seconds: f64, power: f64| {
            let factor = routes.hop_rate() / power;
            println!("{size:4} {:10} {name:11} {seconds:8.3} {factor:.6}", pattern.name());
            println!(
                "{{\"bench\":\"planes\",\"size\":{size},\"pattern\":\"{}\",\"allocation\":\"{name}\",\"flows\":{},\"seconds\":{seconds:.4}}}",
                pattern.name(),
                routes.flows.len()
            );
        };
        let mut starts = Vec::new();
        for rule in Allocation::ALL {
            let start = Instant::now();
            let found = rule.allocate(&mesh, &routes, range, 2, Seed(1));
            show(rule.name(), start.elapsed().as_secs_f64(), found.power().unwrap_or(f64::NAN));
            let fullest = |loads: &Vec<f64>| loads.iter().copied().fold(0.0, f64::max);
            starts.push(found.loads.iter().map(fullest).collect());
        }
        if size == 5 {
            let start = Instant::now();
            let found = bound::least_power_planes(&mesh, &traffic, range, 2, &starts, &Silent);
            let found = found.expect("bounded");
            show("bound", start.elapsed().as_secs_f64(), found.upper);
            println!("gap {:.1e} after {} programs", 1.0 - found.lower / found.upper, found.solves);
        }
    }
}
