//! A network in two halves, each computed by a thread of its own, with the same outcome to the last digit.
//!
//! Each half has its tiles' routers and elements. What crosses the cut is handed over with the cycle in which it
//! arrives; a half waits until the other has done what can still reach it (conservative synchronization: Chandy and
//! Misra, IEEE Trans. Softw. Eng. 5(5), 1979), which links and routers put some cycles ahead. Nothing that either half
//! computes depends on the order in which tiles of one cycle have their turn, so the outcome is the whole's.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Network;
use super::ends::{Ends, Flit, Packet};

/// What goes over the cut, each with the cycle in which it is there.
#[derive(Default)]
pub(super) struct Crossings {
    /// Flits to an input virtual channel, with whether they are a head and a tail.
    pub(super) flits: Vec<(u64, u32, Flit)>,
    /// The packets of those that are heads.
    pub(super) packets: Vec<Packet>,
    /// Credits to the output behind an input virtual channel.
    pub(super) credits: Vec<(u64, u32)>,
}

/// A network that can be computed in two halves.
pub(super) trait Divisible: Network + Send {
    /// Has these tiles only.
    fn keep(&mut self, tiles: Range<usize>);
    /// How many cycles after it has left something arrives at the earliest; at least one.
    fn ahead(&self) -> u64;
    /// Hands over what left in the last cycle.
    fn depart(&mut self, ends: &mut Ends<'_>, to: &mut Crossings);
    /// Takes what has come.
    fn arrive(&mut self, coming: &mut Crossings, ends: &mut Ends<'_>);
    /// Both halves as one, to be looked at.
    fn joined(&self, other: &Self) -> Self;
}

/// A network, or half of one, and its ends.
pub(super) struct Part<'a, N> {
    pub(super) network: N,
    pub(super) ends: Ends<'a>,
}

/// Whether the next cycles are worth two threads: on a machine that has other work one waits for the other.
#[derive(Default)]
pub(super) struct Pace {
    /// Spans that one thread computes before two are tried again.
    alone: u32,
    /// How many of them there were last time.
    last: u32,
}

/// A wait is so many looks at the other half before its thread sleeps.
const LOOKS: u32 = 4_000;
/// More sleeps than this in a span, and one thread goes on alone.
const SLEEPS_MAX: u32 = 8;
const ALONE_MIN: u32 = 16;
const ALONE_MAX: u32 = 1024;

impl Pace {
    fn note(&mut self, sleeps: u32) {
        self.last = match sleeps {
            0..=SLEEPS_MAX => 0,
            _ => (2 * self.last).clamp(ALONE_MIN, ALONE_MAX),
        };
        self.alone = self.last;
    }
}

/// Computes the cycles from `from` to `to` of both halves.
pub(super) fn advance<'a, N: Divisible>(
    parts: &mut Vec<Part<'a, N>>,
    from: u64,
    to: u64,
    pace: &mut Pace,
    helper: &Helper<'a, N>,
) {
    if pace.alone > 0 {
        pace.alone -= 1;
        return in_turn(parts, from, to);
    }
    let sides = Arc::new([Side::at(from), Side::at(from)]);
    let other = parts.pop().expect("two halves");
    helper.ask(Job { part: other, from, to, sides: sides.clone() });
    let sleeps = parts[0].follow(from, to, &sides[0], &sides[1]);
    let (other, more) = helper.answer();
    parts.push(other);
    pace.note(sleeps + more);
    parts[1].take(&mut sides[0].sent());
    parts[0].take(&mut sides[1].sent());
}

/// The same by one thread: either half in turn, as far as the other cannot reach it.
fn in_turn<N: Divisible>(parts: &mut [Part<'_, N>], from: u64, to: u64) {
    let [one, other] = parts else { unreachable!("two halves") };
    let ahead = one.network.ahead();
    let (mut of_one, mut of_other) = (Crossings::default(), Crossings::default());
    let mut now = from;
    while now < to {
        let next = (now + ahead).min(to);
        (now..next).for_each(|cycle| one.step(cycle, &mut of_one));
        (now..next).for_each(|cycle| other.step(cycle, &mut of_other));
        other.take(&mut of_one);
        one.take(&mut of_other);
        now = next;
    }
}

/// Cycles of a half for the other thread.
struct Job<'a, N> {
    part: Part<'a, N>,
    from: u64,
    to: u64,
    sides: Arc<[Side; 2]>,
}

enum Task<'a, N> {
    None,
    Asked(Job<'a, N>),
    Done(Part<'a, N>, u32),
    End,
}

/// The thread beside the one that runs a simulation.
pub(super) struct Helper<'a, N> {
    task: Mutex<Task<'a, N>>,
    /// Counts whatever the two tell each other.
    told: AtomicU64,
    bell: Condvar,
}

