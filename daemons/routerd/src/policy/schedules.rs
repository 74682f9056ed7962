//! The kernel's policy followed under schedules that a seed draws: rules, switches and packet filters change all the time,
//! also while they are read; packet filters change before that is announced; announcements come late, or are lost with an error
//! that says so; what is asked for is refused; ports cannot hold what they are told, interfaces are renamed and come and go, time
//! jumps. The router wakes only when a descriptor says so.
//!
//! At any time, whatever has been heard, packets go by the kernel's present policy or are the kernel's, for it counts what
//! it announces; and once nothing fails any more the ports hold what the kernel's policy asks for, no more and no less.
//! `EBB_SEED=N` replays a schedule, `EBB_SCHEDULES=N` draws so many from it on.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ebb_des::{Rng, Seed};
use ebb_host::netlink::Error;
use ebb_host::netlink::policy::{Decision, Expression, Family, Hook, Loaded};
use ebb_units::Time;
use rand::Rng as _;

use super::follow::{Following, Policies};
use super::tests::{place, places, plain, rule};
use super::*;

const TROUBLE: u32 = 40;
const SETTLED: Duration = Duration::from_secs(10);
/// As [`Watch`](ebb_host::netlink::policy::Watch) has them.
const LOOK: Duration = Duration::from_millis(700);
const PAUSE: Duration = Duration::from_millis(100);

/// A kernel whose policy changes, and what its sockets hold.
struct Beside {
    rng: Rng,
    now: Time,
    facts: Facts,
    /// Packet filters to which the kernel goes over, which it has not announced.
    making: Option<(Vec<Chain>, Ruleset)>,
    changes: u32,
    /// Announced, and heard from then on, in this order.
    late: VecDeque<(Time, Source)>,
    /// How many were counted, at all and when the router asked last; heard; and judged.
    counted: u64,
    asked: u64,
    heard: u64,
    judged: u64,
    pending: BTreeSet<Source>,
    unread: BTreeSet<Source>,
    next: Time,
    timer: Time,
    faulty: bool,
    failures: u64,
}

type Read<T> = Result<T, Error>;

/// A chain that accepts what belongs to connections, or drops it, and drops everything else.
fn filters(number: u32, drops: bool) -> (Vec<Chain>, Ruleset) {
    let of = (1, "t".to_owned(), format!("c{number}"));
    let chain = Chain {
        name: format!("inet t c{number}"),
        family: Family::Both,
        hook: Hook::Forward,
        devices: Vec::new(),
        drops: true,
        rules: 1,
        first_only: false,
        priority: 0,
        place: Some(of.clone()),
        strange: false,
    };
    let mut rules = Ruleset::default();
    // Whatever is accepted is so by a connection's state.
    let established = 2_u32.to_ne_bytes();
    let state = Expression::Load(0, Loaded::State);
    let mask = Expression::Mask(0, 0, established.into(), vec![0; 4]);
    let is = Expression::Equal(0, vec![0; 4], false);
    let decides = Expression::Decide(if drops { Decision::Other } else { Decision::Accept });
    rules.chains.insert(of, vec![vec![state, mask, is, decides]]);
    (vec![chain], rules)
}

impl Beside {
    fn new(seed: u64) -> Beside {
        let now = Time::from_nanos(1_000_000_000);
        Beside {
            rng: Seed(seed).stream("policy"),
            now,
            facts: plain(),
            making: None,
            changes: 0,
            late: VecDeque::new(),
            counted: 0,
            asked: 0,
            heard: 0,
            judged: 0,
            pending: Source::ALL.into(),
            unread: BTreeSet::new(),
            next: now,
            timer: now + LOOK,
            faulty: true,
            failures: 0,
        }
    }

    fn chance(&mut self, of_a_hundred: u32) -> bool {
        self.faulty && self.rng.random_range(0..100) < of_a_hundred
    }

    /// Somebody changes the policy.
    fn changes(&mut self) {
        self.changes += 1;
        self.make();
        let source = match self.rng.random_range(0..5) {
            0 => {
                match self.facts.rules.len() {
                    5 => self.facts.rules.insert(1, rule(false, 100, 77)),
                    _ => drop(self.facts.rules.remove(1)),
                }
                Source::Rules
            }
            1 => {
                let at = self.rng.random_range(0..self.facts.switches.len());
                self.facts.switches[at].forwarding ^= true;
                Source::Switches
            }
            2 => {
                (self.facts.chains, self.facts.ruleset) = (Vec::new(), Ruleset::default());
                Source::Netfilter
            }
            _ => {
                let drops = self.rng.random();
                self.making = Some(filters(self.changes, drops));
                if !self.chance(30) {
                    self.make();
                }
                return;
            }
        };
        self.announce(source);
    }

