//! The exact bound against everything that could contradict it.
#![cfg(feature = "solver")]

use ebb_des::Seed;
use ebb_scenario::Silent;
use ebb_system_noc::planes::Allocation;
use ebb_system_noc::{Mesh, Operation, Pattern, Routes, Traffic, VoltageRange, bound, routing};
use proptest::prelude::*;

fn range(alpha_max: f64) -> VoltageRange {
    VoltageRange::new(alpha_max).expect("a range")
}

fn xy(mesh: &Mesh, traffic: &Traffic) -> Routes {
    routing::routing("xy").expect("xy").route(mesh, traffic, Seed(1)).expect("routed")
}

fn fullest(mesh: &Mesh, routes: &Routes) -> f64 {
    routes.loads(mesh).into_iter().fold(0.0, f64::max)
}

/// Rates as drawn, so that XY fills its fullest link to `load`.
fn random_traffic(mesh: &Mesh, rates: &[f64], load: f64) -> Option<Traffic> {
    let mut traffic = Traffic::silent(mesh.nodes());
    for (at, &rate) in rates.iter().enumerate() {
        let (from, to) = (at / mesh.nodes(), at % mesh.nodes());
        if from < mesh.nodes() && rate > 0.6 {
            traffic.add(from, to, rate - 0.6);
        }
    }
    let most = fullest(mesh, &xy(mesh, &traffic));
    (most > 0.0).then(|| traffic.scaled(load / most))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// No routing lies below the bound; flow and proof meet; the proof holds without the solver.
    #[test]
    fn no_routing_lies_below_the_bound(
        rows in 1..5usize,
        columns in 2..5usize,
        torus in any::<bool>(),
        rates in proptest::collection::vec(0.0..1.0f64, 256),
        load in 0.2..1.0f64,
        alpha_max in 1.0..4.0f64,
    ) {
        let mesh = if torus { Mesh::torus(rows, columns) } else { Mesh::new(rows, columns) };
        let mesh = mesh.expect("a mesh");
        let Some(traffic) = random_traffic(&mesh, &rates, load) else { return Ok(()) };
        let range = range(alpha_max);
        let found = bound::least_power(&mesh, &traffic, range, &Silent).expect("bounded");
        prop_assert!(found.gap() <= 1e-9, "gap {}", found.gap());
        let proven = found.certificate.lower(&mesh, &traffic);
        prop_assert!((proven - found.lower).abs() <= 1e-9 * found.upper);
        for rule in routing::registry() {
            let routes = rule.route(&mesh, &traffic, Seed(3)).expect("routed");
            let seen = Operation::of(&routes.loads(&mesh), routes.hop_rate(), range);
            if let Some(seen) = seen {
                prop_assert!(found.lower <= seen.power * (1.0 + 1e-12), "{}", rule.name());
            }
        }
        let routes = Routes { flows: found.routes.clone() };
        let seen = Operation::of(&routes.loads(&mesh), routes.hop_rate(), range).expect("fits");
        prop_assert!((seen.power - found.upper).abs() <= 1e-9 * found.upper);
        for flow in traffic.flows() {
            let of = routes.flows.iter().filter(|routed| routed.flow.source == flow.source
                && routed.flow.destination == flow.destination);
            let share: f64 = of.flat_map(|routed| &routed.paths).map(|way| way.share).sum();
            prop_assert!((share - 1.0).abs() < 1e-9);
        }
    }

    /// Property 1: without a floor of the voltage, power is cubic in the load.
    #[test]
    fn power_is_cubic_in_the_load(
        rates in proptest::collection::vec(0.0..1.0f64, 81),
        load in 0.05..1.0f64,
    ) {
        let mesh = Mesh::new(3, 3).expect("a mesh");
        let Some(traffic) = random_traffic(&mesh, &rates, 1.0) else { return Ok(()) };
        let range = range(1e6);
        let at = |load: f64| {
            bound::least_power(&mesh, &traffic.scaled(load), range, &Silent).expect("bounded").upper
        };
        prop_assert!((at(load) / at(1.0) / load.powi(3) - 1.0).abs() < 1e-8);
        let routes = xy(&mesh, &traffic);
        let of = |load: f64| {
            let routes = routes.scaled(load);
            Operation::of(&routes.loads(&mesh), routes.hop_rate(), range).expect("fits").power
        };
        prop_assert!((of(load) / of(1.0) / load.powi(3) - 1.0).abs() < 1e-12);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whole flows on two planes: no allocation lies below the least over all of them, nor that
    /// below the bound over split flows (brute force over all allocations of few flows).
    #[test]
    fn two_planes_are_bounded(
        ends in proptest::collection::vec((0..4usize, 0..4usize, 0.05..1.0f64), 2..8),
    ) {
        let mesh = Mesh::new(2, 2).expect("a mesh");
        let mut traffic = Traffic::silent(4);
        ends.iter().for_each(|&(from, to, rate)| traffic.add(from, to, rate));
        let most = fullest(&mesh, &xy(&mesh, &traffic));
        if most == 0.0 {
            return Ok(());
        }
        let traffic = traffic.scaled(1.0 / most);
        let (routes, range) = (xy(&mesh, &traffic), range(3.0));
        let mut best = f64::INFINITY;
        for which in 0..1_u32 << routes.flows.len() {
            let planes: Vec<usize> =
                (0..routes.flows.len()).map(|at| (which >> at & 1) as usize).collect();
            let power: Option<f64> = routes.parts(&planes, 2).iter()
                .map(|part| Operation::of(&part.loads(&mesh), part.hop_rate(), range))
                .map(|seen| seen.map(|seen| seen.power)).sum();
            best = best.min(power.unwrap_or(f64::INFINITY));
        }
        let split = bound::least_power_planes(&mesh, &traffic, range, 2, &[], &Silent);
        let split = split.expect("bounded");
        prop_assert!(split.lower <= split.upper && split.upper <= best * (1.0 + 1e-9));
        prop_assert!(1.0 - split.lower / split.upper < 1e-9, "gap {}", 1.0 - split.lower / split.upper);
        for rule in Allocation::ALL {
            let power = rule.allocate(&mesh, &routes, range, 2, Seed(1)).power().expect("fits");
            prop_assert!(power >= best * (1.0 - 1e-9), "{}", rule.name());
        }
        let found = Allocation::Best.allocate(&mesh, &routes, range, 2, Seed(1));
        prop_assert!(found.proven && found.power().expect("fits") <= best * (1.0 + 1e-9));
        let local = Allocation::Local.allocate(&mesh, &routes, range, 2, Seed(1)).power();
        prop_assert!(local.expect("fits") <= best * 1.05);
    }
}

/// All ways of two flows over all simple paths of a 2 x 3 mesh, in steps of a twelfth.
#[test]
fn brute_force_finds_nothing_better() {
    let mesh = Mesh::new(2, 3).expect("a mesh");
    let mut traffic = Traffic::silent(6);
    traffic.add(0, 5, 0.9);
    traffic.add(3, 2, 0.6);
    let found = bound::least_power(&mesh, &traffic, range(3.0), &Silent).expect("bounded");
    let ways = [simple_paths(&mesh, 0, 5), simple_paths(&mesh, 3, 2)];
    let mut best = f64::INFINITY;
    for first in splits(ways[0].len(), 12) {
        for second in splits(ways[1].len(), 12) {
            let mut loads = vec![0.0; mesh.links().len()];
            let mut hop_rate = 0.0;
            for (paths, shares, rate) in [(&ways[0], &first, 0.9), (&ways[1], &second, 0.6)] {
                for (path, &share) in paths.iter().zip(shares) {
                    let carried = rate * f64::from(share) / 12.0;
                    path.iter().for_each(|&link| loads[link] += carried);
                    hop_rate += carried * path.len() as f64;
                }
            }
            if let Some(seen) = Operation::of(&loads, hop_rate, range(3.0)) {
                best = best.min(seen.power);
            }
        }
    }
    assert!(found.lower <= best * (1.0 + 1e-12), "{} above {best}", found.lower);
    assert!(best <= found.upper * 1.05, "a grid of twelfths comes near: {best} {}", found.upper);
}

fn simple_paths(mesh: &Mesh, from: usize, to: usize) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut stack = vec![(from, vec![from], Vec::new())];
    while let Some((at, tiles, path)) = stack.pop() {
        if at == to {
            found.push(path);
            continue;
        }
        for link in mesh.leaving(at) {
            let next = mesh.links()[link].to;
            if !tiles.contains(&next) {
                let (mut tiles, mut path) = (tiles.clone(), path.clone());
                tiles.push(next);
                path.push(link);
                stack.push((next, tiles, path));
            }
        }
    }
    found
}

