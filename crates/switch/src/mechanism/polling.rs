//! V4: the target polls.

use std::time::Duration;

use super::{Body, CROSS_SPINNING, Case, Mechanism, Way};
use crate::samples::Samples;
use crate::{Pair, Settings, SwitchError, Waiting};

/// Both sides look for work without end.
#[derive(Clone, Copy, Debug)]
pub struct Polling;

impl Mechanism for Polling {
    fn name(&self) -> &'static str {
        "polling"
    }

    fn version(&self) -> &'static str {
        "V4"
    }

    fn about(&self) -> &'static str {
        "the target polls: the least delay, at full power of a core; on one core two pollers wait \
        for the scheduler"
    }

    fn cases(&self) -> &'static [Case] {
        &[CROSS_SPINNING]
    }

    unsafe fn run(&self, way: Way, body: Body) -> Result<Samples, SwitchError> {
        let mut pair = Pair::new(Settings {
            target: Some(way.there),
            source_waits: Waiting::Poll,
            target_waits: Waiting::Poll,
            patience: Duration::from_secs(1),
            ..Settings::default()
        })?;
        // SAFETY: by this function's own condition.
        unsafe { pair.run(body) }
    }
}
