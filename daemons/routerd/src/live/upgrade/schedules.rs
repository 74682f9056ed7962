//! Two programs that hand over under schedules that a seed draws. Either is slow, silent, stopped or killed at each
//! step; words come late, doubled, cut off, or out of turn; time jumps. Both decide by [`steps`](super::steps); the
//! world around them is small: a socket, who receives, whose XDP program is in place, the journals and their guards.
//!
//! At no time do both receive. A router that was not taken over goes on with everything that is its own; one that was
//! never does, and the other runs. What was changed on the machine is undone when both have died, and only then.
//! `EBB_SEED=N` replays a schedule, `EBB_SCHEDULES=N` draws so many from it on.

use std::collections::VecDeque;

use ebb_des::{Rng, Seed};
use rand::Rng as _;

use super::steps::{Heard, Leave, Leaving, Name, PATIENCE, Take, Taking};

/// As the journal's.
const HEIR_PATIENCE: u64 = 1_000;
/// Milliseconds that one step may take at most where nobody is stopped.
const STEP: u64 = 20;
const OUT_OF_TURN: [Heard; 4] =
    [Heard::Noise, Heard::Said(Name::Offer), Heard::Said(Name::Ready), Heard::Said(Name::Failed)];

/// What the running router does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Old {
    Waits,
    SaysReplace,
    Holds,
    SaysTake,
    Listens,
    Kills,
    Releases,
    TakesBack,
    Answers(bool),
    Bequeaths,
    /// It goes on, and no upgrade is under way.
    Stays,
}

/// What the new program does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum New {
    SaysReady,
    Waits,
    Inherits,
    Replaces,
    SaysReplaced,
    /// `taken` leaves in two parts.
    SaysTak,
    SaysEn,
    Accepts,
    Resumes,
    Runs,
    Declines,
    Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Olds,
    News,
}

/// A process, and what the scheduler does to it.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    dead: bool,
    stopped_until: u64,
    /// Its guard's look at the journal, once it has died.
    guard: Option<u64>,
}

