//! How long a change of the balancers' table takes with 1,024 back-ends, and the goal program on a year of
//! five-minute samples and four groups. Prints a table and a JSON line; `--small` sees that it works.

use std::collections::BTreeMap;
use std::time::Instant;

use ebb_cluster::{Balancer, ClusterPlan, Entry, Power, SteeringTable};
use ebb_scenario::Silent;
use ebb_system_cluster::{Catalogue, Demand, Problem};

const BACK_ENDS: usize = 1024;
const GROUPS: &str = "group,capacity_mbps,power_full_w,power_idle_w,price,available\n\
                      I,6500,75,75,250,\nII,8700,95,95,400,\nIII,10000,120,120,500,\nIV,8500,92,92,400,\n";
/// The same servers with power that follows their load.
const FOLLOWING: &str = "group,capacity_mbps,power_full_w,power_idle_w,price,available\n\
                         I,6500,75,40,250,\nII,8700,95,50,400,\nIII,10000,120,70,500,\nIV,8500,92,45,400,\n";

/// Median and most, in milliseconds.
fn timed(rounds: usize, mut change: impl FnMut(usize)) -> (f64, f64) {
    let mut spans: Vec<f64> = (0..rounds)
        .map(|round| {
            let begun = Instant::now();
            change(round);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    spans.sort_by(f64::total_cmp);
    (spans[rounds / 2], spans[rounds - 1])
}

/// One back-end goes and comes, in the table alone.
fn table(rounds: usize) -> (f64, f64) {
    let mut weights = vec![1; BACK_ENDS];
    let mut table = SteeringTable::new(BACK_ENDS);
    table.settle(&weights);
    timed(rounds, |round| {
        let row = round / 2 * 37 % BACK_ENDS;
        weights[row] = u32::from(round % 2 == 1);
        table.settle(&weights);
    })
}

fn plan(version: u64, power: impl Fn(usize) -> Power) -> ClusterPlan {
    let entry = |row: usize| (format!("r{row:04}"), Entry { power: power(row), since: version });
    ClusterPlan { version, entries: (0..BACK_ENDS).map(entry).collect(), speaker: None }
}

/// A balancer with all its plans: one dies and comes back, and one drains and comes back.
fn balancer(rounds: usize, planned: bool) -> (f64, f64) {
    let weights: BTreeMap<String, u32> =
        (0..BACK_ENDS).map(|row| (format!("r{row:04}"), 1)).collect();
    let mut balancer = Balancer::new(&weights);
    balancer.follow(&plan(1, |_| Power::On));
    (0..BACK_ENDS as u16).for_each(|row| drop(balancer.found(row, false)));
    let plans: Vec<ClusterPlan> = (0..rounds)
        .map(|round| {
            let gone = |row| round % 2 == 0 && row == round * 37 % BACK_ENDS;
            plan(round as u64 + 2, |row| if gone(row) { Power::Draining } else { Power::On })
        })
        .collect();
    timed(rounds, |round| {
        if planned {
            balancer.follow(&plans[round]);
            // What moved on the way back comes from many: each ends its drain.
            if round % 2 == 0 {
                balancer.drained((round * 37 % BACK_ENDS) as u16);
            }
        } else {
            balancer.found((round / 2 * 37 % BACK_ENDS) as u16, round % 2 == 0);
        }
    })
}

/// A year of a day's and a week's rhythm with no two samples alike.
fn year(samples: u32) -> Demand {
    let load = |at: u32| {
        let day = f64::from(at) / 288.0 * std::f64::consts::TAU;
        let noise = f64::from(at.wrapping_mul(2_654_435_761) >> 12) / f64::from(1 << 20);
        60_000.0 + 30_000.0 * day.sin() + 8_000.0 * (day / 7.0).sin() + 5_000.0 * noise
    };
    Demand::even(300.0, (0..samples).map(load))
}

fn goal_program(table: &str, samples: u32) -> (f64, f64) {
    let catalogue = Catalogue::parse("bench", table.as_bytes()).expect("a catalogue");
    let problem = Problem { budget: Some(5200.0), ..Problem::new("bench", "year") };
    let demand = year(samples);
    let begun = Instant::now();
    let plan = problem.answer(catalogue, demand, &Silent).expect("a plan");
    (begun.elapsed().as_secs_f64(), plan.designs["design-v"].proof_gap)
}

fn main() {
    let small = std::env::args().any(|word| word == "--small");
    let (rounds, samples) = if small { (20, 4032) } else { (1000, 105_120) };
    let rows = [
        ("table of 1,024 back-ends: one goes or comes", table(rounds)),
        ("the same with the balancer's plans: one dies or returns", balancer(rounds, false)),
        ("one drains or comes back", balancer(rounds, true)),
    ];
    println!("{:<58} {:>12} {:>10}", "change", "ms, median", "most");
    for (name, (median, most)) in &rows {
        println!("{name:<58} {median:>12.3} {most:>10.3}");
    }
    let (flat_s, flat_gap) = goal_program(GROUPS, samples);
    let (following_s, following_gap) = goal_program(FOLLOWING, samples);
    println!(
        "\n{:<58} {:>12} {:>10}",
        format!("goal program, {samples} samples, 4 groups"),
        "s",
        "gap"
    );
    println!("{:<58} {flat_s:>12.2} {flat_gap:>10.1e}", "power as published");
    println!("{:<58} {following_s:>12.2} {following_gap:>10.1e}", "power that follows the load");
    let change = |at: usize| serde_json::json!({ "median": rows[at].1.0, "most": rows[at].1.1 });
    let line = serde_json::json!({
        "back_ends": BACK_ENDS, "rounds": rounds, "samples": samples,
        "change_ms": { "table": change(0), "unplanned": change(1), "planned": change(2) },
        "plan_s": { "flat": flat_s, "following": following_s },
        "proof_gap": { "flat": flat_gap, "following": following_gap },
    });
    println!("{line}");
}
