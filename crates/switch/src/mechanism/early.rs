//! V5: the wake-up goes out before the work, and both happen at the same time.

use std::time::Duration;

use super::{Body, CROSS_ASLEEP, CROSS_SPINNING, Case, Mechanism, WINDOW, Way};
use crate::samples::Samples;
use crate::{Pair, Settings, SwitchError, Waiting};

/// A target that sleeps is woken while the source still has something to do; it then spins, for a time
/// that it adapts, until the work comes.
#[derive(Clone, Copy, Debug)]
pub struct Early;

impl Mechanism for Early {
    fn name(&self) -> &'static str {
        "early-wake"
    }

    fn version(&self) -> &'static str {
        "V5"
    }

    fn about(&self) -> &'static str {
        "a futex wake before the work, overlapping the work of the source; then an adaptive spin \
        (umwait if the CPU has it)"
    }

    fn cases(&self) -> &'static [Case] {
        &[CROSS_ASLEEP, CROSS_SPINNING]
    }

    fn announces(&self) -> bool {
        true
    }

    unsafe fn run(&self, way: Way, body: Body) -> Result<Samples, SwitchError> {
        let adaptive = Waiting::Adaptive { least: WINDOW, most: 4 * WINDOW };
        let mut pair = Pair::new(Settings {
            target: Some(way.there),
            source_waits: adaptive,
            target_waits: adaptive,
            patience: Duration::from_secs(1),
            ..Settings::default()
        })?;
        // SAFETY: by this function's own condition.
        unsafe { pair.run(body) }
    }
}
