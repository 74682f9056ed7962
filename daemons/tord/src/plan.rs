//! Which circuits stand when, as one end of them knows it from sync frames.
//!
//! A state machine without a clock: what the controller announced, what is made of announcements
//! that are late, doubled, out of order or from a clock that stepped, and what holds when none come
//! any more: first a fixed rotation that everybody computes alike from the last day they know,
//! then nothing, and racks use the packet path.

use std::collections::VecDeque;

use crate::sync::{Announced, Circuits, Frame, RACKS_MAX};

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
    /// Days that no frame announced before they began.
    pub missed: u64,
    /// Frames that contradict what was announced before; the first word stands.
    pub contradicting: u64,
    /// Frames from another controller while one is followed, or with a clock far off.
    pub stepped: u64,
    /// Frames that are malformed.
    pub malformed: u64,
}

/// How a clock relates to the controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// It is the same, or kept the same by PTP.
    Shared,
    /// Only sync frames relate them: the least delay of the recent ones is taken for none.
    Sync,
}

/// How far ahead of now a day may be announced, ns; also how far off a clock may seem.
const HORIZON_NS: u64 = 2_000_000_000;
/// How long days are remembered after they ended, ns: frames may be looked at late.
const MEMORY_NS: u64 = 500_000_000;
/// Frames in a row from another controller or clock until it is believed.
const STEPS_BELIEVED: u32 = 3;
/// Frames over which the least delay is taken.
const DELAYS: usize = 64;

/// What one end knows.
#[derive(Clone, Debug)]
pub struct Plan {
    clock: Clock,
    rotation_ns: u64,
    days: VecDeque<Day>,
    racks: u8,
    epoch: Option<u32>,
    strangers: u32,
    /// Differences between our clock and the controller's, of recent frames.
    offsets: VecDeque<i64>,
    /// The last day that the controller announced; the rotation continues it.
    last: Option<Day>,
    night_ns: u64,
    rotating: bool,
    counters: SyncCounters,
}

impl Plan {
    /// Knows nothing yet. `rotation_ns` is how long the fixed rotation holds after the last day
    /// that was announced.
    pub fn new(clock: Clock, rotation_ns: u64) -> Plan {
        Plan {
            clock,
            rotation_ns,
            days: VecDeque::new(),
            racks: 0,
            epoch: None,
            strangers: 0,
            offsets: VecDeque::new(),
            last: None,
            night_ns: 0,
            rotating: false,
            counters: SyncCounters::default(),
        }
    }

    /// What became of frames.
    pub fn counters(&self) -> SyncCounters {
        self.counters
    }

    /// Counts a frame that could not be read.
    pub fn malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// Takes note of a frame that came at `now_ns`; only those of a controller matter.
    pub fn hear(&mut self, now_ns: u64, frame: &Frame) {
        let Frame::Sync { epoch, sent_ns, racks, days, circuits: Circuits::Up | Circuits::Down } =
            frame
        else {
            return;
        };
        if !self.follows(now_ns, *epoch, *sent_ns) {
            return;
        }
        self.counters.accepted += 1;
        self.racks = *racks;
        let offset = self.offset(now_ns, *sent_ns);
        let mut fresh = false;
        let mut late = true;
        for announced in days {
            let begin_ns = announced.begin_ns.saturating_add_signed(offset);
            let day = Day {
                number: announced.number,
                begin_ns,
                end_ns: begin_ns + u64::from(announced.duration_ns),
                outputs: announced.outputs,
            };
            late &= day.end_ns <= now_ns;
            if day.begin_ns > now_ns + HORIZON_NS {
                continue;
            }
            fresh |= self.learn(now_ns, day);
        }
        if !fresh && late {
            self.counters.late += 1;
        } else if !fresh {
            self.counters.doubled += 1;
        }
    }

    /// Whether to believe the sender: the controller that is followed, the first one, or another
    /// that goes on while the old one is silent.
    fn follows(&mut self, now_ns: u64, epoch: u32, sent_ns: u64) -> bool {
        let offset = difference(now_ns, sent_ns);
        let known = self.offsets.iter().min();
        let steady = match self.clock {
            Clock::Shared => offset.unsigned_abs() < HORIZON_NS,
            Clock::Sync => known.is_none_or(|known| offset.abs_diff(*known) < HORIZON_NS / 8),
        };
        if self.epoch == Some(epoch) && steady {
            self.strangers = 0;
            return true;
        }
        if self.epoch.is_some() {
            self.counters.stepped += 1;
            self.strangers += 1;
            if self.strangers < STEPS_BELIEVED {
                return false;
            }
        }
        if self.clock == Clock::Shared && !steady {
            return false;
        }
        // What the old one promised for later does not hold any more.
        self.days.retain(|day| day.begin_ns <= now_ns);
        (self.epoch, self.strangers) = (Some(epoch), 0);
        self.offsets.clear();
        true
    }

    /// What to add to the controller's clock for ours.
    fn offset(&mut self, now_ns: u64, sent_ns: u64) -> i64 {
        if self.clock == Clock::Shared {
            return 0;
        }
        self.offsets.push_back(difference(now_ns, sent_ns));
        if self.offsets.len() > DELAYS {
            self.offsets.pop_front();
        }
        *self.offsets.iter().min().expect("one was just added")
    }

