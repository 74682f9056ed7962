//! What a user sees of `ebb sim gating` and `ebb trace`: real programs and files, end to end.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn ebb(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.args(arguments).current_dir(place).stdin(Stdio::null()).output().expect("ebb runs")
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", error_of(output));
    serde_json::from_slice(&output.stdout).expect("JSON alone on standard output")
}

/// Whether `program` is there; a skip is said, and under CI it must be.
fn there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "{program} is missing");
    if !found {
        println!("skipped: {program} is missing");
    }
    found
}

/// A trace of ChampSim's records: `count` reads far apart, each told by the one before.
fn champsim(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..count {
        let mut record = [0_u8; 64];
        record[..8].copy_from_slice(&(0x40_0000 + index % 16 * 4).to_le_bytes());
        (record[10], record[12]) = (5, 5);
        let address = 0x1000_0000 + index.wrapping_mul(0x9e37_79b9) % (1 << 30);
        record[32..40].copy_from_slice(&address.to_le_bytes());
        bytes.extend(record);
    }
    bytes
}

fn packed(program: &str, bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut input = child.stdin.take().expect("piped");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().expect("ends");
    writer.join().expect("no panic").expect("written");
    output.stdout
}

const NAMES: [&str; 9] =
    ["none", "oracle", "counter", "tap", "fupg", "dvfs-mean", "dvfs-oracle", "cyclic", "hybrid"];

fn sound(report: &Value) {
    let controllers = report["controllers"].as_object().expect("by name");
    assert_eq!(controllers.len(), NAMES.len());
    let saved = |name: &str| controllers[name]["energy_saved"].as_f64().expect("a share");
    for name in NAMES {
        let one = &controllers[name];
        let parts = ["active", "stalled", "gated", "waking"];
        let sum: f64 = parts.iter().map(|part| one["energy_j"][*part].as_f64().expect("J")).sum();
        let base = report["energy_j"].as_f64().expect("J");
        assert!((1.0 - sum / base - saved(name)).abs() < 1e-9, "{name}");
        assert!(one["wakeups"].is_u64() && one["gated_share"].is_f64(), "{name}");
        if !["fupg", "dvfs-mean", "dvfs-oracle"].contains(&name) {
            assert!(saved(name) <= saved("oracle") + 1e-12, "{name}");
        }
    }
    assert_eq!(controllers["tap"]["slowdown"], 0.0);
    assert_eq!(saved("none"), 0.0);
}

#[test]
fn the_short_form_takes_traces_of_other_simulators() {
    let place = tempfile::tempdir().expect("a directory");
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).expect("written");
    let lines: String =
        (0..20_000_u64).map(|i| format!("{} {} {}\n", i % 90, i * 7_919 * 64, i * 64)).collect();
    write("429.mcf", lines.as_bytes());
    write("429.gz", &packed("gzip", lines.as_bytes()));
    let short = |file: &str, more: &[&str]| {
        let start = ["sim", "gating", "--trace", file, "--json"];
        json(&ebb(place.path(), &[&start[..], more].concat()))
    };
    let filtered = ["--filtered", "--core", "io", "--controller", "all"];
    let plain = short("429.mcf", &filtered);
    sound(&plain);
    assert!(plain["controllers"]["oracle"]["energy_saved"].as_f64() > Some(0.1));
    assert_eq!(plain["controllers"], short("429.gz", &filtered)["controllers"]);
    sound(&short(
        "429.mcf",
        &["--core", "ev6", "--cores", "3", "--wake-ns", "5", "--leakage-share", "0.2"],
    ));
    if there("xz") {
        let bytes = champsim(20_000);
        let xz = packed("xz", &bytes);
        write("chase.champsimtrace.xz", &xz);
        sound(&short("chase.champsimtrace.xz", &["--core", "ev6"]));
        write("cut.champsimtrace.xz", &xz[..xz.len() / 2]);
        let cut = ebb(place.path(), &["sim", "gating", "--trace", "cut.champsimtrace.xz"]);
        assert_eq!(cut.status.code(), Some(2), "{}", error_of(&cut));
        assert!(error_of(&cut).contains("cut.champsimtrace.xz: byte "), "{}", error_of(&cut));
    }
}

#[test]
fn damaged_traces_end_with_their_place_and_status_two() {
    let place = tempfile::tempdir().expect("a directory");
    let mut wrong = champsim(3);
    wrong.truncate(150);
    let wide = b"1 64\n1 18446744073709551616\n";
    for (name, bytes, said) in [
        ("noise.trace", &b"1 64\n2 128\nlorem ipsum\n"[..], "noise.trace: byte 11 (line 3): "),
        ("wide.trace", &wide[..], "wide.trace: byte 5 (line 2): "),
        ("short.champsim", &wrong[..], "short.champsim: byte 150: the last record has 22 of 64"),
        ("empty", &b""[..], "empty: byte 0: there is nothing in it"),
    ] {
        std::fs::write(place.path().join(name), bytes).expect("written");
        for command in [
            &["sim", "gating", "--trace", name][..],
            &["trace", "show", name],
            &["trace", "convert", name, "out.ebbmem"],
        ] {
            let output = ebb(place.path(), command);
            assert_eq!(output.status.code(), Some(2), "{command:?}: {}", error_of(&output));
            assert!(error_of(&output).contains(said), "{command:?}: {}", error_of(&output));
        }
        assert!(!place.path().join("out.ebbmem").exists(), "half a trace was left");
    }
    let missing = ebb(place.path(), &["sim", "gating", "--trace", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_program_is_recorded_shown_and_simulated() {
    if !there("valgrind") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let record =
        ["trace", "record", "-o", "true.ebbmem", "--millions", "1", "--", "/bin/echo", "said"];
    let recorded = ebb(place.path(), &record);
    assert!(recorded.status.success(), "{}", error_of(&recorded));
    let said = String::from_utf8_lossy(&recorded.stdout).into_owned();
    assert!(said.contains("said\n") && said.contains("true.ebbmem: "), "{said}");
    let shown = json(&ebb(place.path(), &["trace", "show", "true.ebbmem", "--json"]));
    let instructions = shown["instructions"].as_u64().expect("a count");
    assert!((50_000..=1_000_100).contains(&instructions), "{instructions}");
    assert_eq!(shown["format"], "compact");
    let converted = ["trace", "convert", "true.ebbmem", "again.ebbmem"];
    assert!(ebb(place.path(), &converted).status.success());
    let whole = |name: &str| std::fs::read(place.path().join(name)).expect("there");
    assert_eq!(whole("true.ebbmem"), whole("again.ebbmem"));
    let simulated = ["sim", "gating", "--trace", "true.ebbmem", "--core", "io", "--json"];
    let report = json(&ebb(place.path(), &simulated));
    sound(&report);
    assert_eq!(report["instructions"], instructions);
    let nothing = ["trace", "record", "-o", "no.ebbmem", "--", "/no/such/program"];
    let nothing = ebb(place.path(), &nothing);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(!place.path().join("no.ebbmem").exists());
    let taken = ebb(place.path(), &record);
    assert!(
        error_of(&taken).contains("is there already; --force replaces it"),
        "{}",
        error_of(&taken)
    );
}