struct World {
    rng: Rng,
    now: u64,
    old: (Process, Old, Leaving),
    new: (Process, New, Taking),
    waits_until: [u64; 2],
    to_old: VecDeque<Heard>,
    to_new: VecDeque<Heard>,
    /// The first part of a word that is not whole.
    half: bool,
    ear_closed: bool,
    old_receives: bool,
    new_receives: bool,
    new_has_received: bool,
    program: Program,
    /// Journals: the old one's file, the new one's, and whether what that one inherited stands in it.
    old_file: bool,
    new_file: bool,
    inherited: bool,
    changed: bool,
    answers: Vec<bool>,
    held_since: Option<u64>,
    calm: bool,
    found_late: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Seed(seed).stream("upgrade");
        let calm = rng.random_range(0..4) == 0;
        World {
            rng,
            now: 0,
            old: (Process::default(), Old::Waits, Leaving::Prepares),
            new: (Process::default(), New::SaysReady, Taking::Ready),
            waits_until: [Leaving::Prepares.patience().as_millis() as u64, u64::MAX],
            to_old: VecDeque::new(),
            to_new: VecDeque::new(),
            half: false,
            ear_closed: false,
            old_receives: true,
            new_receives: false,
            new_has_received: false,
            program: Program::Olds,
            old_file: true,
            new_file: true,
            inherited: false,
            changed: true,
            answers: Vec::new(),
            held_since: None,
            calm,
            found_late: false,
        }
    }

    fn chance(&mut self, of_a_thousand: u32) -> bool {
        self.rng.random_range(0..1000) < of_a_thousand
    }

    fn old_waits(&mut self) {
        self.waits_until[0] = self.now + self.old.2.patience().as_millis() as u64;
        self.old.1 = Old::Waits;
    }

    fn new_waits(&mut self) {
        self.waits_until[1] = self.now + PATIENCE.as_millis() as u64;
        self.new.1 = New::Waits;
    }

    fn old_hears(&mut self, heard: Heard) {
        let listens = self.old.2 == Leaving::Listens;
        self.old.1 = match self.old.2.heard(heard) {
            Leave::Replace => Old::SaysReplace,
            Leave::Take => Old::Holds,
            Leave::Listen => Old::Listens,
            Leave::End => {
                self.found_late |= listens;
                Old::Answers(true)
            }
            Leave::Stay => Old::Kills,
        };
    }

    /// A step of the running router.
    fn old_steps(&mut self) {
        let fails = self.chance(20);
        match self.old.1 {
            Old::Waits => match self.to_old.pop_front() {
                // Whoever wakes too late does not look any more, except before the other is ready.
                Some(heard)
                    if self.now < self.waits_until[0] || self.old.2 == Leaving::Prepares =>
                {
                    self.old_hears(heard);
                }
                Some(heard) => {
                    self.to_old.push_front(heard);
                    self.old_hears(Heard::Nothing);
                }
                None if self.new.0.dead => self.old_hears(Heard::Gone),
                None if self.now >= self.waits_until[0] => self.old_hears(Heard::Nothing),
                None => {}
            },
            Old::SaysReplace if self.new.0.dead || fails => self.old.1 = Old::Kills,
            Old::SaysReplace => {
                self.to_new.push_back(Heard::Said(Name::Replace));
                self.old_waits();
            }
            // Workers that do not stop in time.
            Old::Holds if fails => self.old.1 = Old::Kills,
            Old::Holds => {
                (self.old_receives, self.held_since) = (false, Some(self.now));
                self.old.1 = Old::SaysTake;
            }
            Old::SaysTake if self.new.0.dead => self.old.1 = Old::Kills,
            Old::SaysTake => {
                self.to_new.push_back(Heard::Said(Name::Take));
                self.old_waits();
            }
            Old::Listens => {
                self.ear_closed = true;
                let heard = self.to_old.pop_front().unwrap_or(Heard::Gone);
                self.old_hears(heard);
            }
            Old::Kills => {
                self.kill_new();
                self.old.1 = Old::Releases;
            }
            Old::Releases => {
                (self.old_receives, self.held_since) = (true, None);
                self.old.1 = Old::TakesBack;
            }
            Old::TakesBack => {
                self.program = Program::Olds;
                self.old.1 = Old::Answers(false);
            }
            Old::Answers(taken) => {
                self.answers.push(taken);
                self.held_since = None;
                self.old.1 = if taken { Old::Bequeaths } else { Old::Stays };
            }
            Old::Bequeaths => {
                // The other died at once: nobody else is left.
                if self.new.0.dead {
                    self.changed = false;
                }
                self.old_file = false;
                self.old.0.dead = true;
            }
            Old::Stays => {}
        }
    }

    fn new_hears(&mut self, heard: Heard) {
        self.new.1 = match self.new.2.heard(heard) {
            Take::Replace => New::Inherits,
            Take::Accept => New::SaysTak,
            Take::Decline => New::Declines,
        };
    }

    fn new_says(&mut self, heard: Heard) -> bool {
        let arrives = !self.old.0.dead && !self.ear_closed;
        if arrives {
            self.to_old.push_back(heard);
        }
        arrives
    }

    /// A step of the new program.
    fn new_steps(&mut self) {
        let fails = self.chance(20);
        match self.new.1 {
            New::SaysReady => {
                self.new_says(Heard::Said(Name::Ready));
                self.new_waits();
            }
            New::Waits if self.now >= self.waits_until[1] => self.new_hears(Heard::Nothing),
            New::Waits => match self.to_new.pop_front() {
                Some(heard) => self.new_hears(heard),
                None if self.old.0.dead => self.new_hears(Heard::Gone),
                None => {}
            },
            New::Inherits => {
                self.inherited = self.old_file;
                self.new.1 = if self.old_file { New::Replaces } else { New::Declines };
            }
            New::Replaces if fails => self.new.1 = New::Declines,
            New::Replaces => {
                self.program = Program::News;
                self.new.1 = New::SaysReplaced;
            }
            New::SaysReplaced => {
                self.new_says(Heard::Said(Name::Replaced));
                self.new_waits();
            }
            New::SaysTak if fails => self.new.1 = New::Declines,
            New::SaysTak => {
                self.half = !self.old.0.dead && !self.ear_closed;
                self.new.1 = if self.half { New::SaysEn } else { New::Declines };
            }
            New::SaysEn => {
                let said = self.new_says(Heard::Said(Name::Taken));
                self.new.1 = if said { New::Resumes } else { New::Declines };
            }
            New::Resumes => {
                (self.new_receives, self.new_has_received) = (true, true);
                self.new.1 = New::Accepts;
            }
            New::Accepts => {
                // The old one died meanwhile, and its guard was faster: everything is set anew.
                self.old_file = false;
                (self.inherited, self.changed) = (true, true);
                self.new.1 = New::Runs;
            }
            New::Declines => {
                self.new_says(Heard::Said(Name::Failed));
                self.new.1 = New::Ends;
            }
            New::Ends => {
                // It leaves its changes to the other.
                self.new_file = false;
                self.kill_new();
            }
            New::Runs => {}
        }
    }

    fn kill_new(&mut self) {
        if !std::mem::replace(&mut self.new.0.dead, true) {
            self.new_receives = false;
            self.new.0.guard = Some(self.now);
        }
    }

    fn kill_old(&mut self) {
        if !std::mem::replace(&mut self.old.0.dead, true) {
            (self.old_receives, self.held_since) = (false, None);
            self.old.0.guard = Some(self.now);
        }
    }

    /// Guards do what processes that were killed have left.
    fn guards(&mut self) {
        if self.old.0.guard.take().is_some() && std::mem::take(&mut self.old_file) {
            self.changed = false;
        }
        let Some(since) = self.new.0.guard else { return };
        let open = self.new_file && self.inherited && self.old_file;
        if open && self.now < since + HEIR_PATIENCE {
            return;
        }
        self.new.0.guard = None;
        if std::mem::take(&mut self.new_file) && self.inherited && !open {
            self.changed = false;
        }
    }

    /// What the scheduler does to them.
    fn trouble(&mut self) {
        if self.calm {
            return;
        }
        match self.rng.random_range(0..400) {
            0 => self.kill_old(),
            1 | 2 => self.kill_new(),
            3 => self.old.0.stopped_until = self.now + self.rng.random_range(0..8_000),
            4 | 5 => self.new.0.stopped_until = self.now + self.rng.random_range(0..8_000),
            6 => self.now += self.rng.random_range(0..100_000),
            7 if !self.ear_closed => {
                let word = OUT_OF_TURN[self.rng.random_range(0..OUT_OF_TURN.len())];
                self.to_old.push_back(word);
            }
            8 => {
                let word = OUT_OF_TURN[self.rng.random_range(0..OUT_OF_TURN.len())];
                self.to_new.push_back(word);
            }
            9 => self.to_old.extend(self.to_old.front().copied().filter(|_| !self.ear_closed)),
            10 => self.to_new.extend(self.to_new.front().copied()),
            _ => {}
        }
    }

    fn turn(&mut self) {
        self.trouble();
        let (first, both) = (self.rng.random::<bool>(), self.rng.random::<bool>());
        for old in [first, !first].into_iter().take(1 + usize::from(both)) {
            match old {
                true if !self.old.0.dead && self.now >= self.old.0.stopped_until => {
                    self.old_steps()
                }
                false if !self.new.0.dead && self.now >= self.new.0.stopped_until => {
                    self.new_steps()
                }
                _ => {}
            }
        }
        if self.rng.random() {
            self.guards();
        }
        self.now += self.rng.random_range(0..STEP);
    }

    /// What holds at every moment.
    fn hold(&self) -> Result<(), String> {
        if self.old_receives && self.new_receives {
            return Err("both receive".to_owned());
        }
        if self.old_receives && self.new_has_received {
            return Err("one that was taken over goes on".to_owned());
        }
        if self.answers.len() > 1 {
            return Err(format!("answered {:?}", self.answers));
        }
        let patience = Leaving::Takes.patience().as_millis() as u64 + 20 * STEP;
        match self.held_since {
            Some(since) if self.calm && self.now > since + patience => {
                Err(format!("nobody receives for {} ms", self.now - since))
            }
            _ => Ok(()),
        }
    }

    fn is_settled(&self) -> bool {
        let old = self.old.0.dead || self.old.1 == Old::Stays;
        let new = self.new.0.dead || self.new.1 == New::Runs;
        old && new && self.old.0.guard.is_none() && self.new.0.guard.is_none()
    }

    /// What holds in the end.
    fn settled(&self) -> Result<(), String> {
        let stays = !self.old.0.dead;
        let runs = !self.new.0.dead;
        let right = match (stays, runs) {
            (true, true) => Err("two programs are there"),
            (true, false) if !self.old_receives || self.program != Program::Olds => {
                Err("the running router does not go on")
            }
            (true, false) if self.answers != [false] => Err("nobody was told that it failed"),
            (false, true) if !self.new_receives || self.program != Program::News => {
                Err("the new program does not run")
            }
            (true, false) if !self.old_file => Err("it has lost its journal"),
            (false, true) if !self.new_file || self.old_file => Err("whose journal counts is open"),
            (false, false) if self.changed => Err("the machine stays changed"),
            (false, false) => Ok(()),
            _ if !self.changed => Err("what the running program has set was undone"),
            _ => Ok(()),
        };
        right
            .map_err(|broken| format!("{broken}: {:?} {:?} {:?}", self.old, self.new, self.answers))
    }
}

/// Plays the schedule of a seed: handed over, gone on, everybody dead, and `taken` found after the time was over.
fn schedule(seed: u64) -> Result<[u64; 4], String> {
    let mut world = World::new(seed);
    for step in 0.. {
        world.turn();
        world.hold().map_err(|broken| format!("step {step}: {broken}"))?;
        if world.is_settled() {
            break;
        }
        if step > 100_000 {
            return Err(format!("never settles: {:?} {:?}", world.old, world.new));
        }
    }
    world.settled()?;
    let (stays, runs) = (!world.old.0.dead, !world.new.0.dead);
    Ok([runs, stays, !stays && !runs, world.found_late].map(u64::from))
}

#[test]
fn one_of_two_programs_runs_whatever_becomes_of_the_other() {
    ebb_lab::test::schedules(20_000, schedule);
}

#[test]
fn a_schedule_of_an_upgrade_replays() {
    assert_eq!(schedule(7), schedule(7));
}
