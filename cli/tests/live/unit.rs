//! The router under the sandbox of its service unit, setting by setting, without systemd.

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
    let traffic = Traffic::start(lab, &[way(0, 1, 0), way(1, 0, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 500), "{}", router.log());
    // Opens ports anew with what privileges are left, and hands flows over between workers.
    router
        .reload(&text.replace("xdp =", "ring = 512\nxdp =").replace("powersave\"", "poll\""))
        .expect("a reload");
    let arrived = traffic.arrived();
    assert!(until(PATIENCE, || traffic.arrived() > arrived + 500), "{}", router.log());
    traffic.stop();
    let log = router.stop();
    assert!(until(PATIENCE, || sysfs.snapshot() == before), "knobs are left turned");
    log
}

#[test]
fn the_router_runs_under_its_units_sandbox() {
    if !tools() {
        return;
    }
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let unit = root().join("dist/ebb-router.service");
    let log = under(&lab, &unit);
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