/// All ways to part `whole` among `parts`.
fn splits(parts: usize, whole: u32) -> Vec<Vec<u32>> {
    if parts == 1 {
        return vec![vec![whole]];
    }
    (0..=whole)
        .flat_map(|first| {
            splits(parts - 1, whole - first).into_iter().map(move |mut rest| {
                rest.insert(0, first);
                rest
            })
        })
        .collect()
}

/// The sampled method is no bound: between two samples lies a routing that it calls impossible.
#[test]
fn the_sampled_method_lands_above_a_routing() {
    let mesh = Mesh::new(5, 5).expect("a mesh");
    let uniform = Traffic::uniform(&mesh);
    let traffic = uniform.scaled(1.0 / (1.3 * fullest(&mesh, &xy(&mesh, &uniform))));
    let range = range(3.0);
    let (sampled, _) = bound::sampled(&mesh, &traffic, range, 60, &Silent)
        .expect("solved")
        .expect("fits somewhere");
    let routes = xy(&mesh, &traffic);
    let seen = Operation::of(&routes.loads(&mesh), routes.hop_rate(), range).expect("fits");
    let exact = bound::least_power(&mesh, &traffic, range, &Silent).expect("bounded");
    assert!((seen.power / traffic.hop_rate(&mesh).expect("connected") - 0.5917).abs() < 1e-3);
    assert!(sampled > seen.power * 1.01, "{sampled} against {}", seen.power);
    assert!(exact.upper <= seen.power * (1.0 + 1e-9) && exact.gap() < 1e-9);
    assert!(exact.upper <= sampled * (1.0 + 1e-9));
}

