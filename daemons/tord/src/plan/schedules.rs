//! Ends of circuits under schedules that a seed draws: the controller crashes, stands still, begins anew, its clock is
//! another one; frames are lost, late, doubled, out of order; somebody with a place on the control network repeats all that was
//! ever said, damages it, and says things of its own under another key; ends begin anew and know nothing.
//!
//! Whatever happens an end believes only days that a controller announced, at their time where clocks are the same, and
//! none for longer than the rotation lasts; once a controller speaks undisturbed, but for the adversary, all follow it.
//! `EBB_SEED=N` replays a schedule, `EBB_SCHEDULES=N` draws so many from it on.

use std::collections::{BTreeMap, HashMap};

use ebb_des::{Rng, Seed};
use rand::Rng as _;

use super::*;
use crate::seal::{Keys, Sealer};
use crate::sync::{self, SyncError};

const ENDS: usize = 2;
const RACKS: u8 = 4;
const STEP: u64 = 10_000_000;
const DAY: u64 = 4_000_000;
/// From the begin of a day to that of the next.
const CYCLE: u64 = 5_000_000;
const AHEAD: u64 = 6;
const ROTATION: u64 = 300_000_000;
const START: u64 = 50_000_000_000;
const TROUBLE: u64 = START + 1_500_000_000;
/// What an end that has just begun may have believed is forgotten by then.
const QUIET: u64 = HORIZON_NS + 700_000_000;

struct Controller {
    epoch: u32,
    sealer: Sealer,
    /// What it adds to the time.
    ahead_ns: u64,
    stopped: bool,
}

struct World {
    rng: Rng,
    clock: Clock,
    now: u64,
    keys: Keys,
    controller: Option<Controller>,
    lives: u32,
    ends: Vec<Plan>,
    ways: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    sent: u64,
    heard: Vec<Vec<u8>>,
    /// By number and outputs: when such a day began, by the clock that announced it.
    announced: HashMap<(u32, [u8; RACKS_MAX]), Vec<u64>>,
    /// The end of the last day that was announced, in true time.
    last_end: u64,
    noisy: bool,
    believed: u64,
}

/// The circuits of a run's days; run 0 stands for the rotation.
fn outputs(number: u32, epoch: u32) -> [u8; RACKS_MAX] {
    let shift = 1 + ((number + epoch) % 3) as u8;
    std::array::from_fn(|input| match input as u8 {
        input @ 0..RACKS => (input + shift) % RACKS,
        _ => Announced::DARK,
    })
}

impl World {
    fn new(seed: u64, clock: Clock) -> World {
        let keys = Keys::parse("a token of this fabric").expect("a key");
        World {
            rng: Seed(seed).stream("circuits"),
            clock,
            now: START,
            keys,
            controller: None,
            lives: 0,
            ends: (0..ENDS).map(|_| Plan::new(clock, ROTATION)).collect(),
            ways: BTreeMap::new(),
            sent: 0,
            heard: Vec::new(),
            announced: HashMap::new(),
            last_end: 0,
            noisy: false,
            believed: 0,
        }
    }

    fn put(&mut self, most_ns: u64, to: usize, frame: &[u8]) {
        let at = self.now + self.rng.random_range(0..=most_ns);
        self.sent += 1;
        self.ways.insert((at, self.sent), (to, frame.to_vec()));
    }

    /// A controller begins: its numbers are above those of all before.
    fn begin(&mut self) {
        self.lives += 1;
        let ahead_ns = match self.clock {
            Clock::Shared => 0,
            Clock::Sync => self.rng.random_range(0..40_000_000_000),
        };
        let sealer = Sealer::new(self.keys.clone(), self.now);
        self.controller = Some(Controller { epoch: self.lives, sealer, ahead_ns, stopped: false });
    }

    fn announce(&mut self) {
        let Some(controller) = self.controller.as_mut().filter(|it| !it.stopped) else { return };
        let first = self.now / CYCLE;
        let day = |number: u64| Announced {
            number: number as u32,
            duration_ns: DAY as u32,
            begin_ns: number * CYCLE + controller.ahead_ns,
            outputs: outputs(number as u32, controller.epoch),
        };
        let days: Vec<Announced> = (first..first + AHEAD).map(day).collect();
        for day in &days {
            let known = self.announced.entry((day.number, day.outputs)).or_default();
            if !known.contains(&day.begin_ns) {
                known.push(day.begin_ns);
            }
        }
        self.last_end = (first + AHEAD - 1) * CYCLE + DAY;
        let (epoch, sent_ns) = (controller.epoch, self.now + controller.ahead_ns);
        let frame = Frame::Sync { epoch, sent_ns, circuits: Circuits::Up, racks: RACKS, days };
        let mut buffer = [0; sync::LEN_MAX];
        let len = sync::write(&frame, [2, 0, 0, 0, 0, 1], &mut controller.sealer, &mut buffer);
        for to in 0..ENDS {
            let luck = self.rng.random_range(0..100);
            if self.noisy && luck < 20 {
                continue;
            }
            let most = if self.noisy && luck < 40 { 40_000_000 } else { 300_000 };
            self.put(most, to, &buffer[..len]);
            if luck > 95 {
                self.put(40_000_000, to, &buffer[..len]);
            }
        }
        self.heard.push(buffer[..len].to_vec());
    }

