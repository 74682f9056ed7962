//! The bound for two planes meets its flow, and nothing lies below it.
#![cfg(feature = "solver")]

use ebb_des::Seed;
use ebb_scenario::Silent;
use ebb_system_noc::planes::Allocation;
use ebb_system_noc::{Mesh, Operation, Pattern, Routes, Traffic, VoltageRange, bound, routing};
use proptest::prelude::*;

fn range(alpha_max: f64) -> VoltageRange {
    VoltageRange::new(alpha_max).expect("a range")
}

/// The traffic and its XY routes, scaled so that XY fills its fullest link to `load`.
fn normalised(mesh: &Mesh, traffic: &Traffic, load: f64) -> Option<(Traffic, Routes)> {
    let xy = routing::routing("xy").expect("xy");
    let routes = xy.route(mesh, traffic, Seed(1)).expect("routed");
    let fullest = routes.loads(mesh).into_iter().fold(0.0, f64::max);
    (fullest > 0.0).then(|| (traffic.scaled(load / fullest), routes.scaled(load / fullest)))
}

fn power(mesh: &Mesh, routes: &[ebb_system_noc::Routed], range: VoltageRange) -> f64 {
    let routes = Routes { flows: routes.to_vec() };
    let hop_rate = routes.flows.iter().flat_map(|routed| {
        routed.paths.iter().map(|way| routed.flow.rate * way.share * way.path.len() as f64)
    });
    Operation::of(&routes.loads(mesh), hop_rate.sum(), range).expect("fits").power
}

#[test]
fn flow_and_bound_meet_with_every_pattern() {
    for (pattern, size, load) in [
        (Pattern::Hotspot, 5, 1.0),
        (Pattern::Transpose, 5, 1.0),
        (Pattern::Tornado, 5, 1.0),
        (Pattern::Uniform, 5, 1.0),
        (Pattern::Normal, 4, 1.0),
        (Pattern::Normal, 5, 1.0),
        (Pattern::Normal, 5, 0.7),
    ] {
        let mesh = Mesh::new(size, size).expect("a mesh");
        let traffic = pattern.traffic(&mesh, &mut Seed(1).stream("traffic"));
        let (traffic, routes) = normalised(&mesh, &traffic, load).expect("something is sent");
        let found = bound::least_power_planes(&mesh, &traffic, range(3.0), 2, &[], &Silent);
        let found = found.expect("bounded");
        let gap = 1.0 - found.lower / found.upper;
        println!("{} {size}x{size}: gap {gap:.1e}, {} programs", pattern.name(), found.solves);
        assert!((0.0..=1e-9).contains(&gap), "{} {size}: gap {gap}", pattern.name());
        let carried: f64 = found.routes.iter().map(|plane| power(&mesh, plane, range(3.0))).sum();
        assert!((carried / found.upper - 1.0).abs() < 1e-9);
        let local = Allocation::Local.allocate(&mesh, &routes, range(3.0), 2, Seed(1));
        assert!(local.power().is_none_or(|power| power >= found.lower));
    }
}

/// Three planes and more are proven within half a hundredth, and no allocation is below.
#[test]
fn three_planes_and_more_are_nearly_closed() {
    for (pattern, size, planes, alpha_max) in [
        (Pattern::Normal, 3, 3, 3.0),
        (Pattern::Normal, 3, 3, 6.0),
        (Pattern::Hotspot, 4, 3, 3.0),
        (Pattern::Normal, 3, 4, 3.0),
    ] {
        let mesh = Mesh::new(size, size).expect("a mesh");
        let traffic = pattern.traffic(&mesh, &mut Seed(1).stream("traffic"));
        let (traffic, routes) = normalised(&mesh, &traffic, 1.0).expect("something is sent");
        let range = range(alpha_max);
        let bounded =
            |planes| bound::least_power_planes(&mesh, &traffic, range, planes, &[], &Silent);
        let (found, fewer) = (bounded(planes).expect("bounded"), bounded(2).expect("bounded"));
        let gap = 1.0 - found.lower / found.upper;
        println!("{} {size}x{size} on {planes}: {gap:.1e}, {}", pattern.name(), found.solves);
        assert!((0.0..=0.005).contains(&gap), "{} on {planes}: gap {gap}", pattern.name());
        assert!(found.lower <= fewer.upper * (1.0 + 1e-9), "another plane never costs");
        let carried: f64 = found.routes.iter().map(|plane| power(&mesh, plane, range)).sum();
        assert!((carried / found.upper - 1.0).abs() < 1e-9);
        let local = Allocation::Local.allocate(&mesh, &routes, range, planes, Seed(1));
        assert!(local.power().is_none_or(|power| power >= found.lower));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random traffic closes; one plane, whole flows, and the method for any number of planes
    /// (with a third that must not help less) are on the right side of it.
    #[test]
    fn flow_and_bound_meet_with_random_traffic(
        rows in 2..4usize,
        columns in 2..5usize,
        rates in proptest::collection::vec(0.0..1.0f64, 144),
        sparse in 0.0..0.9f64,
        load in 0.2..1.8f64,
        alpha_max in 1.0..8.0f64,
    ) {
        let mesh = Mesh::new(rows, columns).expect("a mesh");
        let mut traffic = Traffic::silent(mesh.nodes());
        for (at, &rate) in rates.iter().enumerate() {
            let (from, to) = (at / mesh.nodes(), at % mesh.nodes());
            if from < mesh.nodes() && rate > sparse {
                traffic.add(from, to, rate - sparse);
            }
        }
        let Some((traffic, routes)) = normalised(&mesh, &traffic, load) else { return Ok(()) };
        let range = range(alpha_max);
        let found = match bound::least_power_planes(&mesh, &traffic, range, 2, &[], &Silent) {
            Err(bound::BoundError::PlanesCapacity) => return Ok(()),
            found => found.expect("bounded"),
        };
        let gap = 1.0 - found.lower / found.upper;
        prop_assert!((0.0..=1e-9).contains(&gap), "gap {gap} after {}", found.solves);
        if let Ok(one) = bound::least_power(&mesh, &traffic, range, &Silent) {
            prop_assert!(found.upper <= one.upper * (1.0 + 1e-9));
        }
        for rule in Allocation::ALL {
            let power = rule.allocate(&mesh, &routes, range, 2, Seed(1)).power();
            prop_assert!(power.is_none_or(|power| power >= found.lower * (1.0 - 1e-12)));
        }
    }
}