    /// The packet filters that are in the making are made.
    fn make(&mut self) {
        if let Some(made) = self.making.take() {
            (self.facts.chains, self.facts.ruleset) = made;
            self.announce(Source::Netfilter);
        }
    }

    fn announce(&mut self, source: Source) {
        let late = if self.chance(20) { self.rng.random_range(1..50) } else { 0 };
        let at = self.now + Duration::from_millis(late);
        let before = self.late.back().map_or(at, |(before, _)| *before);
        self.late.push_back((at.max(before), source));
        self.counted += 1;
    }

    /// Takes over what the sockets hold; a lost message means that anything may have changed.
    fn drain(&mut self) {
        while let Some((_, source)) = self.late.pop_front_if(|(at, _)| *at <= self.now) {
            self.heard += 1;
            match self.chance(10) {
                true => self.pending.extend(Source::ALL),
                false => _ = self.pending.insert(source),
            }
        }
    }

    fn read<T: Clone>(&mut self, of: impl Fn(&Facts) -> T) -> Read<T> {
        while self.chance(15) {
            self.changes();
        }
        if self.chance(10) {
            self.failures += 1;
            let source = io::Error::from(io::ErrorKind::ResourceBusy);
            let (request, message) = ("a list".to_owned(), String::new());
            return Err(Error::Refused { request, source, message });
        }
        let read = of(&self.facts);
        while self.chance(15) {
            self.changes();
        }
        self.now += Duration::from_micros(200);
        Ok(read)
    }

    fn is_ready(&self) -> bool {
        self.timer <= self.now || self.late.front().is_some_and(|(at, _)| *at <= self.now)
    }

    fn wakes_at(&self) -> Time {
        self.late.front().map_or(self.timer, |(at, _)| self.timer.min(*at))
    }
}

impl Policies for Beside {
    fn now(&self) -> Time {
        self.now
    }

    fn changed(&mut self) -> Read<BTreeSet<Source>> {
        self.drain();
        let mut pending = std::mem::take(&mut self.pending);
        let woken = self.timer <= self.now;
        if woken {
            pending.append(&mut self.unread);
            self.timer = Time::from_nanos(u64::MAX);
        }
        if pending.is_empty() || self.now < self.next {
            if woken || !pending.is_empty() {
                let next = if pending.is_empty() { self.now + LOOK } else { self.next };
                self.timer = next;
            }
            self.pending = pending;
            return Ok(BTreeSet::new());
        }
        self.next = self.now + PAUSE;
        self.timer = self.now + LOOK;
        Ok(pending)
    }

    fn announced(&mut self) -> u64 {
        self.asked = self.counted;
        while self.chance(5) {
            self.changes();
        }
        self.asked
    }

    fn has_told(&self) -> bool {
        self.heard >= self.asked && self.pending.is_empty()
    }

    fn judged(&mut self, announced: u64) {
        self.judged = announced;
    }

    fn touch(&mut self, source: Source) {
        self.pending.insert(source);
    }

    fn try_again(&mut self, source: Source) {
        self.unread.insert(source);
    }

    fn rest(&mut self) {}

    fn forget_v6(&mut self) {}

    fn without_v6(&mut self, _: &[&str]) -> BTreeSet<String> {
        BTreeSet::new()
    }

    fn rules(&mut self) -> Read<Vec<Rule>> {
        self.read(|facts| facts.rules.clone())
    }

    fn switches(&mut self) -> Read<Vec<Switches>> {
        self.read(|facts| facts.switches.clone())
    }

    fn transforms(&mut self) -> Read<Transforms> {
        self.read(|facts| facts.transforms.clone())
    }

    fn chains(&mut self) -> Read<Option<(Vec<Chain>, Ruleset)>> {
        if self.making.is_some() {
            self.pending.insert(Source::Netfilter);
            self.timer = self.now + PAUSE;
            return Ok(None);
        }
        self.read(|facts| Some((facts.chains.clone(), facts.ruleset.clone())))
    }

