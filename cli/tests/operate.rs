//! What operators get besides the programs: units, boards, alerts, and `ebb doctor`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ebb_clusterd::status::ClusterStatus;
use ebb_lab::test::skip;
use ebb_telemetry::table;
use ebb_tord::status::{ControlStatus, OcsStatus, TorStatus};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

/// A program of Debian's; `None` with the reason where it is missing.
fn program(name: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(name).args(arguments).current_dir(root()).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skip(&format!("{name}: {error}"));
            None
        }
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The lines of a unit that set something.
fn settings(unit: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("dist").join(unit)).expect("a unit");
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn units_are_as_closed_as_they_say_and_come_back() {
    // The router writes below /sys and /proc/irq, whose files no setting of a unit names, sends where its file says, and
    // looks for a module of the kernel's at its start.
    let units = [
        ("ebb-router.service", "32"),
        ("ebb-cluster.service", "25"),
        ("ebb-tor.service", "25"),
        ("ebb-ocs.service", "25"),
        ("ebb-ocs-control.service", "25"),
    ];
    for (unit, most) in units {
        let settings = settings(unit);
        let has = |begin: &str| settings.iter().any(|line| line.starts_with(begin));
        for begin in [
            "Restart=on-failure",
            "RestartSec=",
            "WatchdogSec=",
            "Type=notify",
            "StartLimitIntervalSec=0",
        ] {
            assert!(has(begin), "{unit}: {begin}");
        }
        let file = format!("dist/{unit}");
        let threshold = format!("--threshold={most}");
        let arguments = ["security", "--offline=true", "--no-pager", &threshold, &file];
        let Some(output) = program("systemd-analyze", &arguments) else { return };
        assert!(output.status.success(), "{unit}: {}", said(&output));
    }
}

/// Names of metrics in an expression or a template.
fn metrics_in(text: &str, found: &mut BTreeSet<String>) {
    let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    for word in text.split(|c: char| !name(c)).filter(|word| word.starts_with("ebb_")) {
        found.insert(word.strip_suffix("_bucket").unwrap_or(word).to_owned());
    }
}

fn declared() -> BTreeSet<String> {
    let tables = [
        table::<ebb_routerd::status::Status>(),
        table::<ClusterStatus>(),
        table::<TorStatus>(),
        table::<OcsStatus>(),
        table::<ControlStatus>(),
    ];
    let mut found = BTreeSet::new();
    tables.iter().for_each(|table| metrics_in(table, &mut found));
    found
}

fn strings(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => metrics_in(text, found),
        Value::Array(all) => all.iter().for_each(|one| strings(one, found)),
        Value::Object(all) => all.values().for_each(|one| strings(one, found)),
        _ => {}
    }
}

#[test]
fn boards_and_alerts_use_what_is_declared() {
    let declared = declared();
    assert!(declared.len() > 100, "{declared:?}");
    for name in ["router", "cluster", "tor"] {
        let path = root().join(format!("dist/grafana/ebb-{name}.json"));
        let text = std::fs::read_to_string(&path).expect("a board");
        let board: Value = serde_json::from_str(&text).expect("JSON");
        let mut used = BTreeSet::new();
        strings(&board, &mut used);
        assert!(used.len() >= 10, "{name}: {used:?}");
        let unknown: Vec<_> = used.difference(&declared).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
        let panels = board["panels"].as_array().expect("panels");
        let numbers: BTreeSet<_> = panels.iter().map(|panel| panel["id"].to_string()).collect();
        assert_eq!(numbers.len(), panels.len(), "{name}: panels share a number");
        assert_eq!(board["uid"], format!("ebb-{name}"));
    }
    let alerts =
        std::fs::read_to_string(root().join("dist/prometheus/ebb-alerts.yml")).expect("alerts");
    let mut used = BTreeSet::new();
    metrics_in(&alerts, &mut used);
    let unknown: Vec<_> = used.difference(&declared).collect();
    assert!(unknown.is_empty() && used.len() > 12, "{unknown:?} of {used:?}");
}

#[test]
fn prometheus_understands_the_alerts() {
    for arguments in [
        ["check", "rules", "dist/prometheus/ebb-alerts.yml"],
        ["test", "rules", "dist/prometheus/ebb-alerts.test.yml"],
    ] {
        let Some(output) = program("promtool", &arguments) else { return };
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    }
}

fn doctor(arguments: &[&str]) -> Output {
    let ebb = env!("CARGO_BIN_EXE_ebb");
    Command::new(ebb).arg("doctor").args(arguments).output().expect("ebb runs")
}

