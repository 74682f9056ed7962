//! What a user sees of the commands that need no privileges.

use std::path::Path;
use std::process::{Command, Output};

use ebb_traffic::{Flow, FrameTemplate, Protocol};
use ebb_units::Time;
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
    assert!(message.contains("is the daemon running?"), "{message}");
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
    // Every mode gets the same packets, unless this machine could not even send them late.
    let due = |mode: &Value| [&mode["sent"], &mode["not_sent_in_time"]].map(Value::as_u64);
    let due = |mode| due(mode).into_iter().map(|count| count.expect("a count")).sum::<u64>();
    assert!(modes.iter().all(|mode| due(mode) == due(&modes[0])), "{modes:?}");
    assert!(text.contains("always polls") || text.contains("always poll"), "{text}");
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

/// Twenty packets to 10.0.1.2 for a station that is none of the ports.
fn write_capture(path: &Path) {
    let flow = Flow {
        source: "10.0.0.2".parse().expect("an address"),
        destination: "10.0.1.2".parse().expect("an address"),
        protocol: Protocol::Udp,
        source_port: 10_000,
        destination_port: 9,
    };
    let template = FrameTemplate::new(&flow, 0, [2, 0, 0, 0, 9, 1], [2, 0, 0, 0, 9, 9]);
    let mut file = Vec::new();
    let mut writer = ebb_capture::Writer::new("memory", &mut file).expect("a capture");
    for number in 0..20 {
        let (mut frame, now) = ([0; 1514], Time::from_nanos(u64::from(number) * 1_000_000));
        let len = template.write(100, number, now, &mut frame);
        writer.write(now, &frame[..len]).expect("a packet");
    }
    writer.finish().expect("a capture");
    std::fs::write(path, file).expect("a file");
}

/// A capture made on another machine: everything is for other stations, which is said, and mended by
/// what is said.
#[test]
fn a_capture_from_elsewhere_is_forwarded_with_any_mac() {
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).display().to_string();
    let config = "[[port]]\nname = \"a\"\nmac = \"02:00:00:00:00:00\"\n\
                  address = [\"10.0.0.1/24\"]\n\
                  [[port]]\nname = \"b\"\nmac = \"02:00:00:00:00:01\"\n\
                  address = [\"10.0.1.1/24\"]\n\
                  [[neighbour]]\naddress = \"10.0.1.2\"\nmac = \"02:00:00:00:01:01\"\n";
    std::fs::write(path("router.toml"), config).expect("a file");
    write_capture(&place.path().join("in.pcap"));
    let (config, input) = (path("router.toml"), format!("a={}", path("in.pcap")));
    let replay = ["router", "replay", "-c", &config, "--in", &input, "--json"];
    let strict = ebb(&replay);
    let counts: Value = serde_json::from_slice(&strict.stdout).expect("JSON");
    assert_eq!((&counts["received"], &counts["forwarded"]), (&20.into(), &0.into()), "{counts}");
    assert_eq!(counts["dropped"]["other_station"], 20, "{counts}");
    let hint = String::from_utf8_lossy(&strict.stderr).into_owned();
    assert!(hint.contains("20 of 20 packets have another destination MAC address"), "{hint}");
    assert!(hint.contains("--any-mac"), "{hint}");
    let output = format!("b={}", path("out.pcap"));
    let any = ebb(&[&replay[..], &["--any-mac", "--out", &output]].concat());
    let said = String::from_utf8_lossy(&any.stderr).into_owned();
    assert!(any.status.success() && !said.contains("--any-mac"), "{said}");
    let counts: Value = serde_json::from_slice(&any.stdout).expect("JSON");
    assert_eq!((&counts["forwarded"], &counts["dropped"]), (&20.into(), &serde_json::json!({})));
    let bytes = std::fs::read(path("out.pcap")).expect("a capture");
    let frames = ebb_capture::Reader::new("out", &bytes[..]).expect("a capture");
    let frames: Vec<Vec<u8>> = frames.map(|frame| frame.expect("a frame").data).collect();
    assert_eq!(frames.len(), 20);
    assert!(frames.iter().all(|frame| frame[..6] == [2, 0, 0, 0, 1, 1]), "{frames:?}");
}

/// Without a router there is nothing to capture, and no file says otherwise.
#[test]
fn a_capture_that_fails_leaves_no_file() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("eth1.pcap").display().to_string();
    let fixed = ["router", "capture", "eth1", "--socket", "/nonexistent/ebb.sock", "-w", &file];
    assert_eq!(ebb(&fixed).status.code(), Some(1));
    assert!(!Path::new(&file).exists(), "an empty capture stayed");
    std::fs::write(&file, "mine").expect("a file");
    assert_eq!(ebb(&fixed).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "mine");
}

