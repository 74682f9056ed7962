//! The policy `model` in a closed loop with a small router: what it chooses, that it keeps enough
//! capacity, that it calms down, and that it survives what no estimate foresees.

use core::convert::Infallible;
use core::time::Duration;

use crate::plant::Router;
use ebb_control::policies::{Model, PointCost, Points, Settings};
use ebb_control::{Action, Limits, Observation, OperatingPoint, Plant, Policy, drive};
use ebb_units::{Joules, PacketsPerSecond, Time, Watts};
use proptest::prelude::*;

/// The small router with all its workers deciding in turn, as the live one's do.
struct Workers(Router);

impl Plant for Workers {
    type Observation = Observation;
    type Action = Action;
    type Error = Infallible;

    fn now(&self) -> Time {
        self.0.now()
    }

    fn observe(&mut self) -> Observation {
        let seen = self.0.observe();
        Observation { received: seen.received * u32::from(self.0.point.cores), ..seen }
    }

    fn apply(&mut self, action: &Action) -> Result<(), Infallible> {
        self.0.apply(action)
    }

    fn run_until(&mut self, until: Time) -> Result<(), Infallible> {
        self.0.run_until(until)
    }

    fn energy(&mut self) -> Result<Joules, Infallible> {
        self.0.energy()
    }
}

/// The small router's capacities, 2 W a core asleep and 4 to 11 W more awake.
fn points(limits: Limits) -> Points {
    let router = Router::new(limits, 0.0);
    let all = (1..=limits.cores).flat_map(|cores| (0..limits.frequencies).map(move |f| (cores, f)));
    let points = all.map(|(cores, frequency)| {
        let share = f64::from(frequency) / f64::from(limits.frequencies.max(2) - 1);
        let (cores_f, active) = (f64::from(cores), 4.0 + 7.0 * share);
        PointCost {
            cores,
            frequency,
            capacity: PacketsPerSecond(cores_f * router.core_rate(frequency)),
            idle: Watts(100.0 + 2.0 * cores_f),
            full: Watts(100.0 + (2.0 + active) * cores_f),
        }
    });
    Points::new(points.collect(), Joules(0.001)).expect("good points")
}

fn capacity(router: &Router, point: OperatingPoint) -> f64 {
    f64::from(point.cores) * router.core_rate(point.frequency)
}

fn under_load(limits: Limits, load: f64, settings: &Settings) -> (Workers, Model) {
    let router = Workers(Router::new(limits, load));
    (router, Model::new(limits, settings, &points(limits)))
}

fn run(policy: &mut Model, router: &mut Workers, until: f64) {
    drive(policy, router, Time::from_secs_f64(until)).expect("infallible");
}

#[test]
fn a_day_in_small() {
    let limits = Limits { cores: 4, frequencies: 3 };
    let (mut router, mut policy) = under_load(limits, 0.2e6, &Settings::default());
    let mut lines = String::new();
    let loads = [0.2, 0.7, 1.1, 2.4, 3.0, 5.5, 6.6, 4.0, 1.0, 0.0];
    for (hour, load) in loads.into_iter().enumerate() {
        router.0.load = load * 1e6;
        run(&mut policy, &mut router, 0.5 * (hour + 1) as f64);
        let OperatingPoint { cores, frequency, .. } = router.0.point;
        lines += &format!("{load:.1} Mpps: {cores} cores at {frequency}\n");
    }
    assert_eq!(
        lines,
        "0.2 Mpps: 1 cores at 0\n\
         0.7 Mpps: 1 cores at 0\n\
         1.1 Mpps: 2 cores at 0\n\
         2.4 Mpps: 3 cores at 0\n\
         3.0 Mpps: 4 cores at 0\n\
         5.5 Mpps: 4 cores at 2\n\
         6.6 Mpps: 4 cores at 2\n\
         4.0 Mpps: 4 cores at 1\n\
         1.0 Mpps: 1 cores at 1\n\
         0.0 Mpps: 1 cores at 1\n"
    );
    assert_eq!(router.0.lost, 0.0);
    run(&mut policy, &mut router, 10.0);
    assert_eq!(policy.next_at(), None, "an idle router has no timer");
}

#[test]
fn a_sudden_rise_from_silence_to_everything_is_carried() {
    let limits = Limits { cores: 12, frequencies: 14 };
    let (mut router, mut policy) = under_load(limits, 0.0, &Settings::default());
    run(&mut policy, &mut router, 1.0);
    assert_eq!((router.0.point.cores, router.0.point.frequency), (1, 0));
    router.0.load = 16e6;
    let steps = router.0.changes.len();
    run(&mut policy, &mut router, 1.02);
    let up = &router.0.changes[steps..];
    assert!(capacity(&router.0, router.0.point) > 16e6, "{up:?}");
    let took =
        up.iter().find(|(_, point)| capacity(&router.0, *point) > 16e6).expect("got there").0;
    let took = took - Time::from_secs_f64(1.0);
    // One core is given 16 packets a microsecond: its ring is full after 128 µs, whatever happens.
    assert!(took < Duration::from_millis(1), "{took:?}");
    let lost = router.0.lost;
    run(&mut policy, &mut router, 1.5);
    assert_eq!(router.0.lost, lost, "nothing is lost once there is capacity");
}

