//! A simulated cluster under the live control, with faults.

mod promises;
mod trouble;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ebb_cluster::{Agent, Balancer, Carrier, Leader, LeaderInputs, Move, Order, Snapshot, Write};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster::named;
use ebb_des::{Calendar, Rng, Seed};
use ebb_units::{Time, Watts};
use rand::Rng as _;

use super::history::Recorder;
use super::store::{Answer, Ask, Store};
use super::{LEASE, Size, member_name};

/// Which faults there are besides those that always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Clocks jump, also backwards: two may take themselves for the leader for a while, but only one can write.
    pub clock_steps: bool,
}

/// What happened in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Faults that were drawn.
    pub faults: u64,
    /// Terms of leaders.
    pub leaders: u64,
    /// Back-ends that went off as planned.
    pub sleeps: u64,
    /// Versions of the plan.
    pub plans: u64,
    /// Changes that the store made.
    pub changes: u64,
    /// Bytes of what they changed, as JSON.
    pub bytes: u64,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Outcome) {
        self.faults += other.faults;
        self.leaders += other.leaders;
        self.sleeps += other.sleeps;
        self.plans += other.plans;
        self.changes += other.changes;
        self.bytes += other.bytes;
    }
}

/// Slots of the table for each back-end.
const SLOTS: usize = 16;
const TICK: Duration = Duration::from_millis(100);
/// More members than these are many.
const MANY: usize = 100;
/// What a back-end carries, in packets a second.
const CAPACITY: u64 = 1000;
/// Faults come for so long.
const TROUBLE: Duration = Duration::from_secs(15);
/// After this everything must have settled.
const ROUND: Duration = Duration::from_secs(27);

/// What comes so that as many are wanted, in packets a second.
fn offered(wanted: u64) -> u64 {
    wanted * CAPACITY - 100 * wanted.min(9)
}

/// Who asked the store, in which of its lives, and the question's place in the history.
#[derive(Clone, Copy)]
struct From {
    node: usize,
    life: u64,
    place: Option<usize>,
}

enum Event {
    Tick(usize, u64),
    Arrive { from: From, ask: Ask },
    Commit { from: From, write: Write },
    Answered { to: From, answer: Answer },
    Done { member: usize, life: u64, order: Order },
    Drained { balancer: usize, life: u64, row: u16 },
    Probed { balancer: usize, life: u64, row: u16 },
    Load,
    Fault,
}

struct Member {
    agent: Agent,
    leader: Leader,
    inputs: LeaderInputs,
    /// What it saw last.
    seen: Arc<Snapshot>,
}

impl Member {
    fn new(index: usize, members: usize) -> Member {
        let watts = Watts(1.0);
        let wake = Duration::from_millis(400);
        let server = Server { capacity: CAPACITY as f64, full: watts, idle: watts, wake };
        let settings = ClusterSettings {
            headroom: 0.0,
            on_min_s: 0.0,
            patience_s: 0.0,
            every_s: 0.3,
            ..ClusterSettings::default()
        };
        // `differential` takes one off at a time, of hundreds for minutes.
        let name = if members > MANY { "optimum" } else { "differential" };
        let policy = named(name, &vec![server; members], settings).expect("a known policy");
        let servers = (0..members).map(|index| (member_name(index), server)).collect();
        Member {
            agent: Agent::new(member_name(index)),
            leader: Leader::new(member_name(index), LEASE),
            inputs: LeaderInputs { servers, policy },
            seen: Arc::default(),
        }
    }
}

/// A balancer, and what passes between it and the store.
struct Front {
    logic: Balancer,
    carrier: Carrier,
    /// That have come to it, in tenths.
    tenths: u64,
}

impl Front {
    fn new(index: usize, members: usize, now: Time) -> Front {
        let weights = (0..members).map(|index| (member_name(index), 1)).collect();
        let carrier = Carrier::new(format!("b{index}"), now);
        Front { logic: Balancer::sized(&weights, SLOTS * members), carrier, tenths: 0 }
    }
}

struct Node {
    /// Counts its lives; what belongs to an earlier one does not reach it.
    life: u64,
    alive: bool,
    cut: bool,
    /// What it says arrives, what it is told does not.
    deaf: bool,
    /// How far its clock is ahead, in milliseconds.
    ahead_ms: i64,
    /// Its back-end neither wakes nor goes off when it is told to.
    refuses: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// It forwards.
    On,
    /// It was taken off as planned.
    Asleep,
    /// It failed: it answers its keeper and forwards nothing.
    Broken,
    /// It has ended, as its keeper can see.
    Ended,
}

