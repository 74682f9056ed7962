//! How long a schedule takes, on one core: `cargo bench -p ebb-system-circuit [-- PORTS...]`.

use std::time::Instant;

use ebb_des::Seed;
use ebb_system_circuit::{Demand, Window, schedulers};

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let ports = if asked.is_empty() { vec![8, 23, 64, 256] } else { asked };
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