    fn disciplines(&mut self, _: &[u32]) -> Read<Vec<Discipline>> {
        self.read(|facts| facts.disciplines.clone())
    }
}

struct World {
    following: Following<Beside>,
    places: Vec<RouterInterface>,
    /// What the ports hold; nothing where they could not hold it, which leaves everything.
    held: Option<Verdict>,
    looked: u64,
    closed: u64,
}

impl World {
    fn turn(&mut self) {
        if self.following.watch.chance(4) {
            let count = self.following.watch.rng.random_range(1..=3);
            self.places = places().into_iter().take(count).collect();
            if self.following.watch.rng.random() {
                self.places[0] = place(2, "renamed", 0, 0);
            }
            self.following.set_places(self.places.clone());
        }
        if let Some(verdict) = self.following.turn().expect("it goes on").cloned() {
            match self.following.watch.chance(10) {
                true => {
                    self.held = None;
                    self.following.tell_again();
                }
                false => self.held = Some(verdict),
            }
            while self.following.watch.chance(5) {
                self.following.watch.changes();
            }
        }
        self.following.settle();
    }

    fn pass(&mut self, span: Duration) -> Result<(), String> {
        let until = self.following.watch.now + span;
        loop {
            let beside = &mut self.following.watch;
            if !beside.is_ready() {
                let next = beside.wakes_at();
                if next > until {
                    beside.now = until;
                    return Ok(());
                }
                beside.now = next;
            }
            beside.now += Duration::from_micros(10);
            self.turn();
            self.hold()?;
            if self.following.watch.now > until {
                return Ok(());
            }
        }
    }

    /// What must hold at any time.
    fn hold(&mut self) -> Result<(), String> {
        let beside = &self.following.watch;
        let (Some(held), true) = (&self.held, beside.judged == beside.counted) else {
            self.closed += 1;
            return Ok(());
        };
        let mut present = beside.facts.clone();
        present.unread = self.following.facts.unread.clone();
        let present = evaluate(&present, &self.places, &BTreeSet::new());
        self.looked += 1;
        // What cannot be read leaves everything to the kernel, whatever else was read before.
        let unread = !self.following.facts.unread.is_empty();
        if !unread && (&held.ports, &held.kernel_path) != (&present.ports, &present.kernel_path) {
            return Err(format!("packets go by {:?}, not {:?}", held.objects, present.objects));
        }
        Ok(())
    }
}

/// Plays the schedule of a seed: readings that failed, times that it closed, and looks.
fn schedule(seed: u64) -> Result<[u64; 3], String> {
    let mut following = Following::new(Beside::new(seed));
    following.set_places(places());
    let mut world = World { following, places: places(), held: None, looked: 0, closed: 0 };
    world.turn();
    for step in 0..TROUBLE {
        let beside = &mut world.following.watch;
        for _ in 0..beside.rng.random_range(0..3) {
            beside.changes();
        }
        let span = match beside.rng.random_range(0..12) {
            0 => {
                beside.now += Duration::from_secs(3600);
                Duration::ZERO
            }
            1..6 => Duration::from_millis(1),
            _ => Duration::from_millis(beside.rng.random_range(1..300)),
        };
        world
            .hold()
            .and_then(|()| world.pass(span))
            .map_err(|broken| format!("step {step}: {broken}"))?;
    }
    world.following.watch.faulty = false;
    world.following.watch.make();
    world.pass(SETTLED)?;
    let present = evaluate(&world.following.watch.facts, &world.places, &BTreeSet::new());
    if world.held.as_ref() != Some(&present) {
        let held = world.held.map(|held| held.objects);
        return Err(format!("in the end ports hold {held:?}, not {:?}", present.objects));
    }
    let beside = &world.following.watch;
    if beside.judged != beside.counted {
        return Err(format!("in the end {} of {} are judged", beside.judged, beside.counted));
    }
    Ok([beside.failures, world.closed, world.looked])
}

#[test]
fn no_packet_goes_by_rules_that_are_not_the_kernels_any_more() {
    ebb_lab::test::schedules(5000, schedule);
}

#[test]
fn a_schedule_of_the_policy_replays() {
    assert_eq!(schedule(7), schedule(7));
    assert_ne!(schedule(7), schedule(8));
}
