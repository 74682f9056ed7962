//! The live top-of-rack switch, its controller and the emulated optical switch, in network
//! namespaces: what hosts, operators and faults make of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ebb_host::namespace::Namespace;
use ebb_host::signals::Signal;
use ebb_lab::test::{leftovers, must as good, permitted, skip};
use ebb_lab::{Lab, Program};
use ebb_ports::PacketSocket;
use ebb_system_circuit::sim::{Congestion, Flow};
use ebb_telemetry::Snapshot;
use ebb_tord::seal::{Keys, Sealer};
use ebb_tord::sync::{self, Announced, Frame, Heard};
use serde_json::Value;

mod jumbo;
mod machines;
mod router;
mod shares;
mod threads;
mod windows;

const EBB: &str = env!("CARGO_BIN_EXE_ebb");
/// Whatever has not happened after this long never will.
const PATIENCE: Duration = Duration::from_secs(60);

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("a program runs")
}

fn until(holds: impl FnMut() -> bool) -> bool {
    ebb_lab::test::until(PATIENCE, holds)
}

fn iperf3_is_here() -> bool {
    let here = Command::new("iperf3").arg("--version").output().is_ok();
    if !here {
        skip("iperf3 is not installed (Debian package iperf3)");
    }
    here
}

/// A program that runs in a namespace and dies with the test.
fn start(namespace: &str, log: &Path, line: &[&str]) -> Program {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "ip", "netns", "exec", namespace]).args(line);
    Program::start(line[0], &mut command, log).expect("setpriv (util-linux) runs")
}

/// Two racks of one unmodified host each, and namespaces for them and for the switches.
struct Racks {
    lab: Lab,
    _spaces: [Namespace; 3],
}

/// How switches are configured: circuits unless `packets`.
struct Settings {
    packets: bool,
    link_mbps: u32,
    queue_kb: u32,
}

impl Racks {
    fn build(test: &str) -> Racks {
        let lab = ebb_lab::test::lab(&format!("ebb-{test}")).expect("permitted");
        let spaces = ["sw", "h0", "h1"].map(|role| lab.namespace(role).expect("a namespace"));
        let racks = Racks { lab, _spaces: spaces };
        let mut script =
            String::from("link set lo up\nlink add sync type bridge\nlink set sync up\n");
        for name in ["sync0", "sync1", "sync2"] {
            script += &format!(
                "link add {name} type veth peer name b-{name}\nlink set b-{name} master sync\n\
                 link set b-{name} up\nlink set {name} up\n"
            );
        }
        for rack in 0..2 {
            let host = racks.space(&format!("h{rack}"));
            script += &format!(
                "link add up{rack} type veth peer name light{rack}\nlink set up{rack} up\n\
                 link set light{rack} up\nlink add host{rack} type veth peer name eth0 netns {host}\n\
                 link set host{rack} up\naddress add 10.77.{rack}.1/24 dev host{rack}\n"
            );
        }
        racks.ip("sw", &script);
        for rack in 0..2 {
            let script = format!(
                "link set eth0 up\naddress add 10.77.{rack}.5/24 dev eth0\n\
                 route add default via 10.77.{rack}.1\n"
            );
            racks.ip(&format!("h{rack}"), &script);
        }
        racks
    }

    fn space(&self, role: &str) -> String {
        self.lab.space(role)
    }

    fn at(&self, name: &str) -> String {
        self.lab.directory().join(name).display().to_string()
    }

    fn ip(&self, role: &str, script: &str) {
        ebb_lab::test::ip(&self.space(role), script);
    }

