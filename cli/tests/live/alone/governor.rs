//! The governor: capacity follows load, silence costs nothing, changes of mode lose nothing.

use std::time::{Duration, Instant};

use ebb_host::process;
use ebb_host::signals::Signal;
use serde_json::json;

use crate::common::imitation::Imitation;
use crate::common::lab::{Lab, Wiring, skip};
use crate::common::router::{PATIENCE, Router, Setup, until};
use crate::common::traffic::{Traffic, Way, way};

const SILENCE: Duration = Duration::from_secs(10);

fn ways(count: u8) -> Vec<Way> {
    (0..count)
        .map(|number| way(usize::from(number % 2), usize::from(1 - number % 2), number))
        .collect()
}

#[test]
fn cores_follow_the_load() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    // Packets taken one by one leave others waiting at rates that one core could well carry.
    let powersave = "batch = 1\nqueue_high = 2\nqueue_low = 1\ncount_up = 2\ncount_down = 4\n\
                     hold_ms = 20\nhold_max_ms = 100";
    let setup =
        Setup { mode: "powersave", workers: 2, powersave: powersave.into(), ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    router.wait_for("one core in silence", |status| status.point.cores == 1);
    let traffic = Traffic::start(&lab, &ways(64), 500);
    let begun = Instant::now();
    let mut history = Vec::new();
    let mut carry = |rate, seconds: f64| -> bool {
        traffic.set_rate(rate);
        let phase = Instant::now();
        let before = history.len();
        while phase.elapsed().as_secs_f64() < seconds {
            let status = router.status();
            history.push((begun.elapsed().as_millis(), rate, status.point.cores));
            std::thread::sleep(Duration::from_millis(100));
        }
        history[before..].iter().any(|(_, _, cores)| *cores == 2)
    };
    carry(500, 1.5);
    // A fast machine needs more to be kept busy.
    [25_000, 50_000, 100_000, 200_000].into_iter().any(|rate| carry(rate, 2.0));
    carry(500, 2.5);
    let books = traffic.stop();
    let status = router.wait_for("one core at the end", |status| status.point.cores == 1);
    println!("ms, packets/s, cores: {history:?}");
    println!(
        "{:?}; moved {} entries in {} changes",
        books.total, status.governor.entries_moved, status.governor.changes
    );
    assert!(history.iter().any(|(_, _, cores)| *cores == 2), "load never woke the second core");
    assert_eq!(status.governor.late, 0);
    // A machine that has better to do than to schedule a worker lets rings run over.
    let counted = status.ports.iter().map(|port| port.receive_dropped).sum::<u64>()
        + status.packets().dropped_total()
        + lab.interfaces_dropped();
    assert!(books.total.lost <= counted, "{counted} counted, {:?}", books.total);
    assert_eq!(books.total.reordered, 0, "{:?}", books.total);
    router.stop();
}

fn silence_costs_nothing(mode: &'static str) {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let mut router = Setup { mode, workers: 2, ..Setup::of(&lab) }.start(&lab);
    let traffic = Traffic::start(&lab, &ways(2), 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 500), "{}", router.log());
    traffic.stop();
    // The last step down, and what the status request itself wakes, come before.
    if mode == "powersave" {
        router.wait_for("one core", |status| status.point.cores == 1);
    }
    std::thread::sleep(Duration::from_millis(500));
    let before = router.status();
    std::thread::sleep(Duration::from_millis(500));
    let (threads, cpu) = (process::threads_of(router.pid()).expect("threads"), router.cpu_time());
    std::thread::sleep(SILENCE);
    let (later, spent) =
        (process::threads_of(router.pid()).expect("threads"), router.cpu_time() - cpu);
    let sleeps = |name: &str| -> u64 {
        let of = |list: &[process::ThreadUse]| -> u64 {
            list.iter()
                .filter(|thread| thread.name.starts_with(name))
                .map(|thread| thread.sleeps)
                .sum()
        };
        of(&later) - of(&threads)
    };
    let status = router.status();
    let wakeups: Vec<u64> = status
        .workers
        .iter()
        .zip(&before.workers)
        .map(|(after, before)| after.wakeups - before.wakeups)
        .collect();
    println!(
        "{mode}: {} us of CPU in {} s of silence ({:.4} %), workers woke {wakeups:?} times, \
         the governor {}, all threads {}",
        spent.as_micros(),
        SILENCE.as_secs(),
        spent.as_secs_f64() / SILENCE.as_secs_f64() * 100.0,
        sleeps("ebb-governor"),
        sleeps("")
    );
    assert!(spent < SILENCE / 200, "{spent:?}");
    assert_eq!(wakeups, [0, 0]);
    assert_eq!(sleeps("ebb-worker") + sleeps("ebb-governor"), 0);
    router.stop();
}

