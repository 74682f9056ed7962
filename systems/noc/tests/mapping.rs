//! Task graphs on meshes: the best costs known from the literature are reached.

use ebb_des::Seed;
use ebb_system_noc::{Mesh, TaskGraph};

/// The task graph `name` of the shared data; `None` where it is absent, which is a failure only in
/// continuous integration.
fn graph(name: &str) -> Option<TaskGraph> {
    let path = format!("{}/../../../shared/data/noc/{name}.csv", env!("CARGO_MANIFEST_DIR"));
    match std::fs::read(&path) {
        Ok(bytes) => Some(TaskGraph::parse(name, &bytes).expect("a task graph")),
        Err(_) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("{path} is absent"),
        Err(_) => {
            eprintln!("skipped: {path} is absent");
            None
        }
    }
}

#[test]
fn known_best_costs_are_reached() {
    for (name, rows, columns, one_way, best) in [
        ("mpeg4", 4, 4, true, 3567.0),
        ("vopd16", 4, 4, false, 4119.0),
        ("pip", 3, 3, false, 640.0),
    ] {
        let Some(mut graph) = graph(name) else { continue };
        if one_way {
            let edges = graph.edges.clone();
            let first = |&(from, to, _): &(usize, usize, f64)| {
                from < to || !edges.iter().any(|edge| (edge.0, edge.1) == (to, from))
            };
            graph.edges.retain(first);
        }
        let mesh = Mesh::new(rows, columns).expect("a mesh");
        for seed in [1, 2] {
            let mapping = graph.mapped(&mesh, Seed(seed)).expect("fits");
            assert!((mapping.cost - best).abs() < 1e-6, "{name}: {} for {best}", mapping.cost);
            let cost = graph.traffic(&mesh, &mapping).hop_rate(&mesh).expect("connected");
            assert!((cost - mapping.cost).abs() < 1e-6);
        }
    }
}