    /// Writes what the three programs read.
    fn configure(&self, settings: &Settings) {
        let Settings { packets, link_mbps, queue_kb } = settings;
        let mode = if *packets { "packets" } else { "circuits" };
        let mut tor = format!(
            "[tor]\nmode = \"{mode}\"\nlink_mbps = {link_mbps}\npacket_mbps = 20\nqueue_kb = {queue_kb}\n\
             control = \"sync0\"\nrotation_ms = 500\nmetrics = \"127.0.0.1:9465\"\nsocket = \"{}\"\n",
            self.at("tor.sock")
        );
        let mut ocs = format!(
            "[ocs]\nmode = \"{mode}\"\nlink_mbps = {link_mbps}\npacket_mbps = 20\ncontrol = \"sync1\"\n\
             rotation_ms = 500\nsocket = \"{}\"\n",
            self.at("ocs.sock")
        );
        for rack in 0..2 {
            tor += &format!(
                "[[rack]]\nnumber = {rack}\nuplink = \"up{rack}\"\n[[rack.host]]\nname = \"host{rack}\"\n\
                 prefixes = [\"10.77.{rack}.0/24\"]\nown = [\"10.77.{rack}.1\"]\n"
            );
            ocs += &format!("[[port]]\nrack = {rack}\nname = \"light{rack}\"\n");
        }
        // Long days: what is tried here is not how exactly they are kept.
        ocs += &format!(
            "[controller]\nracks = 2\nday_us = 2000.0\nnight_us = 50.0\nlead_ms = 20.0\ncontrol = \"sync2\"\n\
             socket = \"{}\"\n",
            self.at("control.sock")
        );
        fs::write(self.at("tor.toml"), tor).expect("a configuration");
        fs::write(self.at("ocs.toml"), ocs).expect("a configuration");
    }

    /// Has all parts seal what they say.
    fn seal(&self) {
        let token = self.at("token");
        fs::write(&token, "what only these racks know\n").expect("a token");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("a mode");
        for (file, tables) in [("tor.toml", &["tor"][..]), ("ocs.toml", &["ocs", "controller"])] {
            let mut text = fs::read_to_string(self.at(file)).expect("a configuration");
            for table in tables {
                let (from, line) = (format!("[{table}]\n"), format!("token_file = \"{token}\"\n"));
                text = text.replace(&from, &(from.clone() + &line));
            }
            fs::write(self.at(file), text).expect("a configuration");
        }
    }

    fn start(&self, name: &str, words: &[&str]) -> Program {
        let file = self.at(if words[0] == "tor" { "tor.toml" } else { "ocs.toml" });
        let line = [&[EBB], words, &["-c", &file]].concat();
        start(&self.space("sw"), &self.lab.directory().join(name), &line)
    }

    fn control(&self) -> Program {
        self.start("control", &["ocs", "control"])
    }

    fn ocs(&self) -> Program {
        self.start("ocs", &["ocs", "run"])
    }

    fn tor(&self) -> Program {
        self.start("tor", &["tor", "run"])
    }

