//! How a switch follows its controller, with frames lost, late, doubled and forged.

use super::*;
use crate::seal::{Keys, Sealer};
use proptest::prelude::*;

const DAY: u64 = 300_000;
const NIGHT: u64 = 11_500;
const START: u64 = 1_000_000_000;

fn begin(number: u32) -> u64 {
    START + u64::from(number) * (DAY + NIGHT)
}

fn said(frame: Frame) -> Heard {
    Heard { frame, source: [2, 0, 0, 0, 0, 1], sequence: 0, sealed: false }
}

fn sync(epoch: u32, first: u32, count: u32, sent_ns: u64) -> Heard {
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
    said(Frame::Sync { epoch, sent_ns, circuits: Circuits::Down, racks: 4, days })
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
    assert!(plan.counters().missed > 0, "the rotation's days were not announced");
}

/// From `sender`, every millisecond for `count` times from `at` on: the days that come.
fn speaks(plan: &mut Plan, sender: impl Fn(Frame) -> Heard, epoch: u32, at: u64, count: u64) {
    for step in 0..count {
        let now = at + step * 1_000_000;
        plan.turn(now);
        let first = ((now - START) / (DAY + NIGHT)) as u32;
        plan.hear(now, &sender(sync(epoch, first, 8, now).frame));
    }
}

#[test]
fn the_controller_may_come_back_with_another_epoch() {
    let mut plan = plan();
    plan.hear(START - 50_000, &sync(1, 0, 3, START - 50_000));
    plan.turn(begin(3));
    let back = START + 300_000_000;
    speaks(&mut plan, said, 2, back, 2);
    assert_eq!((plan.counters().stepped, plan.source(back)), (2, Source::Packets));
    speaks(&mut plan, said, 2, back + 2_000_000, 1);
    assert_eq!(plan.source(back + 3_000_000), Source::Controller);
}

/// Another run, or another card, as often as it likes: the one that is followed speaks.
#[test]
fn a_controller_that_speaks_is_not_left_for_another() {
    let mut plan = plan();
    let elsewhere = |frame| Heard { source: [2, 0, 0, 0, 0, 9], ..said(frame) };
    for step in 0..300 {
        let at = START + step * 1_000_000;
        speaks(&mut plan, said, 1, at, 1);
        (0..5).for_each(|_| speaks(&mut plan, said, 2, at, 1));
        (0..5).for_each(|_| speaks(&mut plan, elsewhere, 1, at, 1));
    }
    let counters = plan.counters();
    assert_eq!((counters.accepted, counters.stepped), (300, 3_000));
}

/// Days of darkness in the name of the controller, appended to what it said: they fall to its own
/// next words, whether they have begun meanwhile or not.
#[test]
fn a_forged_frame_does_not_keep_the_controllers_out() {
    for before in [0, 40] {
        let mut plan = plan();
        speaks(&mut plan, said, 1, START, 10);
        let (now, last) = (START + 9_000_000, *plan.days.back().expect("days"));
        let dark = |index: u32| Announced {
            number: last.number + 1 + index,
            duration_ns: 100_000_000,
            begin_ns: last.end_ns + 1_000 + u64::from(index) * 100_001_000,
            outputs: [Announced::DARK; RACKS_MAX],
        };
        let days = (0..20).map(dark).collect();
        let forged = Frame::Sync { epoch: 1, sent_ns: now, circuits: Circuits::Up, racks: 4, days };
        plan.hear(now, &Heard { sequence: u64::MAX, ..said(forged) });
        // The controller may have been held up for a while.
        let on = now + before * 1_000_000;
        speaks(&mut plan, said, 1, on, 4);
        for part in 1..20 {
            let phase = plan.at(on + 3_000_000 + part * 100_000);
            let (Phase::Day(day) | Phase::Night(day)) = phase else { panic!("{phase:?}") };
            assert_eq!((day.end_ns - day.begin_ns, day.begin_ns), (DAY, begin(day.number)));
        }
        assert_eq!(plan.counters().contradicting, 3, "after {before} ms");
    }
}

/// What somebody heard and says again is worth nothing, nor do gaps in the numbers matter.
#[test]
fn sealed_frames_are_believed_once() {
    let sealed = |sequence| move |frame| Heard { sequence, sealed: true, ..said(frame) };
    for clock in [Clock::Shared, Clock::Sync] {
        let mut plan = Plan::new(clock, 1_000_000);
        for (sequence, accepted) in [(7, 1), (7, 1), (6, 1), (9, 2), (8, 2)] {
            speaks(&mut plan, sealed(sequence), 1, START, 1);
            assert_eq!(plan.counters().accepted, accepted, "number {sequence}");
        }
        assert_eq!((plan.counters().replayed, plan.heard()), (3, 9));
        // A run of long ago is not new, however silent it is; one that began later is.
        speaks(&mut plan, sealed(5), 2, START + 400_000_000, 10);
        assert_eq!(plan.counters().accepted, 2);
        for step in 0..3 {
            let at = START + 420_000_000 + step * 1_000_000;
            speaks(&mut plan, sealed(20 + step), 3, at, 1);
        }
        assert_eq!((plan.counters().accepted, plan.heard()), (3, 22));
        // Who followed an unsealed speaker forgets its numbers with it.
        plan.follow_anew();
        speaks(&mut plan, sealed(1), 4, START + 430_000_000, 1);
        assert_eq!(plan.heard(), 1);
    }
}

#[test]
fn a_clock_that_steps_is_believed_when_it_goes_on() {
    let mut plan = Plan::new(Clock::Sync, 1_000_000);
    plan.hear(START, &sync(1, 0, 6, START - 7_000));
    assert!(matches!(plan.at(begin(1) + 7_000), Phase::Day(day) if day.number == 1));
    // The controller's clock jumps an hour ahead.
    let hour = 3_600_000_000_000;
    for step in 0..300u64 {
        let now = START + step * 1_000_000;
        let first = ((now - START) / (DAY + NIGHT)) as u32;
        let Frame::Sync { mut days, .. } = sync(1, first, 8, 0).frame else { unreachable!() };
        days.iter_mut().for_each(|day| day.begin_ns += hour);
        days.iter_mut().for_each(|day| day.number += 50);
        let (circuits, sent_ns) = (Circuits::Up, now + hour);
        plan.hear(now, &said(Frame::Sync { epoch: 1, sent_ns, circuits, racks: 4, days }));
    }
    assert_eq!(plan.counters().stepped, 251, "until a quarter of a second has passed");
    let now = START + 300_000_000;
    let number = 50 + ((now - START) / (DAY + NIGHT)) as u32;
    assert!(
        matches!(plan.at(now), Phase::Day(day) | Phase::Night(day) if day.number.abs_diff(number) <= 1)
    );
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
            let (keys, mut sealer) = (Keys::default(), Sealer::new(Keys::default(), 0));
            let len = crate::sync::write(&frame, [2, 0, 0, 0, 0, 1], &mut sealer, &mut buffer);
            plan.hear(now, &crate::sync::read(&buffer[..len], &keys).expect("well-formed"));
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