impl<'a, N: Divisible> Helper<'a, N> {
    pub(super) fn new() -> Helper<'a, N> {
        Helper { task: Mutex::new(Task::None), told: AtomicU64::new(0), bell: Condvar::new() }
    }

    /// Its thread's life.
    pub(super) fn work(&self) {
        let _ended = EndsHelp(self);
        let mut seen = 0;
        loop {
            match self.next(&mut seen) {
                Task::Asked(Job { mut part, from, to, sides }) => {
                    let sleeps = part.follow(from, to, &sides[1], &sides[0]);
                    seen += 1;
                    self.tell(Task::Done(part, sleeps));
                }
                Task::End => return,
                Task::None | Task::Done(..) => {}
            }
        }
    }

    fn ask(&self, job: Job<'a, N>) {
        self.tell(Task::Asked(job));
    }

    /// What the other half has become.
    ///
    /// # Panics
    /// When its thread has.
    fn answer(&self) -> (Part<'a, N>, u32) {
        let mut seen = self.told.load(SeqCst);
        loop {
            match self.take_if(|task| matches!(task, Task::Done(..) | Task::End)) {
                Some(Task::Done(part, sleeps)) => return (part, sleeps),
                Some(_) => panic!("the other half's thread panicked"),
                None => self.await_word(&mut seen),
            }
        }
    }

    fn next(&self, seen: &mut u64) -> Task<'a, N> {
        loop {
            if let Some(task) = self.take_if(|task| matches!(task, Task::Asked(_) | Task::End)) {
                return task;
            }
            self.await_word(seen);
        }
    }

    fn task(&self) -> MutexGuard<'_, Task<'a, N>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_if(&self, wanted: impl Fn(&Task<'a, N>) -> bool) -> Option<Task<'a, N>> {
        let mut task = self.task();
        wanted(&task).then(|| std::mem::replace(&mut *task, Task::None))
    }

    fn tell(&self, task: Task<'a, N>) {
        *self.task() = task;
        self.told.fetch_add(1, SeqCst);
        self.bell.notify_one();
    }

    /// Waits for something new to be told.
    fn await_word(&self, seen: &mut u64) {
        for _ in 0..LOOKS {
            let told = self.told.load(SeqCst);
            if told != *seen {
                *seen = told;
                return;
            }
            std::hint::spin_loop();
        }
        let mut task = self.task();
        while self.told.load(SeqCst) == *seen {
            task = self.bell.wait(task).unwrap_or_else(PoisonError::into_inner);
        }
        *seen = self.told.load(SeqCst);
    }
}

/// Ends the other thread, or tells of its end.
pub(super) struct EndsHelp<'h, 'a, N: Divisible>(pub(super) &'h Helper<'a, N>);

impl<N: Divisible> Drop for EndsHelp<'_, '_, N> {
    fn drop(&mut self) {
        self.0.tell(Task::End);
    }
}

/// What a half has done, and what it has sent; each on cache lines of its own.
#[repr(align(128))]
struct Side {
    /// Cycles done.
    done: AtomicU64,
    /// The other half sleeps until more is done.
    awaited: AtomicBool,
    bell: Condvar,
    sent: Mutex<Crossings>,
}

impl Side {
    fn at(cycle: u64) -> Side {
        let awaited = AtomicBool::new(false);
        let (bell, sent) = (Condvar::new(), Mutex::default());
        Side { done: AtomicU64::new(cycle), awaited, bell, sent }
    }

    fn sent(&self) -> MutexGuard<'_, Crossings> {
        self.sent.lock().expect("no thread panicked")
    }

    fn done(&self, cycles: u64) {
        self.done.store(cycles, SeqCst);
        if self.awaited.load(SeqCst) {
            // Whoever is about to sleep has the lock until it does.
            drop(self.sent.lock());
            self.bell.notify_one();
        }
    }

    /// Waits until so many cycles are done; how many are, and whether that took a sleep.
    fn wait(&self, cycles: u64) -> (u64, bool) {
        for _ in 0..LOOKS {
            let known = self.done.load(SeqCst);
            if known >= cycles {
                return (known, false);
            }
            std::hint::spin_loop();
        }
        self.awaited.store(true, SeqCst);
        let short = |_: &mut Crossings| self.done.load(SeqCst) < cycles;
        drop(self.bell.wait_while(self.sent(), short));
        self.awaited.store(false, SeqCst);
        (self.done.load(SeqCst), true)
    }
}

/// Wakes the other half also when this one's thread panics: it would wait for ever.
struct Ended<'a>(&'a Side);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.done(u64::MAX);
        }
    }
}

impl<N: Divisible> Part<'_, N> {
    fn step(&mut self, now: u64, leaving: &mut Crossings) {
        self.network.step(now, &mut self.ends);
        self.network.depart(&mut self.ends, leaving);
    }

    fn take(&mut self, coming: &mut Crossings) {
        self.network.arrive(coming, &mut self.ends);
    }

    /// Computes its cycles beside the other half; how often it slept.
    fn follow(&mut self, from: u64, to: u64, own: &Side, other: &Side) -> u32 {
        let _ended = Ended(own);
        let ahead = self.network.ahead();
        let mut coming = Crossings::default();
        let (mut known, mut sleeps) = (from, 0);
        for now in from..to {
            // All that arrives in this cycle left at least `ahead` cycles ago.
            if known.saturating_add(ahead) <= now {
                let (done, slept) = other.wait(now + 1 - ahead);
                (known, sleeps) = (done, sleeps + u32::from(slept));
                std::mem::swap(&mut *other.sent(), &mut coming);
                self.take(&mut coming);
            }
            self.network.step(now, &mut self.ends);
            self.network.depart(&mut self.ends, &mut own.sent());
            own.done(now + 1);
        }
        sleeps
    }
}
