//! The router under the sandbox of its service unit, setting by setting, without systemd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::live::imitation::Imitation;
use crate::live::lab::{Lab, Wiring, must, run, skip, within};
use crate::live::router::{PATIENCE, Router, Setup, until};
use crate::live::traffic::{Traffic, way};

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
