//! The simulator of days.

use ebb_cluster::{SteeringTable, relief, weights_of};
use ebb_control::Policy;
use ebb_control::cluster::{ClusterPolicy, ClusterSeen, ServerState};
use ebb_control::policies::cluster::named;
use ebb_des::{Rng, Seed};
use ebb_scenario::Progress;
use ebb_units::Time;
use rand::Rng as _;
use rand_distr::Exp1;
use serde::Serialize;

use super::flows::Flows;
use super::scenario::Prepared;
use super::server::Machine;
use crate::error::ClusterError;

/// What came of the days that count. Volumes are in megabits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// How long that was, in seconds.
    pub seconds: f64,
    /// What was asked for.
    pub offered_mb: f64,
    /// What was carried.
    pub carried_mb: f64,
    /// Lost because a server was asked for more than it carries.
    pub lost_overload_mb: f64,
    /// Lost in a failed server before the balancers went round it.
    pub lost_failed_mb: f64,
    /// Lost because no server was there.
    pub lost_nobody_mb: f64,
    /// Energy of the servers, in joules.
    pub joules: f64,
    /// Server seconds that were on.
    pub on_seconds: f64,
    /// Orders to wake.
    pub wakes: u64,
    /// Orders to go off.
    pub sleeps: u64,
    /// Failures.
    pub failures: u64,
    /// Leaders that failed.
    pub elections: u64,
    /// Slots of the table that changed hands.
    pub moved_slots: u64,
    /// The highest utilisation that a server would have had, as a share of its capacity.
    pub most_utilised: f64,
    /// Load, servers that are on, and power over time.
    pub points: Vec<Point>,
}

/// A moment of a run; what it says holds until the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since the days that count began.
    pub seconds: f64,
    /// The load.
    pub mbps: f64,
    /// Servers that are on.
    pub on: u32,
    /// What all servers draw.
    pub watts: f64,
}

/// Plays the demand.
///
/// # Errors
/// When whoever watches has had enough.
///
/// # Panics
/// Never with a prepared scenario: its policy exists.
pub fn run(
    prepared: &Prepared,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Outcome, ClusterError> {
    let scenario = &prepared.scenario;
    let policy = named(&scenario.policy, &prepared.known(), scenario.settings);
    let mut cluster = Cluster::new(prepared, policy.expect("checked"), Seed(seed));
    let (mut begin, day) = (0.0, prepared.demand.seconds());
    let total = day * f64::from(scenario.days);
    for number in 0..scenario.days {
        if number == scenario.days_before {
            cluster.out = Outcome::default();
            cluster.counts_from = begin;
        }
        for sample in &prepared.demand.samples {
            cluster.draw(sample.mbps);
            cluster.live(begin, begin + sample.seconds, sample.mbps);
            begin += sample.seconds;
            if progress.stopped() {
                return Err(ClusterError::Stopped);
            }
        }
        progress.at(begin / total, "days of the cluster");
    }
    Ok(cluster.out)
}

struct Cluster<'a> {
    prepared: &'a Prepared,
    policy: Box<ClusterPolicy>,
    machines: Vec<Machine>,
    table: SteeringTable,
    flows: Flows,
    /// Each server's share of the load, and nobody's.
    falls: (Vec<f64>, f64),
    /// What is asked of the cluster.
    mbps: f64,
    /// No decisions before then: there is no leader.
    leaderless_until: f64,
    decide_at: f64,
    counts_from: f64,
    sizes: Rng,
    faults: Rng,
    out: Outcome,
}

