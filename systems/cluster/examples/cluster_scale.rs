//! What the live control of clusters of 10 to 1,000 members takes: its decisions over a store that makes every change
//! at once, from a load of 10 % to one of 90 %. Prints a table and a JSON line; `--small` sees that it works.
//!
//! A round is a look of everybody at the store; over etcd it takes a commit and a watch. What every member hears of
//! every change is reckoned, since each follows all keys.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ebb_cluster::{Agent, Balancer, Carrier, Leader, LeaderInputs, Power, SLOTS, Snapshot, Write};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster::named;
use ebb_units::{Time, Watts};

/// What a back-end carries, packets per second.
const CAPACITY: f64 = 1e5;
/// A round of the simulation.
const ROUND: Duration = Duration::from_millis(10);
/// The most rounds until all are on.
const ROUNDS_MAX: u64 = 4_000;

/// What one size came to.
#[derive(Default, serde::Serialize)]
struct Found {
    members: usize,
    balancers: usize,
    /// Rounds from the load's step until all balancers had acknowledged the back-ends that it needs.
    rounds: u64,
    /// Changes of the store meanwhile, their bytes, and what all members heard of them.
    changes: u64,
    bytes: u64,
    heard: u64,
    /// All values together, bytes.
    state: u64,
    /// A decision of the leader that changes something, and a balancer's table that follows it: medians, ms.
    decide_ms: f64,
    table_ms: f64,
    /// Changes a second at rest, by the balancers' loads.
    rest: f64,
}

struct World {
    snapshot: Snapshot,
    writes: u64,
    found: Found,
}

fn value(write: &Write) -> String {
    let text = match write {
        Write::ClusterPlan { plan, .. } => serde_json::to_string(plan),
        Write::Acknowledge { acknowledgement, .. } => serde_json::to_string(acknowledgement),
        Write::Report { report, .. } => serde_json::to_string(report),
        Write::Leader { owner } => Ok(owner.clone()),
        Write::Hold { .. } | Write::Leave { .. } => Ok(String::new()),
    };
    text.expect("numbers and names")
}

impl World {
    fn make(&mut self, write: &Write) {
        self.found.changes += 1;
        self.found.bytes += value(write).len() as u64;
        match write {
            Write::Leader { owner } => self.snapshot.leader = Some((owner.clone(), 1)),
            Write::ClusterPlan { plan, .. } => {
                self.writes += 1;
                self.snapshot.plan = Some((plan.clone(), self.writes));
            }
            Write::Acknowledge { balancer, acknowledgement } => {
                self.snapshot.balancers.insert(balancer.clone(), acknowledgement.clone());
            }
            Write::Report { member, report } => {
                self.snapshot.members.insert(member.clone(), *report);
            }
            Write::Hold { .. } | Write::Leave { .. } => {}
        }
    }

    fn on(&self) -> usize {
        let plan = self.snapshot.plan.as_ref().map(|(plan, _)| plan);
        plan.map_or(0, |plan| plan.entries.values().filter(|one| one.power == Power::On).count())
    }