    /// What a program shows of itself; nothing while it does not answer.
    fn status(&self, name: &str) -> Value {
        let socket = self.at(&format!("{name}.sock"));
        let program = if name == "tor" { "tor" } else { "ocs" };
        let output = run(EBB, &[program, "show", "--socket", &socket]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn follow(&self, source: &str, programs: &[&Program]) {
        let both = |name: &str| self.status(name)["source"] == source;
        let words = || programs.iter().map(|program| program.log()).collect::<String>();
        assert!(until(|| both("tor") && both("ocs")), "not by {source}: {}", words());
    }

    /// A stream from one rack's host to the other's; what the sender says of it.
    fn stream(&self, arguments: &[&str]) -> Value {
        let log = self.lab.directory().join("iperf3");
        let server = ["iperf3", "-s", "-1", "-B", "10.77.1.5"];
        let _server = start(&self.space("h1"), &log, &server);
        let host = self.space("h0");
        let client = ["netns", "exec", &host, "timeout", "120", "iperf3", "-J", "-c", "10.77.1.5"];
        let mut report = Value::Null;
        let passed = until(|| {
            let output = run("ip", &[&client[..], arguments].concat());
            report = serde_json::from_slice(&output.stdout).unwrap_or_default();
            // Refused while the server is not up yet.
            report["error"].is_null() && !report["end"].is_null()
        });
        assert!(passed, "{arguments:?}: {report:#}");
        report
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Racks of unmodified hosts behind circuits, whose optical switch and controller are killed at the
/// end. Losses depend on how busy the machine is; that circuits are kept, and what follows them,
/// does not.
#[test]
fn circuits_are_kept_for_unmodified_hosts() {
    if !permitted() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let demo = Command::new(EBB)
        .args(["demo", "circuit", "--seconds", "8", "--racks", "3", "--link-mbps", "100"])
        .arg("--report")
        .arg(directory.path())
        .output()
        .expect("ebb runs");
    let said = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{said}\n{}", String::from_utf8_lossy(&demo.stdout));
    for name in ["day.svg", "report.html"] {
        assert!(directory.path().join(name).exists(), "{name}");
    }
    let report = fs::read(directory.path().join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(number(&report["day_us"]), 300.0);
    let (frames, outside) = (number(&report["frames"]), number(&report["outside_their_day"]));
    assert!(frames > 300.0 && outside < 0.5 * frames, "{outside} of {frames} outside their day");
    assert_eq!(number(&report["reordered"]), 0.0);
    assert!(number(&report["lost"]) < frames, "{report}");
    for share in ["udp_share_of_eps", "tcp_share_of_eps"] {
        assert!(number(&report[share]) > 0.0, "{share} {}", report[share]);
    }
    for tokens in ["naive", "aging", "pacing"] {
        assert!(number(&report["tokens"][tokens]["frames"]) > 0.0, "{tokens} in {report}");
        assert!(number(&report["tokens"][tokens]["lost"]) >= 0.0);
    }
    let light = &report["light"];
    assert!(number(&light["sleeping_j"]) < number(&light["lit_j"]), "{light}");
    let killed = &report["controller_killed"];
    assert_eq!(killed["sources"], serde_json::json!(["controller", "rotation", "packets"]));
    assert!(number(&killed["frames_received"]) > 0.0, "{killed}");
    assert!(number(&killed["by_packets"]) > 0.0, "{killed}");
}

#[test]
fn neither_interruption_nor_kill_leaves_circuits_behind() {
    if !permitted() {
        return;
    }
    for signal in ["-INT", "-KILL"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut demo = Command::new(EBB)
            .args(["demo", "circuit", "--seconds", "60", "--racks", "3", "--report"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("ebb runs");
        let pid = demo.id();
        let socket = std::env::temp_dir().join(format!("ebb-circuit-{pid}")).join("tor.sock");
        let up = until(|| socket.exists());
        good("kill", &[signal, &pid.to_string()]);
        let mut status = None;
        let ended = until(|| {
            status = demo.try_wait().expect("a child");
            status.is_some()
        });
        assert!(up && ended, "{signal}: up {up}, ended {ended}");
        if signal == "-INT" {
            assert_eq!(status.and_then(|status| status.code()), Some(130));
        }
        let left = || leftovers("ebb-circuit", pid);
        assert!(until(|| left().is_empty()), "{signal} left {:?}", left());
    }
}

/// A request of HTTP inside the switches' namespace.
fn fetch(racks: &Racks) -> String {
    let script = "exec 3<>/dev/tcp/127.0.0.1/9465 && \
                  printf 'GET /metrics HTTP/1.0\\r\\nHost: ebb\\r\\n\\r\\n' >&3 && cat <&3";
    let space = racks.space("sw");
    let words = ["netns", "exec", &space, "timeout", "20", "bash", "-c", script];
    String::from_utf8_lossy(&run("ip", &words).stdout).into_owned()
}

/// A frame of the right EtherType that makes no sense, on the control network.
fn say_nonsense(racks: &Racks) {
    let script = "import socket\n\
                  s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
                  s.bind(('sync2', 0))\n\
                  s.send(bytes.fromhex('03ebb0801500' '02eb02000000' '8015') + b'EbbC' + bytes(80))\n";
    good("ip", &["netns", "exec", &racks.space("sw"), "python3", "-c", script]);
}

#[test]
fn tcp_passes_circuits_while_operators_watch_and_change_them() {
    if !permitted() || !iperf3_is_here() {
        return;
    }
    let racks = Racks::build("operate");
    let mut settings = Settings { packets: false, link_mbps: 100, queue_kb: 400 };
    racks.configure(&settings);
    let (control, ocs, mut tor) = (racks.control(), racks.ocs(), racks.tor());
    racks.follow("controller", &[&control, &ocs, &tor]);
    let report = racks.stream(&["-t", "1"]);
    let bytes = number(&report["end"]["sum_received"]["bytes"]);
    assert!(bytes > 1e5, "{bytes} bytes of TCP over circuits: {}", racks.status("tor"));
    let socket = racks.at("tor.sock");
    let top = ["tor", "top", "--every", "0.1", "--count", "1", "--socket", &socket];
    let line = good(EBB, &top);
    assert!(line.contains("the controller's days") && line.contains("stalled"), "{line}");
    let line = good(EBB, &[&top[..], &["--json"]].concat());
    let look: Snapshot = serde_json::from_str(&line).expect("a line of JSON");
    // Each rack's host sent the other data or acknowledgements.
    for rack in ["0", "1"] {
        for metric in ["ebb_circuit_rack_sent_total", "ebb_circuit_rack_days_total"] {
            assert!(look.value(metric, &[("rack", rack)]) > Some(10.0), "{metric} in {line}");
        }
    }
    let metrics = fetch(&racks);
    assert!(metrics.contains("ebb_circuit_rack_sent_total{rack=\"0\"}"), "{metrics}");

    say_nonsense(&racks);
    for name in ["tor", "ocs"] {
        let counted = until(|| racks.status(name)["sync"]["malformed"].as_f64() > Some(0.0));
        assert!(counted, "{name} {}", racks.status(name));
    }
    assert_eq!(racks.status("tor")["source"], "controller");

    settings.packets = true;
    racks.configure(&settings);
    good(EBB, &["tor", "reload", "--socket", &socket]);
    ocs.signal(Signal::SIGHUP).expect("it runs");
    let taken = |name: &str| racks.status(name)["reloads"] == 1;
    assert!(until(|| taken("tor") && taken("ocs")), "{}{}", tor.log(), ocs.log());
    let frames = number(&racks.status("ocs")["frames"]);
    racks.stream(&["-t", "1"]);
    let status = racks.status("ocs");
    assert_eq!(number(&status["frames"]), frames, "circuits carry nothing any more: {status}");
    assert!(number(&status["by_packets"]) > 10.0, "{status}");
    fs::write(racks.at("tor.toml"), "[tor]\nlink_mbps = -1\n").expect("a configuration");
    let refused = run(EBB, &["tor", "reload", "--socket", &socket]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the old configuration stays"), "{said}");
    assert!(tor.log().contains("the old configuration stays"), "{}", tor.log());
    assert_eq!(racks.status("tor")["reloads"], 1);

    tor.signal(Signal::SIGTERM).expect("it runs");
    let mut status = None;
    assert!(until(|| {
        status = tor.ended().expect("a child");
        status.is_some()
    }));
    assert!(status.is_some_and(|status| status.success()), "{}", tor.log());
    assert!(!Path::new(&socket).exists(), "the socket is gone");
}

#[test]
fn racks_survive_the_deaths_of_the_optical_switch_and_of_the_controller() {
    if !permitted() || !iperf3_is_here() {
        return;
    }
    let racks = Racks::build("faults");
    racks.configure(&Settings { packets: false, link_mbps: 100, queue_kb: 400 });
    let (control, ocs, tor) = (racks.control(), racks.ocs(), racks.tor());
    racks.follow("controller", &[&control, &ocs, &tor]);
    drop(ocs);
    let ocs = racks.ocs();
    racks.follow("controller", &[&control, &ocs, &tor]);
    let report = racks.stream(&["-t", "1"]);
    assert!(number(&report["end"]["sum_received"]["bytes"]) > 5e4, "{}", racks.status("ocs"));
    assert!(number(&racks.status("ocs")["passed"]) > 10.0);

    drop(control);
    racks.follow("packets", &[&ocs, &tor]);
    let sources = racks.status("tor")["sources"].clone();
    let last: Vec<&Value> = sources.as_array().expect("a list").iter().rev().take(3).collect();
    assert_eq!(last, ["packets", "rotation", "controller"], "{sources}");
    let before = number(&racks.status("ocs")["by_packets"]);
    racks.stream(&["-t", "1"]);
    assert!(number(&racks.status("ocs")["by_packets"]) > before + 10.0);

    let control = racks.control();
    racks.follow("controller", &[&control, &ocs, &tor]);
    let passed = number(&racks.status("ocs")["passed"]);
    racks.stream(&["-t", "1"]);
    assert!(number(&racks.status("ocs")["passed"]) > passed + 10.0, "{}", racks.status("ocs"));
}

/// A frame in the controller's name, as somebody makes it up who hears the controller and has no key: dark
/// days for as long as a frame can announce.
fn forge(racks: &Racks) {
    let namespace = Namespace::open(&racks.space("sw")).expect("a namespace");
    let link = namespace.run(|| PacketSocket::open("sync")).expect("inside").expect("the bridge");
    let (mut link, mut heard) = (link, None);
    let found = until(|| {
        link.receive(|bytes| {
            let read = sync::read(bytes, &Keys::default());
            heard = read
                .ok()
                .filter(|heard| matches!(heard.frame, Frame::Sync { .. }))
                .or(heard.take());
        })
        .expect("received");
        heard.is_some()
    });
    assert!(found, "the controller is not heard");
    let Heard { frame, source, sequence, .. } = heard.expect("found");
    let Frame::Sync { epoch, sent_ns, circuits, racks, days } = frame else { unreachable!() };
    let last = *days.last().expect("days are announced");
    let (long_ns, end_ns) = (sync::DAY_NS_MAX, last.begin_ns + u64::from(last.duration_ns));
    let dark = |index: u32| Announced {
        number: last.number + 1 + index,
        duration_ns: long_ns as u32,
        begin_ns: end_ns + 1_000 + u64::from(index) * (long_ns + 1_000),
        outputs: [Announced::DARK; sync::RACKS_MAX],
    };
    let days = (0..sync::DAYS_MAX as u32).map(dark).collect();
    let frame = Frame::Sync { epoch, sent_ns, circuits, racks, days };
    let mut sealer = Sealer::new(Keys::default(), sequence + 1_000_000);
    link.stage(|buffer| sync::write(&frame, source, &mut sealer, buffer));
    assert_eq!(link.flush().expect("sent"), 1);
}

#[test]
fn one_forged_frame_stops_no_switch() {
    if !permitted() {
        return;
    }
    for sealed in [false, true] {
        let racks = Racks::build("forged");
        racks.configure(&Settings { packets: false, link_mbps: 100, queue_kb: 400 });
        if sealed {
            racks.seal();
        }
        let (control, ocs, tor) = (racks.control(), racks.ocs(), racks.tor());
        racks.follow("controller", &[&control, &ocs, &tor]);
        let ping = || {
            let host = racks.space("h0");
            let line = ["netns", "exec", &host, "ping", "-q", "-c", "40", "-i", "0.05", "-W", "1"];
            let output = run("ip", &[&line[..], &["10.77.1.5"]].concat());
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let arrived = said.split(", ").find_map(|part| part.strip_suffix(" received"));
            arrived.and_then(|count| count.parse().ok()).unwrap_or(0)
        };
        // The hosts are found first.
        assert!(until(|| ping() >= 25), "even before {}{}", tor.log(), ocs.log());
        forge(&racks);
        std::thread::sleep(Duration::from_millis(200));
        let answered: u32 = ping();
        let status = racks.status("tor");
        // In the dark none would be; a busy machine loses some.
        assert!(answered >= 15, "sealed: {sealed}, {answered} of 40 answered: {}", status["sync"]);
        assert_eq!(status["sealed"], sealed);
        assert_eq!(number(&status["sync"]["forged"]) > 0.0, sealed, "{}", status["sync"]);
        assert_eq!(tor.log().contains("laboratories"), !sealed, "{}", tor.log());
    }
}
