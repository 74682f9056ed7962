//! What a router's policy sees and orders.

use serde::{Deserialize, Serialize};

use crate::Policy;

/// How much of a router is powered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OperatingPoint {
    /// Active cores, at least one; the others are parked.
    pub cores: u16,
    /// Index into the table of frequencies in ascending order, common to all active cores.
    pub frequency: u16,
    /// How deep active cores may sleep between packets. Parked cores sleep as deep as they can.
    pub depth: IdleDepth,
}

/// Deepest idle state allowed to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdleDepth {
    /// C1: wakes within a microsecond (Niccolini et al. 2012, section 5, guideline 3).
    Shallow,
    /// Whatever the kernel chooses.
    Deep,
}

/// What exists to be powered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Cores the router may use, at least one.
    pub cores: u16,
    /// Number of frequencies, at least one.
    pub frequencies: u16,
}

impl Limits {
    /// Every core at the highest frequency.
    pub fn top(&self, depth: IdleDepth) -> OperatingPoint {
        OperatingPoint {
            cores: self.cores.max(1),
            frequency: self.frequencies.saturating_sub(1),
            depth,
        }
    }
}

/// What one active worker sees after it has received a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Packets that still wait behind the batch, the longest queue among the active workers. Each
    /// look at it counts as a sample: where one worker asks for all, it is the one whose queue
    /// that is.
    pub queue_len: u32,
    /// Packets that still wait in the observing worker's own queues.
    pub own_queue_len: u32,
    /// Packets received since the policy was last asked about them, the batch included: by this
    /// worker, or by all of them where one asks for all.
    pub received: u32,
    /// The observing worker's number.
    #[serde(default)]
    pub worker: u16,
    /// Packets that the smallest of its receive rings holds; 0: not known.
    #[serde(default)]
    pub room: u32,
    /// How much later than asked its last [`Idle::Gather`] ended, in nanoseconds.
    #[serde(default)]
    pub late_nanos: u32,
    /// Processor time that going to sleep and waking costs it, in nanoseconds; 0: not known.
    #[serde(default)]
    pub wake_nanos: u32,
}

/// What the observing worker does next, and what the governor changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The operating point that should hold from now on.
    pub point: OperatingPoint,
    /// What this worker does after the batch.
    pub idle: Idle,
}

/// What a worker does after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Polls again at once.
    Poll,
    /// Sleeps until the next packet.
    Halt,
    /// Sleeps for so long, whatever comes, so that the wake-up finds several packets.
    Gather {
        /// Nanoseconds.
        nanos: u32,
    },
}

/// A policy for routers, as an object.
pub type RouterPolicy = dyn Policy<Observation = Observation, Action = Action> + Send;