impl<'a> Cluster<'a> {
    /// All servers are on.
    fn new(prepared: &'a Prepared, policy: Box<ClusterPolicy>, seed: Seed) -> Cluster<'a> {
        let scenario = &prepared.scenario;
        let mut sizes = seed.stream("flows");
        let flows = Flows::draw(&mut sizes, scenario.flows, scenario.tail, scenario.slots);
        let count = prepared.servers.len();
        let mut cluster = Cluster {
            prepared,
            policy,
            machines: vec![Machine::on(); count],
            table: SteeringTable::sized(count, scenario.slots),
            flows,
            falls: (Vec::new(), 0.0),
            mbps: 0.0,
            leaderless_until: 0.0,
            decide_at: 0.0,
            counts_from: 0.0,
            sizes,
            faults: seed.stream("failures"),
            out: Outcome::default(),
        };
        (0..count).for_each(|at| cluster.live_until_failure(at, 0.0));
        cluster.steer();
        cluster
    }

    /// Draws when a server that is on from `now` fails.
    fn live_until_failure(&mut self, at: usize, now: f64) {
        let failures = &self.prepared.scenario.failures;
        let planned = failures.planned.iter().filter(|one| one.server == at && one.at_s > now);
        let mut fails_at = planned.map(|one| one.at_s).fold(f64::INFINITY, f64::min);
        let mean = 3600.0 * failures.mtbf_hours;
        if mean > 0.0 {
            fails_at = fails_at.min(now + mean * self.faults.sample::<f64, _>(Exp1));
        }
        self.machines[at].fails_at = fails_at;
    }

    fn draw(&mut self, mbps: f64) {
        self.mbps = mbps;
        let scenario = &self.prepared.scenario;
        self.flows = Flows::draw(&mut self.sizes, scenario.flows, scenario.tail, scenario.slots);
        self.relieve();
    }

    /// What each server carries that gets flows; 0 for others.
    fn capacities(&self) -> Vec<f64> {
        let carries = |(machine, group): (&Machine, &usize)| match machine.listed() {
            true => self.prepared.groups[*group].capacity_mbps,
            false => 0.0,
        };
        self.machines.iter().zip(&self.prepared.servers).map(carries).collect()
    }

    /// Moves slots off a server that is nearly full while others have room, as live balancers do within
    /// two seconds.
    fn relieve(&mut self) {
        let loads = self.flows.loads(self.mbps);
        let moves = relief(&self.table, &loads, &self.capacities());
        self.out.moved_slots += moves.len() as u64;
        for (slot, to) in moves {
            self.table.give(slot, Some(to));
        }
        self.falls = self.flows.fall(&self.table, self.machines.len());
    }

    /// Gives the balancers a table for those that are listed.
    fn steer(&mut self) {
        let capacities = self.capacities();
        let pairs = weights_of(&capacities).into_iter().zip(&capacities);
        let weights: Vec<u32> =
            pairs.map(|(weight, carries)| if *carries > 0.0 { weight } else { 0 }).collect();
        let moves = self.table.moves_to(&weights);
        self.out.moved_slots += moves.len() as u64;
        for (slot, to) in moves {
            self.table.give(slot, to);
        }
        self.relieve();
    }

    /// Lives from `begin` to `end` under one load.
    fn live(&mut self, begin: f64, end: f64, mbps: f64) {
        let mut now = begin;
        loop {
            self.happen(now);
            if now >= self.decide_at && now >= self.leaderless_until {
                self.decide(now, mbps);
            }
            self.note(now, mbps);
            if now >= end {
                return;
            }
            let next = self.next(now).min(end);
            self.pass(now, next, mbps);
            now = next;
        }
    }

    /// When something happens next.
    fn next(&self, now: f64) -> f64 {
        let machines = self.machines.iter().map(|machine| {
            let fails = machine.state == ServerState::On;
            machine.until.min(if fails { machine.fails_at } else { f64::INFINITY })
        });
        let decision = self.decide_at.max(self.leaderless_until).max(now);
        machines.fold(decision, f64::min)
    }

    /// Ends what ends now.
    fn happen(&mut self, now: f64) {
        let failures = &self.prepared.scenario.failures;
        let mut changed = false;
        for at in 0..self.machines.len() {
            let leader = self.leader() == Some(at);
            let machine = &mut self.machines[at];
            let due = machine.until <= now;
            match machine.state {
                ServerState::Waking if due => {
                    machine.enter(ServerState::On, f64::INFINITY);
                    self.live_until_failure(at, now);
                    changed = true;
                }
                ServerState::Draining if due => machine.enter(ServerState::Off, f64::INFINITY),
                ServerState::On if machine.fails_at <= now => {
                    machine.enter(ServerState::Failed, now + failures.detect_s);
                    machine.unnoticed = true;
                    self.out.failures += 1;
                    if leader {
                        self.out.elections += 1;
                        self.leaderless_until = now + failures.election_s;
                    }
                }
                ServerState::Failed if due && machine.unnoticed => {
                    machine.unnoticed = false;
                    machine.until = now + failures.repair_s;
                    // Whoever decides sees it at once.
                    self.decide_at = now;
                    changed = true;
                }
                ServerState::Failed if due => machine.enter(ServerState::Off, f64::INFINITY),
                _ => {}
            }
        }
        if changed {
            self.steer();
        }
    }

    /// The server that leads: the first that is on.
    fn leader(&self) -> Option<usize> {
        self.machines.iter().position(|machine| machine.state == ServerState::On)
    }

    fn decide(&mut self, now: f64, mbps: f64) {
        let seen = ClusterSeen {
            load: mbps,
            servers: self.machines.iter().map(|machine| machine.state).collect(),
        };
        let wanted = self.policy.decide(Time::from_secs_f64(now), &seen);
        let next = self.policy.next_at().map_or(f64::INFINITY, Time::as_secs_f64);
        // A nanosecond that rounding takes away would make it decide twice.
        self.decide_at =
            if next > now { next } else { now + self.prepared.scenario.settings.every_s };
        let mut changed = false;
        let pairs = self.machines.iter_mut().zip(&self.prepared.servers);
        for ((machine, group), wanted) in pairs.zip(wanted) {
            let group = &self.prepared.groups[*group];
            match (machine.state, wanted) {
                (ServerState::Off, true) => {
                    machine.enter(ServerState::Waking, now + group.wake_s);
                    self.out.wakes += 1;
                    self.out.joules += group.wake_j;
                }
                (ServerState::On, false) => {
                    let until = now + self.prepared.scenario.drain_s;
                    machine.enter(ServerState::Draining, until);
                    self.out.sleeps += 1;
                    changed = true;
                }
                _ => {}
            }
        }
        if changed {
            self.steer();
        }
    }

    /// Lets the time from `now` to `next` pass, in which nothing changes.
    fn pass(&mut self, now: f64, next: f64, mbps: f64) {
        let seconds = next - now;
        let out = &mut self.out;
        out.seconds += seconds;
        out.offered_mb += mbps * seconds;
        out.lost_nobody_mb += self.falls.1 * mbps * seconds;
        let machines = self.machines.iter().zip(&self.prepared.servers).zip(&self.falls.0);
        for ((machine, group), share) in machines {
            let group = &self.prepared.groups[*group];
            let load = share * mbps;
            let carried = machine.carries(group, load);
            out.carried_mb += carried * seconds;
            out.joules += machine.watts(group, load) * seconds;
            let lost = (load - carried) * seconds;
            if machine.state == ServerState::On {
                out.on_seconds += seconds;
                out.lost_overload_mb += lost;
                out.most_utilised = out.most_utilised.max(load / group.capacity_mbps);
            } else {
                out.lost_failed_mb += lost;
            }
        }
    }

    fn note(&mut self, now: f64, mbps: f64) {
        let on = self.machines.iter().filter(|machine| machine.state == ServerState::On).count();
        let machines = self.machines.iter().zip(&self.prepared.servers).zip(&self.falls.0);
        let watts = machines
            .map(|((machine, group), share)| {
                machine.watts(&self.prepared.groups[*group], share * mbps)
            })
            .sum();
        let point = Point { seconds: now - self.counts_from, mbps, on: on as u32, watts };
        let same = |last: &Point| last.mbps == mbps && last.on == point.on;
        if !self.out.points.last().is_some_and(same) {
            self.out.points.push(point);
        }
    }
}
