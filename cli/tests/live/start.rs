//! Reasons not to start, and knobs that refuse.

use std::fs;

use ebb_host::signals::Signal;

use crate::live::imitation::Imitation;
use crate::live::lab::{Lab, Wiring};
use crate::live::router::{PATIENCE, Router, Setup, until};
use crate::live::traffic::{Traffic, way};

fn assert_says(log: &str, words: &[&str]) {
    for word in words {
        assert!(log.contains(word), "not said: {word:?}\n{log}");
    }
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn what_prevents_a_start_is_said() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    let good = Setup::of(&lab).text(&lab, "bad");

    let none = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let log = Router::refused(&lab, "bad", &good, &none);
    assert_says(&log, &["capabilities", "CAP_NET_ADMIN", "run as root"]);

    // The loopback interface has no driver that could run a program.
    lab.ip("link set lo mtu 1500");
    let native = good.replace("name = \"p0\"", "name = \"lo\"\nxdp = \"native\"");
    let log = Router::refused(&lab, "bad", &native, &[]);
    assert_says(&log, &["interface lo", "does not take an XDP program", "native"]);

    let absent = good.replace("\"p1\"", "\"p7\"");
    assert_says(&Router::refused(&lab, "bad", &absent, &[]), &["p7", "does not exist"]);

    let wrong = good.replace("workers = 1", "workers = 1\nwokers = 2");
    assert_says(&Router::refused(&lab, "bad", &wrong, &[]), &["bad.toml", "wokers"]);
    let wrong = good.replace("mode = \"napi\"", "mode = \"nappy\"");
    assert_says(&Router::refused(&lab, "bad", &wrong, &[]), &["bad.toml", "nappy", "powersave"]);

    lab.ip("link set p1 down");
    assert_says(&Router::refused(&lab, "bad", &good, &[]), &["p1", "is down", "ip link set"]);
}

#[test]
fn a_full_disk_for_the_journal_is_said() {
    let Some(lab) = Lab::build(Wiring::plain(1)) else { return };
    let full = lab.directory.join("full");
    fs::create_dir(&full).expect("a directory");
    // In a mount namespace of its own, that ends with the router.
    let script = format!(
        "mount -t tmpfs -o size=16k none {0} && ! cat /dev/zero 2>/dev/null >{0}/all && exec \"$@\"",
        full.display()
    );
    let prefix = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let setup = Setup { journals: Some(full.clone()), ..Setup::of(&lab) };
    let log = Router::refused(&lab, "full", &setup.text(&lab, "full"), &prefix);
    assert_says(&log, &["journal", "No space left", "[governor] journal"]);
}

#[test]
fn a_second_instance_is_refused_and_the_first_goes_on() {
    let Some(lab) = Lab::build(Wiring::plain(4)) else { return };
    lab.routes();
    let first = Setup { ports: vec![0, 1], ..Setup::of(&lab) }.start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 100), "{}", first.log());
    let second = Setup { ports: vec![1, 2], ..Setup::of(&lab) };
    let log = Router::refused(&lab, "second", &second.text(&lab, "second"), &[]);
    assert_says(&log, &["p1", "in use", "second"]);
    let third = Setup { ports: vec![2, 3], ..Setup::of(&lab) };
    let text = third.text(&lab, "third").replace("third.sock", "router.sock");
    let log = Router::refused(&lab, "third", &text, &[]);
    assert_says(&log, &["router.sock"]);
    println!("socket in use: {}", log.lines().last().unwrap_or_default());
    let before = traffic.arrived();
    assert!(until(PATIENCE, || traffic.arrived() > before + 200), "{}", first.log());
    traffic.stop().assert_perfect("beside second instances", |_| 1);
    first.stop();
}

#[test]
fn every_knob_is_back_after_every_kind_of_end() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let sysfs = Imitation::new(&lab.directory);
    let before = sysfs.snapshot();
    let setup =
        Setup { mode: "powersave", workers: 2, governor: sysfs.governor(), ..Setup::of(&lab) };
    for end in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let mut router = setup.start(&lab);
        router.wait_for("lowest point", |status| status.point.cores == 1);
        let turned = until(PATIENCE, || sysfs.snapshot() != before);
        assert!(turned, "no knob was turned: {}", router.log());
        router.signal(end);
        let back = until(PATIENCE, || sysfs.snapshot() == before);
        assert!(back, "{end:?} left knobs: {:?}", difference(&before, &sysfs.snapshot()));
        drop(router);
        let journals = || fs::read_dir(lab.directory.join("journals")).expect("journals").count();
        assert!(until(PATIENCE, || journals() == 0), "{end:?} left a journal");
    }
}

#[test]
fn knobs_that_are_missing_or_refuse_do_not_stop_packets() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let sysfs = Imitation::new(&lab.directory);
    fs::remove_file(sysfs.path(0, "power/pm_qos_resume_latency_us")).expect("a file");
    let setup = Setup { mode: "powersave", governor: sysfs.governor(), ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    router.wait_for("the missing knob in the warnings", |status| {
        status.warnings.iter().any(|warning| warning.contains("pm_qos_resume_latency_us"))
    });
    router.wait_for("lowest frequency", |status| status.point.frequency == 0);
    // From now on this file can be read but not be written, whoever tries.
    let knob = sysfs.path(0, "cpufreq/scaling_max_freq");
    fs::remove_file(&knob).expect("a file");
    std::os::unix::fs::symlink("/proc/version", &knob).expect("a link");
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    router.request(&serde_json::json!({ "set": { "mode": "poll" } })).expect("another mode");
    let status = router.wait_for("a refusal", |status| status.governor.refusals > 0);
    assert!(
        status.warnings.iter().any(|warning| warning.contains("scaling_max_freq")),
        "{:?}",
        status.warnings
    );
    assert!(until(PATIENCE, || traffic.arrived() > 500), "{}", router.log());
    traffic.stop().assert_perfect("with a refusing knob", |_| 1);
    println!("refusal: {}", status.warnings.last().expect("a warning"));
    router.stop();
}

fn difference<T: PartialEq + Clone>(before: &[T], after: &[T]) -> Vec<T> {
    after.iter().filter(|entry| !before.contains(entry)).cloned().collect()
}
