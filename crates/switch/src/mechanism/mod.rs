//! Five ways of moving work to another core, after Table 3.1 of the source.
//!
//! The source changed a kernel; a program cannot. What each way stands for, and what it is here:
//!
//! | | in the kernel of the source | here |
//! |---|---|---|
//! | V1 | the migration thread moves the thread | the same: `sched_setaffinity` |
//! | V2 | the scheduler is called directly | a futex hands a continuation to a thread that sleeps on the target |
//! | V3 | fast paths of the scheduler | a run queue in the program; the kernel wakes only who sleeps |
//! | V4 | the idle loop polls | the target polls |
//! | V5 | a wake-up instruction, early | the wake-up goes out before the source's remaining work; then V3 |

pub(crate) mod early;
mod futex;
mod migrate;
mod polling;
mod run_queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ebb_host::process;

pub use crate::user_wait::has_user_wait;
pub use early::Early;
pub use futex::Futex;
pub use migrate::Migrate;
pub use polling::Polling;
pub use run_queue::RunQueue;

use crate::samples::Samples;
use crate::{SwitchError, Travel, Waiting};

/// How the target's core is when work comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Its thread sleeps and its core is idle.
    Asleep,
    /// Its core is awake, with something else.
    Awake,
    /// It looks for work and does nothing else.
    Spinning,
}

impl Target {
    /// The word in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Target::Asleep => "asleep",
            Target::Awake => "awake",
            Target::Spinning => "spinning",
        }
    }
}

/// A situation in which a mechanism can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// How the target is.
    pub target: Target,
    /// Whether it is another core.
    pub cross: bool,
}

/// Where a body is to travel.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// CPU of the source, to which the calling thread is bound.
    pub home: usize,
    /// CPU of the target; the same where both share a core.
    pub there: usize,
    /// How the target is.
    pub target: Target,
}

/// Work that moves itself and brings back what it saw.
pub type Body = Box<dyn FnOnce(&dyn Travel) -> Samples + Send>;

/// One way of moving work.
pub trait Mechanism: Sync {
    /// The word in tables and JSON.
    fn name(&self) -> &'static str;

    /// Its number in the source, `V1` to `V5`.
    fn version(&self) -> &'static str;

    /// What it can do, and what not, in a sentence.
    fn about(&self) -> &'static str;

    /// The situations in which it means something.
    fn cases(&self) -> &'static [Case];

    /// Whether work is announced before it comes.
    fn announces(&self) -> bool {
        false
    }

    /// Whether a thread of its own waits at the target.
    fn has_waiter(&self) -> bool {
        true
    }

    /// Runs `body` between the two CPUs of `way`.
    ///
    /// # Safety
    /// Values that are alive in the body across a call of [`Travel::to`] go on being used on another
    /// thread: they must be `Send`, and none may borrow from thread-local storage.
    ///
    /// # Errors
    /// When the target cannot be had, or was lost.
    unsafe fn run(&self, way: Way, body: Body) -> Result<Samples, SwitchError>;
}

/// Every mechanism, from V1 to V5.
pub fn all() -> [&'static dyn Mechanism; 5] {
    [&Migrate, &Futex, &RunQueue, &Polling, &Early]
}

/// The time for which a target looks before it sleeps.
pub(crate) const WINDOW: Duration = Duration::from_micros(50);

/// The least of it, for a target that is always asleep when work comes: who has looked in vain has used processor
/// time, and waits the longer for its turn when it is woken.
pub(crate) const WINDOW_LEAST: Duration = Duration::from_micros(2);

/// Work of its own between two looks, for a target that is awake.
pub(crate) const PIECE: Duration = Duration::from_micros(1);

const CROSS_ASLEEP: Case = Case { target: Target::Asleep, cross: true };
const CROSS_AWAKE: Case = Case { target: Target::Awake, cross: true };
const CROSS_SPINNING: Case = Case { target: Target::Spinning, cross: true };
const SAME_ASLEEP: Case = Case { target: Target::Asleep, cross: false };
const SAME_AWAKE: Case = Case { target: Target::Awake, cross: false };

/// How a target that has a run queue waits.
fn queue_waits(target: Target) -> Waiting {
    match target {
        Target::Awake => Waiting::Between(PIECE),
        Target::Asleep | Target::Spinning => {
            Waiting::Adaptive { least: WINDOW_LEAST, most: WINDOW }
        }
    }
}

/// Keeps a CPU from idling with a thread that gives way to every other (`SCHED_IDLE`).
struct KeepAwake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAwake {
    fn start(cpu: usize) -> Result<KeepAwake, SwitchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let spin = move || {
            let pinned = process::pin_to(cpu);
            let least = libc::sched_param { sched_priority: 0 };
            // SAFETY: a valid structure that the call copies; 0 is the calling thread.
            let low = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &least) } == 0;
            while pinned.is_ok() && low && !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let thread = std::thread::Builder::new().name("switch-awake".into()).spawn(spin);
        let thread =
            thread.map_err(|source| SwitchError::Resources { what: "a thread", source })?;
        Ok(KeepAwake { stop, thread: Some(thread) })
    }
}

impl Drop for KeepAwake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
