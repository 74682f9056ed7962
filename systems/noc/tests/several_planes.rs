//! Plans over several planes follow the routings that were asked for.

use std::path::Path;

use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_system_noc::{Plan, Problem, plan};

/// Two flows that share their last link when the first goes down before it goes right.
const SHARED_LAST: &str = "0,0,0,0.9\n0,0,0,0\n0,0,0,0.5\n0,0,0,0\n";
/// One flow that hardly loads anything.
const LITTLE: &str = "0,0,0,0.01\n0,0,0,0\n0,0,0,0\n0,0,0,0\n";

fn solved(text: &str, matrix: &str) -> Plan {
    let document = Document::parse("problem.toml", text).expect("TOML");
    let problem: Problem = document.read_described().expect("a problem");
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
        let least = plan.planes["sleeping"].router_w.expect("watts").0;
        for (name, alone) in &plan.routings {
            let watts = alone.router_w.expect("watts").0;
            assert!(least <= watts, "{routing}: sleeping {least} W, {name} alone {watts} W");
        }
        for (name, planes) in &plan.planes {
            let watts = planes.router_w.expect("watts").0;
            assert!(least <= watts, "{routing}: sleeping {least} W, {name} {watts} W");
        }
        assert_eq!(plan.planes["sleeping"].alphas.len(), 1, "one plane carries this");
    }
}

/// Plans that were wrong once, as they were found.
#[test]
fn plans_found_wrong_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
    let folder = root.join("../shared/data/noc/regressions");
    if !folder.exists() {
        assert!(std::env::var_os("CI").is_none(), "{} is missing", folder.display());
        eprintln!("skipped: {} is missing", folder.display());
        return;
    }
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).expect("readable");
    let files = MemoryFiles::new().with("m.csv", text("m.csv")).with("s.csv", text("s.csv"));
    let solved = |name: &str| {
        // Without the bound, which needs the solver and is not what was wrong.
        let text = format!("bound = false\n{}", text(name));
        let document = Document::parse(name, &text).expect("TOML");
        let problem: Problem = document.read_described().expect("a problem");
        problem.solve(&files, 1, &Silent).expect("a plan").plan
    };
    let (given, yx) = (solved("given.toml"), solved("yx.toml"));
    assert_eq!(given.planes["2p-mini"].max_link_loads, yx.planes["2p-mini"].max_link_loads);
    for name in ["sl.toml", "sl2.toml"] {
        let watts = solved(name).planes["sleeping"].router_w.expect("watts").0;
        assert!(watts < 0.12795, "{name}: {watts} W");
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

#[cfg(feature = "solver")]
fn two_planes(mesh: &str, traffic: &str, alphas: &[f64]) -> Problem {
    let mut problem = Problem::new(mesh, traffic);
    (problem.planes, problem.normalise) = (2, Some(ebb_system_noc::Normalise::Xy));
    (problem.routing, problem.alphas) = ("xy".to_owned(), alphas.to_vec());
    problem
}

/// At given voltages the best allocation of whole flows is that of trying them all.
#[cfg(feature = "solver")]
#[test]
fn whole_flows_at_given_voltages_go_where_they_are_cheapest() {
    let matrix = "0,0.2,0.5,0\n0.3,0,0,0.4\n0,0.1,0,0.6\n0.3,0,0.2,0\n";
    let files = MemoryFiles::new().with("m.csv", matrix);
    let alphas = [1.25, 2.5];
    let mut problem = two_planes("2x2", "csv:m.csv", &alphas);
    problem.normalise = None;
    let solved = problem.solve(&files, 1, &Silent).expect("a plan");
    let xy = ebb_system_noc::routing::routing("xy").expect("registered");
    let routes = xy.route(&solved.mesh, &solved.traffic, ebb_des::Seed(1)).expect("routed");
    let count = routes.flows.len();
    let mut best = f64::INFINITY;
    for which in 0..1_u32 << count {
        let on: Vec<usize> = (0..count).map(|at| (which >> at & 1) as usize).collect();
        let parts = routes.parts(&on, 2);
        let cost = parts.iter().zip(alphas).map(|(part, alpha)| {
            let fits = part.loads(&solved.mesh).iter().all(|load| *load <= 1.0 / alpha + 1e-9);
            if fits { part.hop_rate() / (alpha * alpha) } else { f64::INFINITY }
        });
        best = best.min(cost.sum());
    }
    let fixed = &solved.plan.planes["fixed"];
    let power = fixed.power.expect("it fits");
    assert!(best.is_finite() && (power / best - 1.0).abs() < 1e-9, "{power}, not {best}");
    assert_eq!(fixed.proven, Some(true));
    problem.alphas = vec![3.0, 3.0];
    let error = problem.solve(&files, 1, &Silent).expect_err("does not fit").to_string();
    assert!(error.contains("`alphas`") && error.contains("smaller factors"), "{error}");
    for (alphas, words) in [(vec![1.0], "one for each"), (vec![1.0, 9.0], "alpha_max")] {
        problem.alphas = alphas;
        let error = problem.solve(&files, 1, &Silent).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// 600 flows on two planes: proven at given voltages, and no allocation of XY's paths at any voltages
/// is below the bound of that routing, which itself is not below that of all routings.
#[cfg(feature = "solver")]
#[test]
fn six_hundred_flows_are_allocated_as_well_as_can_be() {
    let problem = two_planes("5x5", "normal", &[1.8, 2.2]);
    let plan = problem.solve(&MemoryFiles::new(), 1, &Silent).expect("a plan").plan;
    let fixed = &plan.planes["fixed"];
    let (power, lower) = (fixed.power.expect("it fits"), fixed.lower.expect("a bound"));
    assert!(lower <= power && power <= lower * 1.001, "{lower} to {power}");
    let of_xy = plan.bound_routing.expect("a bound of the routing");
    assert!(of_xy.upper - of_xy.lower <= 1e-8 * of_xy.upper, "{} {}", of_xy.lower, of_xy.upper);
    for (name, planes) in &plan.planes {
        let power = planes.power.expect("fits");
        assert!(power >= of_xy.lower * (1.0 - 1e-9), "{name}: {power} below {}", of_xy.lower);
    }
    let any = plan.bound.expect("a bound").lower;
    assert!(any <= of_xy.upper * (1.0 + 1e-9), "{any} over {}", of_xy.upper);
}
