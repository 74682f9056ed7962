//! Daemons under the sandboxes of their service units, setting by setting, without systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::debugger::stop_thread;
use crate::common::imitation::Imitation;
use crate::common::lab::{Lab, Wiring, must, run, skip, within};
use ebb_host::process;
use ebb_lab::Program;

use crate::common::router::{PATIENCE, Router, Setup, binary, until};
use crate::common::traffic::{Traffic, way};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Programs that imitate what systemd does.
fn tools() -> bool {
    for (program, argument) in
        [("bwrap", "--version"), ("systemd-analyze", "--version"), ("python3", "--version")]
    {
        let runs = Command::new(program).arg(argument).output();
        if !runs.is_ok_and(|output| output.status.success()) {
            skip(&format!("{program} is missing"));
            return false;
        }
    }
    run("bwrap", &["--ro-bind", "/", "/", "true"]).status.success() || {
        skip("mount namespaces are not permitted");
        false
    }
}

/// Starts the router as `unit` says and forwards through it; what it logged.
fn under(lab: &Lab, unit: &Path) -> String {
    let sysfs = Imitation::new(&lab.directory);
    let before = sysfs.snapshot();
    let confine = root().join("tests/unit/confine").display().to_string();
    let (unit, writable) = (unit.display().to_string(), lab.directory.display().to_string());
    let prefix = [&confine[..], &unit, "--writable", &writable, "--"];
    let setup = Setup {
        mode: "powersave",
        workers: 2,
        governor: sysfs.governor(),
        port: "xdp = \"generic\"".into(),
        ..Setup::of(lab)
    };
    let text = setup.text(lab, "router");
    let mut router = Router::start(lab, "router", &text, &prefix);
    assert!(until(PATIENCE, || sysfs.snapshot() != before), "no knob was turned");
    let to_kernel = router.status().packets().to_kernel;
    must_be_cut(lab);
    router.wait_for("a worker's packet for the kernel", |status| {
        status.packets().to_kernel > to_kernel
    });
    let traffic = Traffic::start(lab, &[way(0, 1, 0), way(1, 0, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 500), "{}", router.log());
    // Opens ports anew with what privileges are left, and hands flows over between workers.
    router
        .reload(&text.replace("xdp =", "ring = 512\nxdp =").replace("powersave\"", "poll\""))
        .expect("a reload");
    let arrived = traffic.arrived();
    assert!(until(PATIENCE, || traffic.arrived() > arrived + 500), "{}", router.log());
    // Another program with no more privileges than the first one has left.
    router.upgrade(None).unwrap_or_else(|error| panic!("{error}\n{}", router.log()));
    let arrived = traffic.arrived();
    assert!(until(PATIENCE, || traffic.arrived() > arrived + 500), "{}", router.log());
    traffic.stop();
    must_be_cut(lab);
    let log = router.stop();
    assert!(until(PATIENCE, || sysfs.snapshot() == before), "knobs are left turned");
    log
}

/// Sends datagrams of 1,000 bytes that may be cut to a host behind a link of 576, until one arrives:
/// a worker finds out that they are to be cut, and hands them back to the kernel, which cuts them.
fn must_be_cut(lab: &Lab) {
    let came = lab.directory.join("came");
    _ = fs::remove_file(&came);
    let listen = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.bind(('10.0.1.2', 7)); n = len(s.recv(9999)); open('{}', 'w').write(str(n))",
        came.display()
    );
    let send = "import socket\n\
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(1000), ('10.0.1.2', 7))";
    let mut listener = Command::new("setpriv");
    listener.args(["--pdeathsig", "KILL", "timeout", "60", "python3", "-c", &listen]);
    let mut listener = within(lab.host(1), || listener.spawn()).expect("setpriv runs");
    let arrived = until(PATIENCE, || {
        must("ip", &["netns", "exec", lab.host(0), "python3", "-c", send]);
        fs::read_to_string(&came).is_ok_and(|count| count == "1000")
    });
    _ = run("kill", &[&listener.id().to_string()]);
    _ = listener.wait();
    assert!(arrived, "no datagram arrives that has to be cut");
}

