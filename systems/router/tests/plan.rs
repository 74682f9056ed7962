//! `plan router`: what it answers, what it refuses, and that nobody beats the optimum.

use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_system_router::optimum::{State, energy};
use ebb_system_router::plan::{Comparison, plan};

fn report(text: &str) -> Result<ebb_report::Report, String> {
    let document = Document::parse("plan.toml", text).map_err(|error| error.to_string())?;
    let files = MemoryFiles::new().with("day.csv", "time,gbps\n0,1\n300,4\n600,2\n900,8\n");
    plan(&document, &files, 1, &Silent).map_err(|error| error.to_string())
}

#[test]
fn an_operators_own_trace_is_answered() {
    let text = "simulated_s = 4.0\nrows = 4\n[traffic]\nsizes = 512\n\
                trace = { file = \"day.csv\", value = \"gbps\", unit = \"relative\" }\n";
    let report = report(&format!("load = 0.3\n{text}")).expect("planned");
    let figure = |key: &str| report.figures[key].as_f64().expect(key);
    assert_eq!(figure("span_s"), 1200.0);
    assert!((figure("offered_mpps") - 0.3 * 29.0).abs() < 0.01);
    assert!(figure("power_w.optimum") < figure("power_w.model"));
    assert!(figure("power_w.model") < figure("power_w.napi"));
    assert!(figure("power_w.powersave") < figure("power_w.napi"));
    assert!(figure("power_w.napi") < figure("power_w.poll"));
    assert!(figure("saved_percent.powersave") > 25.0);
    let energy = figure("energy_j.poll") / figure("power_w.poll");
    assert!((energy - 1200.0).abs() < 1e-6);
}

/// A planner accepts what the simulator does, and makes the same of the policy's settings.
#[test]
fn a_scenario_of_the_simulator_is_a_problem() {
    let load = "load = 0.3\nrows = 2\n";
    let scenario = "engine = \"packet\"\nduration_s = 0.5\nwarmup_s = 0.1\nslot_us = 20.0\n\
                    sample_s = 0.01\n[policy]\nname = \"napi\"\n";
    let plan = report(&format!("{load}{scenario}")).expect("planned");
    assert_eq!(plan.figures["span_s"], 0.5);
    let text = plan.to_terminal(&ebb_report::Terminal::plain()).replace('\n', " ");
    assert!(text.contains("warmup_s, engine, sample_s, policy.name are used only"), "{text}");
    let settings = "settings.hold_ms = 1\n";
    let from_policy = report(&format!("{load}[policy]\n{settings}"));
    let own = report(&format!("{load}{settings}"));
    let (from_policy, own) = (from_policy.expect("planned"), own.expect("planned"));
    assert_eq!(from_policy.figures, own.figures);
    assert!(report("[policy]\nname = \"turbo\"\n").expect_err("refused").contains("turbo"));
}

#[test]
fn the_same_problem_and_seed_give_the_same_bytes() {
    let json = || report("load = 0.3\nrows = 2\n").expect("planned").to_json();
    assert_eq!(json(), json());
}

#[test]
fn what_makes_no_sense_is_refused_by_field_and_line() {
    for (text, expected) in [
        (
            "\nheadroom = -1\n",
            "plan.toml:2: field `headroom`: -1 is out of range; expected 0 to 10",
        ),
        ("policies = [\"poll\", \"turbo\"]\n", "field `policies[1]`: unknown value `turbo`"),
        ("policies = []\n", "field `policies`: is empty"),
        ("rows = 0\n", "field `rows`: 0 is out of range"),
        ("speed = 1\n", "speed"),
        ("[traffic]\nrate_mpps = -3\n", "plan.toml:2: field `traffic.rate_mpps`"),
    ] {
        let error = report(text).expect_err(text);
        assert!(error.contains(expected), "{error}");
    }
}

/// The points that a policy kept, slot by slot, cost at least what the optimum does on the same
/// model, wherever they carry the load.
#[test]
fn no_policy_beats_the_optimum_on_the_same_model() {
    let text = "load = 0.4\nsimulated_s = 8.0\n[traffic]\nprofile = \"eu\"\n";
    let document = Document::parse("plan.toml", text).expect("text");
    let comparison = Comparison::new(&document, &MemoryFiles::new(), 3, &Silent).expect("runs");
    let Comparison { estimate, loads, slot, optimum, .. } = &comparison;
    let grid = estimate.grid(0.0);
    for (name, run) in &comparison.runs {
        let at = |index: usize| {
            let time = (index as f64 + 0.5) * slot.as_secs_f64();
            let sample = run.samples.iter().find(|sample| sample.at_s >= time);
            let sample = sample.or(run.samples.last()).expect("samples");
            let frequency = estimate.nearest(sample.frequency.as_ghz());
            let state = grid.states()[grid.index(sample.cores, frequency)];
            if grid.allows(&state, loads[index]) { state } else { largest(&grid) }
        };
        let states: Vec<State> = (0..loads.len()).map(at).collect();
        let draws = |cores, frequency, load| estimate.watts(cores, frequency, load);
        let spent = energy(&grid, &states, loads, *slot, &estimate.switching(), draws);
        let spent = spent.expect("every state carries its load");
        assert!(spent.0 >= optimum.energy.0, "{name}: {spent} below {}", optimum.energy);
    }
}

fn largest(grid: &ebb_system_router::optimum::Grid) -> State {
    *grid.states().last().expect("states")
}

/// Plans run slot by slot, where clocks per core are not simulated.
#[test]
fn clocks_per_core_are_refused_by_name() {
    let text = "load = 0.3\nduration_s = 1\n[server]\nclocks = \"per-core\"\n";
    let document = ebb_scenario::Document::parse("p.toml", text).expect("TOML");
    let files = ebb_scenario::MemoryFiles::new();
    let refused = ebb_system_router::plan::plan(&document, &files, 1, &ebb_scenario::Silent);
    let message = refused.expect_err("refused").to_string();
    assert!(message.contains("server.clocks"), "{message}");
}