struct World {
    size: Size,
    calendar: Calendar<Event>,
    rng: Rng,
    mix: Mix,
    store: Store,
    /// How long the store keeps a lease after it was renewed.
    lease: Duration,
    history: Recorder,
    /// Faults come until then.
    trouble: Time,
    store_down: bool,
    store_slow_ms: u64,
    /// What its disk takes for a change; others read meanwhile what was there before.
    disk_slow_ms: u64,
    disk_full: bool,
    /// When the last change is on the disk: they get there in order.
    committed_at: Time,
    nodes: Vec<Node>,
    members: Vec<Member>,
    balancers: Vec<Front>,
    bodies: Vec<Body>,
    /// How many back-ends the load asks for.
    wanted: usize,
    /// What the event did that the invariants depend on.
    changed: Vec<Changed>,
    /// Members that were the leader when they last heard something.
    leading: BTreeSet<usize>,
    /// Events so far.
    events: u64,
    outcome: Outcome,
}

/// What an event did that an invariant depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    /// A balancer's table.
    Table(usize),
    /// A back-end went off as planned.
    Asleep(usize),
    /// A member heard something.
    Heard(usize),
}

/// Plays the schedule of a seed.
///
/// # Errors
/// What broke, and when.
pub fn schedule(seed: u64, mix: Mix) -> Result<Outcome, String> {
    schedule_of(Size::SMALL, seed, mix)
}

/// The same for a cluster of another size.
///
/// # Errors
/// What broke, and when.
pub fn schedule_of(size: Size, seed: u64, mix: Mix) -> Result<Outcome, String> {
    let mut world = World::new(size, seed, mix);
    world.play()?;
    Ok(world.told())
}

/// Plays one cluster for many hours: faults for 15 s, and none for 12, after which it must have settled, again and again.
///
/// # Errors
/// What broke, and when.
pub fn life(seed: u64, mix: Mix, hours: f64) -> Result<Outcome, String> {
    let mut world = World::new(Size::SMALL, seed, mix);
    world.history.stops();
    world.play()?;
    while world.calendar.now().as_secs_f64() < hours * 3600.0 {
        world.play_again()?;
    }
    Ok(world.told())
}

/// What was asked of the store in the schedule of a seed and answered. The store keeps leases for a part of the time
/// that members are told; 1 is right.
///
/// # Errors
/// What broke, and when.
pub(super) fn history_of(seed: u64, mix: Mix, kept: f64) -> Result<Recorder, String> {
    let mut world = World::new(Size::SMALL, seed, mix);
    world.lease = LEASE.mul_f64(kept);
    world.play()?;
    Ok(world.history)
}

impl World {
    /// What has happened by now.
    fn told(&self) -> Outcome {
        let (changes, bytes) = self.store.written;
        let plans = self.store.kept.plan.as_ref().map_or(0, |(plan, _)| plan.version);
        Outcome { leaders: self.store.terms, changes, bytes, plans, ..self.outcome }
    }

    fn new(size: Size, seed: u64, mix: Mix) -> World {
        let node =
            |_| Node { life: 0, alive: true, cut: false, deaf: false, ahead_ms: 0, refuses: false };
        let Size { members, balancers } = size;
        let mut world = World {
            size,
            calendar: Calendar::new(),
            rng: Seed(seed).stream("faults"),
            mix,
            store: Store::default(),
            lease: LEASE,
            history: Recorder::default(),
            trouble: Time::ZERO + TROUBLE,
            store_down: false,
            store_slow_ms: 0,
            disk_slow_ms: 0,
            disk_full: false,
            committed_at: Time::ZERO,
            nodes: (0..members + balancers).map(node).collect(),
            members: (0..members).map(|index| Member::new(index, members)).collect(),
            balancers: Vec::new(),
            bodies: vec![Body::Asleep; members],
            wanted: 2,
            changed: Vec::new(),
            leading: BTreeSet::new(),
            events: 0,
            outcome: Outcome::default(),
        };
        let fronts =
            (0..balancers).map(|index| Front::new(index, members, world.clock(members + index)));
        world.balancers = fronts.collect();
        for node in 0..members + balancers {
            let at = world.after_ms(0, 100);
            world.calendar.schedule(at, Event::Tick(node, 0));
        }
        world.calendar.schedule(Time::from_nanos(1_000_000_000), Event::Load);
        world.calendar.schedule(Time::from_nanos(1_500_000_000), Event::Fault);
        world
    }