#[test]
fn the_router_runs_under_its_units_sandbox() {
    if !tools() {
        return;
    }
    let Some(lab) = Lab::build(Wiring { apart: true, ..Wiring::plain(2) }) else { return };
    lab.routes();
    lab.ip("link set p1 mtu 576");
    lab.ip_hosts(1, "link set h1 mtu 576");
    for port in 0..2 {
        lab.ip_hosts(port, &format!("route add default via 10.0.{port}.1"));
        let own = ["netns", "exec", lab.host(port), "sysctl", "-qw", "net.ipv4.ip_no_pmtu_disc=1"];
        must("ip", &own);
    }
    let unit = root().join("dist/ebb-router.service");
    let log = under(&lab, &unit);
    // All that the router says when something is denied.
    for denied in [
        "are lost",
        "cannot pass a packet",
        "cannot drop privileges",
        "may have been reordered",
        "not permitted",
        "denied",
    ] {
        assert!(!log.contains(denied), "{denied:?} in\n{log}");
    }
}

/// The process that has this configuration and a thread of this name.
fn process_of(file: &Path, thread: &str) -> Option<u32> {
    let file = file.display().to_string();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        let named = String::from_utf8_lossy(&words).split('\0').any(|word| word == file);
        let threads = || process::threads_of(pid).unwrap_or_default();
        (named && threads().iter().any(|one| one.name == thread)).then_some(pid)
    })
}

/// Starts `ebb` with these words under a unit, as a service manager would, and ends it once it has said that it is up
/// and, twice, that it lives. While the thread that forwards, if it has this name, stands still it says so no longer,
/// whatever other threads do.
fn serves(lab: &Lab, (unit, thread): (&str, Option<&str>), words: &[&str], config: &str) {
    let file = lab.directory.join(format!("{unit}.toml"));
    fs::write(&file, config).expect("a configuration");
    let manager = lab.directory.join(format!("{unit}.notify"));
    let heard = UnixDatagram::bind(&manager).expect("a socket");
    heard.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket");
    let place = root().join("dist").join(format!("ebb-{unit}.service"));
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.router, "setpriv", "--pdeathsig", "KILL"]);
    command
        .env("NOTIFY_SOCKET", &manager)
        .env("WATCHDOG_USEC", "600000")
        .env_remove("WATCHDOG_PID");
    command.arg(root().join("tests/unit/confine")).arg(place);
    // The journal's place, too, which has no setting in a cluster's file.
    fs::create_dir_all("/run/ebb").expect("a directory");
    command.arg("--writable").arg(&lab.directory).args(["--writable", "/run/ebb", "--"]);
    command.arg(binary()).args(words).arg(&file);
    if unit == "cluster" {
        command.args(["--member", "m"]);
    }
    let log = lab.directory.join(format!("{unit}.log"));
    let mut program = Program::start(unit, &mut command, &log).expect("ip runs");
    let (mut up, mut lives) = (false, 0);
    let done = until(PATIENCE, || {
        let mut word = [0; 256];
        if let Ok(length) = heard.recv(&mut word) {
            let word = String::from_utf8_lossy(&word[..length]);
            up |= word.contains("READY=1");
            lives += usize::from(word.contains("WATCHDOG=1"));
        }
        let ended = program.ended().expect("a child");
        assert!(ended.is_none(), "{unit} ended: {}", program.log());
        up && lives >= 2
    });
    if let (Some(thread), true) = (thread, done) {
        let pid = process_of(&file, thread).unwrap_or_else(|| panic!("{unit} has no {thread}"));
        let debugger = stop_thread(pid, thread);
        let lives_within = |span: Duration| {
            let (begun, mut word) = (Instant::now(), [0; 256]);
            let mut count = 0;
            while begun.elapsed() < span {
                let length = heard.recv(&mut word).unwrap_or(0);
                count += String::from_utf8_lossy(&word[..length]).matches("WATCHDOG=1").count();
            }
            count
        };
        heard.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        // What it had said already, and until the debugger is there.
        lives_within(Duration::from_secs(1));
        assert_eq!(
            lives_within(Duration::from_millis(1200)),
            0,
            "{unit} stands still, and says that it lives"
        );
        drop(debugger);
        assert!(
            lives_within(Duration::from_secs(2)) > 0,
            "{unit} does not go on: {}",
            program.log()
        );
    }
    let said = program.log();
    assert!(done, "{unit} is up: {up}, and said that it lives {lives} times: {said}");
    for denied in ["not permitted", "denied", "Read-only"] {
        assert!(!said.contains(denied), "{denied:?} of {unit} in\n{said}");
    }
    program.end(PATIENCE).expect("it ends");
}