    fn meddle(&mut self) {
        for _ in 0..self.rng.random_range(0..4) {
            let Some(most) = self.heard.len().checked_sub(1) else { return };
            let least = if self.rng.random() { most.saturating_sub(10) } else { 0 };
            let mut frame = self.heard[self.rng.random_range(least..=most)].clone();
            match self.rng.random_range(0..6) {
                0 => {
                    let at = self.rng.random_range(14..frame.len());
                    frame[at] ^= 1 << self.rng.random_range(0..8);
                }
                1 => frame.truncate(self.rng.random_range(0..frame.len())),
                2 => frame = self.own(&frame),
                _ => {}
            }
            let to = self.rng.random_range(0..ENDS);
            self.put(2_000_000, to, &frame);
        }
    }

    /// What was said, with other circuits and under another key.
    fn own(&mut self, frame: &[u8]) -> Vec<u8> {
        let Ok(Heard { mut frame, source, sequence, .. }) = sync::read(frame, &self.keys) else {
            return Vec::new();
        };
        if let Frame::Sync { epoch, days, .. } = &mut frame {
            *epoch += self.rng.random_range(0..2);
            days.iter_mut().for_each(|day| day.outputs.reverse());
        }
        let key = Keys::parse("another token altogether").expect("a key");
        let mut buffer = [0; sync::LEN_MAX];
        let len = sync::write(&frame, source, &mut Sealer::new(key, sequence + 9), &mut buffer);
        buffer[..len].to_vec()
    }

    fn fault(&mut self) {
        match self.rng.random_range(0..7) {
            0 => self.controller = None,
            1 | 2 => self.begin(),
            3 => self.controller.iter_mut().for_each(|it| it.stopped ^= true),
            4 => self.noisy ^= true,
            _ => {
                let which = self.rng.random_range(0..ENDS);
                self.ends[which] = Plan::new(self.clock, ROTATION);
            }
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.now < TROUBLE {
            if self.rng.random_range(0..12) == 0 {
                self.fault();
            }
        } else if self.noisy || self.controller.as_ref().is_none_or(|it| it.stopped) {
            self.noisy = false;
            self.begin();
        }
        self.announce();
        self.meddle();
        let later = self.ways.split_off(&(self.now + STEP, 0));
        for ((at, _), (to, frame)) in std::mem::replace(&mut self.ways, later) {
            match sync::read(&frame, &self.keys) {
                Ok(heard) => self.ends[to].hear(at, &heard),
                Err(SyncError::Seal) => self.ends[to].forged(),
                Err(_) => self.ends[to].malformed(),
            }
        }
    }

    fn hold(&mut self) -> Result<(), String> {
        let now = self.now + STEP;
        for (which, end) in self.ends.iter_mut().enumerate() {
            end.turn(now);
            let (Phase::Day(day) | Phase::Night(day)) = end.at(now) else { continue };
            if self.clock == Clock::Shared && now > self.last_end + ROTATION + 2 * CYCLE {
                return Err(format!("end {which} holds {day:?}, announced by nobody for long"));
            }
            // A day of the rotation that has begun stands until its end, though the controller is back.
            if end.source(now) != Source::Controller || day.outputs == outputs(day.number, 0) {
                continue;
            }
            self.believed += 1;
            let known = self.announced.get(&(day.number, day.outputs));
            let exact = self.clock == Clock::Sync
                || known.is_some_and(|known| known.contains(&day.begin_ns));
            if known.is_none() || !exact {
                return Err(format!("end {which} believes {day:?}, which nobody announced"));
            }
        }
        Ok(())
    }

    fn settled(&self) -> Result<(), String> {
        let now = self.now + STEP;
        let controller = self.controller.as_ref().ok_or("no controller in the end")?;
        let number = (now / CYCLE) as u32;
        for (which, end) in self.ends.iter().enumerate() {
            let (Phase::Day(day) | Phase::Night(day)) = end.at(now) else {
                return Err(format!("end {which} knows nothing in the end: {:?}", end.counters()));
            };
            let follows = day.outputs == outputs(day.number, controller.epoch)
                && day.number.abs_diff(number) <= 1
                && end.source(now) == Source::Controller;
            if !follows {
                return Err(format!(
                    "end {which} has {day:?}, not day {number} of run {}: {:?}",
                    controller.epoch,
                    end.counters()
                ));
            }
        }
        Ok(())
    }
}

/// Plays the schedule of a seed: how often a day was believed, and what counted as replayed and as forged.
fn schedule(seed: u64, clock: Clock) -> Result<[u64; 3], String> {
    let mut world = World::new(seed, clock);
    while world.now < TROUBLE + QUIET {
        world.step();
        world.hold().map_err(|broken| format!("at {}: {broken}", world.now - START))?;
    }
    world.settled()?;
    let sum = |count: fn(SyncCounters) -> u64| {
        world.ends.iter().map(|end| count(end.counters())).sum::<u64>()
    };
    Ok([world.believed, sum(|it| it.replayed), sum(|it| it.forged)])
}

#[test]
fn whatever_is_said_ends_follow_the_controller_and_nobody_else() {
    ebb_lab::test::schedules(3750, |seed| {
        let mut sum = [0; 3];
        for clock in [Clock::Shared, Clock::Sync] {
            let counts = schedule(seed, clock).map_err(|broken| format!("{clock:?}: {broken}"))?;
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Ok(sum)
    });
}

#[test]
fn a_schedule_of_circuits_replays() {
    assert_eq!(schedule(7, Clock::Shared), schedule(7, Clock::Shared));
    assert_ne!(schedule(7, Clock::Sync), schedule(8, Clock::Sync));
}
