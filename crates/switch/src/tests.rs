//! Real threads: faults of targets, overflow, and the measurement itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ebb_host::clock::monotonic;
use ebb_host::process;

use crate::measure::{Plan, Unmeasured, line_ns, measure, measure_all};
use crate::mechanism::{Case, Target, all};
use crate::{Arrival, Location, Pair, Refusal, Settings, SwitchError, Travel, Waiting, channel};

fn pair(waits: Waiting, patience: Duration) -> Pair {
    let settings = Settings { target_waits: waits, patience, ..Settings::default() };
    Pair::new(settings).expect("a thread")
}

/// Keeps a target busy in a unit of work, in which it is when this returns, until told otherwise.
fn occupy(pair: &mut Pair) -> mpsc::Sender<()> {
    // Sent by hand, so that the source does not wait for it.
    let (release, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel::<()>();
    pair.post(move || {
        begin.send(()).unwrap();
        let _ = held.recv();
    })
    .unwrap();
    begun.recv().unwrap();
    release
}

#[test]
fn work_runs_on_the_other_thread_and_comes_back() {
    let mut pair = pair(Waiting::Sleep, Duration::from_secs(5));
    let here = std::thread::current().id();
    for turn in 0..100 {
        let (there, result) = pair.call(move || (std::thread::current().id(), turn * 2)).unwrap();
        assert_ne!(there, here);
        assert_eq!(result, turn * 2);
    }
}

#[test]
fn a_target_that_never_polls_loses_nothing_and_runs_nothing_twice() {
    let patience = Duration::from_millis(20);
    let mut pair = pair(Waiting::Sleep, patience);
    let release = occupy(&mut pair);
    let runs = Arc::new(AtomicU32::new(0));
    let seen = runs.clone();
    let before = monotonic();
    let home = std::thread::current().id();
    let ran_at = pair.call(move || {
        seen.fetch_add(1, Ordering::Relaxed);
        std::thread::current().id()
    });
    // Taken back within the patience and a quarter, and run at home.
    let took = monotonic() - before;
    assert_eq!(ran_at.unwrap(), home);
    assert!(took >= patience && took < patience * 3000, "{took:?}");
    release.send(()).unwrap();
    assert_ne!(pair.call(|| std::thread::current().id()).unwrap(), home);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_target_that_is_killed_leaves_its_work_to_the_source() {
    let mut pair = pair(Waiting::Sleep, Duration::from_millis(10));
    pair.post(|| {
        // SAFETY: ends this one thread, as a kill would: no destructor runs.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    })
    .unwrap();
    let (process, tid, begun) = (std::process::id(), pair.target_tid(), monotonic());
    // SAFETY: signal 0 is never delivered; it only asks whether the thread is there.
    while unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) } == 0 {
        assert!(monotonic() - begun < Duration::from_secs(60), "the target does not end");
        std::thread::yield_now();
    }
    let home = std::thread::current().id();
    let bodies: Vec<_> = (0..20)
        .map(|turn| {
            move |travel: &dyn Travel| {
                let arrival = travel.to(Location::There);
                (turn, arrival, std::thread::current().id())
            }
        })
        .collect();
    // SAFETY: numbers and an identifier only.
    let ran = unsafe { pair.run_all(bodies) }.unwrap();
    assert_eq!(ran.iter().map(|(turn, ..)| *turn).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    // More than the ring has slots: the rest stayed because it was full.
    assert!(ran.iter().any(|(_, arrival, _)| *arrival == Arrival::TakenBack), "{ran:?}");
    assert!(
        ran.iter().any(|(_, arrival, _)| *arrival == Arrival::Stayed(Refusal::Full)),
        "{ran:?}"
    );
    assert!(ran.iter().all(|(.., thread)| *thread == home));
}

#[test]
fn work_that_dies_with_its_target_is_reported_and_not_run_again() {
    let mut pair = pair(Waiting::Sleep, Duration::from_millis(10));
    let runs = Arc::new(AtomicU32::new(0));
    let seen = runs.clone();
    let lost = pair.call(move || {
        seen.fetch_add(1, Ordering::Relaxed);
        // SAFETY: ends the target's thread in the middle of the work.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    assert!(matches!(lost, Err(SwitchError::Lost)), "{lost:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_stack_overflow_has_a_name_and_ends_nothing_else() {
    fn deeper(depth: u64) -> u64 {
        let page = std::hint::black_box([depth; 512]);
        if depth == u64::MAX { page[3] } else { deeper(depth + 1) + page[7] }
    }
    let mut pair = pair(Waiting::Sleep, Duration::from_secs(5));
    for _ in 0..3 {
        let error = pair.call(|| deeper(std::hint::black_box(0))).unwrap_err();
        assert!(matches!(error, SwitchError::StackOverflow { .. }), "{error}");
        assert!(error.to_string().contains("262144 bytes"), "{error}");
        assert_eq!(pair.call(|| 3).unwrap(), 3);
    }
}

#[test]
fn a_panic_at_the_target_goes_on_at_home() {
    let mut pair = pair(Waiting::Sleep, Duration::from_secs(5));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pair.call(|| std::panic::resume_unwind(Box::new("too much")))
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "too much");
    assert_eq!(pair.call(|| 1).unwrap(), 1);
}

#[test]
fn a_target_that_is_being_parked_takes_all_or_leaves_it() {
    let (mut sender, mut receiver) = channel(4);
    sender.offer(1).unwrap();
    sender.offer(2).unwrap();
    assert_eq!(receiver.close(), [1, 2]);
    let refused = sender.offer(3).unwrap_err();
    assert_eq!((refused.work, refused.why), (3, Refusal::Closed));
}

#[test]
fn threads_hand_everything_over_once_and_in_order() {
    let count = if std::env::var_os("EBB_LONG").is_some() { 2_000_000 } else { 20_000 };
    let (mut sender, mut receiver) = channel::<u64>(4);
    let target = std::thread::spawn(move || {
        let (mut next, mut quiet) = (0, 0);
        while next < count {
            match receiver.take() {
                Some(unit) => {
                    assert_eq!(unit, next);
                    (next, quiet) = (next + 1, 0);
                }
                None if quiet > 100 => receiver.sleep(Some(Duration::from_secs(1))),
                None => {
                    quiet += 1;
                    std::thread::yield_now();
                }
            }
        }
    });
    let mut next = 0;
    while next < count {
        if sender.offer(next).is_ok() {
            next += 1;
            // Some are taken back and sent again: never lost, never twice.
            if next % 97 == 0 {
                next -= u64::from(sender.withdraw().is_some());
            }
        } else {
            std::thread::yield_now();
        }
    }
    target.join().unwrap();
}

#[test]
fn every_mechanism_is_measured_or_says_why_not() {
    let plan = Plan {
        trips: 60,
        trips_asleep: 20,
        longest: Duration::from_millis(100),
        ..Plan::here(60).unwrap()
    };
    assert!(plan.there.is_none() || line_ns(&plan).unwrap() > 0);
    assert!(matches!(line_ns(&Plan { there: None, ..plan }), Err(Unmeasured::OneCpu)));
    let rows = measure_all(&plan, 2);
    assert_eq!(rows.len(), all().iter().map(|mechanism| mechanism.cases().len()).sum::<usize>());
    for (mechanism, case, measured) in rows {
        match measured {
            Ok(measured) => {
                assert!(measured.one_way.p50 > 0 && measured.one_way.p50 <= measured.one_way.p99);
                assert!(measured.round_trip.p50 >= measured.one_way.p50);
                assert!((1..=2).contains(&measured.by_turn.len()));
            }
            Err(Unmeasured::OneCpu | Unmeasured::NeverThere(_)) => {}
            Err(error) => panic!("{} {case:?}: {error}", mechanism.name()),
        }
    }
    for mechanism in all() {
        let alone = Plan { there: None, ..plan };
        let case = Case { target: Target::Asleep, cross: true };
        assert!(matches!(measure(mechanism, case, &alone), Err(Unmeasured::OneCpu)));
    }
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let error = Pair::new(Settings { target: Some(1000), ..Settings::default() }).err().unwrap();
    assert!(error.to_string().contains("CPU 1000"), "{error}");
}

#[test]
fn more_continuations_than_slots_all_run_once() {
    let settings = Settings {
        slots: 2,
        target_waits: Waiting::Sleep,
        patience: Duration::from_millis(10),
        ..Settings::default()
    };
    let mut pair = Pair::new(settings).unwrap();
    // While the target is busy only two fit; the rest stays at home, and the two are taken back.
    let release = occupy(&mut pair);
    let bodies: Vec<_> =
        (0..50).map(|turn| move |travel: &dyn Travel| (turn, travel.to(Location::There))).collect();
    // SAFETY: numbers only.
    let ran = unsafe { pair.run_all(bodies) }.unwrap();
    assert_eq!(ran.iter().map(|(turn, _)| *turn).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
    let count = |what| ran.iter().filter(|(_, arrival)| *arrival == what).count();
    assert!(count(Arrival::Stayed(Refusal::Full)) >= 40, "{ran:?}");
    // `post` says so too, and the work has not run.
    let refused = (0..4).find_map(|_| pair.post(|| ()).err()).expect("more than there is room for");
    assert!(matches!(refused, SwitchError::Refused(Refusal::Full)), "{refused}");
    release.send(()).unwrap();
}

#[test]
fn a_target_that_is_not_scheduled_loses_nothing_and_runs_nothing_twice() {
    let cpus = process::allowed_cpus().unwrap();
    let Some(&cpu) = cpus.get(1) else { return eprintln!("skipped: one CPU") };
    let settings = Settings {
        target: Some(cpu),
        target_waits: Waiting::Sleep,
        patience: Duration::from_millis(1),
        ..Settings::default()
    };
    let mut pair = Pair::new(settings).unwrap();
    let least = libc::sched_param { sched_priority: 0 };
    // SAFETY: a valid structure that the call copies.
    let idle = unsafe { libc::sched_setscheduler(pair.target_tid(), libc::SCHED_IDLE, &least) };
    assert_eq!(idle, 0);
    // Runs in the target's stead for as long as it likes.
    let over = Arc::new(AtomicU32::new(0));
    let seen = over.clone();
    let hog = std::thread::spawn(move || {
        process::pin_to(cpu).unwrap();
        while seen.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
    });
    let runs = Arc::new(AtomicU32::new(0));
    for turn in 1..=10 {
        let runs = runs.clone();
        assert_eq!(pair.call(move || runs.fetch_add(1, Ordering::Relaxed) + 1).unwrap(), turn);
    }
    over.store(1, Ordering::Relaxed);
    hog.join().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 10);
}

/// Takes every capability of root from the calling thread.
fn drop_rights() {
    // Version 3, and the calling thread: capset(2).
    let header = [0x2008_0522_u32, 0];
    let none = [0_u32; 6];
    // SAFETY: both are of the layout that this version asks for, and only read.
    let dropped = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(dropped, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn without_rights_everything_is_measured_all_the_same() {
    let measure = || {
        drop_rights();
        let short = Duration::from_millis(50);
        let plan = Plan { trips: 20, trips_asleep: 20, longest: short, ..Plan::here(20).unwrap() };
        let mut measured = 0;
        for (mechanism, case, row) in measure_all(&plan, 1) {
            match row {
                Ok(_) => measured += 1,
                Err(Unmeasured::OneCpu | Unmeasured::NeverThere(_)) => {}
                Err(error) => panic!("{} {case:?}: {error}", mechanism.name()),
            }
        }
        // With or without a second CPU something is, and system calls are stopped without root too.
        assert!(measured > 0);
        match crate::syscalls::cost(&plan, 20) {
            Ok(_) | Err(Unmeasured::OneCpu) => {}
            Err(error) => panic!("{error}"),
        }
    };
    std::thread::spawn(measure).join().unwrap();
}
