//! The live benchmarks in small, so that they keep working. Their figures mean nothing here.

use std::path::{Path, PathBuf};
use std::process::Command;

use ebb_lab::test::permitted;

/// The directory of this build's programs, the benchmarks' tools among them.
fn programs() -> PathBuf {
    let ebb = Path::new(env!("CARGO_BIN_EXE_ebb"));
    let directory = ebb.parent().expect("a directory of programs");
    if std::env::var_os("EBB_TEST_BUILT").is_some() {
        return directory.to_owned();
    }
    // Also when they are there: they may be of yesterday. With the features that the whole workspace
    // asks for, as the tests were built: with fewer, half of it would be compiled again.
    let build = ["build", "--quiet", "--workspace", "--example", "live_bench"];
    let mut cargo = Command::new(env!("CARGO"));
    // What a test is told of its own package, build scripts would take for a change of theirs.
    let told = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let names = names.filter(|name| told.iter().any(|start| name.starts_with(start)));
    names.for_each(|name| _ = cargo.env_remove(name));
    let built = cargo.args(build).status().expect("cargo runs");
    assert!(built.success(), "the benchmarks' tools do not build");
    directory.to_owned()
}

#[test]
fn every_live_benchmark_runs() {
    if !permitted() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let mut names =
        vec!["veth", "steer", "fill", "idle", "churn", "kernel", "proportionality", "cores"];
    names.extend(["upgrade", "handover", "policies", "forwarding", "balance-workers", "threads"]);
    // Its traffic is another's program.
    if Command::new("iperf3").arg("--version").output().is_ok() {
        names.extend(["tcp", "firewall", "edge"]);
    } else {
        assert!(std::env::var_os("CI").is_none(), "CI must have iperf3");
        eprintln!("skipped: tcp, firewall and edge, iperf3 is not installed");
    }
    let output = Command::new(root.join("bench/run"))
        .args(["--quick", "--no-record", "--no-dpdk", "--programs"])
        .arg(programs())
        .args(&names)
        .output()
        .expect("bench/run starts (python3 is needed)");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let text = String::from_utf8_lossy(&output.stdout);
    for name in names {
        let line =
            text.lines().find(|line| line.starts_with(&format!("{{\"benchmark\": \"{name}\"")));
        let line = line.unwrap_or_else(|| panic!("no result of {name} in {text}\n{told}"));
        let result: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        if name == "upgrade" {
            assert_eq!(result["50% ring 2048"]["reordered"], 0, "{line}");
        }
        if name == "handover" {
            let forced = &result["50% ring 2048, forced"];
            assert_eq!(forced["reordered"], 0, "{line}");
            assert!(forced["entries_moved"].as_u64() > Some(0), "{line}");
        }
        if name == "churn" {
            assert_eq!(result["with_changes"]["misrouted"], 0, "{line}");
            assert_eq!(result["with_changes"]["reordered"], 0, "{line}");
        }
    }
}

/// A peer that is not installed used to make a benchmark compare with nothing and succeed.
#[test]
fn a_benchmark_without_its_peer_says_so_and_fails() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let empty = std::env::temp_dir().join(format!("ebb-no-peer-{}", std::process::id()));
    std::fs::create_dir_all(&empty).expect("a directory");
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"];
    let python = python.into_iter().find(|path| Path::new(path).exists()).expect("python3");
    let output = Command::new(python)
        .arg(root.join("bench/run"))
        .args(["--quick", "--no-record", "--programs", "/nonexistent", "path"])
        .env("PATH", &empty)
        .output()
        .expect("bench/run starts");
    _ = std::fs::remove_dir(&empty);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("path: its peer is missing: install Debian's libdpdk-dev"), "{told}");
}

/// The figures of the documentation are those of the runs that are kept.
#[test]
fn the_figures_are_drawn_from_recorded_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let tool = programs().join("examples/live_bench");
    let mut figures = Command::new(root.join("scripts/figures"));
    let drawn = figures.args(["--check", "--tool"]).arg(tool).output();
    let drawn = drawn.expect("scripts/figures starts (python3 is needed)");
    let said = [drawn.stdout, drawn.stderr].concat();
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&said));
}
