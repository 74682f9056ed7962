//! How long a schedule takes, and a second of racks in the simulator, on one core:
//! `cargo bench -p ebb-system-circuit [-- PORTS... | -- sim]`.

use std::time::Instant;

use ebb_des::Seed;
use ebb_scenario::{Document, Silent};
use ebb_system_circuit::{Demand, Window, schedulers, sim};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let simulated = words.iter().any(|word| word == "sim");
    if !simulated || !asked.is_empty() {
        schedule(if asked.is_empty() { vec![8, 23, 64, 256] } else { asked });
    }
    if simulated || words.iter().all(|word| word.starts_with("--")) {
        simulate();
    }
}

/// 64 racks at 10 Gb/s for a second, frames of 1,500 octets: every source, rotation and Eclipse.
fn simulate() {
    println!("{:<6} {:<12} {:>6} {:>12} {:>8}", "source", "scheduler", "s", "frames", "Gb/s");
    for source in ["udp", "reno", "cubic"] {
        for scheduler in ["round-robin", "eclipse"] {
            let text = format!(
                "racks = 64\nduration_ms = 1000\nframe_bytes = 1500\nhost_gbps = 10.0\n\
                 packet_gbps = 1.0\nsource = \"{source}\"\nscheduler = \"{scheduler}\"\n"
            );
            let document = Document::parse("bench.toml", &text).expect("TOML");
            let scenario: sim::Scenario = document.read_described().expect("a scenario");
            let start = Instant::now();
            let out = sim::run(&scenario, 1, &Silent);
            println!(
                "{source:<6} {scheduler:<12} {:>6.2} {:>12} {:>8.3}",
                start.elapsed().as_secs_f64(),
                out.delivered + out.by_packets,
                out.goodput_gbps(&scenario)
            );
        }
    }
}

fn schedule(ports: Vec<usize>) {
    let window = Window { length: 1.0, delta: 0.01 };
    println!(
        "{:>5} {:<15} {:<8} {:>10} {:>6} {:>7}",
        "ports", "scheduler", "demand", "ms", "days", "served"
    );
    for ports in ports {
        let mut rng = Seed(1).stream("demand");
        let blurred = |demand: Demand| demand.estimated(0.03, &mut Seed(2).stream("blur"));
        let demands = [
            ("sparse", blurred(Demand::sparse(ports, 4, 12, 0.8, &mut rng))),
            ("hotspot", blurred(Demand::hot_spot(ports, 0, 1.0 / 3.0))),
            ("uniform", blurred(Demand::uniform(ports))),
        ];
        for scheduler in schedulers::ALL {
            for (name, demand) in &demands {
                let mut least = f64::INFINITY;
                let mut schedule = scheduler.schedule(demand, window);
                for _ in 0..3 {
                    let start = Instant::now();
                    schedule = scheduler.schedule(demand, window);
                    least = least.min(start.elapsed().as_secs_f64() * 1e3);
                }
                let served = scheduler.carried(demand, &schedule, window) / demand.total();
                let days = schedule.days.len();
                println!(
                    "{ports:>5} {:<15} {name:<8} {least:>10.3} {days:>6} {served:>7.3}",
                    scheduler.name()
                );
            }
        }
    }
}
