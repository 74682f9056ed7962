//! Real threads: faults of targets, overflow, and the measurement itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ebb_host::clock::monotonic;

use crate::measure::{Plan, Unmeasured, line_ns, measure};
use crate::mechanism::{Case, Target, all};
use crate::{Arrival, Pair, Place, Refusal, Settings, SwitchError, Travel, Waiting, channel};

fn pair(waits: Waiting, patience: Duration) -> Pair {
    let settings = Settings { target_waits: waits, patience, ..Settings::default() };
    Pair::new(settings).expect("a thread")
}

/// Keeps a target busy in a unit of work until told otherwise.
fn occupy(pair: &mut Pair) -> mpsc::Sender<()> {
    // Sent by hand, so that the source does not wait for it.
    let (release, held) = mpsc::channel::<()>();
    pair.post(move || {
        let _ = held.recv();
    })
    .unwrap();
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
    std::thread::sleep(Duration::from_millis(5));
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
    assert!(took >= patience && took < patience * 250, "{took:?}");
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
    std::thread::sleep(Duration::from_millis(20));
    let home = std::thread::current().id();
    let bodies: Vec<_> = (0..20)
        .map(|turn| {
            move |travel: &dyn Travel| {
                let arrival = travel.to(Place::There);
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
    for mechanism in all() {
        for &case in mechanism.cases() {
            match measure(mechanism, case, &plan) {
                Ok(measured) => {
                    assert!(
                        measured.one_way.p50 > 0 && measured.one_way.p50 <= measured.one_way.p99
                    );
                    assert!(measured.round_trip.p50 >= measured.one_way.p50);
                }
                Err(Unmeasured::OneCpu | Unmeasured::NeverThere(_)) => {}
                Err(error) => panic!("{} {case:?}: {error}", mechanism.name()),
            }
        }
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
