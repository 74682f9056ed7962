//! Two cores between which continuations travel: the source, whose thread calls, and the target, a
//! thread that serves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ebb_host::{clock::monotonic, process};
use ebb_units::Time;

use crate::continuation::{Continuation, STACK_BYTES, Step, Wish};
use crate::protocol::{Receiver, Refusal, Sender, channel};
use crate::waiting::{Waiter, Waiting};
use crate::{Arrival, Location, SwitchError, Travel};

/// What a pair of cores is to be like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CPU of the target, or wherever the system likes.
    pub target: Option<usize>,
    /// How the source waits for work to come back.
    pub source_waits: Waiting,
    /// How the target waits for work.
    pub target_waits: Waiting,
    /// Units that may wait for the target.
    pub slots: usize,
    /// How long offered work may wait to be taken before the source takes it back.
    pub patience: Duration,
    /// Stack of a continuation, bytes.
    pub stack_bytes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            target: None,
            source_waits: Waiting::SpinThenSleep(Duration::from_micros(50)),
            target_waits: Waiting::SpinThenSleep(Duration::from_micros(50)),
            slots: 8,
            patience: Duration::from_millis(10),
            stack_bytes: STACK_BYTES,
        }
    }
}

/// A target's thread and the rings to it and back. Dropping it waits for the work that the target runs.
pub struct Pair {
    to: Sender<Continuation>,
    back: Receiver<Continuation>,
    target: Option<JoinHandle<()>>,
    /// The target's thread; negative once it has said goodbye.
    tid: Arc<AtomicI32>,
    waiter: Waiter,
    settings: Settings,
    /// Which hand-over waits to be taken, and since when it was seen to.
    stalled: Option<(usize, Time)>,
    sent: usize,
}

/// A body as the source's queue holds it.
type Runnable = (Continuation, Arrival);

impl Pair {
    /// Starts the target's thread.
    ///
    /// # Errors
    /// When it cannot be started, or not on its CPU.
    pub fn new(settings: Settings) -> Result<Pair, SwitchError> {
        let (to, units) = channel(settings.slots);
        let (home, back) = channel(settings.slots);
        let (ready, started) = mpsc::channel();
        let (cpu, waits) = (settings.target, settings.target_waits);
        let tid = Arc::new(AtomicI32::new(0));
        let own = tid.clone();
        let run = move || {
            // SAFETY: has no arguments and always succeeds.
            own.store(unsafe { libc::gettid() }, Ordering::Release);
            let pinned = cpu.map_or(Ok(()), process::pin_to);
            let failed = pinned.is_err();
            let _ = ready.send(pinned);
            if !failed {
                serve(units, home, Waiter::new(waits));
            }
        };
        let thread = std::thread::Builder::new().name("switch-target".into()).spawn(run);
        let thread = thread
            .map_err(|source| SwitchError::Resources { what: "the target's thread", source })?;
        let pinned = started.recv().unwrap_or_else(|_| Err(std::io::Error::other("it ended")));
        pinned.map_err(|source| SwitchError::Cpu { cpu: cpu.unwrap_or_default(), source })?;
        let waiter = Waiter::new(settings.source_waits);
        let (target, stalled, sent) = (Some(thread), None, 0);
        Ok(Pair { to, back, target, tid, waiter, settings, stalled, sent })
    }

    /// How long offered work may wait before it is taken back.
    pub fn patience(&self) -> Duration {
        self.settings.patience
    }

    /// Runs `work` on the target's core, or here when the target does not take it in time.
    ///
    /// # Errors
    /// [`SwitchError::StackOverflow`], and [`SwitchError::Lost`] when the target ends while it runs it.
    pub fn call<R: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, SwitchError> {
        let body = move |travel: &dyn Travel| {
            travel.to(Location::There);
            let result = work();
            travel.to(Location::Home);
            result
        };
        // SAFETY: alive across the calls are `work` and its result, both `Send` by their bounds.
        unsafe { self.run(body) }
    }

