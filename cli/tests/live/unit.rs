//! The router under the sandbox of its service unit, setting by setting, without systemd.

use std::fs;
use std::path::{Path, PathBuf};

use crate::live::imitation::Imitation;
use crate::live::lab::{Lab, Wiring, run, skip};
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
        let runs = std::process::Command::new(program).arg(argument).output();
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

/// Two hosts, the second behind a smaller MTU.
fn two_hosts() -> Option<Lab> {
    let lab = Lab::build(Wiring { apart: true, ..Wiring::plain(2) })?;
    lab.routes();
    lab.ip("link set p1 mtu 576");
    (0..2).for_each(|port| lab.ip_hosts(port, &format!("route add default via 10.0.{port}.1")));
    Some(lab)
}

/// Starts the router as `unit` says and forwards through it; what it logged, and whether packets
/// that only the kernel can cut arrived.
fn under(lab: &Lab, unit: &Path) -> (String, bool) {
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
    let traffic = Traffic::start(lab, &[way(0, 1, 0), way(1, 0, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 500), "{}", router.log());
    // Too long for the way and not to be left whole: through the TUN device into the kernel.
    let ping = "ping -q -M dont -s 1000 -c 5 -i 0.1 -W 2 10.0.1.2".split(' ');
    let line: Vec<&str> = ["netns", "exec", lab.host(0)].into_iter().chain(ping).collect();
    let cut = run("ip", &line).status.success();
    router.wait_for("packets for the kernel", |status| status.packets().to_kernel >= 5);
    // Opens ports anew with what privileges are left, and hands flows over between workers.
    router
        .reload(&text.replace("xdp =", "ring = 512\nxdp =").replace("powersave\"", "poll\""))
        .expect("a reload");
    let arrived = traffic.arrived();
    assert!(until(PATIENCE, || traffic.arrived() > arrived + 500), "{}", router.log());
    traffic.stop();
    let log = router.stop();
    assert!(until(PATIENCE, || sysfs.snapshot() == before), "knobs are left turned");
    (log, cut)
}

#[test]
fn the_router_runs_under_its_units_sandbox() {
    if !tools() {
        return;
    }
    let Some(lab) = two_hosts() else { return };
    let unit = root().join("dist/ebb-router.service");
    let (log, cut) = under(&lab, &unit);
    assert!(cut, "what is to be cut does not arrive: {log}");
    // All that the router says when something is denied.
    for denied in [
        "are lost",
        "could not be handed",
        "privileges stay",
        "may have been reordered",
        "not permitted",
        "denied",
    ] {
        assert!(!log.contains(denied), "{denied:?} in\n{log}");
    }
}

/// The test above can fail: a setting that takes the TUN device away is noticed.
#[test]
fn a_unit_that_hides_the_tun_device_is_noticed() {
    if !tools() {
        return;
    }
    let Some(lab) = two_hosts() else { return };
    let text = fs::read_to_string(root().join("dist/ebb-router.service")).expect("the unit");
    let hidden = lab.directory.join("hidden.service");
    fs::write(&hidden, text.replace("DevicePolicy=closed", "PrivateDevices=yes")).expect("a unit");
    let (log, cut) = under(&lab, &hidden);
    assert!(!cut && log.contains("could not be handed"), "{log}");
}
