//! Signs of life of a program's threads, in memory that its guard process sees, too.
//!
//! A thread counts each round of its loop and says when it goes to sleep. It stands still when it neither
//! counts nor sleeps, or when the kernel says that it does not sleep but is stopped: so nobody has to
//! wake a sleeper to learn whether it lives.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ebb_units::Time;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Threads that can be watched.
pub const PULSES_MAX: usize = 257;
/// How often they are looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often while they work: a thread that something stops, as a debugger does, is found out at the second look.
pub const LOOK_AT_WORK: Duration = Duration::from_millis(40);

/// One thread's; written by it alone.
#[repr(C, align(128))]
struct Slot {
    rounds: AtomicU64,
    asleep: AtomicBool,
    /// The kernel's number of the thread; 0 while there is none to be watched.
    thread: AtomicU32,
    /// Milliseconds without a sign of life until it stands still.
    patience_ms: AtomicU32,
}

struct Page {
    slots: [Slot; PULSES_MAX],
    /// How often the guard gave the packets to the kernel.
    halts: AtomicU64,
}

/// The signs of life of all threads of a program.
#[derive(Clone)]
pub struct Pulses(Arc<Mapping>);

struct Mapping(NonNull<Page>);

// SAFETY: the page holds atomics alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nobody refers to it any more.
        _ = unsafe { munmap(self.0.cast(), size_of::<Page>()) };
    }
}

impl std::fmt::Debug for Pulses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pulses").field("halts", &self.halts()).finish_non_exhaustive()
    }
}

impl Pulses {
    /// Nobody lives yet. Processes that are forked from now on see the same.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new() -> io::Result<Pulses> {
        let len = NonZeroUsize::new(size_of::<Page>()).expect("not empty");
        let may = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: new memory at a place of the kernel's choice; zeroes are valid atomics.
        let page = unsafe { mmap_anonymous(None, len, may, MapFlags::MAP_SHARED) }?;
        Ok(Pulses(Arc::new(Mapping(page.cast()))))
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped until the last of us is dropped.
        unsafe { self.0.0.as_ref() }
    }

    /// The pulse of thread `number`.
    ///
    /// # Panics
    /// When `number` is not below [`PULSES_MAX`].
    pub fn of(&self, number: usize) -> Pulse {
        assert!(number < PULSES_MAX, "thread {number} of {PULSES_MAX}");
        Pulse { pulses: self.clone(), number, rounds: 0 }
    }

    /// How often the guard gave the packets to the kernel because a thread stood still.
    pub fn halts(&self) -> u64 {
        self.page().halts.load(Relaxed)
    }

    pub(crate) fn count_halt(&self) {
        self.page().halts.fetch_add(1, Relaxed);
    }
}

/// One thread's signs of life, as itself gives them.
#[derive(Debug)]
pub struct Pulse {
    pulses: Pulses,
    number: usize,
    rounds: u64,
}

impl Pulse {
    fn slot(&self) -> &Slot {
        &self.pulses.page().slots[self.number]
    }

    /// The calling thread lives from now on; without a sign for so long it stands still.
    pub fn begin(&mut self, patience: Duration) {
        let slot = self.slot();
        slot.patience_ms.store(u32::try_from(patience.as_millis()).unwrap_or(u32::MAX), Relaxed);
        slot.asleep.store(false, Relaxed);
        slot.thread.store(nix::unistd::gettid().as_raw() as u32, Relaxed);
    }

    /// A round has passed.
    #[inline]
    pub fn beat(&mut self) {
        self.rounds = self.rounds.wrapping_add(1);
        self.slot().rounds.store(self.rounds, Relaxed);
    }

    /// It goes to sleep in the kernel, or is awake again.
    #[inline]
    pub fn sleeps(&self, asleep: bool) {
        self.slot().asleep.store(asleep, Relaxed);
    }

    /// It ends, and is watched no longer.
    pub fn end(&self) {
        self.slot().thread.store(0, Relaxed);
    }
}

/// How the kernel sees a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Waits for what wakes it.
    Sleeping,
    /// Runs, could run, or hangs in a system call.
    Awake,
    /// Something stops it: a signal or a debugger.
    Stopped,
    Gone,
    /// The kernel does not say.
    Unknown,
}

/// Judges by what it saw before.
#[derive(Debug)]
pub struct Watcher {
    pulses: Pulses,
    process: u32,
    /// By thread: its rounds, and when it last was seen to live.
    seen: Vec<(u64, Time)>,
    /// When one of them last worked.
    worked: Time,
    looked: Time,
}

impl Watcher {
    /// Watches the threads of this process.
    pub fn new(pulses: Pulses, process: u32) -> Watcher {
        let seen = vec![(u64::MAX, Time::ZERO); PULSES_MAX];
        Watcher { pulses, process, seen, worked: Time::ZERO, looked: Time::ZERO }
    }

    /// Looks at all threads but the first `skipped`, to be called every [`Watcher::rest`]: the number of one
    /// that stands still.
    pub fn look(&mut self, skipped: usize, now: Time) -> Option<usize> {
        let process = self.process;
        self.look_with(skipped, now, |thread| thread_state(process, thread))
    }

