//! What a user sees of the commands that need no privileges.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn ebb(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebb")).args(arguments).output().expect("ebb runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json_of(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_example_configuration_passes_the_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("router.toml");
    let example = ebb(&["router", "check", "--example"]);
    std::fs::write(&file, &example.stdout).expect("a file");
    let name = file.to_str().expect("text");
    let check = ebb(&["router", "check", "-c", name]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    std::fs::write(&file, "[router]\nspeed = 9\n").expect("a file");
    let check = ebb(&["router", "check", "-c", name]);
    assert_eq!(check.status.code(), Some(1));
    let message = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(message.contains("router.toml:2:1: router.speed"), "{message}");
    let check = ebb(&["router", "check", "-c", name, "--json"]);
    let verdict: Value = serde_json::from_slice(&check.stdout).expect("JSON");
    assert_eq!(verdict["good"], false);
    let problems = verdict["problems"].as_array().expect("problems");
    assert!(problems.iter().any(|problem| problem["line"] == 2), "{verdict}");
}

#[test]
fn wrong_usage_and_failure_have_their_own_status() {
    assert_eq!(ebb(&["router", "rn"]).status.code(), Some(2));
    assert_eq!(ebb(&["demo", "--modes", "turbo"]).status.code(), Some(2));
    let show = ebb(&["router", "show", "--socket", "/nonexistent/ebb.sock"]);
    assert_eq!(show.status.code(), Some(1));
    let message = String::from_utf8_lossy(&show.stderr).into_owned();
    assert!(message.contains("is the router running?"), "{message}");
}

#[test]
fn the_demonstration_runs_without_privileges() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().to_str().expect("text");
    let demo = ebb(&["demo", "--memory", "--seconds", "3", "--report", name]);
    let text = stdout(&demo);
    assert!(demo.status.success(), "{text}{}", String::from_utf8_lossy(&demo.stderr));
    let first = text.lines().next().expect("a first line");
    assert!(first.contains("memory"), "the first line says where it runs: {first}");
    let report = json_of(&directory.path().join("report.json"));
    assert_eq!(report["transport"], "memory");
    let modes = report["modes"].as_array().expect("modes");
    let names: Vec<_> = modes.iter().map(|mode| mode["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["poll", "napi", "powersave"]);
    for mode in modes {
        let count = |key: &str| mode[key].as_u64().unwrap_or_else(|| panic!("{key} in {mode}"));
        assert_eq!(count("sent"), count("received") + count("lost"), "{mode}");
        assert!(count("received") > 0 && count("reordered") == 0, "{mode}");
        assert!(mode["cpu_seconds"].as_f64().expect("seconds") > 0.0, "{mode}");
        assert!(mode["joules"].as_f64().expect("joules") > 0.0, "{mode}");
        assert_eq!(mode["joules_basis"], "modelled");
        let router = &mode["router"];
        let dropped = router["dropped"].as_object().expect("reasons").values();
        let fates = dropped.map(|count| count.as_u64().expect("a count")).sum::<u64>()
            + ["forwarded", "to_kernel", "held"]
                .map(|key| router[key].as_u64().expect(key))
                .iter()
                .sum::<u64>();
        assert_eq!(router["received"], fates, "every packet has one fate: {router}");
    }
    let html = std::fs::read_to_string(directory.path().join("report.html")).expect("a page");
    assert!(html.contains("Over links in memory"));
    let picture = std::fs::read_to_string(directory.path().join("summary.svg")).expect("a picture");
    assert!(picture.contains("<svg"));
}

#[test]
fn completion_and_help_name_every_command() {
    let help = stdout(&ebb(&["--help"]));
    for word in ["router", "traffic", "demo", "completion", "Examples:"] {
        assert!(help.contains(word), "{word} is missing from\n{help}");
    }
    assert!(stdout(&ebb(&["completion", "bash"])).contains("complete -F"));
}
