use ebb_scenario::{Document, MemoryFiles, Silent};

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
        ("trace = \"t\"\nformat = \"x\"\n", "s.toml:2: field `format`: no format `x`"),
        ("trace = \"t\"\ncontrollers = \"best\"\n", "s.toml:2: field `controllers`: no controller"),
        ("trace = \"t\"\n[memory]\nrefi = 1\n", "s.toml:3: field `memory.refi`"),
        ("trace = \"t\"\n[memory]\nkind = \"x\"\n", "s.toml:3: field `memory.kind`"),
        ("trace = \"t\"\n[caches]\nl3 = { kib = 100, ways = 3 }\n", "s.toml:3: field `caches.l3`"),
    ] {
        let error = run(text, &files).expect_err(text).to_string();
        assert!(error.starts_with(start), "{error}");
    }
}
