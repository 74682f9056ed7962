//! What a latency budget promises, whatever the policy that has it.

use std::time::Duration;

use crate::plant::Router;
use ebb_control::policies::{Patience, Patient, Settings};
use ebb_control::{Idle, Limits, Observation, RouterPolicy, drive, policies};
use ebb_units::Time;
use proptest::prelude::*;

const ONE: Limits = Limits { cores: 1, frequencies: 1 };

fn settings(latency_budget_us: u32) -> Settings {
    Settings { latency_budget_us, ..Settings::default() }
}

fn patient(name: &str, limits: Limits, settings: &Settings) -> Box<RouterPolicy> {
    Patient::with(policies::named(name, limits, settings).expect("known"), settings)
}

/// What a worker does that finds `packets` every `gap` and nothing behind them, in the end.
fn settled(budget_us: u32, packets: u32, gap: Duration, seen: Observation) -> Idle {
    let mut policy = patient("napi", ONE, &settings(budget_us));
    let mut now = Time::from_secs_f64(1.0);
    let mut idle = Idle::Poll;
    for _ in 0..200 {
        idle = policy.decide(now, &Observation { received: packets, ..seen }).idle;
        now += gap;
    }
    idle
}

fn nanos(idle: Idle) -> u32 {
    let Idle::Gather { nanos } = idle else { panic!("{idle:?}") };
    nanos
}

#[test]
fn patience_follows_rate_cost_lateness_and_room() {
    let plain = Observation { room: 2048, ..Observation::default() };
    let gap = Duration::from_micros(200);
    assert_eq!(nanos(settled(200, 20, gap, plain)), 200_000);
    assert_eq!(settled(200, 3, gap * 2, plain), Idle::Halt, "rarer than two in a budget");
    assert_eq!(nanos(settled(200, 5, gap * 2, plain)), 200_000);
    assert_eq!(settled(0, 20, gap, plain), Idle::Halt, "no budget");
    let late = Observation { late_nanos: 60_000, ..plain };
    assert_eq!(nanos(settled(200, 20, gap, late)), 140_000);
    let paused = Observation { late_nanos: 30_000_000, ..plain };
    assert_eq!(nanos(settled(200, 20, gap, paused)), 100_000, "a pause is not for ever");
    let cheap = Observation { wake_nanos: 1_000, ..plain };
    assert_eq!(nanos(settled(200, 20, gap, cheap)), 50_000, "2 % of the time for waking");
    let crowded = Observation { room: 256, ..plain };
    // 64 packets are a quarter of the ring: 64 of 128 in 200 us.
    assert_eq!(nanos(settled(200, 128, gap, crowded)), 100_000);
    let tiny = Observation { room: 8, ..plain };
    assert_eq!(settled(200, 128, gap, tiny), Idle::Halt, "a timer alone takes longer");
}

/// Where the kernel lets packets gather the same holds, but for a ring that is half full instead of a
/// quarter, and but for sleeps that begin short: nothing has to be tried out.
#[test]
fn a_moderation_follows_the_same() {
    let after_work = |work, budget: u64, packets, seen: Observation| {
        let mut patience = Patience::new(Duration::from_micros(budget));
        let gap = Duration::from_micros(200);
        for turn in 0..400 {
            patience.rest_moderated();
            let seen = Observation { received: packets, ..seen };
            patience.observe(Time::from_secs_f64(1.0) + gap * turn, &seen);
        }
        patience.moderation(&seen, Duration::from_micros(work)).map(|span| span.as_micros())
    };
    let moderation = |budget, packets, seen| after_work(0, budget, packets, seen);
    let plain = Observation { room: 2048, ..Observation::default() };
    assert_eq!(moderation(200, 20, plain), Some(200));
    assert_eq!(after_work(50, 200, 20, plain), Some(250), "it would wait for the work anyway");
    assert_eq!(after_work(5_000, 200, 20, plain), Some(400), "it was not let run");
    assert_eq!(moderation(200, 1, plain), None, "rarer than two in a budget");
    assert_eq!(moderation(200, 3, plain), Some(200), "it goes on with two");
    assert_eq!(moderation(0, 20, plain), None, "no budget");
    let late = Observation { late_nanos: 60_000, ..plain };
    assert_eq!(moderation(200, 20, late), Some(200), "the kernel's timer is not the worker's");
    // 128 packets are half of the queue: 128 of 256 in 200 us.
    assert_eq!(moderation(200, 256, Observation { room: 256, ..plain }), Some(100));
    assert_eq!(moderation(200, 256, Observation { room: 8, ..plain }), None, "too soon full");
}