    fn acknowledged(&self) -> bool {
        let version = self.snapshot.plan.as_ref().map_or(0, |(plan, _)| plan.version);
        self.snapshot.balancers.values().all(|said| said.version == version)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

fn play(members: usize, balancers: usize) -> Found {
    let names: Vec<String> = (0..members).map(|index| format!("r{index:04}")).collect();
    let server = Server {
        capacity: CAPACITY,
        full: Watts(75.0),
        idle: Watts(60.0),
        wake: Duration::from_secs(1),
    };
    let settings = ClusterSettings {
        headroom: 0.05,
        on_min_s: 0.0,
        patience_s: 0.1,
        every_s: 0.1,
        ..ClusterSettings::default()
    };
    let policy = named("differential", &vec![server; members], settings).expect("a policy");
    let servers = names.iter().map(|name| (name.clone(), server)).collect();
    let mut inputs = LeaderInputs { servers, policy };
    let mut leader = Leader::new("m0", Duration::from_secs(3600));
    let mut agents: Vec<Agent> = names.iter().map(Agent::new).collect();
    let weights: BTreeMap<String, u32> = names.iter().map(|name| (name.clone(), 1)).collect();
    let at = |round: u64| Time::from_nanos(100_000_000_000) + ROUND * round as u32;
    let mut fronts: Vec<(Balancer, Carrier, u64)> = (0..balancers)
        .map(|index| {
            let logic = Balancer::sized(&weights, SLOTS);
            (logic, Carrier::new(format!("b{index:02}"), at(0)), 0)
        })
        .collect();
    let found = Found { members, balancers, ..Found::default() };
    let mut world = World { snapshot: Snapshot::default(), writes: 0, found };
    let (mut stepped, mut low) = (None, 0);
    let (mut decide_ms, mut table_ms) = (Vec::new(), Vec::new());
    for round in 1..ROUNDS_MAX {
        let now = at(round);
        let share = if stepped.is_some() { 0.9 } else { 0.1 };
        if leader.renews(now, &world.snapshot) {
            leader.renewed(now, true);
        }
        let begun = Instant::now();
        let decided = leader.decide(now, &world.snapshot, &mut inputs);
        let took = milliseconds(begun);
        decide_ms.extend(decided.is_some().then_some(took));
        decided.iter().for_each(|write| world.make(write));
        for agent in &mut agents {
            if let Some(order) = agent.follow(now, &world.snapshot) {
                agent.done(order);
            }
            if let Some(write) = agent.reports(&world.snapshot) {
                world.make(&write);
            }
        }
        for (index, (logic, carrier, packets)) in fronts.iter_mut().enumerate() {
            let load = share * members as f64 * CAPACITY / balancers as f64;
            // Loads are never quite the same.
            *packets += (load * ROUND.as_secs_f64()) as u64 + (round + index as u64) % 7;
            if let Some(write) = carrier.says(now, logic.acknowledgement(), *packets) {
                world.make(&write);
                carrier.written(write);
            }
            for (row, name) in names.iter().enumerate() {
                let up = world.snapshot.members.get(name).is_some_and(|report| report.up);
                _ = logic.found(row as u16, !up);
            }
            if let Some(plan) = carrier.follows(&world.snapshot) {
                let begun = Instant::now();
                _ = logic.follow(plan);
                table_ms.push(milliseconds(begun));
                (0..members as u16).for_each(|row| _ = logic.drained(row));
            }
        }
        let settled = |least: f64| world.on() as f64 * 0.95 >= least * members as f64;
        match stepped {
            // At rest on the low load for a second, and the changes of that second counted.
            None if settled(0.1) && world.acknowledged() => {
                low += 1;
                if low == 100 {
                    world.found.changes = 0;
                }
                if low == 200 {
                    world.found.rest = world.found.changes as f64;
                    (world.found.changes, world.found.bytes) = (0, 0);
                    stepped = Some(round);
                }
            }
            Some(begun) if settled(0.9) && world.acknowledged() => {
                world.found.rounds = round - begun;
                break;
            }
            _ => {}
        }
    }
    assert!(world.found.rounds > 0, "{members} members did not settle: {} on", world.on());
    (world.found.decide_ms, world.found.table_ms) = (median(decide_ms), median(table_ms));
    world.found.heard = world.found.changes * (members + balancers) as u64;
    let Snapshot { plan, balancers, members, .. } = &world.snapshot;
    let mut state = serde_json::to_string(&plan.as_ref().expect("a plan").0).expect("text").len();
    state += balancers
        .values()
        .map(|said| serde_json::to_string(said).expect("text").len())
        .sum::<usize>();
    state += members
        .values()
        .map(|said| serde_json::to_string(said).expect("text").len())
        .sum::<usize>();
    world.found.state = state as u64;
    world.found
}

#[test]
fn runs_in_small() {
    let [ten, fifty] = [play(10, 2), play(50, 3)];
    // A load is measured over half a second: the window in which it steps, and a whole one.
    assert!(
        (50..=110).contains(&ten.rounds) && fifty.rounds <= 110,
        "{} {}",
        ten.rounds,
        fifty.rounds
    );
    assert!(fifty.changes < 8 * 50 && fifty.heard == fifty.changes * 53, "{}", fifty.changes);
    assert!(fifty.rest <= 6.0, "{}", fifty.rest);
}

fn main() {
    let small = std::env::args().any(|word| word == "--small");
    let sizes: &[(usize, usize)] =
        if small { &[(10, 2), (50, 3)] } else { &[(10, 2), (50, 4), (200, 8), (1000, 16)] };
    println!(
        "members balancers  rounds  changes   kbytes     heard  state kB  decide ms  table ms  changes/s at rest"
    );
    let all: Vec<Found> =
        sizes.iter().map(|(members, balancers)| play(*members, *balancers)).collect();
    for one in &all {
        println!(
            "{:7} {:9} {:7} {:8} {:8.0} {:9} {:9.1} {:10.2} {:9.2} {:18.0}",
            one.members,
            one.balancers,
            one.rounds,
            one.changes,
            one.bytes as f64 / 1e3,
            one.heard,
            one.state as f64 / 1e3,
            one.decide_ms,
            one.table_ms,
            one.rest
        );
    }
    println!("{}", serde_json::json!({ "benchmark": "scale", "sizes": all }));
}
