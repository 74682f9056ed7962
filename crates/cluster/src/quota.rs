//! So many in a second.

use ebb_units::Time;

/// Counts what is let through in each second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quota {
    second: u64,
    used: u32,
}

impl Quota {
    /// Whether one more may pass, of at most `most` in a second.
    pub(crate) fn take(&mut self, most: u32, now: Time) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second != second {
            *self = Quota { second, used: 0 };
        }
        self.used = self.used.saturating_add(1);
        self.used <= most
    }
}