#[test]
fn published_patterns_come_out() {
    let mesh = Mesh::new(5, 5).expect("a mesh");
    let relative = |pattern: Pattern| {
        let traffic = pattern.traffic(&mesh, &mut Seed(1).stream("traffic"));
        let traffic = traffic.scaled(1.0 / fullest(&mesh, &xy(&mesh, &traffic)));
        let found = bound::least_power(&mesh, &traffic, range(3.0), &Silent).expect("bounded");
        assert!(found.gap() <= 1e-9);
        found.upper / traffic.hop_rate(&mesh).expect("connected")
    };
    assert!((relative(Pattern::Transpose) - 1.0 / 9.0).abs() < 1e-9);
    assert!((relative(Pattern::Uniform) - 1.0).abs() < 1e-9);
    assert!((relative(Pattern::Tornado) - 1.0).abs() < 1e-9);
    assert!((relative(Pattern::Hotspot) - 0.3265).abs() < 1e-3);
}

#[test]
fn what_no_routing_can_carry_is_named() {
    let mesh = Mesh::new(2, 2).expect("a mesh");
    let mut traffic = Traffic::silent(4);
    traffic.add(0, 3, 2.5);
    let error = bound::least_power(&mesh, &traffic, range(3.0), &Silent).expect_err("refused");
    assert!(error.to_string().contains("capacity"), "{error}");
    assert!(matches!(error, bound::BoundError::Capacity { load } if (load - 1.25).abs() < 1e-9));
    let cut = mesh.without(&[(0, 1), (0, 2)]).expect("removed");
    let error = bound::least_power(&cut, &traffic, range(3.0), &Silent).expect_err("refused");
    assert!(error.to_string().contains("disconnected"), "{error}");
    let silent = Traffic::silent(4);
    assert!(bound::least_power(&mesh, &silent, range(3.0), &Silent).is_err());
}

/// Links may be missing: the bound finds ways that XY does not know.
#[test]
fn ways_around_removed_links_are_found() {
    let mesh = Mesh::new(2, 2).expect("a mesh").without(&[(0, 1)]).expect("removed");
    let mut traffic = Traffic::silent(4);
    traffic.add(0, 1, 0.5);
    let found = bound::least_power(&mesh, &traffic, range(3.0), &Silent).expect("bounded");
    assert!((found.upper - 0.5 * 3.0 * 0.25).abs() < 1e-12);
}