/// Around the rate from which on it is worth it, chance must not switch it to and fro.
#[test]
fn a_moderation_begins_later_than_it_ends() {
    let (mut patience, mut now) =
        (Patience::new(Duration::from_micros(200)), Time::from_secs_f64(1.0));
    let mut begins = |received| {
        let mut last = None;
        for _ in 0..100 {
            let seen = Observation { received, room: 256, ..Observation::default() };
            now += Duration::from_micros(200);
            patience.observe(now, &seen);
            last = patience.moderation(&seen, Duration::ZERO);
            match last {
                Some(_) => patience.rest_moderated(),
                None => _ = patience.rest(&seen),
            }
        }
        last.is_some()
    };
    let seen: Vec<bool> = [1, 3, 5, 3, 1, 3].into_iter().map(&mut begins).collect();
    assert_eq!(seen, [false, false, true, true, false, false]);
}

#[test]
fn after_a_sleep_in_vain_it_waits_for_a_packet() {
    let mut policy = patient("napi", ONE, &settings(200));
    let mut now = Time::from_secs_f64(1.0);
    let mut at = |received| {
        now += Duration::from_micros(200);
        policy.decide(now, &Observation { received, ..Observation::default() }).idle
    };
    (0..50).for_each(|_| _ = at(20));
    assert!(matches!(at(20), Idle::Gather { .. }));
    assert_eq!(at(0), Idle::Halt);
    assert!(matches!(at(20), Idle::Gather { .. }));
}

/// A core at half load is not short of capacity because packets gathered.
#[test]
fn what_gathered_is_no_reason_for_a_core() {
    let limits = Limits { cores: 4, frequencies: 1 };
    let mut router = Router::new(limits, 0.6e6);
    let mut policy = patient("powersave", limits, &settings(300));
    drive(&mut *policy, &mut router, Time::from_secs_f64(1.0)).expect("infallible");
    assert!(router.changes.is_empty(), "{:?}", router.changes);
    assert_eq!(router.lost, 0.0);
    router.load = 1.7e6;
    drive(&mut *policy, &mut router, Time::from_secs_f64(2.0)).expect("infallible");
    assert!(router.point.cores >= 2, "more than one core carries: {:?}", router.changes);
}

/// Nor because a worker was not let run, now and then by the machine or always by a quota, as long as the core
/// carries its load all the same; where it does not, that is seen.
#[test]
fn what_came_while_a_worker_was_held_is_no_reason_for_a_core() {
    let limits = Limits { cores: 4, frequencies: 1 };
    // How often, how long, and a share of the core that the worker has left.
    for (every, length, left) in [(0.5, 0.002, 0.99), (0.05, 0.002, 0.96), (0.005, 0.004, 0.2)] {
        let cores = |load: f64| {
            let mut router = Router::new(limits, load);
            router.pauses = Some((every, length));
            let mut policy = patient("powersave", limits, &settings(200));
            drive(&mut *policy, &mut router, Time::from_secs_f64(2.0)).expect("infallible");
            (router.changes.len(), router.point.cores, router.lost)
        };
        let half = cores(0.45e6 * left);
        assert_eq!(half, (0, 1, 0.0), "held for {length} s every {every} s, half loaded");
        let (_, last, lost) = cores(1.3e6 * left);
        assert!(last >= 2 && lost == 0.0, "held for {length} s every {every} s: {last}, {lost}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Below capacity nothing is lost and no sleep exceeds the budget, bursts or not.
    #[test]
    fn never_longer_than_the_budget_and_the_ring_never_overflows(
        budget in 0u32..3_000,
        load in 1e3f64..0.95e6,
        burst in 1u32..128,
        name in prop::sample::select(vec!["poll", "napi", "powersave", "model"]),
    ) {
        let mut router = Router::new(ONE, load);
        router.burst = f64::from(burst);
        let mut policy = patient(name, ONE, &settings(budget));
        drive(&mut *policy, &mut router, Time::from_secs_f64(0.2)).expect("infallible");
        prop_assert!(router.gathered_max <= budget * 1000);
        prop_assert_eq!(router.lost, 0.0);
    }

    /// Patience saves wake-ups, and never adds any to speak of.
    #[test]
    fn it_wakes_less_often(load in 2e4f64..5e5) {
        let sleeps = |budget| {
            let mut router = Router::new(ONE, load);
            let mut policy = patient("napi", ONE, &settings(budget));
            drive(&mut *policy, &mut router, Time::from_secs_f64(0.2)).expect("infallible");
            router.sleeps
        };
        let (patient, hasty) = (sleeps(200), sleeps(0));
        prop_assert!(patient <= hasty && patient <= 1_100, "{} {}", patient, hasty);
    }
}
