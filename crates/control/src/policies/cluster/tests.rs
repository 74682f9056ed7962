//! What each cluster policy orders for a load.

use core::time::Duration;

use ebb_units::{Time, Watts};
use proptest::prelude::*;

use super::*;
use crate::Policy;
use crate::cluster::{ClusterSeen, ServerState};

fn server(capacity: f64, full: f64) -> Server {
    Server { capacity, full: Watts(full), idle: Watts(full), wake: Duration::from_secs(30) }
}

fn settings() -> ClusterSettings {
    ClusterSettings {
        headroom: 0.0,
        on_min_s: 60.0,
        patience_s: 20.0,
        ..ClusterSettings::default()
    }
}

fn seconds(at: u64) -> Time {
    Time::from_nanos(at * 1_000_000_000)
}

/// What a policy orders for each load, ten seconds apart, of servers that obey at once.
fn orders(policy: &mut ClusterPolicy, servers: usize, loads: &[f64]) -> Vec<Vec<bool>> {
    let mut states = vec![ServerState::Off; servers];
    let mut order = |(turn, load): (usize, &f64)| {
        let seen = ClusterSeen { load: *load, servers: states.clone() };
        let on = policy.decide(seconds(turn as u64 * 10), &seen);
        let state = |on: &bool| if *on { ServerState::On } else { ServerState::Off };
        states = on.iter().map(state).collect();
        on
    };
    loads.iter().enumerate().map(&mut order).collect()
}

fn counts(orders: &[Vec<bool>]) -> Vec<usize> {
    orders.iter().map(|on| on.iter().filter(|on| **on).count()).collect()
}

#[test]
fn the_registry_and_the_names_agree() {
    let servers = [server(10.0, 100.0)];
    for (name, help) in NAMES {
        let mut policy = named(name, &servers, settings()).expect(name);
        assert!(!help.is_empty() && !help.contains('\n'), "{name}");
        assert_eq!(orders(&mut *policy, 1, &[0.0]), [[true]], "{name}: one is always on");
    }
    let error = named("turbo", &servers, settings()).err().expect("unknown").to_string();
    assert!(error.ends_with("all, differential, optimum, predictive"), "{error}");
}

#[test]
fn more_at_once_and_less_one_by_one_after_patience() {
    let servers = [server(10.0, 100.0); 4];
    let mut policy = Differential::new(&servers, settings());
    let loads = [5.0, 35.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0];
    let orders = orders(&mut policy, 4, &loads);
    // Sixty seconds on at least; then one in a decision.
    assert_eq!(counts(&orders), [1, 4, 4, 4, 4, 4, 4, 4, 3, 2, 1, 1, 1]);
    assert!(orders[12][0], "the one that is on longest stays");
}

#[test]
fn a_spike_while_patient_begins_anew() {
    let servers = [server(10.0, 100.0); 2];
    let settings = ClusterSettings { on_min_s: 0.0, ..settings() };
    let mut policy = Differential::new(&servers, settings);
    let orders = orders(&mut policy, 2, &[15.0, 5.0, 5.0, 15.0, 5.0, 5.0, 5.0, 5.0]);
    assert_eq!(counts(&orders), [2, 2, 2, 2, 2, 2, 1, 1]);
}

#[test]
fn the_optimum_picks_another_set_and_differential_does_not() {
    // 10 for 100 W, 4 for 30 W each.
    let servers = [server(10.0, 100.0), server(4.0, 30.0), server(4.0, 30.0)];
    let settings = ClusterSettings { on_min_s: 0.0, patience_s: 0.0, ..settings() };
    let loads = [9.0, 7.0, 7.0, 3.0];
    let mut optimum = Optimum::new(&servers, settings);
    let chosen = orders(&mut optimum, 3, &loads);
    assert_eq!(chosen[2], [false, true, true]);
    assert_eq!(counts(&chosen), [1, 3, 2, 1], "the first goes once the others have come up");
}

#[test]
fn nobody_goes_before_those_that_take_over_have_come_up() {
    let servers = [server(10.0, 100.0), server(4.0, 30.0), server(4.0, 30.0)];
    let settings = ClusterSettings { on_min_s: 0.0, patience_s: 0.0, ..settings() };
    let mut optimum = Optimum::new(&servers, settings);
    let (off, waking, on) = (ServerState::Off, ServerState::Waking, ServerState::On);
    let mut decide = |at, load, servers: [ServerState; 3]| {
        optimum.decide(seconds(at), &ClusterSeen { load, servers: servers.to_vec() })
    };
    assert_eq!(decide(0, 9.0, [off, off, off]), [true, false, false]);
    assert_eq!(decide(10, 7.0, [on, off, off]), [true, true, true]);
    assert_eq!(decide(20, 7.0, [on, waking, on]), [true, true, true]);
    assert_eq!(decide(30, 7.0, [on, on, on]), [false, true, true]);
}

#[test]
fn those_that_fail_are_replaced_and_stay_ordered() {
    let servers = [server(10.0, 100.0); 3];
    let mut policy = Differential::new(&servers, settings());
    let on = ServerState::On;
    let seen = |servers| ClusterSeen { load: 15.0, servers };
    let first = policy.decide(seconds(0), &seen(vec![ServerState::Off; 3]));
    assert_eq!(first, [true, true, false]);
    let failed = seen(vec![ServerState::Failed, on, ServerState::Off]);
    assert_eq!(policy.decide(seconds(10), &failed), [true, true, true]);
}

#[test]
fn tomorrow_the_servers_are_awake_before_the_load_comes() {
    let servers = [server(10.0, 100.0); 3];
    let settings = ClusterSettings { on_min_s: 0.0, day_s: 2880.0, ..settings() };
    let mut policy = Predictive::new(&servers, settings);
    let load = |turn: usize| if turn % 288 >= 100 { 25.0 } else { 5.0 };
    let loads: Vec<f64> = (0..2 * 288).map(load).collect();
    let orders = orders(&mut policy, 3, &loads);
    let counts = counts(&orders);
    assert_eq!((counts[99], counts[100]), (1, 3), "the first day it follows");
    assert_eq!((counts[288 + 95], counts[288 + 96]), (1, 3), "the second it is 40 s ahead");
}

proptest! {
    #[test]
    fn what_is_on_carries_the_load_with_its_spares(
        capacities in prop::collection::vec((1u32..9, 1u32..9), 1..7),
        loads in prop::collection::vec(0f64..30.0, 1..30),
        spares in 0u32..2,
        name in prop::sample::select(vec!["all", "differential", "optimum", "predictive"]),
    ) {
        let servers: Vec<Server> =
            capacities.iter().map(|(capacity, power)| server(f64::from(*capacity), f64::from(*power))).collect();
        let settings = ClusterSettings { spares, ..settings() };
        let mut policy = named(name, &servers, settings).expect("a policy");
        for (on, load) in orders(&mut *policy, servers.len(), &loads).iter().zip(&loads) {
            let mut capacities: Vec<f64> =
                servers.iter().zip(on).filter(|(_, on)| **on).map(|(server, _)| server.capacity).collect();
            capacities.sort_by(f64::total_cmp);
            capacities.truncate(capacities.len().saturating_sub(spares as usize));
            let enough = !capacities.is_empty() && capacities.iter().sum::<f64>() >= *load;
            prop_assert!(enough || on.iter().all(|on| *on), "{name}: {on:?} for {load}");
        }
    }
}
