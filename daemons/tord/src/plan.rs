//! Which circuits stand when, as one end of them knows it from sync frames.
//!
//! A state machine without a clock: what the controller announced, what is made of announcements
//! that are late, doubled, out of order or from a clock that stepped, and what holds when none come
//! any more: first a fixed rotation that everybody computes alike from the last day they know,
//! then nothing, and racks use the packet path.

use std::cell::Cell;
use std::collections::VecDeque;

use ebb_scenario::Described;

use crate::sync::{Announced, Circuits, Frame, Heard, RACKS_MAX};

mod believed;
use believed::Believed;

/// A day in the local clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Its number.
    pub number: u32,
    /// When light begins to pass.
    pub begin_ns: u64,
    /// When it ends.
    pub end_ns: u64,
    /// The output of each input; [`Announced::DARK`] for none.
    pub outputs: [u8; RACKS_MAX],
}

/// What holds at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Light passes.
    Day(Day),
    /// It does not, and will at the begin of this day.
    Night(Day),
    /// Nobody knows: the packet path.
    Unknown,
}

/// Where a plan's days come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// From the controller.
    Controller,
    /// From the rotation that follows when it falls silent.
    Rotation,
    /// From nobody.
    Packets,
}

/// What became of sync frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SyncCounters {
    /// Frames that said something new or known.
    pub accepted: u64,
    /// Days taken over from them.
    pub days: u64,
    /// Frames without a new day.
    pub doubled: u64,
    /// Frames whose days were over when they came.
    pub late: u64,
    /// Days that no frame announced in time: they had begun, or the rotation stands for them.
    pub missed: u64,
    /// Frames that contradict what was announced before; the first word stands until the third of
    /// them in a row.
    pub contradicting: u64,
    /// Frames from another controller while one is followed, or with a clock far off.
    pub stepped: u64,
    /// Frames that are malformed.
    pub malformed: u64,
    /// Frames without a seal of a known key.
    pub forged: u64,
    /// Sealed frames that were heard before, or are older than one that was.
    pub replayed: u64,
}

/// How a clock relates to the controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// It is the same, or PTP keeps both (`ptp`).
    Shared,
    /// Only sync frames relate them: the least delay of the recent ones is taken for none.
    Sync,
}

/// How far ahead of now a day may be announced, ns; also how far off a clock may seem.
const HORIZON_NS: u64 = 2_000_000_000;
/// How long days are remembered after they ended, ns: frames may be looked at late.
const MEMORY_NS: u64 = 500_000_000;
/// Frames in a row that contradict what is known until they are believed instead.
const CONTRADICTIONS_BELIEVED: u32 = 3;
/// How much the same day may move from one frame to the next, ns: with a clock that follows frames.
const JITTER_NS: u64 = 1_000_000;
/// Most days that are known at a time.
const DAYS_KNOWN_MAX: usize = 65_536;

/// What one end knows.
#[derive(Clone, Debug)]
pub struct Plan {
    rotation_ns: u64,
    days: VecDeque<Day>,
    racks: u8,
    believed: Believed,
    /// Frames in a row that contradict what is known.
    against: u32,
    /// The last day that the controller announced; the rotation continues it.
    last: Option<Day>,
    night_ns: u64,
    rotating: bool,
    counters: SyncCounters,
    /// Where the last questions about ends and begins were answered: the next ones are about the same day or the one after.
    near: [Cell<usize>; 2],
}

impl Plan {
    /// Knows nothing yet. `rotation_ns` is how long the fixed rotation holds after the last day
    /// that was announced.
    pub fn new(clock: Clock, rotation_ns: u64) -> Plan {
        Plan {
            rotation_ns,
            days: VecDeque::new(),
            racks: 0,
            believed: Believed::new(clock),
            against: 0,
            last: None,
            night_ns: 0,
            rotating: false,
            counters: SyncCounters::default(),
            near: Default::default(),
        }
    }

    /// What became of frames.
    pub fn counters(&self) -> SyncCounters {
        SyncCounters {
            stepped: self.believed.stepped(),
            replayed: self.believed.replayed(),
            ..self.counters
        }
    }

    /// Counts a frame that could not be read.
    pub fn malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// Counts a frame for which no key vouches.
    pub fn forged(&mut self) {
        self.counters.forged += 1;
    }

