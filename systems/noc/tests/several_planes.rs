//! Plans over several planes follow the routings that were asked for.

use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_system_noc::{Plan, Problem, plan};

/// Two flows that share their last link when the first goes down before it goes right.
const SHARED_LAST: &str = "0,0,0,0.9\n0,0,0,0\n0,0,0,0.5\n0,0,0,0\n";
/// One flow that hardly loads anything.
const LITTLE: &str = "0,0,0,0.01\n0,0,0,0\n0,0,0,0\n0,0,0,0\n";

fn solved(text: &str, matrix: &str) -> Plan {
    let document = Document::parse("problem.toml", text).expect("TOML");
    let problem: Problem = document.read().expect("a problem");
    let files = MemoryFiles::new().with("m.csv", matrix);
    problem.solve(&files, 1, &Silent).expect("a plan").plan
}

#[test]
fn given_paths_are_allocated_along_themselves() {
    let given = "mesh = \"2x2\"\ntraffic = \"csv:m.csv\"\nrouting = \"given\"\nplanes = 2\nbound = false\n\
                 [[paths]]\ntiles = [0, 2, 3]\n";
    let yx =
        "mesh = \"2x2\"\ntraffic = \"csv:m.csv\"\nrouting = \"yx\"\nplanes = 2\nbound = false\n";
    let (given, yx) = (solved(given, SHARED_LAST), solved(yx, SHARED_LAST));
    assert!((given.routings["given"].max_link_load.expect("a load") - 1.4).abs() < 1e-12);
    for (name, planes) in &given.planes {
        let total: f64 = planes.max_link_loads.iter().sum();
        assert!(
            total > 1.4 - 1e-12,
            "{name}: both flows share a link, on {:?}",
            planes.max_link_loads
        );
        assert_eq!(planes.max_link_loads, yx.planes[name].max_link_loads, "{name}: the same paths");
        assert_eq!(planes.power, yx.planes[name].power, "{name}");
    }
}

#[test]
fn sleeping_planes_need_no_more_than_any_routing_on_any_number_of_them() {
    let problem = |routing: &str| {
        let text = format!(
            "mesh = \"2x2\"\ntraffic = \"csv:m.csv\"\nrouting = \"{routing}\"\nplanes = 3\nbound = false\n\
             router = \"scc48\"\n"
        );
        solved(&text, LITTLE)
    };
    for routing in ["yx", "xy", "xy,yx", "yx,adaptive"] {
        let plan = problem(routing);
        let least = plan.planes["sleeping"].router_w.expect("watts");
        for (name, alone) in &plan.routings {
            let watts = alone.router_w.expect("watts");
            assert!(least <= watts, "{routing}: sleeping {least} W, {name} alone {watts} W");
        }
        for (name, planes) in &plan.planes {
            let watts = planes.router_w.expect("watts");
            assert!(least <= watts, "{routing}: sleeping {least} W, {name} {watts} W");
        }
        assert_eq!(plan.planes["sleeping"].alphas.len(), 1, "one plane carries this");
    }
}

#[cfg(not(feature = "solver"))]
#[test]
fn a_program_without_the_solver_says_what_it_leaves_out() {
    let text = "mesh = \"2x2\"\ntraffic = \"uniform\"\n";
    let document = Document::parse("problem.toml", text).expect("TOML");
    let report = plan(&document, &MemoryFiles::new(), 1, &Silent).expect("a plan");
    assert!(report.to_json().contains("built without the solver"));
    let document = Document::parse("problem.toml", &format!("{text}samples = 10\n")).expect("TOML");
    let refused =
        plan(&document, &MemoryFiles::new(), 1, &Silent).expect_err("refused").to_string();
    assert!(refused.contains("samples") && refused.contains("solver"), "{refused}");
}

#[cfg(feature = "solver")]
#[test]
fn a_program_with_the_solver_leaves_nothing_out() {
    let document =
        Document::parse("problem.toml", "mesh = \"2x2\"\ntraffic = \"uniform\"\n").expect("TOML");
    let report = plan(&document, &MemoryFiles::new(), 1, &Silent).expect("a plan");
    assert!(!report.to_json().contains("bound_missing"));
}