#[test]
fn the_other_daemons_run_under_their_units_sandboxes() {
    if !tools() {
        return;
    }
    let Some(lab) = Lab::build(Wiring::plain(4)) else { return };
    let token = lab.directory.join("token");
    fs::write(&token, "0123456789abcdef\n").expect("a token");
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(&token, mode).expect("a mode");
    let (token, place) = (token.display(), lab.directory.display());
    let ocs = format!(
        "[ocs]\nlink_mbps = 1000\ntoken_file = \"{token}\"\ncontrol = \"p2\"\nsocket = \"{place}/ocs.sock\"\nrealtime = true\n\
         [[port]]\nrack = 0\nname = \"p0\"\n[[port]]\nrack = 1\nname = \"p1\"\n\
         [controller]\ntoken_file = \"{token}\"\nracks = 2\nday_us = 300\nnight_us = 20\ncontrol = \"p3\"\nsocket = \"{place}/control.sock\"\n"
    );
    serves(&lab, ("ocs", None), &["ocs", "run", "-c"], &ocs);
    serves(&lab, ("ocs-control", None), &["ocs", "control", "-c"], &ocs);
    let tor = format!(
        "[tor]\nlink_mbps = 1000\ntoken_file = \"{token}\"\ncontrol = \"p2\"\nsocket = \"{place}/tor.sock\"\nrealtime = true\n\
         [[rack]]\nnumber = 0\nuplink = \"p0\"\n[[rack.host]]\nname = \"p1\"\n\
         prefixes = [\"10.77.0.0/24\"]\nown = [\"10.77.0.1\"]\n\
         [[remote]]\nrack = 1\nprefixes = [\"10.77.1.0/24\"]\n"
    );
    serves(&lab, ("tor", Some("ebb-tor")), &["tor", "run", "-c"], &tor);
    let side = |side: usize| {
        format!(
            "[[side]]\nmac = \"02:eb:b0:00:0{side}:10\"\naddresses = [\"10.77.{side}.1/24\"]\n\
             probe = \"10.77.{side}.240\"\n"
        )
    };
    let cluster = format!(
        "[cluster]\nname = \"unit\"\nsocket = \"{place}/cluster.sock\"\ntoken_file = \"{token}\"\n\
         [policy]\nname = \"all\"\n{}{}\
         [[back_end]]\nname = \"r0\"\nmacs = [\"02:eb:b0:01:00:00\", \"02:eb:b0:01:00:01\"]\n\
         [[member]]\nname = \"m\"\nleader = true\n\
         [member.balancer]\noutside = [\"p0\", \"p1\"]\ninside = [\"p2\", \"p3\"]\n\
         [[member.keep]]\nback_end = \"r0\"\nhow = \"command\"\nwake = [\"true\"]\nsleep = [\"true\"]\n",
        side(0),
        side(1),
    );
    serves(&lab, ("cluster", Some("ebb-balancer")), &["cluster", "run"], &cluster);
}