    /// Follows whoever speaks next, as at the start; days that are known stand until then.
    pub fn follow_anew(&mut self) {
        self.believed.forget();
    }

    /// Number of the last frame of the controller that is followed, 0 before the first.
    pub fn heard(&self) -> u64 {
        self.believed.sequence()
    }

    /// Takes note of a frame that came at `now_ns`; only those of a controller matter.
    pub fn hear(&mut self, now_ns: u64, heard: &Heard) {
        self.hear_late(now_ns, now_ns, heard);
    }

    /// The same at `now_ns` for a frame that came at `came_ns`, of which other clocks' times are reckoned from.
    pub fn hear_late(&mut self, now_ns: u64, came_ns: u64, heard: &Heard) {
        let Frame::Sync { sent_ns, racks, days, circuits: Circuits::Up | Circuits::Down, .. } =
            &heard.frame
        else {
            return;
        };
        let Some(verdict) = self.believed.hear(now_ns, heard) else { return };
        if verdict.is_new {
            // What the old one promised for later does not hold any more.
            self.days.retain(|day| day.begin_ns <= now_ns);
            self.against = 0;
        }
        self.counters.accepted += 1;
        self.racks = *racks;
        let offset = self.believed.offset(came_ns, *sent_ns);
        let days = days.iter().map(|announced| {
            let begin_ns = announced.begin_ns.saturating_add_signed(offset);
            let end_ns = begin_ns + u64::from(announced.duration_ns);
            Day { number: announced.number, begin_ns, end_ns, outputs: announced.outputs }
        });
        let days: Vec<Day> = days.collect();
        self.weigh(now_ns, &days);
        let late = days.iter().all(|day| day.end_ns <= now_ns);
        let mut fresh = false;
        for day in days.into_iter().filter(|day| day.begin_ns <= now_ns + HORIZON_NS) {
            fresh |= self.learn(now_ns, day);
        }
        if !fresh && late {
            self.counters.late += 1;
        } else if !fresh {
            self.counters.doubled += 1;
        }
    }

    /// Whether a frame's days are those that are known. One that says otherwise may be forged, or what
    /// is known was: whoever is right goes on saying so.
    fn weigh(&mut self, now_ns: u64, days: &[Day]) {
        let ahead = days.iter().filter(|day| day.end_ns > now_ns);
        if ahead.clone().any(|day| self.contradicts(day)) {
            self.counters.contradicting += 1;
            self.against += 1;
        } else if ahead.clone().any(|day| self.known(day).is_some()) {
            self.against = 0;
        }
        if self.against >= CONTRADICTIONS_BELIEVED {
            self.against = 0;
            self.days.retain(|day| day.end_ns <= now_ns);
        }
    }

    /// Whether this day cannot be if those that were announced are to be.
    fn contradicts(&self, day: &Day) -> bool {
        if self.rotating {
            return false;
        }
        match self.known(day) {
            Some(known) => {
                let length = |day: &Day| day.end_ns - day.begin_ns;
                known.outputs != day.outputs
                    || length(&known) != length(day)
                    || known.begin_ns.abs_diff(day.begin_ns) > JITTER_NS
            }
            None => self.days.back().is_some_and(|last| day.begin_ns < last.end_ns),
        }
    }

    /// The known day of this number, among those that are not over long before it.
    fn known(&self, day: &Day) -> Option<Day> {
        let least_ns = day.begin_ns.saturating_sub(JITTER_NS);
        let near = self.days.iter().rev().take_while(|known| known.end_ns > least_ns);
        near.copied().find(|known| known.number == day.number)
    }

    /// Adds a day if it is new, and says so.
    fn learn(&mut self, now_ns: u64, day: Day) -> bool {
        if self.rotating && day.begin_ns > now_ns {
            // The controller is back: its word replaces the rotation's from its first day on.
            self.days.retain(|known| known.end_ns <= day.begin_ns);
            self.rotating = false;
        }
        if self.known(&day).is_some() {
            return false;
        }
        let Some(last) = self.days.back() else {
            self.counters.days += 1;
            self.days.push_back(day);
            self.last = Some(day);
            return true;
        };
        if day.begin_ns < last.end_ns {
            return false;
        }
        if day.begin_ns < now_ns {
            self.counters.missed += 1;
        }
        if day.number == last.number.wrapping_add(1) {
            self.night_ns = day.begin_ns - last.end_ns;
        }
        if self.days.len() == DAYS_KNOWN_MAX {
            self.days.pop_front();
        }
        self.counters.days += 1;
        self.days.push_back(day);
        self.last = Some(day);
        true
    }