#[test]
fn silence_costs_nothing_in_powersave() {
    silence_costs_nothing("powersave");
}

#[test]
fn silence_costs_nothing_in_napi() {
    silence_costs_nothing("napi");
}

#[test]
fn reloads_and_changes_of_mode_lose_nothing() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let setup = Setup { workers: 2, ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    let traffic = Traffic::start(&lab, &ways(64), 5000);
    for change in 0..12 {
        let mode = ["powersave", "poll", "napi"][change % 3];
        router.request(&json!({ "set": { "mode": mode } })).expect("another mode");
        assert_eq!(router.status().mode, mode);
        std::thread::sleep(Duration::from_millis(80));
    }
    for mode in ["powersave", "napi", "powersave"] {
        let text = Setup { mode, ..setup.clone() }.text(&lab, "router");
        std::fs::write(&router.config, text).expect("a configuration");
        router.signal(Signal::SIGHUP);
        router.wait_for("the mode of the file", |status| status.mode == mode);
        std::thread::sleep(Duration::from_millis(200));
    }
    let broken = setup.text(&lab, "router").replace("workers", "wokers");
    std::fs::write(&router.config, broken).expect("a configuration");
    router.signal(Signal::SIGHUP);
    router.wait_for_words("not reloaded");
    let refused = router.request(&json!({ "reload": {} })).expect_err("a broken file");
    assert!(refused.contains("wokers"), "{refused}");
    std::thread::sleep(Duration::from_millis(200));
    let (threads, status) = (router.threads(), router.status());
    let books = traffic.stop();
    if books.total.lost > 0 {
        println!("{threads}{:#?}{:#?}", status.workers, status.ports);
    }
    println!("12 changes of mode, 3 reloads: {:?}", books.total);
    books.assert_perfect("changes of mode and reloads", |flow| 1 - flow % 2);
    assert_eq!(router.status().governor.late, 0);
    router.stop();
}