/// This machine, whatever it is: every finding has a form, and the exit status says whether one is a problem.
#[test]
fn the_doctor_examines_this_machine() {
    let output = doctor(&["--json", "--for", "measure", "lo", "no-such-port"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let of = |id: &str| findings.iter().find(|finding| finding["id"] == id);
    for id in ["kernel.version", "bpf.jit", "rights.capabilities", "cpu.count", "clock.source"] {
        assert!(of(id).is_some(), "no {id} in {report:#}");
    }
    assert_eq!(of("kernel.version").expect("a version")["state"], "ok", "{report:#}");
    let absent = findings.iter().find(|finding| finding["interface"] == "no-such-port");
    assert_eq!(absent.expect("it is not there")["state"], "problem");
    assert_eq!((output.status.code(), &report["good"]), (Some(1), &Value::Bool(false)));
    let text = doctor(&["lo", "no-such-port"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("problem  interface.present no-such-port: there is no such interface"),
        "{text}"
    );
    assert!(text.contains("\n         -> ip -brief link"), "{text}");
}

/// Another machine's files, as somebody sends them in: what is not among them is unknown, and no problem.
#[test]
fn the_doctor_examines_files_of_another_machine() {
    let place = tempfile::tempdir().expect("a directory");
    let release = place.path().join("proc/sys/kernel/osrelease");
    std::fs::create_dir_all(release.parent().expect("a directory")).expect("a directory");
    std::fs::write(&release, "5.4.0-old\n").expect("a file");
    let root = place.path().display().to_string();
    let output = doctor(&["--json", "--root", &root]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let of = |state: &str| findings.iter().filter(|finding| finding["state"] == state).count();
    assert!(of("unknown") > 8, "{report:#}");
    let version = findings.iter().find(|finding| finding["id"] == "kernel.version");
    assert_eq!(version.expect("a version")["state"], "problem", "{report:#}");
    assert_eq!((output.status.code(), of("problem")), (Some(1), 1), "{report:#}");
}

/// What `ebb router check` says of a file is said here, too, and decides on the exit status.
#[test]
fn the_doctor_reads_a_configuration() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("router.toml");
    let config = file.display().to_string();
    let report = |text: &str| -> (Option<i32>, Value) {
        std::fs::write(&file, text).expect("a file");
        let output = doctor(&["--json", "--all", "--config", &config]);
        (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
    };
    let wrong = "[router]\nworkers = 1\ncolour = 1\n[[port]]\nname = \"lo\"\n";
    let (status, said) = report(wrong);
    let first = &said["findings"][0];
    assert_eq!(
        (status, &first["id"], &first["state"]),
        (Some(1), &"config.valid".into(), &"problem".into()),
        "{said:#}"
    );
    assert!(first["found"].as_str().is_some_and(|text| text.contains("colour")), "{first}");
    let (_, said) = report("[router]\nworkers = 1\n[[port]]\nname = \"lo\"\n");
    let findings = said["findings"].as_array().expect("findings");
    let ids: BTreeSet<&str> =
        findings.iter().filter_map(|finding| finding["id"].as_str()).collect();
    assert!(ids.contains("config.path") && ids.contains("interface.mtu"), "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("policy")), "{ids:?}");
}

/// An error goes to the journal where standard error is the journal's, with its code and once; here the journal's socket
/// is another one, in a mount namespace of the test's.
#[test]
fn a_failure_reaches_the_journal_once() {
    use std::os::unix::net::UnixDatagram;
    let place = tempfile::tempdir().expect("a directory");
    let heard = UnixDatagram::bind(place.path().join("socket")).expect("a socket");
    heard.set_nonblocking(true).expect("a socket");
    let errors = place.path().join("errors");
    let bind = format!(
        "exec 2>{}; export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec {} router run -c /no/such/file",
        errors.display(),
        env!("CARGO_BIN_EXE_ebb")
    );
    let directory = place.path().display().to_string();
    let arguments = [
        "--dev-bind",
        "/",
        "/",
        "--tmpfs",
        "/run",
        "--bind",
        &directory,
        "/run/systemd/journal",
        "--bind",
        &directory,
        &directory,
        "sh",
        "-c",
        &bind,
    ];
    let Some(output) = program("bwrap", &arguments) else { return };
    if said(&output).contains("bwrap:") {
        return skip("mount namespaces are not permitted");
    }
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let mut bytes = [0; 4096];
    let length = heard
        .recv(&mut bytes)
        .unwrap_or_else(|error| panic!("nothing came: {error}; {}", said(&output)));
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    let id = format!("MESSAGE_ID={}", ebb_service::message_id("EBB-E003"));
    for line in ["EBB_CODE=EBB-E003", "PRIORITY=3", &id] {
        assert!(text.lines().any(|one| one == line), "{line} in {text}");
    }
    assert!(text.contains("/no/such/file"), "{text}");
    assert!(heard.recv(&mut bytes).is_err(), "it came twice");
    assert_eq!(std::fs::read_to_string(&errors).expect("a file"), "", "it was said twice");
}
