//! V2: one thread hands over to another that sleeps, by a futex.

use std::time::Duration;

use super::{
    Body, CROSS_ASLEEP, CROSS_AWAKE, Case, KeepAwake, Mechanism, SAME_ASLEEP, Target, Way,
};
use crate::samples::Samples;
use crate::{Pair, Settings, SwitchError, Waiting};

/// Every hand-over wakes the target's thread, and the source sleeps until the work is back.
#[derive(Clone, Copy, Debug)]
pub struct Futex;

impl Mechanism for Futex {
    fn name(&self) -> &'static str {
        "futex"
    }

    fn version(&self) -> &'static str {
        "V2"
    }

    fn about(&self) -> &'static str {
        "a futex wakes the target for every hand-over; no side spins, both sides pay for the \
        scheduler"
    }

    fn cases(&self) -> &'static [Case] {
        &[CROSS_ASLEEP, CROSS_AWAKE, SAME_ASLEEP]
    }

    unsafe fn run(&self, way: Way, body: Body) -> Result<Samples, SwitchError> {
        let _awake = match way.target {
            Target::Awake => Some(KeepAwake::start(way.there)?),
            _ => None,
        };
        let mut pair = Pair::new(Settings {
            target: Some(way.there),
            source_waits: Waiting::Sleep,
            target_waits: Waiting::Sleep,
            patience: Duration::from_secs(1),
            ..Settings::default()
        })?;
        // SAFETY: by this function's own condition.
        unsafe { pair.run(body) }
    }
}