/// A worker that would let packets gather has the kernel do it, and all is put back.
#[test]
fn packets_gather_in_the_ports_queues() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let knobs = |name: &str| -> Vec<u64> {
        let script = format!("cat /sys/class/net/p?/{name}");
        let text = lab.inside(&["sh", "-c", &script]);
        text.split_whitespace().map(|value| value.parse().expect("a number")).collect()
    };
    let gather = || {
        let nanos = knobs("gro_flush_timeout");
        // At most the default budget, and as much again for the work in between.
        nanos.iter().all(|nanos| (10_000..=400_000).contains(nanos))
            && knobs("napi_defer_hard_irqs") == [1, 1]
    };
    let untouched =
        || knobs("gro_flush_timeout") == [0, 0] && knobs("napi_defer_hard_irqs") == [0, 0];
    let set = |moderation: &str| Setup {
        governor: format!("moderation = \"{moderation}\""),
        ..Setup::of(&lab)
    };
    let started = |port: &str| {
        let router = Setup { port: port.to_owned(), ..set("on") }.start(&lab);
        (router, Traffic::start(&lab, &ways(2), 20_000))
    };
    for end in [Signal::SIGTERM, Signal::SIGKILL] {
        let (mut router, traffic) = started("");
        assert!(until(PATIENCE, gather), "{}", router.log());
        router.wait_for("said so", |status| {
            status.ports.iter().all(|port| port.gathers_us.is_some_and(|micros| micros >= 10))
        });
        router.request(&json!({ "set": { "mode": "poll" } })).expect("a command");
        assert!(until(PATIENCE, untouched), "polling waits for nobody: {}", router.log());
        router.request(&json!({ "set": { "mode": "napi" } })).expect("a command");
        assert!(until(PATIENCE, gather), "{}", router.log());
        router.upgrade(None).expect("another program");
        assert!(until(PATIENCE, gather), "after an upgrade: {}", router.log());
        for moderation in ["off", "on", "off", "auto"] {
            router.reload(&set(moderation).text(&lab, "router")).expect("a reload");
            let on = moderation != "off";
            let ports = router.status().ports;
            assert!(
                ports.iter().all(|port| port.gathers_us.is_some() == on),
                "switched {moderation}"
            );
            let done = until(PATIENCE, || if on { gather() } else { untouched() });
            let values = (knobs("gro_flush_timeout"), knobs("napi_defer_hard_irqs"));
            assert!(done, "switched {moderation}: {values:?} {}", router.log());
        }
        traffic.stop().assert_perfect("gathering", |flow| 1 - flow % 2);
        router.signal(end);
        assert!(until(PATIENCE, untouched), "{end:?} left {:?}", knobs("gro_flush_timeout"));
    }
    // Nothing moderates what comes to a generic program from a sender's memory.
    let (mut router, traffic) = started("xdp = \"generic\"");
    assert!(until(PATIENCE, || traffic.arrived() > 10_000), "{}", router.log());
    assert!(untouched());
    assert!(router.status().ports.iter().all(|port| port.gathers_us.is_none()));
    traffic.stop().assert_perfect("generic", |flow| 1 - flow % 2);
    router.stop();
}

/// Each port's queue has a time of its own: with several the workers' one timer wakes them less often.
#[test]
fn packets_of_many_ports_gather_when_told_to() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let knobs = || lab.inside(&["sh", "-c", "cat /sys/class/net/p?/napi_defer_hard_irqs"]);
    let setup = |moderation: &str| Setup {
        governor: format!("moderation = \"{moderation}\""),
        ..Setup::of(&lab)
    };
    let mut router = setup("on").start(&lab);
    let traffic = Traffic::start(&lab, &ways(2), 20_000);
    let gather = || knobs().split_whitespace().eq(["1", "1", "1"]);
    let untouched = || knobs().split_whitespace().eq(["0", "0", "0"]);
    assert!(until(PATIENCE, gather), "{}", router.log());
    router.reload(&setup("auto").text(&lab, "router")).expect("a reload");
    assert!(until(PATIENCE, untouched), "{}", router.log());
    router.reload(&setup("on").text(&lab, "router")).expect("a reload");
    assert!(until(PATIENCE, gather), "{}", router.log());
    traffic.stop().assert_perfect("gathering", |flow| 1 - flow % 2);
    router.stop();
    assert!(until(PATIENCE, untouched));
}

