//! What the protocol stands on: atomics, a cell, and a place to sleep. The proofs put loom's in their
//! stead.

pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use std::cell::UnsafeCell;
use std::time::Duration;

/// A cell whose accesses the protocol orders.
#[derive(Debug)]
pub(super) struct Cell<T>(UnsafeCell<T>);

impl<T> Cell<T> {
    pub(super) fn new(value: T) -> Cell<T> {
        Cell(UnsafeCell::new(value))
    }

    pub(super) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// Where a receiver sleeps: the kernel's futex on the slot's own word.
#[derive(Debug)]
pub(super) struct Park;

impl Park {
    pub(super) fn new() -> Park {
        Park
    }

    /// Sleeps while `word` is `expected`, until woken, a signal or the end of `patience`.
    pub(super) fn sleep(&self, word: &AtomicU32, expected: u32, patience: Option<Duration>) {
        let span = patience.map(|span| libc::timespec {
            tv_sec: span.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(span.subsec_nanos() as i32),
        });
        let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word outlives the call, `span` is null or outlives it too.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wait, expected, span) };
    }

    /// Passes a moment while `word` may change: with `monitor` until its cache line is written where the CPU
    /// can wait for that in user mode, else one pause.
    #[inline]
    pub(super) fn watch(&self, word: &AtomicU32, monitor: bool) {
        if monitor {
            crate::user_wait::watch(word);
        } else {
            std::hint::spin_loop();
        }
    }

    /// Wakes who sleeps on `word`.
    pub(super) fn wake(&self, word: &AtomicU32) {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word outlives the call; waking touches no memory.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wake, 1) };
    }
}