    /// Whether every thread but the first `skipped` gave a sign since the last look.
    pub fn all_live(&mut self, skipped: usize, now: Time) -> bool {
        self.look(skipped, now);
        self.seen.iter().skip(skipped).all(|(_, lived)| *lived == now)
    }

    /// How long until the next look.
    pub fn rest(&self) -> Duration {
        let recent = self.looked.since(self.worked) < Duration::from_secs(1);
        if recent { LOOK_AT_WORK } else { LOOK_EVERY }
    }

    fn look_with(
        &mut self,
        skipped: usize,
        now: Time,
        state: impl Fn(u32) -> Seen,
    ) -> Option<usize> {
        let mut still = None;
        self.looked = now;
        for number in skipped..PULSES_MAX {
            let slot = &self.pulses.page().slots[number];
            let thread = slot.thread.load(Relaxed);
            let rounds = slot.rounds.load(Relaxed);
            let (before, lived) = &mut self.seen[number];
            let moved = std::mem::replace(before, rounds) != rounds;
            let asleep = slot.asleep.load(Relaxed);
            let seen = if thread == 0 || moved { Seen::Sleeping } else { state(thread) };
            let lives =
                thread == 0 || moved || asleep && matches!(seen, Seen::Sleeping | Seen::Unknown);
            // The first thread counts now and then without any packet.
            if number > 0 && thread != 0 && (moved || !lives) {
                self.worked = now;
            }
            if lives {
                *lived = now;
                continue;
            }
            let patience = Duration::from_millis(slot.patience_ms.load(Relaxed).into());
            if *lived == Time::ZERO {
                // Nobody has looked before.
                *lived = now;
            }
            // Packets go on without the first thread, the control's.
            if number > 0 && seen == Seen::Stopped || now.since(*lived) >= patience {
                still = still.or(Some(number));
            }
        }
        still
    }
}

/// `/proc/PID/task/TID/stat`, proc_pid_stat(5).
fn thread_state(process: u32, thread: u32) -> Seen {
    match std::fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")) {
        // The name may hold anything, parentheses too.
        Ok(text) => match text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
            Some('S') => Seen::Sleeping,
            Some('Z' | 'X') => Seen::Gone,
            Some('T' | 't') => Seen::Stopped,
            Some(_) => Seen::Awake,
            None => Seen::Unknown,
        },
        // Some systems show nobody's processes at all.
        Err(_) if std::fs::metadata(format!("/proc/{process}/stat")).is_ok() => Seen::Gone,
        Err(_) => Seen::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_still_that_neither_counts_nor_sleeps() {
        let pulses = Pulses::new().expect("memory");
        let mut watcher = Watcher::new(pulses.clone(), std::process::id());
        let mut pulse = pulses.of(3);
        let mut now = Time::ZERO;
        let mut look = |seen| {
            now += LOOK_EVERY;
            watcher.look_with(0, now, |_| seen)
        };
        assert_eq!(look(Seen::Gone), None, "nobody is there");
        pulse.begin(LOOK_EVERY * 3);
        pulse.beat();
        let mut fates = Vec::new();
        for (asleep, counts, seen) in [
            // Works.
            (false, true, Seen::Awake),
            (false, true, Seen::Sleeping),
            // Waits for something that is no sleep of its own: a lock, an endless loop.
            (false, false, Seen::Sleeping),
            (false, false, Seen::Awake),
            (false, false, Seen::Awake),
            // It goes on, and sleeps for long.
            (false, true, Seen::Awake),
            (true, false, Seen::Sleeping),
            (true, false, Seen::Sleeping),
            (true, false, Seen::Unknown),
            (true, false, Seen::Sleeping),
            // Woken from its sleep, and hangs.
            (true, false, Seen::Awake),
            (true, false, Seen::Awake),
            (true, false, Seen::Awake),
            // Somebody stops it.
            (false, true, Seen::Stopped),
            (false, false, Seen::Stopped),
            // It panicked.
            (true, true, Seen::Gone),
            (false, false, Seen::Gone),
            (false, false, Seen::Gone),
            (false, false, Seen::Gone),
        ] {
            if counts {
                pulse.beat();
            }
            pulse.sleeps(asleep);
            fates.push(look(seen).is_some());
        }
        let still: Vec<usize> = (0..fates.len()).filter(|at| fates[*at]).collect();
        assert_eq!(still, [4, 12, 14, 18]);
        pulse.end();
        assert_eq!(look(Seen::Gone), None, "it said that it ends");
    }

    #[test]
    fn the_kernel_tells_sleepers_from_others() {
        let process = std::process::id();
        let own = nix::unistd::gettid().as_raw() as u32;
        assert_eq!(thread_state(process, own), Seen::Awake);
        assert_eq!(thread_state(process, u32::MAX), Seen::Gone);
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw() as u32).expect("told");
            _ = ended.recv();
        });
        let thread = told.recv().expect("a thread");
        let asleep = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            thread_state(process, thread) == Seen::Sleeping
        });
        assert!(asleep, "it waits");
        drop(end);
        sleeper.join().expect("it ends");
    }
}