    /// Faults, and time without any.
    fn play(&mut self) -> Result<(), String> {
        let end = self.trouble + (ROUND - TROUBLE);
        while self.calendar.peek().is_some_and(|at| at < end) {
            let Some((now, event)) = self.calendar.pop() else { break };
            self.happen(now, event).map_err(|broken| format!("at {now}: {broken}"))?;
        }
        self.settled()
    }

    /// Another round of the same cluster.
    fn play_again(&mut self) -> Result<(), String> {
        self.trouble += ROUND;
        for event in [Event::Load, Event::Fault] {
            let at = self.after_ms(100, 1500);
            self.calendar.schedule(at, event);
        }
        self.play()
    }

    fn after_ms(&mut self, low: u64, high: u64) -> Time {
        self.calendar.now() + Duration::from_micros(self.rng.random_range(low * 1000..=high * 1000))
    }

    /// What a node's clock shows.
    fn clock(&self, node: usize) -> Time {
        // All begin far from zero, so that a step back stays above it.
        let shown = 100_000 + self.nodes[node].ahead_ms;
        self.calendar.now() + Duration::from_millis(shown.unsigned_abs())
    }

    fn happen(&mut self, now: Time, event: Event) -> Result<(), String> {
        match event {
            Event::Tick(node, life) => self.tick(node, life),
            Event::Arrive { from, ask } => self.arrive(now, from, &ask),
            Event::Commit { from, write } => self.commit(now, from, write),
            Event::Answered { to, answer } => {
                let node = &self.nodes[to.node];
                if node.alive && node.life == to.life && !node.cut && !node.deaf {
                    self.history.answered(to.place, now, &answer);
                    self.answered(to.node, answer)?;
                }
            }
            Event::Done { member, life, order } => self.done(member, life, order),
            Event::Drained { balancer, life, row } => {
                let node = &self.nodes[self.size.members + balancer];
                if node.alive && node.life == life {
                    let moves = self.balancers[balancer].logic.drained(row);
                    self.carry_out(balancer, &moves);
                }
            }
            Event::Probed { balancer, life, row } => self.probed(balancer, life, row),
            Event::Load => {
                if now < self.trouble {
                    self.wanted = self.rng.random_range(1..=self.size.members - 1);
                    let at = self.after_ms(200, 3000);
                    self.calendar.schedule(at, Event::Load);
                }
            }
            Event::Fault => self.fault(now),
        }
        self.hold()
    }

    fn tick(&mut self, node: usize, life: u64) {
        if self.nodes[node].life != life || !self.nodes[node].alive {
            return;
        }
        let next = self.calendar.now() + TICK;
        self.calendar.schedule(next, Event::Tick(node, life));
        if node < self.size.members {
            if self.members[node].agent.is_up() && self.bodies[node] == Body::Ended {
                self.members[node].agent.ended();
            }
            self.send(node, Ask::Look);
        } else {
            let balancer = node - self.size.members;
            let now = self.clock(node);
            let sharing =
                self.nodes[self.size.members..].iter().filter(|node| node.alive).count() as u64;
            let front = &mut self.balancers[balancer];
            // In a tenth of a second.
            front.tenths += offered(self.wanted as u64) / sharing;
            let says = front.logic.acknowledgement();
            let write = front.carrier.says(now, says, front.tenths / 10);
            let registered = front.carrier.is_registered();
            if let Some(write) = write {
                self.send(node, Ask::Change(write));
            }
            if registered {
                self.send(node, Ask::Look);
            }
            for row in 0..self.size.members as u16 {
                let at = self.after_ms(1, 20);
                self.calendar.schedule(at, Event::Probed { balancer, life, row });
            }
        }
    }

    /// A message to the store: late, twice, or never.
    fn send(&mut self, from: usize, ask: Ask) {
        let life = self.nodes[from].life;
        let copies = match self.rng.random_range(0..100) {
            0..3 => 0,
            3..6 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let late = if self.rng.random_range(0..50) == 0 { 800 } else { 15 };
            let at = self.after_ms(1, late);
            let place = self.history.asked(self.calendar.now(), from, &ask);
            let from = From { node: from, life, place };
            self.calendar.schedule(at, Event::Arrive { from, ask: ask.clone() });
        }
    }

    fn arrive(&mut self, now: Time, from: From, ask: &Ask) {
        // Whoever is cut off reaches nobody; what a dead one sent before still arrives.
        if self.store_down || self.nodes[from.node].cut {
            return;
        }
        if let Ask::Change(write) = ask {
            let at = self.committed_at.max(now + Duration::from_millis(self.disk_slow_ms));
            self.committed_at = at;
            self.calendar.schedule(at, Event::Commit { from, write: write.clone() });
            return;
        }
        let answer = self.store.ask(now, from.node, ask, self.lease);
        self.reply(from, answer);
    }

