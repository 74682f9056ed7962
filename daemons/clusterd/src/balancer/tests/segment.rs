//! Balancers on segments that an adversary shares, under schedules that a seed draws: frames are lost, late, doubled and out
//! of order, repeated hours or moments later and on other links, made up and damaged; balancers crash, begin anew with
//! another clock, stand still, lose links.
//!
//! Whatever happens nobody believes that a dead one lives, beyond a bound; and once nothing changes but what the adversary
//! says, each address has one owner. `EBB_SEED=N` replays a schedule, `EBB_SCHEDULES=N` draws so many from it on.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_des::{Rng, Seed};
use ebb_units::Time;
use rand::Rng as _;

use super::super::peers::Peers;
use super::super::plane::Probing;
use super::super::topology::{BackEnd, Side, Topology};
use super::super::words::PeerAuthentication;

const BALANCERS: usize = 3;
const LINKS: usize = 2;
const BEGIN: Time = Time::from_nanos(1_000_000_000);
const STEP: Duration = Duration::from_millis(1);
/// The latest a frame arrives that is not repeated.
const LATE_MS: u64 = 40;
/// What is silent is not believed for longer: the detection time, the time in which an answer counts, what was on its way.
const SILENT: Duration = Duration::from_millis(50 + 200 + 2 * LATE_MS + 10);
/// After so long without a change each address has one owner: begin, listen, be believed, and give back.
const SETTLED: Duration = Duration::from_millis(2 * 360 + 250);
const END: Duration = Duration::from_millis(2600);
const TROUBLE: Duration = Duration::from_millis(1500);

struct Node {
    peers: Peers,
    topology: Topology,
    alive: bool,
    stopped: bool,
    /// How far its clock is ahead.
    ahead: Duration,
    cut: [bool; LINKS],
    /// When it could be heard last, or since when it cannot.
    gone: Option<Time>,
}

/// What is on its way: to whom, on which link.
type Way = (usize, usize, Vec<u8>);

struct World {
    rng: Rng,
    now: Time,
    nodes: Vec<Node>,
    ways: BTreeMap<(Time, u64), Way>,
    sent: u64,
    sessions: u64,
    /// All that the adversary has heard, by link.
    heard: Vec<(usize, Vec<u8>)>,
    noisy: bool,
    changed: Time,
    next: Time,
    /// Addresses looked at while nothing changed.
    looked: u64,
}

fn topology(me: usize) -> Topology {
    let all = 0..BALANCERS as u8;
    let side = Side {
        outside: "out".to_owned(),
        inside: "in".to_owned(),
        macs: all.clone().map(|balancer| [2, 0, 0, 0, balancer, 0]).collect(),
        addresses: vec!["10.0.0.1/24".parse().expect("a subnet")],
        probes: all.clone().map(|me| format!("10.0.0.24{me}").parse().expect("one")).collect(),
        probe_macs: all.map(|balancer| [2, 0, 0, 2, balancer, 0]).collect(),
    };
    let macs = vec![[2, 0, 0, 1, 0, 0]];
    let back_end = BackEnd { name: "r".to_owned(), macs, weight: 1, capacity_pps: 1e9 };
    Topology::new(vec![side], vec![back_end], me)
}

