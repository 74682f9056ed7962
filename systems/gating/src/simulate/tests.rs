//! What `ebb sim gating` reports.

use ebb_scenario::{Document, MemoryFiles, Progress, Silent};

use super::{SimulateError, simulate};

fn run(text: &str, files: &MemoryFiles) -> Result<ebb_report::Report, SimulateError> {
    let document = Document::parse("s.toml", text).expect("TOML");
    simulate(&document, files, 1, &Silent)
}

#[test]
fn a_memory_bound_trace_saves_and_says_so_by_name() {
    let lines: String =
        (0..4000_u64).map(|index| format!("60 {}\n", index * 1_048_583 * 64)).collect();
    let files = MemoryFiles::new().with("far.trace", lines);
    let report =
        run("trace = \"far.trace\"\nfiltered = true\ncores = 2\n[core]\nname = \"io\"\n", &files);
    let report = report.expect("good");
    let controllers = report.figures["controllers"].as_object().expect("an object");
    let names: Vec<&str> = controllers.keys().map(String::as_str).collect();
    let mut expected: Vec<&str> = crate::compare::names().collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    for (name, result) in controllers {
        let keys = ["energy_saved", "slowdown", "gated_share", "wakeups", "energy_j"];
        assert!(keys.iter().all(|key| !result[*key].is_null()), "{name}: {result}");
        let parts = ["active", "stalled", "gated", "waking"];
        assert!(parts.iter().all(|part| result["energy_j"][*part].is_number()), "{name}");
    }
    let saved = |name: &str| controllers[name]["energy_saved"].as_f64().expect("a number");
    assert!(saved("oracle") > 0.1 && saved("oracle") >= saved("hybrid"));
    assert!(saved("hybrid") >= saved("tap") && saved("hybrid") >= saved("counter"));
}

#[test]
fn faults_name_file_and_place() {
    let files = MemoryFiles::new().with("bad.trace", "1 64\nnoise\n").with("t", "1 64\n");
    for (text, start) in [
        ("trace = \"bad.trace\"\n", "bad.trace: byte 5 (line 2): `noise`"),
        ("trace = \"none\"\n", "none: byte 0: no such file"),
        ("cores = 2\n", "s.toml: field `trace`: there is no workload"),
        ("trace = \"t\"\ncores = 65\n", "s.toml:2: field `cores`"),
        ("trace = \"t\"\nformat = \"x\"\n", "s.toml:2: field `format`: unknown value `x`"),
        (
            "trace = \"t\"\ncontrollers = \"best\"\n",
            "s.toml:2: field `controllers`: there is no controller",
        ),
        ("trace = \"t\"\n[memory]\nrefi = 1\n", "s.toml:3: field `memory.refi`"),
        ("trace = \"t\"\n[memory]\nkind = \"x\"\n", "s.toml:3: field `memory.kind`"),
        ("trace = \"t\"\n[caches]\nl3 = { kib = 100, ways = 3 }\n", "s.toml:3: field `caches.l3`"),
    ] {
        let error = run(text, &files).expect_err(text).to_string();
        assert!(error.starts_with(start), "{error}");
    }
}

/// How far each word of progress says that the run is.
#[derive(Default)]
struct Told(std::sync::Mutex<Vec<f64>>);

impl Progress for Told {
    fn at(&self, share: f64, _: &str) {
        self.0.lock().expect("nobody panicked").push(share);
    }

    fn stopped(&self) -> bool {
        false
    }
}

#[test]
fn progress_is_how_much_of_a_trace_was_read() {
    let lines: String = (0..300_000_u64).map(|index| format!("1 {}\n", index * 64)).collect();
    let files = MemoryFiles::new().with("long.trace", lines);
    let text = "trace = \"long.trace\"\ncontrollers = \"tap\"\n";
    let document = Document::parse("s.toml", text).expect("TOML");
    let told = Told::default();
    simulate(&document, &files, 1, &told).expect("good");
    let told = told.0.into_inner().expect("nobody panicked");
    assert!(told.len() > 2 && told.is_sorted(), "{told:?}");
    assert!(told[0] < 0.5 && told[told.len() - 1] > 0.8, "{told:?}");
}

/// What cores do while there is nothing to do dilutes what gating saves, and polling most of all.
#[test]
fn a_load_below_one_adds_time_that_nobody_gates() {
    let lines: String = (0..2000_u64).map(|index| format!("60 {}\n", index << 20)).collect();
    let files = MemoryFiles::new().with("far.trace", lines);
    let at = |more: &str| {
        let text = format!("trace = \"far.trace\"\nfiltered = true\n{more}[core]\nname = \"io\"\n");
        let report = run(&text, &files).expect("good");
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let tap = &report.figures["controllers"]["tap"];
        let parts = ["active", "stalled", "gated", "waking"];
        let sum: f64 = parts.iter().map(|part| number(&tap["energy_j"][*part])).sum();
        let base = number(&report.figures["energy_j"]);
        assert!((1.0 - sum / base - number(&tap["energy_saved"])).abs() < 1e-9);
        (number(&tap["energy_saved"]), base, base - sum)
    };
    let full = at("");
    let polls = at("load = 0.5\n");
    let halts = at("load = 0.5\nidle = \"halt\"\n");
    let sleeps = at("load = 0.5\nidle = \"sleep\"\n");
    assert!(full.0 > sleeps.0 && sleeps.0 > halts.0 && halts.0 > polls.0 && polls.0 > 0.0);
    // Joules saved are the same; the same time again at work or waiting is added.
    for other in [polls, halts, sleeps] {
        assert!((other.2 / full.2 - 1.0).abs() < 1e-6, "{other:?} {full:?}");
    }
    assert!(polls.1 > 2.0 * full.1 && sleeps.1 < 1.1 * full.1);
    let error = run("trace = \"far.trace\"\nload = 0.0\n", &files).expect_err("no load");
    assert!(error.to_string().starts_with("s.toml:2: field `load`"), "{error}");
}