#[test]
fn a_model_that_promises_too_much_is_corrected_by_the_queues() {
    let limits = Limits { cores: 4, frequencies: 1 };
    let mut router = Workers(Router::new(limits, 1.5e6));
    let boast = points(limits)
        .iter()
        .map(|point| PointCost { capacity: PacketsPerSecond(point.capacity.0 * 3.0), ..*point })
        .collect();
    let boast = Points::new(boast, Joules(0.0)).expect("good points");
    let mut policy = Model::new(limits, &Settings::default(), &boast);
    run(&mut policy, &mut router, 20.0);
    let mut starved = Duration::ZERO;
    for pair in router.0.changes.windows(2) {
        if capacity(&router.0, pair[0].1) < 1.5e6 {
            starved += pair[1].0 - pair[0].0;
        }
    }
    assert!(starved < Duration::from_millis(30), "{starved:?} of 20 s");
    let changes = router.0.changes.len();
    assert!(changes <= 40, "{changes} changes");
}

#[test]
fn waking_is_weighed_against_what_sleep_saves() {
    let limits = Limits { cores: 2, frequencies: 1 };
    let dear = points(limits).iter().copied().collect();
    // Two cores draw 2 W more than one at no load: 3 J are paid back after 1.5 s.
    let dear = Points::new(dear, Joules(3.0)).expect("good points");
    let mut policy = Model::new(limits, &Settings::default(), &dear);
    let mut router = Workers(Router::new(limits, 0.0));
    run(&mut policy, &mut router, 1.4);
    assert_eq!(policy.point().cores, 2);
    run(&mut policy, &mut router, 1.6);
    assert_eq!(policy.point().cores, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    /// Under constant load: enough capacity, nothing lost, the cheapest point with headroom and
    /// hysteresis, and soon no more changes.
    #[test]
    fn settles_under_constant_load(
        cores in 1..=12u16,
        frequencies in 1..=14u16,
        share in 0.0..0.8f64,
    ) {
        let limits = Limits { cores, frequencies };
        let all = points(limits);
        let load = share * all.largest().capacity.0;
        let (mut router, mut policy) = under_load(limits, load, &Settings::default());
        router.0.point = limits.top(ebb_control::IdleDepth::Shallow);
        run(&mut policy, &mut router, 0.3);
        let settled = router.0.changes.len();
        run(&mut policy, &mut router, 1.0);
        prop_assert!(router.0.changes.len() <= settled, "{:?}", router.0.changes);
        prop_assert!(settled <= 4, "{:?}", router.0.changes);
        prop_assert_eq!(router.0.lost, 0.0);
        prop_assert!(capacity(&router.0, router.0.point) >= load);
        let at = PacketsPerSecond(load);
        let modest = all.cheapest_for(at, PacketsPerSecond(load * 1.2 * 1.1 * 1.02));
        prop_assert!(policy.point().watts(at).0 <= modest.watts(at).0 + 1e-9);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is seen whenever: a point of the table, asleep only with an empty queue, never
    /// asking for a time that has passed, never less capacity in answer to a long queue.
    #[test]
    fn invariants(
        cores in 1..=5u16,
        frequencies in 1..=4u16,
        steps in prop::collection::vec(
            (prop_oneof![Just(0), Just(32), Just(33), 0..5000u32], 0..2000u32, 0..30_000_000u64),
            1..400,
        ),
    ) {
        let limits = Limits { cores, frequencies };
        let settings = Settings::default();
        let all = points(limits);
        let mut policy = Model::new(limits, &settings, &all);
        let mut now = Time::ZERO;
        for (queue_len, received, pause) in steps {
            now += Duration::from_nanos(pause);
            let before = *policy.point();
            let rest = Observation::default();
            let seen = Observation { queue_len, own_queue_len: queue_len, received, ..rest };
            let Action { point, idle } = policy.decide(now, &seen);
            let chosen = *policy.point();
            prop_assert_eq!((point.cores, point.frequency), (chosen.cores, chosen.frequency));
            prop_assert!(all.iter().any(|known| *known == chosen));
            prop_assert_eq!(idle == ebb_control::Idle::Halt, queue_len == 0);
            if queue_len > settings.queue_high {
                prop_assert!(chosen.capacity.0 >= before.capacity.0);
            }
            prop_assert!(policy.next_at().is_none_or(|next| next > now));
        }
    }
}