    /// Adds a day if it is new, and says so.
    fn learn(&mut self, now_ns: u64, day: Day) -> bool {
        if self.rotating && day.begin_ns > now_ns {
            // The controller is back: its word replaces the rotation's from its first day on.
            self.days.retain(|known| known.end_ns <= day.begin_ns);
            self.rotating = false;
        }
        if let Some(known) = self.days.iter().find(|known| known.number == day.number) {
            // With a clock that follows frames the same day moves a little.
            let moved = known.begin_ns.abs_diff(day.begin_ns) > 1_000_000;
            self.counters.contradicting += u64::from(known.outputs != day.outputs || moved);
            return false;
        }
        let Some(last) = self.days.back() else {
            self.counters.days += 1;
            self.days.push_back(day);
            self.last = Some(day);
            return true;
        };
        if day.begin_ns < last.end_ns {
            self.counters.contradicting += u64::from(day.end_ns > now_ns);
            return false;
        }
        if day.begin_ns < now_ns {
            self.counters.missed += 1;
        }
        self.night_ns = day.begin_ns - last.end_ns;
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
            self.days.push_back(rotated(&newest, &last, self.racks, self.night_ns));
        }
    }

    /// What holds at `now_ns`.
    pub fn at(&self, now_ns: u64) -> Phase {
        let after = self.days.partition_point(|day| day.end_ns <= now_ns);
        match self.days.get(after) {
            Some(day) if day.begin_ns <= now_ns => Phase::Day(*day),
            Some(day) => Phase::Night(*day),
            None => Phase::Unknown,
        }
    }

    /// When the last day before `now_ns` ended, if one is known.
    pub fn ended_before(&self, now_ns: u64) -> Option<u64> {
        let before = self.days.partition_point(|day| day.end_ns <= now_ns);
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

/// How far our clock is ahead of another; another's may show anything.
fn difference(now_ns: u64, sent_ns: u64) -> i64 {
    now_ns.wrapping_sub(sent_ns) as i64
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 300_000;
    const NIGHT: u64 = 11_500;
    const START: u64 = 1_000_000_000;

    fn begin(number: u32) -> u64 {
        START + u64::from(number) * (DAY + NIGHT)
    }

    fn sync(epoch: u32, first: u32, count: u32, sent_ns: u64) -> Frame {
        let day = |number: u32| Announced {
            number,
            duration_ns: DAY as u32,
            begin_ns: begin(number),
            outputs: std::array::from_fn(|input| match input as u8 {
                input @ 0..4 => (input + 1 + (number % 3) as u8) % 4,
                _ => Announced::DARK,
            }),
        };
        let days = (first..first + count).map(day).collect();
        Frame::Sync { epoch, sent_ns, circuits: Circuits::Down, racks: 4, days }
    }

    fn plan() -> Plan {
        Plan::new(Clock::Shared, 1_000_000)
    }

    #[test]
    fn days_and_nights_come_as_announced() {
        let mut plan = plan();
        assert_eq!(plan.at(START), Phase::Unknown);
        plan.hear(START - 50_000, &sync(1, 0, 3, START - 50_000));
        assert!(matches!(plan.at(START - 1), Phase::Night(day) if day.number == 0));
        assert!(matches!(plan.at(START), Phase::Day(day) if day.number == 0));
        assert!(matches!(plan.at(START + DAY), Phase::Night(day) if day.number == 1));
        assert!(matches!(plan.at(begin(2) + DAY - 1), Phase::Day(day) if day.number == 2));
    }

    /// Lost, late, doubled and reordered: the days are the same as without.
    #[test]
    fn frames_that_go_astray_change_nothing() {
        let mut plan = plan();
        for (at, first) in [(0, 0), (0, 0), (3, 3), (2, 1), (5, 5), (4, 2), (9, 9)] {
            let now = begin(at) - 50_000;
            plan.hear(now, &sync(1, first, 6, now));
        }
        for number in 9..15 {
            assert!(matches!(plan.at(begin(number)), Phase::Day(day) if day.number == number));
        }
        let counters = plan.counters();
        assert!(counters.doubled >= 2 && counters.contradicting == 0, "{counters:?}");
    }

    #[test]
    fn a_silent_controller_leaves_a_rotation_and_then_nothing() {
        let mut plan = plan();
        plan.hear(START - 50_000, &sync(1, 0, 3, START - 50_000));
        let mut seen = Vec::new();
        let mut now = START;
        while now < begin(12) {
            plan.turn(now);
            let source = plan.source(now);
            if seen.last() != Some(&source) {
                seen.push(source);
            }
            if let (Source::Rotation, Phase::Day(day)) = (source, plan.at(now)) {
                assert_eq!(day.begin_ns, begin(day.number), "days go on in step");
                let mut outputs = day.outputs[..4].to_vec();
                outputs.sort_unstable();
                assert_eq!(outputs, [0, 1, 2, 3]);
            }
            now += 10_000;
        }
        assert_eq!(seen, [Source::Controller, Source::Rotation, Source::Packets]);
    }

    #[test]
    fn the_controller_may_come_back_with_another_epoch() {
        let mut plan = plan();
        plan.hear(START - 50_000, &sync(1, 0, 3, START - 50_000));
        plan.turn(begin(3));
        for frame in 0..4 {
            let now = begin(5 + frame) - 50_000;
            plan.turn(now);
            plan.hear(now, &sync(2, 100 + frame, 6, now));
        }
        assert!(plan.counters().stepped >= 2);
    }

    #[test]
    fn a_clock_that_steps_is_believed_after_three_frames() {
        let mut plan = Plan::new(Clock::Sync, 1_000_000);
        plan.hear(START, &sync(1, 0, 6, START - 7_000));
        assert!(matches!(plan.at(begin(1) + 7_000), Phase::Day(day) if day.number == 1));
        // The controller's clock jumps an hour ahead.
        let hour = 3_600_000_000_000;
        for step in 1..=3u32 {
            let Frame::Sync { days, .. } = sync(1, 0, 6, 0) else { unreachable!() };
            let moved = days.into_iter().map(|day| Announced {
                number: day.number + 50,
                begin_ns: day.begin_ns + hour,
                ..day
            });
            let now = START + u64::from(step) * 1_000;
            let frame = Frame::Sync {
                epoch: 1,
                sent_ns: now + hour,
                circuits: Circuits::Up,
                racks: 4,
                days: moved.collect(),
            };
            plan.hear(now, &frame);
        }
        assert_eq!(plan.counters().stepped, 3);
        assert!(matches!(plan.at(begin(1)), Phase::Day(day) if day.number == 51));
    }

    /// A day's number, length and distance from the one before, and where it leads.
    fn any_days() -> impl Strategy<Value = Vec<(u32, u32, u8)>> {
        let day = (1_000u32..1_000_000, 0u32..1_000_000, any::<u8>());
        proptest::collection::vec(day, 1..24)
    }

    /// A time as a sender in its right mind would name it, or any.
    fn any_time() -> impl Strategy<Value = u64> {
        prop_oneof![3 => START - 1_000_000..START + 50_000_000, 1 => 0..u64::MAX / 4 - 1]
    }

    proptest! {
        /// Frames that are well-formed and say anything at all, from clocks that show anything: days
        /// that are kept never overlap, what holds now does hold now, and nothing takes long.
        #[test]
        fn whatever_is_announced_days_stay_in_order(
            clock in prop_oneof![Just(Clock::Shared), Just(Clock::Sync)],
            frames in proptest::collection::vec(
                (0u32..3, prop_oneof![3 => Just(None), 1 => any::<u64>().prop_map(Some)],
                 2u8..=16, any::<u32>(), any_time(), any_days(), 0u64..30_000_000),
                1..20,
            ),
        ) {
            let mut plan = Plan::new(clock, 1_000_000);
            let mut now = START;
            for (epoch, sent, racks, first, begin, days, step) in frames {
                now += step;
                let mut begin_ns = begin;
                let days = days.into_iter().enumerate().map(|(index, (duration_ns, gap, shift))| {
                    let day = Announced {
                        number: first.wrapping_add(index as u32),
                        duration_ns,
                        begin_ns,
                        outputs: std::array::from_fn(|input| match input as u8 {
                            input if input < racks => (input + shift % racks) % racks,
                            _ => Announced::DARK,
                        }),
                    };
                    begin_ns += u64::from(duration_ns) + u64::from(gap);
                    day
                });
                let sent_ns = sent.unwrap_or(now);
                let frame = Frame::Sync { epoch, sent_ns, circuits: Circuits::Up, racks, days: days.collect() };
                let mut buffer = [0; 1024];
                let len = crate::sync::write(&frame, [2, 0, 0, 0, 0, 1], &mut buffer);
                plan.hear(now, &crate::sync::read(&buffer[..len]).expect("well-formed"));
                plan.turn(now);
                for pair in plan.days.iter().zip(plan.days.iter().skip(1)) {
                    prop_assert!(pair.0.end_ns <= pair.1.begin_ns, "{:?}", plan);
                }
                match plan.at(now) {
                    Phase::Day(day) => prop_assert!(day.begin_ns <= now && now < day.end_ns),
                    Phase::Night(day) => prop_assert!(now < day.begin_ns),
                    Phase::Unknown => {}
                }
            }
        }

        /// Whatever comes in whatever order: days never overlap, and each is a matching.
        #[test]
        fn days_never_overlap(events in proptest::collection::vec((0u32..3, 0u32..40, 1u32..8, 0u64..20_000_000), 1..60)) {
            let mut plan = plan();
            let mut now = START - 100_000;
            for (epoch, first, count, step) in events {
                now += step;
                plan.hear(now, &sync(epoch, first, count, now));
                plan.turn(now);
                for pair in plan.days.iter().zip(plan.days.iter().skip(1)) {
                    prop_assert!(pair.0.end_ns <= pair.1.begin_ns);
                }
            }
        }
    }
}
