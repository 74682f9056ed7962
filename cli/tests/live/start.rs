//! Reasons not to start, and knobs that refuse.

use std::fs;

use ebb_host::signals::Signal;

use crate::common::imitation::Imitation;
use crate::common::lab::{Lab, Wiring, host_mac};
use crate::common::router::{PATIENCE, Router, Setup, until};
use crate::common::traffic::{Traffic, way};

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
    assert_says(&log, &["interface lo", "cannot attach an XDP program", "native"]);

    let wrong = good.replace("workers = 1", "workers = 1\nwokers = 2");
    assert_says(&Router::refused(&lab, "bad", &wrong, &[]), &["bad.toml", "wokers"]);
    let wrong = good.replace("mode = \"napi\"", "mode = \"nappy\"");
    assert_says(&Router::refused(&lab, "bad", &wrong, &[]), &["bad.toml", "nappy", "powersave"]);
}

/// One port is absent, one is down: the router starts, says so, and takes both in when they come.
#[test]
fn ports_that_are_not_there_yet_are_taken_in_when_they_come() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.cut(1);
    lab.ip("link set p2 down");
    let mut router = Setup::of(&lab).start(&lab);
    let status = router.status();
    let seen: Vec<_> =
        status.ports.iter().map(|port| (port.name.as_str(), port.up, port.gone)).collect();
    assert_eq!(seen, [("p0", true, false), ("p1", false, true), ("p2", false, false)]);
    assert_says(&router.log(), &["interface p1 does not exist", "interface p2 is down"]);
    let metrics = router.metrics();
    assert_says(&metrics, &["ebb_port_up{port=\"p0\"} 1", "ebb_port_up{port=\"p1\"} 0"]);

    lab.wire(1);
    lab.ip("link set p2 up");
    router.wait_for("all ports up", |status| status.ports.iter().all(|port| port.up));
    lab.ip(&format!(
        "neighbour replace 10.0.2.2 lladdr {} nud permanent dev p2",
        host_mac(2).map(|byte| format!("{byte:02x}")).join(":")
    ));
    lab.routes();
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(1, 2, 0), way(2, 0, 0)], 2000);
    assert!(
        until(PATIENCE, || (0..3).all(|way| traffic.arrived_at(way) > 200)),
        "{}",
        router.log()
    );
    traffic.stop().assert_perfect("over late ports", |flow| [1, 2, 0][flow]);
    assert!(router.status().packets().forwarded > 600, "the kernel forwarded, not the router");
    router.stop();
}

/// Every thread of the router, and its guard, may do what it must and nothing else; what it takes to
/// gain more is gone.
#[test]
fn privileges_are_dropped_after_the_start() {
    let Some(lab) = Lab::build(Wiring::plain(1)) else { return };
    let router = Setup::of(&lab).start(&lab);
    // linux/capability.h: NET_ADMIN 12, NET_RAW 13, SYS_NICE 23, PERFMON 38, BPF 39.
    // IPC_LOCK 14 only where the limit of locked memory cannot be lifted.
    let kept: u64 = 1 << 12 | 1 << 13 | 1 << 23 | 1 << 38 | 1 << 39;
    let mut seen = 0;
    for process in router.processes() {
        for task in fs::read_dir(format!("/proc/{process}/task")).expect("threads").flatten() {
            let status = fs::read_to_string(task.path().join("status")).expect("a status");
            let field = |key: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a field");
                line.trim().to_owned()
            };
            for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
                let held = u64::from_str_radix(&field(set), 16).expect("a set");
                assert_eq!(held & !(1 << 14), kept, "{set} of {}", field("Name:"));
            }
            assert_eq!(field("CapInh:").trim_start_matches('0'), "");
            assert_eq!(field("NoNewPrivs:"), "1");
            seen += 1;
        }
    }
    assert!(seen >= 5, "control, worker, governor, serving thread and guard: {seen}");
    assert_says(&router.log(), &["privileges kept", "CAP_NET_ADMIN", "CAP_BPF"]);
    router.stop();
}

/// A journal that anybody could have written is not replayed with root's privileges.
#[test]
fn journals_where_others_may_write_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let Some(lab) = Lab::build(Wiring::plain(1)) else { return };
    let open = lab.directory.join("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("permissions");
    let victim = lab.directory.join("victim");
    fs::write(&victim, "mine").expect("a file");
    let journal =
        format!("ebb-journal\t1\t4000000\t77\nundo\t1\twrite\t{}\tyours\n", victim.display());
    fs::write(open.join("knobs-4000000.journal"), journal).expect("a journal");
    let setup = Setup { journals: Some(open.clone()), ..Setup::of(&lab) };
    let log = Router::refused(&lab, "router", &setup.text(&lab, "router"), &[]);
    assert_says(&log, &["journal", "writable by other users", "chmod"]);
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "mine");
}

#[test]
fn as_many_workers_as_a_configuration_may_name() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let setup = Setup { workers: 128, port: "ring = 64".into(), ..Setup::of(&lab) };
    let text =
        setup.text(&lab, "router").replace("workers = 128", "workers = 128\nframes = 131072");
    let mut router = Router::start(&lab, "router", &text, &[]);
    assert_eq!(router.status().workers.len(), 128);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 1000);
    assert!(until(PATIENCE, || traffic.arrived() > 100), "{}", router.log());
    traffic.stop();
    router.stop();
}

#[test]
fn a_full_disk_for_the_journal_is_said() {
    let Some(lab) = Lab::build(Wiring::plain(1)) else { return };
    let full = lab.directory.join("full");
    fs::create_dir(&full).expect("a directory");
    // In a mount namespace of its own, that ends with the router.
    let script = format!(
        "mount -t tmpfs -o size=16k,mode=755 none {0} && ! cat /dev/zero 2>/dev/null >{0}/all && exec \"$@\"",
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
