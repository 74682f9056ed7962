//! How fast the flit simulator is: flits over links per second of one core's time, at loads of BookSim 2's
//! 8 x 8 configurations, and the memory of a 64 x 64 mesh. Prints a table and a JSON line.
//!
//!     cargo bench -p ebb-system-noc --bench flit [-- --quick|--two]

use std::time::Instant;

use ebb_des::Seed;
use ebb_system_noc::flit::{
    Arrivals, Clock, Demand, Grid, Lengths, Order, Phases, Router, Simulation, VcRouter, VoqRouter,
};

struct Case {
    name: &'static str,
    side: usize,
    load: f64,
    lengths: Lengths,
    router: Router,
    cycles: u64,
}

fn cases(quick: bool) -> Vec<Case> {
    let vc = |vcs| Router::Vc(VcRouter { vcs, ..VcRouter::default() });
    let long = || Lengths::between(5, 10);
    let single = || Lengths::between(1, 1);
    let case = |name, side, load, lengths, router, cycles: u64| {
        let cycles = if quick { cycles / 20 } else { cycles };
        Case { name, side, load, lengths, router, cycles }
    };
    vec![
        case("8x8, 1 VC, 5-10 flits, 0.02", 8, 0.02, long(), vc(1), 1_000_000),
        case("8x8, 1 VC, 5-10 flits, 0.15", 8, 0.15, long(), vc(1), 200_000),
        case("8x8, 4 VC, 5-10 flits, 0.05", 8, 0.05, long(), vc(4), 500_000),
        case("8x8, 4 VC, 5-10 flits, 0.2", 8, 0.2, long(), vc(4), 200_000),
        case("8x8, 4 VC, 5-10 flits, 0.36", 8, 0.36, long(), vc(4), 100_000),
        case("8x8, 1 VC, 1 flit, 0.1", 8, 0.1, single(), vc(1), 200_000),
        case("8x8, 4 VC, 1 flit, 0.02", 8, 0.02, single(), vc(4), 1_000_000),
        case("8x8, 4 VC, 1 flit, 0.2", 8, 0.2, single(), vc(4), 100_000),
        case("8x8, 4 VC, 1 flit, 0.38", 8, 0.38, single(), vc(4), 100_000),
        case(
            "8x8, VOQ, 5-10 flits, 0.3",
            8,
            0.3,
            long(),
            Router::Voq(VoqRouter::default()),
            100_000,
        ),
        case("64x64, 4 VC, 5-10 flits, 0.04", 64, 0.04, long(), vc(4), 4_000),
    ]
}

/// Most memory that the process had at once, in MiB, where the system tells.
fn memory_peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// Seconds that this thread has had a processor, where the system tells: other work on the machine
/// does not count.
fn processor_seconds() -> Option<f64> {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(times.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

/// How much faster two threads are than one by the clock: the median of five turns.
fn two(side: usize, cycles: u64) -> f64 {
    let grid = Grid::mesh(side, side);
    let demand = Demand::uniform(&grid, 2.4 / side as f64, true, Order::Xy).expect("a demand");
    let simulation = Simulation {
        grid: &grid,
        demand: &demand,
        arrivals: &Arrivals::Bernoulli(Lengths::between(5, 10)),
        router: Router::Vc(VcRouter::default()),
        clock: Clock::SAME,
        control: None,
        phases: Phases::fixed(cycles / 10, cycles, 10_000),
    };
    let turn = |_: u32| {
        let begin = Instant::now();
        let one = simulation.run(Seed(1), &mut |_| true);
        let between = Instant::now();
        let two = simulation.run_in_two(Seed(1), &mut |_| true);
        assert_eq!(one.link_flits, two.link_flits, "one outcome");
        (between - begin).as_secs_f64() / between.elapsed().as_secs_f64()
    };
    let mut turns: Vec<f64> = (0..5).map(turn).collect();
    turns.sort_by(f64::total_cmp);
    println!(
        "{side}x{side}, 4 VC, 5-10 flits, two threads: {:.2} times one (least {:.2})",
        turns[2], turns[0]
    );
    turns[2]
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    println!("{:32} {:>12} {:>14} {:>12}", "case", "Mcycles/s", "Mflit-hops/s", "latency");
    let mut rates = serde_json::Map::new();
    let only_two = std::env::args().any(|argument| argument == "--two");
    for case in cases(quick).into_iter().filter(|_| !only_two) {
        let grid = Grid::mesh(case.side, case.side);
        let demand = Demand::uniform(&grid, case.load, true, Order::Xy).expect("a demand");
        let simulation = Simulation {
            grid: &grid,
            demand: &demand,
            arrivals: &Arrivals::Bernoulli(case.lengths),
            router: case.router,
            clock: Clock::SAME,
            control: None,
            phases: Phases::fixed(case.cycles / 10, case.cycles, 10_000),
        };
        let (begin, busy_before) = (Instant::now(), processor_seconds());
        let outcome = simulation.run(Seed(1), &mut |_| true);
        let busy = processor_seconds().zip(busy_before).map(|(after, before)| after - before);
        let seconds = busy.filter(|busy| *busy > 0.0).unwrap_or(begin.elapsed().as_secs_f64());
        let mega = |count: u64| count as f64 / seconds / 1e6;
        let (cycles, hops) = (mega(outcome.noc_cycles), mega(outcome.flit_hops));
        let latency = outcome.seen.latency.mean().unwrap_or(f64::NAN);
        println!("{:32} {cycles:12.3} {hops:14.2} {latency:12.2}", case.name);
        rates.insert(case.name.to_owned(), hops.into());
    }
    let sides: &[(usize, u64)] =
        if quick { &[(16, 500)] } else { &[(8, 200_000), (16, 40_000), (32, 10_000)] };
    let shares: serde_json::Map<_, _> = sides
        .iter()
        .map(|&(side, cycles)| (format!("{side}x{side}"), two(side, cycles).into()))
        .collect();
    let memory = memory_peak_mib();
    println!("memory at most: {:.0} MiB", memory.unwrap_or(f64::NAN));
    let line = serde_json::json!({
        "mega_flit_hops_per_second": rates, "two_threads_times_one": shares, "memory_peak_mib": memory,
    });
    println!("{line}");
}
