//! The kernel's policy followed under schedules that a seed draws: rules, switches and packet filters change all the time,
//! also while they are read; announcements come late, or are lost with an error that says so; what is asked for is refused; ports cannot
//! hold what they are told, interfaces are renamed and come and go, time jumps. The router wakes only when a descriptor says so.
//!
//! Whenever everything that was announced has been heard, no packet goes by rules of filters but the kernel's present ones;
//! and once nothing fails any more the ports hold what the kernel's policy asks for, no more and no less.
//! `EBB_SEED=N` replays a schedule, `EBB_SCHEDULES=N` draws so many from it on.

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
    changes: u32,
    /// Announced, and heard from then on.
    late: Vec<(Time, Source)>,
    pending: BTreeSet<Source>,
    unread: BTreeSet<Source>,
    next: Time,
    timer: Time,
    faulty: bool,
    failures: u64,
    closed: u64,
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
            changes: 0,
            late: Vec::new(),
            pending: Source::ALL.into(),
            unread: BTreeSet::new(),
            next: now,
            timer: now + LOOK,
            faulty: true,
            failures: 0,
            closed: 0,
        }
    }

    fn chance(&mut self, of_a_hundred: u32) -> bool {
        self.faulty && self.rng.random_range(0..100) < of_a_hundred
    }

    /// Somebody changes the policy.
    fn changes(&mut self) {
        self.changes += 1;
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
                (self.facts.chains, self.facts.ruleset) = filters(self.changes, drops);
                Source::Netfilter
            }
        };
        let late = if self.chance(20) { self.rng.random_range(1..50) } else { 0 };
        self.late.push((self.now + Duration::from_millis(late), source));
    }

    /// Takes over what the sockets hold; a lost message means that anything may have changed.
    fn drain(&mut self) {
        let now = self.now;
        let due: Vec<Source> =
            self.late.extract_if(.., |(at, _)| *at <= now).map(|(_, source)| source).collect();
        for source in due {
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
        self.timer <= self.now || self.late.iter().any(|(at, _)| *at <= self.now)
    }

    fn wakes_at(&self) -> Time {
        self.late.iter().map(|(at, _)| *at).chain([self.timer]).min().expect("the timer")
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

    fn filters_announced(&mut self) -> Read<bool> {
        self.drain();
        let announced = self.pending.contains(&Source::Netfilter);
        if announced {
            self.timer = self.now + Duration::from_millis(1);
        }
        Ok(announced)
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

    fn chains(&mut self) -> Read<(Vec<Chain>, Ruleset)> {
        self.read(|facts| (facts.chains.clone(), facts.ruleset.clone()))
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
        let Some(verdict) = self.following.turn().expect("it goes on") else { return };
        let verdict = verdict.clone();
        if verdict.by_rules && verdict.kernel_path == verdict.ports {
            self.following.watch.closed += 1;
        }
        match self.following.watch.chance(10) {
            true => {
                self.held = None;
                self.following.tell_again();
            }
            false => self.held = Some(verdict),
        }
    }

    fn pass(&mut self, span: Duration) {
        let until = self.following.watch.now + span;
        loop {
            let beside = &mut self.following.watch;
            if !beside.is_ready() {
                let next = beside.wakes_at();
                if next > until {
                    beside.now = until;
                    return;
                }
                beside.now = next;
            }
            beside.now += Duration::from_micros(10);
            self.turn();
            if self.following.watch.now > until {
                return;
            }
        }
    }

    /// What must hold when all announcements have been heard.
    fn hold(&mut self) -> Result<(), String> {
        let beside = &self.following.watch;
        let (Some(held), true) = (&self.held, beside.late.is_empty()) else { return Ok(()) };
        let unread = self.following.facts.unread.contains_key(&Source::Netfilter);
        if held.kernel_path == held.ports || unread {
            return Ok(());
        }
        // The other sources' changes wait for a moment.
        let mut facts = self.following.facts.clone();
        (facts.chains, facts.ruleset) = (beside.facts.chains.clone(), beside.facts.ruleset.clone());
        let present = evaluate(&facts, &self.places, &BTreeSet::new());
        self.looked += 1;
        if held.kernel_path != present.kernel_path && held.by_rules {
            return Err(format!("packets go by {:?}, not {:?}", held.objects, present.objects));
        }
        Ok(())
    }
}

/// Plays the schedule of a seed: readings that failed, times that it closed, and looks.
fn schedule(seed: u64) -> Result<[u64; 3], String> {
    let mut following = Following::new(Beside::new(seed));
    following.set_places(places());
    let mut world = World { following, places: places(), held: None, looked: 0 };
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
        world.pass(span);
        world.hold().map_err(|broken| format!("step {step}: {broken}"))?;
    }
    world.following.watch.faulty = false;
    world.pass(SETTLED);
    let present = evaluate(&world.following.watch.facts, &world.places, &BTreeSet::new());
    if world.held.as_ref() != Some(&present) {
        let held = world.held.map(|held| held.objects);
        return Err(format!("in the end ports hold {held:?}, not {:?}", present.objects));
    }
    let beside = &world.following.watch;
    Ok([beside.failures, beside.closed, world.looked])
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