/// Every queue gets packets under `steer`: none may wake a core that is parked.
#[test]
fn interrupts_leave_parked_cores_alone() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip("interrupts move between two CPUs");
    }
    let Some(lab) = Lab::build(Wiring { queues: 2, ..Wiring::plain(2) }) else { return };
    let sysfs = Imitation::new(&lab.directory);
    sysfs.interrupts("p0", 40, 2);
    let setup = Setup { mode: "napi", workers: 2, governor: sysfs.governor(), ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    let cpus: Vec<String> = router
        .status()
        .workers
        .iter()
        .map(|worker| worker.cpu.expect("a pinned worker").to_string())
        .collect();
    let are = |one: usize, other: usize| {
        until(PATIENCE, || sysfs.interrupt(40) == cpus[one] && sysfs.interrupt(41) == cpus[other])
    };
    assert!(are(0, 1), "{:?}", [40, 41].map(|number| sysfs.interrupt(number)));
    router.request(&json!({ "set": { "mode": "powersave" } })).expect("a command");
    router.wait_for("one core", |status| status.point.cores == 1);
    assert!(are(0, 0), "{:?}", [40, 41].map(|number| sysfs.interrupt(number)));
    router.request(&json!({ "set": { "mode": "napi" } })).expect("a command");
    assert!(are(0, 1), "{:?}", [40, 41].map(|number| sysfs.interrupt(number)));
    router.stop();
    assert_eq!([40, 41].map(|number| sysfs.interrupt(number)), ["0-1", "0-1"]);
}

/// What the kernel forwards no worker sees: neither clock nor interrupts may follow the workers' idleness.
#[test]
fn clocks_are_the_kernels_on_its_path_and_interrupts_follow_its_load() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip("interrupts move between two CPUs");
    }
    let Some(lab) = Lab::build(Wiring { queues: 2, ..Wiring::plain(2) }) else { return };
    let sysfs = Imitation::new(&lab.directory);
    sysfs.interrupts("p0", 40, 2);
    let index = lab.inside(&["cat", "/sys/class/net/p0/ifindex"]);
    sysfs.transmit_queues("p0", index.trim().parse().expect("a number"), 2);
    let port = "path = \"kernel\"".to_owned();
    let governor = sysfs.governor();
    let setup = Setup { mode: "powersave", workers: 2, governor, port, ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    let pinned = |worker: usize, router: &mut Router| {
        router.status().workers[worker].cpu.expect("a pinned worker")
    };
    let cpus = [0, 1].map(|worker| pinned(worker, &mut router).to_string());
    let cpu = pinned(0, &mut router) as usize;
    let read = |file: &str| {
        let text = std::fs::read_to_string(sysfs.path(cpu, file)).expect("a file");
        text.trim().to_owned()
    };
    let limits = || ["cpufreq/scaling_min_freq", "cpufreq/scaling_max_freq"].map(read);
    let interrupts = || [40, 41].map(|number| sysfs.interrupt(number));
    router.wait_for("the first operating point", |status| status.governor.changes > 0);
    assert!(until(PATIENCE, || limits() == ["800000", "2400000"]), "{:?}", limits());
    let depth = || read("power/pm_qos_resume_latency_us");
    assert!(until(PATIENCE, || depth() == "0"), "no worker waits for packets there: {}", depth());
    let queues = || [0, 1].map(|queue| sysfs.transmit_queue("p0", queue));
    assert_eq!(queues(), ["0", "0"], "what a queue receives leaves by the same one");
    let are = |one: usize, other: usize| {
        until(PATIENCE, || interrupts() == [cpus[one].as_str(), cpus[other].as_str()])
    };
    assert!(are(0, 0), "one CPU is enough: {:?}", interrupts());
    router.request(&json!({ "set": { "mode": "napi" } })).expect("a command");
    assert!(are(0, 1), "that mode saves nothing: {:?}", interrupts());
    router.request(&json!({ "set": { "mode": "powersave" } })).expect("a command");
    assert!(are(0, 0), "{:?}", interrupts());
    let text = Setup { port: "path = \"worker\"".to_owned(), ..setup }.text(&lab, "router");
    router.reload(&text).expect("taken over");
    assert!(until(PATIENCE, || limits() == ["800000", "800000"]), "workers: {:?}", limits());
    router.stop();
    assert_eq!(
        (interrupts(), queues()),
        (["0-1", "0-1"].map(String::from), ["1", "2"].map(String::from))
    );
    assert_eq!(limits(), ["800000", "2400000"]);
}
