//! V3: a run queue of continuations in the program.

use std::time::Duration;

use super::{
    Body, CROSS_ASLEEP, CROSS_AWAKE, CROSS_SPINNING, Case, Mechanism, SAME_AWAKE, Way, queue_waits,
};
use crate::samples::Samples;
use crate::{Pair, Settings, SwitchError};

/// The target takes continuations from its queue while it is awake; the kernel wakes it only when it
/// sleeps.
#[derive(Clone, Copy, Debug)]
pub struct RunQueue;

impl Mechanism for RunQueue {
    fn name(&self) -> &'static str {
        "run-queue"
    }

    fn version(&self) -> &'static str {
        "V3"
    }

    fn about(&self) -> &'static str {
        "a run queue in the program: no system call while the target is awake, one futex wake if it sleeps"
    }

    fn cases(&self) -> &'static [Case] {
        &[CROSS_ASLEEP, CROSS_AWAKE, CROSS_SPINNING, SAME_AWAKE]
    }

    unsafe fn run(&self, way: Way, body: Body) -> Result<Samples, SwitchError> {
        let mut pair = Pair::new(Settings {
            target: Some(way.there),
            target_waits: queue_waits(way.target),
            patience: Duration::from_secs(1),
            ..Settings::default()
        })?;
        // SAFETY: by this function's own condition.
        unsafe { pair.run(body) }
    }
}