    /// Runs a body that moves itself.
    ///
    /// # Safety
    /// Values that are alive in the body across a call of [`Travel::to`] go on being used on another
    /// thread: they must be `Send`, and none may borrow from thread-local storage. It must not ask to be
    /// moved while it unwinds.
    ///
    /// # Errors
    /// As [`Pair::call`].
    pub unsafe fn run<R: Send + 'static>(
        &mut self,
        body: impl FnOnce(&dyn Travel) -> R + Send + 'static,
    ) -> Result<R, SwitchError> {
        // SAFETY: by this function's own condition.
        let (unit, fruit) = unsafe { Continuation::new(body, self.settings.stack_bytes)? };
        let lost = self.carry(VecDeque::from([(unit, Arrival::Home)])) > 0;
        fruit.collect(lost)
    }

    /// Sends `work` to the target and neither waits for it nor hears of its end. What the target never
    /// takes is run by the next call here, or dropped with the pair.
    ///
    /// # Errors
    /// When the target takes nothing more or has no room: the work has not run.
    pub fn post(&mut self, work: impl FnOnce() + Send + 'static) -> Result<(), SwitchError> {
        // SAFETY: the body never moves.
        let (unit, _) = unsafe { Continuation::new(move |_| work(), self.settings.stack_bytes)? };
        self.to.offer(unit.posted()).map_err(|refused| SwitchError::Refused(refused.why))
    }

    /// Runs several bodies that move themselves, in turns.
    ///
    /// # Safety
    /// As [`Pair::run`], for each.
    ///
    /// # Errors
    /// The first of [`Pair::call`]'s; the other bodies have ended too.
    pub unsafe fn run_all<R: Send + 'static>(
        &mut self,
        bodies: impl IntoIterator<Item = impl FnOnce(&dyn Travel) -> R + Send + 'static>,
    ) -> Result<Vec<R>, SwitchError> {
        let (mut units, mut fruits) = (VecDeque::new(), Vec::new());
        for body in bodies {
            // SAFETY: by this function's own condition.
            let (unit, fruit) = unsafe { Continuation::new(body, self.settings.stack_bytes)? };
            units.push_back((unit, Arrival::Home));
            fruits.push(fruit);
        }
        let lost = self.carry(units) > 0;
        fruits.into_iter().map(|fruit| fruit.collect(lost)).collect()
    }

    /// Runs what is runnable here and sends away what wants to go, until all has ended. Returns how many
    /// were lost with the target.
    fn carry(&mut self, mut runnable: VecDeque<Runnable>) -> usize {
        let mut away = 0;
        loop {
            if let Some((unit, arrival)) = runnable.pop_front() {
                let sent = self.step(unit, arrival, &mut runnable);
                away += usize::from(sent);
                if runnable.is_empty() || away == 0 {
                    continue;
                }
                let Some(unit) = self.back.take() else { continue };
                away -= 1;
                arrive(unit, &mut runnable);
                continue;
            }
            if away == 0 {
                return 0;
            }
            match self.waiter.next(&mut self.back, self.settings.patience / 4) {
                Some(unit) => {
                    away -= 1;
                    arrive(unit, &mut runnable);
                }
                None => {
                    let gone = self.target_is_gone();
                    away -= self.take_back(gone, &mut runnable);
                    if away > 0 && runnable.is_empty() && gone {
                        // It may have sent something just before.
                        let Some(unit) = self.back.take() else { return away };
                        away -= 1;
                        arrive(unit, &mut runnable);
                    }
                }
            }
        }
    }

    /// Runs a unit until it goes away (true), ends, or waits for its next turn.
    fn step(
        &mut self,
        mut unit: Continuation,
        arrival: Arrival,
        later: &mut VecDeque<Runnable>,
    ) -> bool {
        let mut arrival = arrival;
        loop {
            match unit.resume(arrival) {
                Step::Ended(_) => return false,
                Step::Wants(Wish::Announce) => arrival = Arrival::Told(self.to.announce()),
                Step::Wants(Wish::Ask) => arrival = Arrival::Told(self.to.target_sleeps()),
                Step::Wants(Wish::To(Location::Home)) => {
                    later.push_back((unit, Arrival::Home));
                    return false;
                }
                Step::Wants(Wish::To(Location::There)) => match self.to.offer(unit) {
                    Ok(()) => {
                        self.sent += 1;
                        return true;
                    }
                    Err(refused) => {
                        later.push_back((refused.work, Arrival::Stayed(refused.why)));
                        return false;
                    }
                },
            }
        }
    }

    /// Takes back what the target has left alone for too long, or will never take.
    fn take_back(&mut self, gone: bool, runnable: &mut VecDeque<Runnable>) -> usize {
        if !self.to.is_waiting() {
            self.stalled = None;
            return 0;
        }
        let now = monotonic();
        let since = match self.stalled {
            Some((sent, since)) if sent == self.sent => since,
            _ => now,
        };
        self.stalled = Some((self.sent, since));
        let why = if self.to.is_closed() {
            Arrival::Stayed(Refusal::Closed)
        } else if gone || now - since + self.settings.patience / 4 >= self.settings.patience {
            Arrival::TakenBack
        } else {
            return 0;
        };
        self.stalled = None;
        let mut count = 0;
        // The youngest comes first; they go on in the order in which they left.
        while let Some(unit) = self.to.withdraw() {
            count += usize::from(!unit.is_posted());
            runnable.push_front((unit, why));
        }
        count
    }

    /// Whether the target's thread has ended, or was ended by others.
    fn target_is_gone(&self) -> bool {
        let tid = self.tid.load(Ordering::Acquire);
        // SAFETY: signal 0 is never delivered; it only asks whether the thread is there.
        let there = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, 0) } == 0;
        !there
    }

    /// The target's thread, as the kernel numbers it.
    pub fn target_tid(&self) -> i32 {
        self.tid.load(Ordering::Acquire)
    }
}

fn arrive(unit: Continuation, runnable: &mut VecDeque<Runnable>) {
    if !unit.has_ended() {
        runnable.push_back((unit, Arrival::Home));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The sender goes first, which the target sees; a target that is gone is not waited for.
        let (to, _) = channel(1);
        drop(std::mem::replace(&mut self.to, to));
        let Some(thread) = self.target.take() else { return };
        if thread.is_finished() || !self.target_is_gone() {
            let _ = thread.join();
        }
    }
}

/// The target: runs what comes until it wants home.
fn serve(mut units: Receiver<Continuation>, mut home: Sender<Continuation>, mut waiter: Waiter) {
    const LOOK: Duration = Duration::from_millis(100);
    loop {
        let Some(mut unit) = waiter.next(&mut units, LOOK) else {
            if units.has_ended() || home.is_closed() {
                return;
            }
            continue;
        };
        let mut arrival = Arrival::There;
        loop {
            match unit.resume(arrival) {
                Step::Wants(Wish::To(Location::There)) => arrival = Arrival::There,
                Step::Wants(Wish::Announce | Wish::Ask) => arrival = Arrival::Told(false),
                Step::Wants(Wish::To(Location::Home)) | Step::Ended(_) => break,
            }
        }
        if unit.is_posted() {
            continue;
        }
        // As many slots lead home as lead here, but units may pile up while the source is busy.
        let mut rest = home.offer(unit).err();
        while let Some(refused) = rest {
            if home.is_closed() {
                return;
            }
            std::thread::yield_now();
            rest = home.offer(refused.work).err();
        }
    }
}