    /// A change is on the store's disk, or finds it full.
    fn commit(&mut self, now: Time, from: From, write: Write) {
        if self.store_down || self.disk_full {
            return;
        }
        let answer = self.store.ask(now, from.node, &Ask::Change(write), self.lease);
        self.reply(from, answer);
    }

    /// An answer of the store: now and then twice, the second time late and out of order.
    fn reply(&mut self, to: From, answer: Answer) {
        let slow = self.store_slow_ms;
        if self.rng.random_range(0..30) == 0 {
            let at = self.after_ms(1 + slow, 600 + slow);
            self.calendar.schedule(at, Event::Answered { to, answer: answer.clone() });
        }
        let at = self.after_ms(1 + slow, 15 + slow);
        self.calendar.schedule(at, Event::Answered { to, answer });
    }

    fn answered(&mut self, to: usize, answer: Answer) -> Result<(), String> {
        if to < self.size.members {
            self.changed.push(Changed::Heard(to));
        }
        match answer {
            Answer::Renewed(asked, same) => {
                self.members[to].leader.renewed(asked, same);
            }
            Answer::Seen(seen) if to < self.size.members => self.member_sees(to, seen),
            Answer::Seen(seen) => {
                let balancer = to - self.size.members;
                if let Some(plan) = self.balancers[balancer].carrier.follows(&seen) {
                    self.follow(balancer, plan)?;
                }
            }
            Answer::Changed(write, _) if to >= self.size.members => {
                self.balancers[to - self.size.members].carrier.written(write);
            }
            Answer::Changed(..) => {}
        }
        Ok(())
    }

    fn member_sees(&mut self, index: usize, seen: Arc<Snapshot>) {
        let life = self.nodes[index].life;
        let now = self.clock(index);
        if let Some(order) = self.members[index].agent.follow(now, &seen) {
            let at = match order {
                Order::Wake => self.after_ms(50, 400),
                Order::Sleep => self.after_ms(0, 0),
            };
            self.calendar.schedule(at, Event::Done { member: index, life, order });
        }
        let Member { agent, leader, inputs, .. } = &mut self.members[index];
        let renews = leader.renews(now, &seen).then_some(Ask::Renew(now));
        let writes = [agent.reports(&seen), leader.decide(now, &seen, inputs)];
        let asks = renews.into_iter().chain(writes.into_iter().flatten().map(Ask::Change));
        asks.collect::<Vec<_>>().into_iter().for_each(|ask| self.send(index, ask));
        self.members[index].seen = seen;
    }

    fn done(&mut self, member: usize, life: u64, order: Order) {
        if self.nodes[member].life != life || !self.nodes[member].alive {
            return;
        }
        if self.nodes[member].refuses {
            let now = self.clock(member);
            self.members[member].agent.failed(now);
            return;
        }
        match order {
            Order::Wake => self.bodies[member] = Body::On,
            Order::Sleep => {
                self.outcome.sleeps += 1;
                self.bodies[member] = Body::Asleep;
                self.changed.push(Changed::Asleep(member));
            }
        }
        self.members[member].agent.done(order);
    }

    fn follow(&mut self, balancer: usize, plan: &ebb_cluster::ClusterPlan) -> Result<(), String> {
        let logic = &mut self.balancers[balancer].logic;
        let before = logic.table().shares();
        let dead = logic.acknowledgement().dead;
        let moves = logic.follow(plan);
        let after = logic.table().shares();
        for (row, before) in before.into_iter().enumerate() {
            if after[row] < before && !dead.contains(&member_name(row)) {
                return Err(format!("b{balancer} took flows from live r{row} without a drain"));
            }
        }
        self.carry_out(balancer, &moves);
        Ok(())
    }

    fn carry_out(&mut self, balancer: usize, moves: &[Move]) {
        if !moves.is_empty() {
            self.changed.push(Changed::Table(balancer));
        }
        let life = self.nodes[self.size.members + balancer].life;
        for step in moves {
            if let Move::Drain { from, .. } = step {
                let at = self.after_ms(1, 30);
                self.calendar.schedule(at, Event::Drained { balancer, life, row: *from });
            }
        }
    }

    fn probed(&mut self, balancer: usize, life: u64, row: u16) {
        let node = &self.nodes[self.size.members + balancer];
        if node.alive && node.life == life {
            let dead = self.bodies[usize::from(row)] != Body::On;
            let moves = self.balancers[balancer].logic.found(row, dead);
            self.carry_out(balancer, &moves);
        }
    }
}