fn peers(me: usize, session: u64, now: Time) -> Peers {
    let token = Some(b"a token of this cluster".to_vec());
    let authentication = PeerAuthentication { cluster: "c".to_owned(), token, session };
    Peers::new(&topology(me), &authentication, Probing::default(), now)
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Seed(seed).stream("segment");
        let now = BEGIN;
        let node = |me: usize| {
            let ahead = Duration::from_millis(rng.random_range(0..5000));
            Node {
                peers: peers(me, 1 + me as u64, now + ahead),
                topology: topology(me),
                alive: true,
                stopped: false,
                ahead,
                cut: [false; LINKS],
                gone: None,
            }
        };
        let nodes = (0..BALANCERS).map(node).collect();
        World {
            rng,
            now,
            nodes,
            ways: BTreeMap::new(),
            sent: 0,
            sessions: BALANCERS as u64,
            heard: Vec::new(),
            noisy: false,
            changed: now,
            next: now + Duration::from_millis(400),
            looked: 0,
        }
    }

    fn after(&mut self, most_ms: u64) -> Time {
        self.now + Duration::from_micros(self.rng.random_range(100..=most_ms * 1000))
    }

    fn put(&mut self, at: Time, way: Way) {
        self.sent += 1;
        self.ways.insert((at, self.sent), way);
    }

    /// A frame of a balancer, to all others on the link.
    fn say(&mut self, from: usize, link: usize, frame: Vec<u8>) {
        if self.nodes[from].cut[link] {
            return;
        }
        for to in (0..BALANCERS).filter(|to| *to != from) {
            let luck = self.rng.random_range(0..100);
            if self.noisy && luck < 10 {
                continue;
            }
            let most = if self.noisy && luck < 20 { LATE_MS } else { 2 };
            let at = self.after(most);
            self.put(at, (to, link, frame.clone()));
            if luck > 96 {
                let again = self.after(LATE_MS);
                self.put(again, (to, link, frame.clone()));
            }
        }
        self.heard.push((link, frame));
    }

    /// What the adversary says in this step: something that was said, or something like it.
    fn meddle(&mut self) {
        for _ in 0..self.rng.random_range(0..4) {
            let Some(most) = self.heard.len().checked_sub(1) else { return };
            let recent = self.rng.random_range(0..2) == 0;
            let least = if recent { most.saturating_sub(12) } else { 0 };
            let (mut link, mut frame) = self.heard[self.rng.random_range(least..=most)].clone();
            match self.rng.random_range(0..6) {
                0 => link = 1 - link,
                1 => {
                    let at = self.rng.random_range(14..frame.len());
                    frame[at] ^= 1 << self.rng.random_range(0..8);
                }
                2 => frame.truncate(self.rng.random_range(0..frame.len())),
                _ => {}
            }
            let (to, at) = (self.rng.random_range(0..BALANCERS), self.after(3));
            self.put(at, (to, link, frame));
        }
    }

    fn begin_anew(&mut self, which: usize) {
        self.sessions += 1;
        let ahead = Duration::from_millis(self.rng.random_range(0..5000));
        let peers = peers(which, self.sessions, self.now + ahead);
        let node = &mut self.nodes[which];
        (node.peers, node.ahead, node.alive, node.stopped) = (peers, ahead, true, false);
    }

    fn fault(&mut self) {
        self.changed = self.now;
        let which = self.rng.random_range(0..BALANCERS);
        if self.now >= BEGIN + TROUBLE {
            self.noisy = false;
            for which in 0..BALANCERS {
                self.nodes[which].cut = [false; LINKS];
                self.nodes[which].stopped = false;
                if !self.nodes[which].alive {
                    self.begin_anew(which);
                }
            }
            self.next = self.now + END;
            return;
        }
        match self.rng.random_range(0..8) {
            0 => self.nodes[which].alive = false,
            1 | 2 => self.begin_anew(which),
            3 => self.nodes[which].stopped ^= true,
            4 => self.nodes[which].cut[self.rng.random_range(0..LINKS)] ^= true,
            5 => self.noisy ^= true,
            6 => self.nodes.iter_mut().for_each(|node| node.cut = [false; LINKS]),
            _ => self.nodes.iter_mut().for_each(|node| node.stopped = false),
        }
        // Now and then time enough to settle.
        let most = if self.rng.random_range(0..4) == 0 { 1100 } else { 200 };
        self.next = self.after(most).min(BEGIN + TROUBLE);
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.now >= self.next {
            self.fault();
        }
        self.meddle();
        let due = self.ways.split_off(&(self.now, 0));
        for (to, link, frame) in std::mem::replace(&mut self.ways, due).into_values() {
            let node = &mut self.nodes[to];
            if node.alive && !node.stopped && !node.cut[link] {
                node.peers.hear(link, &frame, self.now + node.ahead);
            }
        }
        for from in 0..BALANCERS {
            let node = &mut self.nodes[from];
            let speaks = node.alive && !node.stopped;
            let whole = speaks && node.cut == [false; LINKS];
            node.gone = if whole { None } else { node.gone.or(Some(self.now)) };
            if !speaks {
                continue;
            }
            for (link, frame) in node.peers.tick(&node.topology, self.now + node.ahead) {
                self.say(from, link, frame);
            }
        }
    }

    /// What must hold at every step.
    fn hold(&mut self) -> Result<(), String> {
        let runs = |node: &&Node| node.alive && !node.stopped;
        for node in self.nodes.iter().filter(runs) {
            for other in node.peers.alive() {
                // A frame that was held back may come when one goes on, so the time since counts.
                let gone = self.nodes[other].gone;
                if gone.is_some_and(|at| self.now.since(at.max(self.changed)) > SILENT) {
                    return Err(format!(
                        "b{} believes b{other}, gone since {gone:?}",
                        node.topology.me
                    ));
                }
            }
        }
        let unbroken = self.nodes.iter().filter(runs).all(|node| node.cut == [false; LINKS]);
        if self.noisy || !unbroken || self.now.since(self.changed) < SETTLED {
            return Ok(());
        }
        let there: Vec<&Node> = self.nodes.iter().filter(runs).collect();
        for address in 0..BALANCERS {
            let owners = there.iter().filter(|node| node.peers.accepted() >> address & 1 == 1);
            let owners: Vec<usize> = owners.map(|node| node.topology.me).collect();
            let own = there.iter().any(|node| node.topology.me == address);
            self.looked += 1;
            if owners.len() != usize::from(!there.is_empty()) || own && owners != [address] {
                return Err(format!("address {address} is {owners:?}'s"));
            }
        }
        Ok(())
    }
}

/// Plays the schedule of a seed; tells how often addresses were looked at, and what counted as repeated and as forged.
fn schedule(seed: u64) -> Result<[u64; 3], String> {
    let mut world = World::new(seed);
    let begun = world.now;
    while world.now.since(begun) < END {
        world.step();
        world.hold().map_err(|broken| format!("at {}: {broken}", world.now))?;
    }
    if world.now.since(world.changed) < SETTLED {
        return Err("it never settled".to_owned());
    }
    let sum = |count: fn(&Peers) -> u64| world.nodes.iter().map(|node| count(&node.peers)).sum();
    Ok([world.looked, sum(Peers::stale), sum(Peers::forged)])
}

#[test]
fn an_adversary_on_the_segment_gives_no_address_two_owners() {
    ebb_lab::test::schedules(250, schedule);
}

#[test]
fn a_schedule_of_the_segment_replays() {
    assert_eq!(schedule(7), schedule(7));
    assert_ne!(schedule(7), schedule(8));
}
