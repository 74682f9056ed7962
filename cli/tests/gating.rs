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
        assert!(saved(name) <= saved("oracle") + 1e-9, "{name}");
        let gating = report["oracle_by_gating"]["energy_saved"].as_f64().expect("a share");
        assert!(
            name.starts_with("dvfs") || name == "oracle" || saved(name) <= gating + 1e-9,
            "{name}"
        );
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
        (
            "short.champsim",
            &wrong[..],
            "short.champsim: byte 150: the last record has only 22 of 64",
        ),
        ("empty", &b""[..], "empty: byte 0: the file is empty"),
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
    assert!(
        error_of(&nothing).contains("/no/such/program could not be run"),
        "{}",
        error_of(&nothing)
    );
    assert!(!place.path().join("no.ebbmem").exists());
    let taken = ebb(place.path(), &record);
    assert!(
        error_of(&taken).contains("exists already; replace it with --force"),
        "{}",
        error_of(&taken)
    );
}

/// A real trace through our caches and through an independent simulator.
#[test]
fn caches_count_what_a_plain_simulator_counts() {
    if !there("valgrind") || !there("python3") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let program = ["--", "/bin/ls", "-lR", "/usr/lib"];
    let record = ["trace", "record", "-o", "ls.ebbmem", "--millions", "0.4"];
    let recorded = ebb(place.path(), &[&record[..], &program].concat());
    assert!(recorded.status.success(), "{}", error_of(&recorded));
    let simulated = ["sim", "gating", "--trace", "ls.ebbmem", "--controller", "none", "--json"];
    let ours = json(&ebb(place.path(), &simulated));
    let shown = ebb(place.path(), &["trace", "show", "ls.ebbmem", "--first", "10000000"]);
    std::fs::write(place.path().join("lines"), &shown.stdout).expect("written");
    let theirs = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/caches.py"))
        .stdin(std::fs::File::open(place.path().join("lines")).expect("there"))
        .output()
        .expect("runs");
    assert_eq!(ours["caches"], json(&theirs));
    assert!(ours["caches"]["memory"].as_u64() > Some(100), "{}", ours["caches"]);
}

/// Processes whose command line has `word` in it, but for this one.
fn running(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("procfs").flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

/// Waits, as long as a busy machine may take, until `done`.
fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("still not: {what}");
}

/// Ctrl-C and SIGKILL: nothing of a recording goes on, and after Ctrl-C there is no file either.
#[test]
fn a_recorder_that_ends_takes_valgrind_with_it() {
    if !there("valgrind") {
        return;
    }
    for signal in ["INT", "KILL"] {
        let place = tempfile::tempdir().expect("a directory");
        // A program that would run for ever, known by a word of its own.
        let word = format!("recorded-{signal}-{}", std::process::id());
        let script = "while :; do :; done";
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_ebb"))
            .args(["trace", "record", "-o", "on.ebbmem", "--", "/bin/sh", "-c", script, &word])
            .current_dir(place.path())
            .stdin(Stdio::null())
            .spawn()
            .expect("ebb runs");
        let trace = place.path().join("on.ebbmem");
        let begun = || std::fs::metadata(&trace).is_ok_and(|known| known.len() > 0);
        until("the program is recorded", begun);
        let id = recorder.id().to_string();
        let sent = Command::new("/bin/sh").args(["-c", &format!("kill -{signal} {id}")]).status();
        assert!(sent.expect("sh runs").success());
        let status = recorder.wait().expect("ends");
        until("valgrind is gone", || running(&word).is_empty());
        if signal == "INT" {
            assert_eq!(status.code(), Some(130));
            assert!(!trace.exists(), "half a trace was left");
        }
    }
}

/// Threads are told apart, and dealt out to cores.
#[test]
fn a_program_with_threads_is_recorded_by_thread() {
    if !there("valgrind") || !there("cc") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let code = "#include <pthread.h>
static long sums[3][512];
static pthread_barrier_t all_there;
static void *work(void *at) {
    long *own = at;
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < 512; i++) own[i] += i;
    return at;
}
int main(void) {
    pthread_t all[3];
    pthread_barrier_init(&all_there, 0, 3);
    for (int i = 0; i < 3; i++) pthread_create(&all[i], 0, work, sums[i]);
    for (int i = 0; i < 3; i++) pthread_join(all[i], 0);
    return 0;
}
";
    std::fs::write(place.path().join("threads.c"), code).expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-pthread", "-o", "threads", "threads.c"]).current_dir(place.path());
    assert!(compiler.status().expect("runs").success());
    let record = ["trace", "record", "-o", "threads.ebbmem"];
    let recorded = ebb(place.path(), &[&record[..], &["--", "./threads"]].concat());
    assert!(recorded.status.success(), "{}", error_of(&recorded));
    let shown = json(&ebb(place.path(), &["trace", "show", "threads.ebbmem", "--json"]));
    assert_eq!(shown["threads"], 4);
    let simulated =
        ["sim", "gating", "--trace", "threads.ebbmem", "--split", "--cores", "4", "--controller"];
    let report = json(&ebb(place.path(), &[&simulated[..], &["tap", "--json"]].concat()));
    assert_eq!(report["instructions"], shown["instructions"]);
}

/// The most memory that a command had, KiB.
fn peak(place: &Path, arguments: &[&str]) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(arguments)
        .current_dir(place)
        .stdout(Stdio::null())
        .spawn()
        .expect("ebb runs");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        most = most.max(number.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(child.wait().expect("a child").success(), "{arguments:?}");
    most
}

/// Memory does not grow with the trace. With EBB_LONG=1 the longer one has 1 GB when unpacked.
#[test]
fn a_long_trace_is_simulated_in_the_memory_of_a_short_one() {
    let unit: u64 = if std::env::var_os("EBB_LONG").is_some() { 64 << 20 } else { 1 << 20 };
    let place = tempfile::tempdir().expect("a directory");
    let write = |name: &str, bytes: u64| {
        let file = std::fs::File::create(place.path().join(name)).expect("created");
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        let block: String = (0..4096_u64).map(|i| format!("{} {}\n", i % 97, i << 20)).collect();
        for _ in 0..bytes / block.len() as u64 + 1 {
            packed.write_all(block.as_bytes()).expect("written");
        }
        packed.finish().expect("written");
    };
    write("short.gz", unit);
    write("long.gz", 16 * unit);
    let run = |name| {
        let start = ["sim", "gating", "--filtered", "--core", "io", "--json", "--trace", name];
        peak(place.path(), &[&start[..], &["--controller", "tap,dvfs-oracle"]].concat())
    };
    let (short, long) = (run("short.gz"), run("long.gz"));
    println!("at most {short} and {long} KiB");
    assert!(short > 0 && long < short + (24 << 10), "{short} {long}");
}