#[test]
fn completion_and_help_name_every_command() {
    let help = stdout(&ebb(&["--help"]));
    for word in ["router", "traffic", "demo", "completion", "Examples:"] {
        assert!(help.contains(word), "{word} is missing from\n{help}");
    }
    assert!(stdout(&ebb(&["completion", "bash"])).contains("complete -F"));
}

#[test]
fn moving_work_is_measured_with_the_keys_that_programs_read() {
    let bench = ebb(&["bench", "switch", "--json", "--trips", "200"]);
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    let json: Value = serde_json::from_slice(&bench.stdout).expect("JSON alone");
    let rows = json["mechanisms"].as_array().expect("mechanisms");
    for row in rows {
        let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
        let mut known =
            ["name", "target", "core", "one_way_ns", "round_trip_ns", "cpu_ns_waiting"].to_vec();
        known.sort_unstable();
        assert_eq!(keys, known);
        for span in ["one_way_ns", "round_trip_ns"] {
            let at = |quantile: &str| row[span][quantile].as_u64().expect("a number");
            assert!(at("p50") <= at("p99") && at("p99") <= at("p999"), "{row}");
        }
    }
    let cross = rows.iter().filter(|row| row["core"] == "cross").count();
    let without = json["unmeasured"].as_array().expect("a list").len();
    assert!(cross + without >= 5, "{json}");
    // With one CPU nothing between cores is measured, and that is said.
    let mut alone = Command::new("taskset");
    alone.args(["-c", "0", env!("CARGO_BIN_EXE_ebb"), "bench", "switch", "--trips", "50"]);
    let alone = alone.output().expect("taskset is part of util-linux");
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(said.contains("polling (spinning, cross) is not measured"), "{said}");
    assert!(said.contains("one CPU only"), "{said}");
}

/// Runs a shell script with its system calls on CPU 1; skips where that cannot be.
fn switched(place: &Path, script: &str) -> Option<Output> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        assert!(std::env::var("CI").is_err(), "CI has two CPUs");
        eprintln!("skipped: one CPU");
        return None;
    }
    let mut run = Command::new(env!("CARGO_BIN_EXE_ebb"));
    run.args(["switch", "run", "--os-core", "1", "--report", "figures", "--", "sh", "-c", script]);
    Some(run.current_dir(place).output().expect("ebb runs"))
}

#[test]
fn unmodified_programs_run_with_their_system_calls_on_another_core() {
    let place = tempfile::tempdir().expect("a directory");
    let data: Vec<u8> = (0..300_000_u32).flat_map(|n| (n % 97).to_le_bytes()).collect();
    std::fs::write(place.path().join("in"), &data).expect("a file");
    // Forks, pipes, executed programs, a file that is read to its end, flushed and compared.
    let script = "cp in out && cat in | sort -z | cat > sorted; dd if=in of=synced bs=1M conv=fsync 2>/dev/null \
                  && cmp in out && cmp in synced && (cat in > sub & wait) && cmp in sub && echo same; \
                  ! command -v sqlite3 >/dev/null || sqlite3 t.db 'create table t(a, b); insert into t select value, \
                  hex(randomblob(200)) from generate_series(1, 2000); pragma integrity_check;' | grep -qx ok || echo bad";
    let Some(run) = switched(place.path(), script) else { return };
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success() && stdout(&run) == "same\n", "{}{said}", stdout(&run));
    assert!(said.contains("fsync") && said.contains("Calls on CPU 1"), "{said}");
    let figures = json_of(&place.path().join("figures/figures.json"));
    assert!(figures["moved"].as_u64().expect("a count") > 20, "{figures}");
}

#[test]
fn programs_end_under_the_switcher_as_they_do_without() {
    let place = tempfile::tempdir().expect("a directory");
    let codes = [
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        // Killed in the middle of a call that is being moved.
        (
            "dd if=/dev/zero of=big bs=4M count=200 2>/dev/null & p=$!; sleep 0.1; kill -9 $p; wait $p; exit 5",
            5,
        ),
        // A signal that is caught while calls are moved, and a read that blocks: it is left alone.
        (
            "trap 'exit 9' TERM; (sleep 0.1; kill -TERM $$) & dd if=/dev/zero of=f bs=1M count=20 2>/dev/null; (sleep 1 | read x) & wait",
            9,
        ),
        (
            "ulimit -f 16; dd if=/dev/zero of=limited bs=1M count=1 2>/dev/null; test $? -gt 128 && exit 3",
            3,
        ),
    ];
    for (script, code) in codes {
        let Some(run) = switched(place.path(), script) else { return };
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{script}: {said}");
    }
    let wrong = ebb(&["switch", "run", "--os-core", "999", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("CPU 999"));
    let wrong = ebb(&["switch", "run", "--os-core", "1", "--", "./no-such-program"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no-such-program"));
}
