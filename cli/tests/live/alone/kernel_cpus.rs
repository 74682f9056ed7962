//! Cores inside the kernel: ports that are forwarded in their drivers take more CPUs when one is full, and give them back.

use std::time::Duration;

use ebb_host::signals::Signal;
use ebb_routerd::status::{Status, WorkerState};

use crate::common::lab::{Lab, Wiring, run, skip};
use crate::common::router::{PATIENCE, Router, Setup, until};
use crate::common::traffic::{Traffic, Way, way};

const FLOWS: u8 = 64;
/// More than one CPU sends and forwards, whatever it is.
const FLOOD: u64 = 20_000_000;
const TRICKLE: u64 = 500;

/// The calling thread, and those that it starts, have this CPU only.
fn stay_on(cpu: usize) {
    // SAFETY: all zeroes are a valid value, and the set lives as long as the calls.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Packets that each CPU has forwarded, by its number.
fn by_cpu(status: &Status) -> [u64; 2] {
    let mut by = [0; 2];
    for worker in status.workers.iter().filter(|worker| worker.state == WorkerState::Kernel) {
        if let Some(count) = worker.cpu.and_then(|cpu| by.get_mut(cpu as usize)) {
            *count += worker.packets.forwarded;
        }
    }
    by
}

/// Two ports whose drivers send what programs redirect.
fn lab_of_drivers() -> Option<Lab> {
    if !run("ethtool", &["--version"]).status.success() {
        skip("ethtool is not installed");
        return None;
    }
    let lab = Lab::build(Wiring { apart: true, ..Wiring::plain(2) })?;
    lab.routes();
    for port in 0..2 {
        let link = format!("h{port}");
        let on = run("ip", &["netns", "exec", lab.host(port), "ethtool", "-K", &link, "gro", "on"]);
        assert!(on.status.success(), "{on:?}");
    }
    Some(lab)
}

#[test]
fn a_full_cpu_gets_help_as_long_as_it_needs_it() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip("packets go from one CPU to another");
    }
    let Some(lab) = lab_of_drivers() else { return };
    let port = "path = \"kernel\"\nxdp = \"native\"".to_owned();
    // The sender works on the same CPU, and packets never have it to themselves.
    let governor = "kernel_full_percent = 10".to_owned();
    let setup = Setup { mode: "powersave", workers: 2, governor, port, ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    let traffic = std::thread::scope(|scope| {
        let starts = || {
            stay_on(0);
            let ways: Vec<Way> = (0..FLOWS).map(|flow| way(0, 1, flow)).collect();
            Traffic::start(&lab, &ways, TRICKLE)
        };
        scope.spawn(starts).join().expect("started")
    });
    let flows = until(PATIENCE, || by_cpu(&router.status())[0] > 100);
    assert!(flows, "{:#?}\n{}", router.status(), router.log());
    assert_eq!(by_cpu(&router.status())[1], 0, "nobody needs another CPU");
    traffic.set_rate(FLOOD);
    // Where its thread is starved at first, it is tried again ten seconds later.
    let helps = until(3 * PATIENCE, || by_cpu(&router.status())[1] > 1_000);
    assert!(helps, "{:#?}\n{}", router.status(), router.log());
    traffic.set_rate(TRICKLE);
    let alone = until(PATIENCE, || {
        let before = by_cpu(&router.status());
        std::thread::sleep(Duration::from_millis(300));
        let after = by_cpu(&router.status());
        after[0] > before[0] + 20 && after[1] == before[1]
    });
    assert!(alone, "{:#?}\n{}", router.status(), router.log());
    router.upgrade(None).expect("upgraded");
    traffic.set_rate(FLOOD);
    assert!(until(3 * PATIENCE, || by_cpu(&router.status())[1] > 1_000), "{}", router.log());
    let books = traffic.stop();
    assert_eq!(books.total.reordered + books.total.duplicated, 0, "{:?}", books.total);
    router.stop();
}

/// Where it is asked for, packets gather for one look of the driver while they come fast, and not otherwise.
#[test]
fn packets_gather_in_the_driver_when_told_to() {
    let Some(lab) = lab_of_drivers() else { return };
    let knob = || lab.inside(&["sh", "-c", "cat /sys/class/net/p0/gro_flush_timeout"]);
    let setup = |moderation: &str| Setup {
        mode: "powersave",
        governor: format!("moderation = \"{moderation}\""),
        port: "path = \"kernel\"\nxdp = \"native\"".to_owned(),
        ..Setup::of(&lab)
    };
    let mut router = setup("on").start(&lab);
    let ways: Vec<Way> = (0..FLOWS).map(|flow| way(0, 1, flow)).collect();
    let traffic = Traffic::start(&lab, &ways, 40_000);
    // Half of the default budget.
    let gathers = |router: &mut Router, micros: u32| {
        let kept = format!("{}", micros * 1000);
        until(PATIENCE, || {
            let told = router.status().ports[0].gathers_us;
            told.unwrap_or(0) == micros && knob().trim() == kept
        })
    };
    assert!(gathers(&mut router, 100), "{}{}", knob(), router.log());
    router.reload(&setup("auto").text(&lab, "router")).expect("taken over");
    assert!(gathers(&mut router, 0), "{}{}", knob(), router.log());
    router.reload(&setup("on").text(&lab, "router")).expect("taken over");
    assert!(gathers(&mut router, 100), "{}{}", knob(), router.log());
    traffic.set_rate(TRICKLE);
    assert!(gathers(&mut router, 0), "{}{}", knob(), router.log());
    traffic.set_rate(40_000);
    assert!(gathers(&mut router, 100), "{}{}", knob(), router.log());
    let books = traffic.stop();
    assert_eq!(books.total.reordered + books.total.duplicated, 0, "{:?}", books.total);
    router.signal(Signal::SIGKILL);
    assert!(until(PATIENCE, || knob().trim() == "0"), "left {}", knob());
}
