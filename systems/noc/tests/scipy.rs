//! The exact bound beside scipy's linear programs in another form: per source and link, at given
//! capacities.
#![cfg(feature = "solver")]

use std::io::Write;
use std::process::{Command, Stdio};

use ebb_des::Seed;
use ebb_scenario::Silent;
use ebb_system_noc::{Mesh, Traffic, VoltageRange, bound, routing};
use rand::Rng as _;

/// Debian's interpreter, which has Debian's python3-scipy.
const PYTHON: &str = "/usr/bin/python3";

fn scipy_is_there() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import numpy, scipy.optimize"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "install python3-scipy");
    eprintln!("skipped: {PYTHON} has no scipy (Debian: python3-scipy)");
    false
}

fn by_scipy(
    mesh: &Mesh,
    traffic: &Traffic,
    capacities: &[impl serde::Serialize],
) -> Vec<Option<f64>> {
    let links: Vec<_> = mesh.links().iter().map(|link| (link.from, link.to)).collect();
    let flows: Vec<_> =
        traffic.flows().map(|flow| (flow.source, flow.destination, flow.rate)).collect();
    let problem = serde_json::json!({
        "nodes": mesh.nodes(), "links": links, "flows": flows, "capacities": capacities,
    });
    let mut child = Command::new(PYTHON)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bound.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(problem.to_string().as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "bound.py failed");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Random traffic that fills XY's fullest link.
fn random_traffic(seed: u64, mesh: &Mesh, share: f64) -> Traffic {
    let mut random = Seed(seed).stream("matrix");
    let mut traffic = Traffic::silent(mesh.nodes());
    for from in 0..mesh.nodes() {
        for to in 0..mesh.nodes() {
            if random.random::<f64>() < share {
                traffic.add(from, to, random.random::<f64>().powi(2));
            }
        }
    }
    let xy = routing::routing("xy").expect("xy");
    let routes = xy.route(mesh, &traffic, Seed(1)).expect("routed");
    let fullest = routes.loads(mesh).into_iter().fold(0.0, f64::max);
    traffic.scaled(1.0 / fullest)
}

#[test]
fn scipy_agrees_on_two_planes() {
    if !scipy_is_there() {
        return;
    }
    for (seed, (rows, columns), share, load) in
        [(1, (3, 3), 0.5, 1.0), (2, (2, 5), 0.3, 1.2), (3, (4, 3), 1.0, 1.0)]
    {
        let mesh = Mesh::new(rows, columns).expect("a mesh");
        let traffic = random_traffic(seed, &mesh, share).scaled(load);
        let range = VoltageRange::new(6.0).expect("a range");
        let found = bound::least_power_planes(&mesh, &traffic, range, 2, &[], &Silent);
        let found = found.expect("bounded");
        let best: Vec<f64> = found.alphas.iter().map(|alpha| (1.0 + 1e-9) / alpha).collect();
        let mut capacities = vec![best.clone()];
        let floor = range.floor();
        for (a, b) in (0..=12).flat_map(|a| (0..=a).map(move |b| (f64::from(a), f64::from(b)))) {
            capacities.push([a, b].map(|at| floor + (1.0 - floor) * at / 12.0).to_vec());
            let near = |at: f64, best: f64| (best * (0.94 + 0.01 * at)).clamp(floor, 1.0);
            capacities.push(vec![near(a, best[0]), near(b, best[1])]);
        }
        let scipys = by_scipy(&mesh, &traffic, &capacities);
        let at_best = scipys[0].expect("what we found fits");
        assert!((at_best / found.upper - 1.0).abs() < 1e-6, "{at_best} {}", found.upper);
        for (u, power) in capacities.iter().zip(&scipys) {
            let power = power.unwrap_or(f64::INFINITY);
            assert!(power >= found.lower * (1.0 - 1e-6), "{u:?}: {power} below {}", found.lower);
        }
    }
}

#[test]
fn scipy_agrees_on_random_matrices() {
    if !scipy_is_there() {
        return;
    }
    for (seed, (rows, columns), share) in
        [(1, (3, 3), 0.5), (2, (2, 5), 0.3), (3, (4, 4), 0.1), (4, (4, 3), 1.0)]
    {
        let mesh = Mesh::new(rows, columns).expect("a mesh");
        let traffic = random_traffic(seed, &mesh, share);
        let range = VoltageRange::new(3.0).expect("a range");
        let found = bound::least_power(&mesh, &traffic, range, &Silent).expect("bounded");
        let best = 1.0 / found.alpha;
        let mut capacities = vec![best * (1.0 + 1e-9)];
        let floor = range.floor();
        capacities.extend((0..=20).map(|step| floor + (1.0 - floor) * f64::from(step) / 20.0));
        let scipys = by_scipy(&mesh, &traffic, &capacities);
        let at_best = scipys[0].expect("what we found fits") * best * best;
        assert!((at_best / found.upper - 1.0).abs() < 1e-6, "{at_best} {}", found.upper);
        for (u, hop_rate) in capacities.iter().zip(&scipys) {
            let power = hop_rate.map_or(f64::INFINITY, |hop_rate| u * u * hop_rate);
            assert!(power >= found.lower * (1.0 - 1e-6), "at {u}: {power} below {}", found.lower);
        }
    }
}

/// Whether `docs/verify_bound.py` accepts a plan, and what it says.
fn verified(plan: &serde_json::Value) -> (bool, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verify_bound.py");
    let child = Command::new(PYTHON)
        .args([script, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("python starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(plan.to_string().as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The certificate of a bound over several planes convinces, what is left out of it or added does not.
fn several_are_proven_and_forgeries_are_not(plan: &serde_json::Value, planes: usize) {
    let (lower, upper) = (&plan["bound"]["certificate"]["lower"], &plan["bound"]["upper"]);
    let (lower, upper) = (lower.as_f64().expect("a number"), upper.as_f64().expect("a number"));
    let gap = if planes == 2 { 2e-4 } else { 0.01 };
    assert!(lower <= upper && lower >= upper * (1.0 - gap), "{planes} planes: {lower} {upper}");
    let forged = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut plan = plan.clone();
        change(&mut plan["bound"]["certificate"]);
        verified(&plan)
    };
    let nodes = plan["bound"]["certificate"]["nodes"].as_array().expect("nodes");
    let leaf = nodes.iter().position(|node| node.get("weights").is_some()).expect("a leaf");
    for (name, (good, said)) in [
        ("a higher bound", forged(&|proof| proof["lower"] = (lower * 1.01).into())),
        (
            "a cell left out",
            forged(&|proof| proof["nodes"][leaf] = serde_json::json!({ "empty": true })),
        ),
        ("fewer ratios", forged(&|proof| proof["corners"][planes - 1]["costs"][1] = 0.5.into())),
        ("less carried", forged(&|proof| proof["routes"][0]["rate"] = 1e-3.into())),
        ("a plane more", forged(&|proof| proof["routes"][0]["plane"] = planes.into())),
    ] {
        assert!(!good, "{planes} planes: {name} was accepted: {said}");
    }
}

/// The certificate convinces a program that shares nothing with the planner, and nothing else does.
#[test]
fn certificates_are_verified_by_others_and_forged_ones_are_not() {
    if !std::path::Path::new(PYTHON).exists() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "install python3");
        eprintln!("skipped: there is no {PYTHON}");
        return;
    }
    for (mesh, traffic, planes) in
        [("4x4", "normal", 1), ("5x5", "hotspot", 1), ("3x3", "normal", 2), ("2x3", "normal", 3)]
    {
        let mut problem = ebb_system_noc::Problem::new(mesh, traffic);
        (problem.certificate, problem.planes) = (true, planes);
        let solved = problem.solve(&ebb_scenario::MemoryFiles::new(), 1, &Silent).expect("solved");
        let plan = serde_json::to_value(&solved.plan).expect("JSON");
        let (good, said) = verified(&plan);
        assert!(
            good && said.contains("lower") && said.contains("upper"),
            "{mesh} {traffic}: {said}"
        );
        let which = if planes == 1 { "bound" } else { "bound_one_plane" };
        let forged = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut plan = plan.clone();
            change(&mut plan[which]);
            verified(&plan)
        };
        if planes > 1 {
            several_are_proven_and_forgeries_are_not(&plan, planes);
        }
        let scale = |value: &mut serde_json::Value, by: f64| {
            *value = (value.as_f64().expect("a number") * by).into();
        };
        for (name, (good, said)) in [
            ("a higher bound", forged(&|bound| scale(&mut bound["lower"], 1.001))),
            ("a cheaper flow", forged(&|bound| scale(&mut bound["upper"], 0.999))),
            (
                "less carried",
                forged(&|bound| scale(&mut bound["certificate"]["routes"][0]["rate"], 0.5)),
            ),
            (
                "another way",
                forged(&|bound| bound["certificate"]["routes"][0]["links"] = serde_json::json!([])),
            ),
            (
                "a price below zero",
                forged(&|bound| bound["certificate"]["prices"][0][0] = (-1.0).into()),
            ),
        ] {
            assert!(!good, "{mesh} {traffic}: {name} was accepted: {said}");
        }
    }
}