    /// Continues the rotation and forgets what is long over; to be called before [`Plan::at`] now
    /// and then.
    pub fn turn(&mut self, now_ns: u64) {
        while self.days.len() > 1 && self.days[0].end_ns + MEMORY_NS < now_ns {
            self.days.pop_front();
        }
        let Some(last) = self.last else { return };
        // A tenth of a second without any day left to come: the controller is silent.
        let hold_ns = last.end_ns + self.rotation_ns;
        while let Some(newest) = self.days.back().copied() {
            let silent = newest.end_ns < now_ns + 2 * (newest.end_ns - newest.begin_ns);
            if !silent
                || self.racks < 2
                || newest.end_ns > hold_ns
                || newest.end_ns + HORIZON_NS < now_ns
            {
                break;
            }
            if newest.end_ns > now_ns && !self.rotating {
                // The last announced day still stands; wait until it is really the last.
                break;
            }
            self.rotating = true;
            self.counters.missed += 1;
            self.days.push_back(rotated(&newest, &last, self.racks, self.night_ns));
        }
    }

    /// How many days are past in a sense, as `partition_point` has it: some thousand days are remembered, and a switch asks
    /// several times between two frames.
    fn past(&self, sense: usize, is_past: impl Fn(&Day) -> bool) -> usize {
        let hint = &self.near[sense];
        let fits = |at: usize| {
            let before =
                at.checked_sub(1).is_none_or(|last| self.days.get(last).is_some_and(&is_past));
            before && !self.days.get(at).is_some_and(&is_past)
        };
        let known = [hint.get(), hint.get() + 1].into_iter().find(|at| fits(*at));
        let found = known.unwrap_or_else(|| self.days.partition_point(is_past));
        hint.set(found);
        found
    }

    /// What holds at `now_ns`.
    pub fn at(&self, now_ns: u64) -> Phase {
        let after = self.past(0, |day| day.end_ns <= now_ns);
        match self.days.get(after) {
            Some(day) if day.begin_ns <= now_ns => Phase::Day(*day),
            Some(day) => Phase::Night(*day),
            None => Phase::Unknown,
        }
    }

    /// When the first day after `now_ns` begins, if one is known.
    pub fn next_begin(&self, now_ns: u64) -> Option<u64> {
        let after = self.past(1, |day| day.begin_ns <= now_ns);
        self.days.get(after).map(|day| day.begin_ns)
    }

    /// When the last day before `now_ns` ended, if one is known.
    pub fn ended_before(&self, now_ns: u64) -> Option<u64> {
        let before = self.past(0, |day| day.end_ns <= now_ns);
        before.checked_sub(1).map(|index| self.days[index].end_ns)
    }

    /// Whom to thank for what holds now.
    pub fn source(&self, now_ns: u64) -> Source {
        match self.at(now_ns) {
            Phase::Unknown => Source::Packets,
            _ if self.rotating => Source::Rotation,
            _ => Source::Controller,
        }
    }

    /// Racks behind the switch, as the controller says.
    pub fn racks(&self) -> u8 {
        self.racks
    }
}

/// The day of the rotation after `before`: as long as the last that was announced, every rack to
/// the one as many further on as the day's number says.
fn rotated(before: &Day, last: &Day, racks: u8, night_ns: u64) -> Day {
    let number = before.number.wrapping_add(1);
    let shift = 1 + (number % u32::from(racks - 1)) as u8;
    let begin_ns = before.end_ns + night_ns.max(1_000);
    let output = |input: usize| match u8::try_from(input) {
        Ok(input) if input < racks => (input + shift) % racks,
        _ => Announced::DARK,
    };
    let outputs = std::array::from_fn(output);
    Day { number, begin_ns, end_ns: begin_ns + (last.end_ns - last.begin_ns), outputs }
}

#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
