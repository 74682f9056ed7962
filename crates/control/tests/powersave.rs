//! The adaptation algorithm: its pseudocode step by step, its invariants, and its behaviour in a
//! closed loop with a small router.

use core::time::Duration;

use crate::plant::Router;
use ebb_control::policies::{PowerSave, Settings};
use ebb_control::{Action, Idle, IdleDepth, Limits, Observation, Policy, drive};
use ebb_units::Time;
use proptest::prelude::*;

fn waiting(queue_len: u32) -> Observation {
    Observation { queue_len, own_queue_len: queue_len, received: 64, ..Observation::default() }
}

/// Niccolini et al. 2012, section 6.1, with c_up = 2 and c_down = 3 on two cores with two
/// frequencies: every branch, its counters, and what follows.
#[test]
fn the_pseudocode_step_by_step() {
    let settings =
        Settings { count_up: 2, count_down: 3, as_published: true, ..Settings::default() };
    let mut policy = PowerSave::new(Limits { cores: 2, frequencies: 2 }, &settings);
    type Step = (u32, (u32, u32), (u16, u16), &'static str);
    let table: &[Step] = &[
        // qlen, (c_h, c_l), (cores, frequency) afterwards
        (0, (0, 1), (1, 0), "below q_l counts even at the lowest point"),
        (3, (0, 2), (1, 0), "3 < q_l"),
        (4, (0, 0), (1, 0), "q_l itself is in the middle band, which resets"),
        (33, (1, 0), (1, 0), "33 > q_h"),
        (32, (0, 0), (1, 0), "q_h itself is in the middle band, which resets"),
        (33, (1, 0), (1, 0), ""),
        (99, (2, 0), (1, 0), "c_h = c_up is not yet above it"),
        (33, (0, 0), (2, 0), "c_h > c_up: one more core, counter reset"),
        (33, (1, 0), (2, 0), ""),
        (0, (0, 1), (2, 0), "low resets high"),
        (33, (1, 0), (2, 0), "high resets low"),
        (33, (2, 0), (2, 0), ""),
        (33, (0, 0), (2, 1), "all cores are on: next frequency"),
        (33, (1, 0), (2, 1), ""),
        (33, (2, 0), (2, 1), ""),
        (33, (0, 0), (2, 1), "nothing left to add, the counter is reset all the same"),
        (0, (0, 1), (2, 1), ""),
        (0, (0, 2), (2, 1), ""),
        (0, (0, 3), (2, 1), "c_l = c_down is not yet above it"),
        (0, (0, 0), (2, 0), "c_l > c_down: lower frequency first"),
        (0, (0, 1), (2, 0), ""),
        (0, (0, 2), (2, 0), ""),
        (16, (0, 0), (2, 0), "the middle band resets"),
        (0, (0, 1), (2, 0), ""),
        (0, (0, 2), (2, 0), ""),
        (0, (0, 3), (2, 0), ""),
        (0, (0, 0), (1, 0), "at the lowest frequency: one core fewer"),
        (0, (0, 1), (1, 0), ""),
        (0, (0, 2), (1, 0), ""),
        (0, (0, 3), (1, 0), ""),
        (0, (0, 0), (1, 0), "never less than one core at the lowest frequency"),
    ];
    for (step, (queue_len, counters, point, why)) in table.iter().enumerate() {
        let action = policy.decide(Time::from_nanos(step as u64), &waiting(*queue_len));
        assert_eq!(policy.counters(), *counters, "step {step}: {why}");
        assert_eq!((action.point.cores, action.point.frequency), *point, "step {step}: {why}");
        assert_eq!(action.point.depth, IdleDepth::Shallow);
        let halts = *queue_len == 0;
        assert_eq!(action.idle, if halts { Idle::Halt } else { Idle::Poll }, "step {step}");
    }
}

#[test]
fn a_core_halts_for_its_own_queue_while_the_longest_decides() {
    let settings = Settings { count_up: 0, ..Settings::default() };
    let mut policy = PowerSave::new(Limits { cores: 2, frequencies: 1 }, &settings);
    let seen = Observation { queue_len: 100, received: 1, ..Observation::default() };
    let action = policy.decide(Time::ZERO, &seen);
    assert_eq!((action.idle, action.point.cores), (Idle::Halt, 2));
}

#[test]
fn in_silence_it_comes_down_and_then_asks_for_nothing() {
    let settings = Settings::default();
    let mut router = Router::new(Limits { cores: 12, frequencies: 14 }, 14e6);
    let mut policy = PowerSave::new(router.limits, &settings);
    drive(&mut policy, &mut router, Time::from_secs_f64(0.5)).expect("infallible");
    assert!(router.rung() > 10, "the load needs more than ten cores");
    router.load = 0.0;
    let steps = router.changes.len();
    drive(&mut policy, &mut router, Time::from_secs_f64(60.0)).expect("infallible");
    assert_eq!(router.rung(), 0);
    assert_eq!(policy.next_at(), None);
    let down = &router.changes[steps..];
    let samples = u64::from(settings.count_down) + 2;
    let each = Duration::from_millis(samples.max(u64::from(settings.hold_ms) + 1));
    let backed_off = Duration::from_millis(u64::from(settings.hold_max_ms));
    let took = down.last().expect("came down").0 - Time::from_secs_f64(0.5);
    assert!(took <= each * down.len() as u32 + backed_off, "{took:?}");
    let samples = router.observations;
    drive(&mut policy, &mut router, Time::from_secs_f64(120.0)).expect("infallible");
    assert_eq!(router.observations, samples + 1, "an idle router takes no samples");
}

/// Low until the policy gives a core up; how long that took.
fn until_lower(policy: &mut PowerSave, now: &mut Time) -> Duration {
    let (began, before) = (*now, policy.decide(*now, &waiting(0)).point);
    while policy.decide(*now, &waiting(0)).point == before {
        *now += Duration::from_millis(1);
    }
    *now - began
}

/// High until the policy takes a core more.
fn until_higher(policy: &mut PowerSave, now: &mut Time) {
    let before = policy.decide(*now, &waiting(10)).point;
    while policy.decide(*now, &waiting(99)).point == before {
        *now += Duration::from_micros(50);
    }
}

#[test]
fn a_failed_step_waits_twice_as_long_each_time_until_one_leads_further_down() {
    let settings = Settings { hold_ms: 20, hold_max_ms: 100, ..Settings::default() };
    let mut policy = PowerSave::new(Limits { cores: 3, frequencies: 1 }, &settings);
    let mut now = Time::from_secs_f64(1.0);
    until_higher(&mut policy, &mut now);
    until_higher(&mut policy, &mut now);
    let mut waits = Vec::new();
    for _ in 0..5 {
        waits.push(until_lower(&mut policy, &mut now).as_millis());
        until_higher(&mut policy, &mut now);
    }
    assert_eq!(waits, [20, 40, 80, 100, 100]);
    assert_eq!(until_lower(&mut policy, &mut now).as_millis(), 100);
    assert_eq!(until_lower(&mut policy, &mut now).as_millis(), 100, "it must last as long");
    until_higher(&mut policy, &mut now);
    assert_eq!(until_lower(&mut policy, &mut now).as_millis(), 40, "a first failure again");
}

/// Five full batches per rung, plus what one queue takes to show.
#[test]
fn a_burst_is_answered_within_its_bound() {
    for load in [1.5e6, 5e6, 11e6, 18e6] {
        let mut router = Router::new(Limits { cores: 12, frequencies: 14 }, load);
        let mut policy = PowerSave::new(router.limits, &Settings::default());
        let needed = (0..=router.top()).find(|rung| router.capacity(*rung) > load).expect("fits");
        drive(&mut policy, &mut router, Time::from_secs_f64(0.05)).expect("infallible");
        let reached = router
            .changes
            .iter()
            .find(|(_, point)| point.cores - 1 + point.frequency >= needed)
            .expect("reached")
            .0;
        let per_rung = 5.0 * (64.0 / 1e6 + 1e-6);
        let fill = 96.0 / (load - 1e6) + 64e-6;
        let bound = f64::from(needed) * per_rung + fill;
        assert!(reached.as_secs_f64() <= bound, "{load}: {reached}, bound {bound} s");
    }
}

/// A queue that is a quarter full leaves no time for a core at a time, each of which takes as long
/// as the slowest worker's batch; the published algorithm knows no such thing.
#[test]
fn a_queue_about_to_overflow_doubles_the_cores_at_once() {
    let limits = Limits { cores: 12, frequencies: 3 };
    let points = |as_published| {
        let settings = Settings { as_published, ..Settings::default() };
        let mut policy = PowerSave::new(limits, &settings);
        let point = |step| policy.decide(Time::from_nanos(step), &waiting(513)).point;
        (0..6).map(point).map(|point| (point.cores, point.frequency)).collect::<Vec<_>>()
    };
    assert_eq!(points(false), [(2, 0), (4, 0), (8, 0), (12, 0), (12, 2), (12, 2)]);
    assert_eq!(points(true), [(1, 0), (1, 0), (1, 0), (1, 0), (2, 0), (2, 0)]);
}

/// Changes of direction in `changes` from `since` on.
fn reversals(router: &Router, since: Time) -> usize {
    let rungs: Vec<u16> = router
        .changes
        .iter()
        .filter(|(at, _)| *at >= since)
        .map(|(_, point)| point.cores + point.frequency)
        .collect();
    rungs.windows(3).filter(|run| (run[0] < run[1]) != (run[1] < run[2])).count()
}

fn under_constant_load(limits: Limits, share: f64, burst: f64, settings: &Settings) -> Router {
    let mut router = Router::new(limits, 0.0);
    router.load = router.capacity(router.top()) * share;
    router.burst = burst;
    let mut policy = PowerSave::new(limits, settings);
    drive(&mut policy, &mut router, Time::from_secs_f64(0.1)).expect("infallible");
    router.lost = 0.0;
    drive(&mut policy, &mut router, Time::from_secs_f64(4.0)).expect("infallible");
    router
}

#[test]
fn the_published_algorithm_does_oscillate() {
    let limits = Limits { cores: 4, frequencies: 1 };
    let published = Settings { as_published: true, ..Settings::default() };
    let router = under_constant_load(limits, 0.6, 1.0, &published);
    assert!(reversals(&router, Time::ZERO) > 100, "what the hold is for");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Under constant load, failed steps back off: few at first, then one per longest hold.
    #[test]
    fn no_flapping_and_no_loss_under_constant_load(
        cores in 1..=12u16,
        frequencies in 1..=14u16,
        share in 0.0..0.93f64,
        burst in prop_oneof![Just(1.0), Just(32.0)],
    ) {
        let settings = Settings { hold_ms: 25, hold_max_ms: 800, ..Settings::default() };
        let limits = Limits { cores, frequencies };
        let router = under_constant_load(limits, share, burst, &settings);
        let doublings = 5;
        let failures = doublings + 4_000 / 800;
        prop_assert!(
            reversals(&router, Time::ZERO) <= 2 * failures + 2,
            "{} reversals: {:?}", reversals(&router, Time::ZERO), router.changes
        );
        prop_assert_eq!(router.lost, 0.0);
        let needed = (0..=router.top()).find(|rung| router.capacity(*rung) > router.load);
        let spare = router.rung() - needed.expect("carried").min(router.rung());
        prop_assert!(burst > 1.0 || spare <= 2, "{} rungs more than needed", spare);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is seen whenever: within the limits, one rung at a time unless a queue is about to
    /// overflow, counters reset on change, never asking for a time that has passed.
    #[test]
    fn invariants(
        cores in 1..=5u16,
        frequencies in 1..=4u16,
        as_published: bool,
        count_up in 0..4u32,
        count_down in 0..6u32,
        hold_ms in 0..40u32,
        steps in prop::collection::vec(
            (prop_oneof![Just(0), Just(3), Just(4), Just(32), Just(33), 0..5000u32], 0..30_000_000u64),
            1..600,
        ),
    ) {
        let settings =
            Settings { count_up, count_down, hold_ms, as_published, ..Settings::default() };
        let limits = Limits { cores, frequencies };
        let mut policy = PowerSave::new(limits, &settings);
        let (mut now, mut before) = (Time::ZERO, 0);
        let mut last = (1, 0);
        for (queue_len, pause) in steps {
            now += Duration::from_nanos(pause);
            let Action { point, idle } = policy.decide(now, &waiting(queue_len));
            prop_assert!((1..=cores).contains(&point.cores) && point.frequency < frequencies);
            prop_assert!(point.frequency == 0 || point.cores == cores, "cores before frequency");
            let rung = point.cores - 1 + point.frequency;
            let surge = !as_published && queue_len > 16 * settings.queue_high;
            prop_assert!(rung.abs_diff(before) <= 1 || surge && rung > before);
            if (point.cores, point.frequency) != last {
                prop_assert_eq!(policy.counters(), (0, 0));
                prop_assert_eq!(rung > before, queue_len > settings.queue_high);
            }
            prop_assert_eq!(idle == Idle::Halt, queue_len == 0);
            match policy.next_at() {
                None => prop_assert_eq!(rung, 0),
                Some(next) => prop_assert!(rung > 0 && next > now),
            }
            (before, last) = (rung, (point.cores, point.frequency));
        }
    }
}
