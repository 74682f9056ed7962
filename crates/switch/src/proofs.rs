//! The protocol under loom, which runs it in every interleaving that the memory model allows.

use std::time::Duration;

#[path = "protocol.rs"]
#[allow(dead_code, clippy::duplicate_mod, reason = "the same code against other atomics")]
mod protocol;

/// Loom's atomics, and a futex of its mutex and condition variable.
mod sync {
    pub(super) use loom::sync::Arc;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
    use loom::sync::{Condvar, Mutex};

    use super::Duration;

    #[derive(Debug)]
    pub(super) struct Cell<T>(loom::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(super) fn new(value: T) -> Cell<T> {
            Cell(loom::cell::UnsafeCell::new(value))
        }

        pub(super) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(access)
        }
    }

    #[derive(Debug)]
    pub(super) struct Park {
        lock: Mutex<()>,
        woken: Condvar,
    }

    impl Park {
        pub(super) fn new() -> Park {
            Park { lock: Mutex::new(()), woken: Condvar::new() }
        }

        pub(super) fn sleep(&self, word: &AtomicU32, expected: u32, _patience: Option<Duration>) {
            let lock = self.lock.lock().unwrap();
            if word.load(Ordering::SeqCst) == expected {
                drop(self.woken.wait(lock).unwrap());
            }
        }

        pub(super) fn watch(&self, _word: &AtomicU32, _monitor: bool) {
            loom::thread::yield_now();
        }

        pub(super) fn wake(&self, _word: &AtomicU32) {
            let _lock = self.lock.lock().unwrap();
            self.woken.notify_all();
        }
    }
}

use protocol::{Receiver, Sender, channel};

fn ends(slots: usize) -> (Sender<Box<u32>>, Receiver<Box<u32>>) {
    channel(slots)
}

/// Takes `count` units, sleeping whenever there is none. Ends only if no wake-up is lost: loom
/// reports a thread that sleeps for ever.
fn take_all(receiver: &mut Receiver<Box<u32>>, count: usize) -> Vec<u32> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match receiver.take() {
            Some(work) => seen.push(*work),
            None => receiver.sleep(None),
        }
    }
    seen
}

#[test]
fn a_sleeper_is_woken_and_gets_everything_in_order() {
    loom::model(|| {
        let (mut sender, mut receiver) = ends(2);
        let target = loom::thread::spawn(move || take_all(&mut receiver, 2));
        sender.offer(Box::new(1)).unwrap();
        sender.offer(Box::new(2)).unwrap();
        assert_eq!(target.join().unwrap(), [1, 2]);
    });
}

#[test]
fn a_slot_is_used_again_only_when_it_has_been_emptied() {
    loom::model(|| {
        let (mut sender, mut receiver) = ends(1);
        let target = loom::thread::spawn(move || take_all(&mut receiver, 2));
        let mut work = Box::new(1);
        let mut sent = 0;
        while sent < 2 {
            match sender.offer(work) {
                Ok(()) => {
                    sent += 1;
                    work = Box::new(sent + 1);
                }
                Err(refused) => {
                    work = refused.work;
                    loom::thread::yield_now();
                }
            }
        }
        assert_eq!(target.join().unwrap(), [1, 2]);
    });
}

#[test]
fn work_is_taken_or_withdrawn_and_never_both() {
    loom::model(|| {
        let (mut sender, mut receiver) = ends(1);
        let target = loom::thread::spawn(move || (receiver.take().map(|work| *work), receiver));
        sender.offer(Box::new(7)).unwrap();
        let back = sender.withdraw().map(|work| *work);
        let (there, _receiver) = target.join().unwrap();
        assert_eq!(usize::from(back.is_some()) + usize::from(there.is_some()), 1);
    });
}

#[test]
fn work_for_a_late_target_is_joined_and_arrives_once_in_order() {
    loom::model(|| {
        let (mut sender, mut receiver) = channel::<Vec<u32>>(1);
        let target = loom::thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.len() < 2 {
                match receiver.take() {
                    Some(work) => seen.extend(work),
                    None => receiver.sleep(None),
                }
            }
            seen
        });
        let join = |older: Vec<u32>, newer: Vec<u32>| [older, newer].concat();
        sender.offer_joined(vec![1], join).unwrap();
        sender.offer_joined(vec![2], join).unwrap();
        assert_eq!(target.join().unwrap(), [1, 2]);
    });
}

#[test]
fn a_target_that_closes_leaves_nothing_behind() {
    loom::model(|| {
        let (mut sender, mut receiver) = ends(1);
        let target = loom::thread::spawn(move || receiver.close().len());
        let refused = sender.offer(Box::new(7)).is_err();
        let taken = target.join().unwrap();
        let back = usize::from(sender.withdraw().is_some()) + usize::from(refused);
        assert_eq!(taken + back, 1);
        assert!(sender.is_closed());
    });
}

#[test]
fn an_announced_sleeper_still_gets_its_work() {
    loom::model(|| {
        let (mut sender, mut receiver) = ends(1);
        let target = loom::thread::spawn(move || take_all(&mut receiver, 1));
        sender.announce();
        sender.offer(Box::new(3)).unwrap();
        assert_eq!(target.join().unwrap(), [3]);
    });
}

#[test]
fn a_sleeper_learns_that_its_sender_is_gone() {
    loom::model(|| {
        let (sender, mut receiver) = ends(1);
        let target = loom::thread::spawn(move || {
            while !receiver.has_ended() {
                receiver.sleep(None);
            }
        });
        drop(sender);
        target.join().unwrap();
    });
}
