//! When every packet that was steered by an old redirect table has arrived.

use std::io;
use std::time::Duration;

use crate::grace;

/// How long is waited where the kernel gives no proof: many times what a driver may poll its
/// queue without a pause (`net.core.netdev_budget_usecs`, 2 to 8 ms).
const MARGIN: Duration = Duration::from_millis(30);

/// What has to pass after redirect tables were written, until every packet steered by the old
/// ones is in its old worker's receive queue or further on.
///
/// Fences of several ports make one: all tables are written, then [`Fence::wait`] is called once.
#[must_use = "packets of the old table may still be in flight"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// XDP programs that read an old table may still run.
    programs: bool,
    /// Packets may be this long in hardware.
    hardware: Duration,
}

impl Fence {
    /// Nothing is on its way.
    pub const PASSED: Fence = Fence { programs: false, hardware: Duration::ZERO };

    /// XDP programs that have read the old table have to end.
    pub fn programs() -> Fence {
        Fence { programs: true, ..Fence::PASSED }
    }

    /// Hardware without a sign of its own gets this long.
    pub fn hardware(settle: Duration) -> Fence {
        Fence { hardware: settle, ..Fence::PASSED }
    }

    /// Both this and `other`, written one after the other.
    pub fn and(self, other: Fence) -> Fence {
        Fence {
            programs: self.programs || other.programs,
            hardware: self.hardware.max(other.hardware),
        }
    }

    /// Waits for all of it.
    ///
    /// # Errors
    /// When the kernel refuses every proof that programs have ended; then a margin of 30 ms was
    /// waited instead.
    pub fn wait(self) -> io::Result<()> {
        if !self.hardware.is_zero() {
            std::thread::sleep(self.hardware);
        }
        if !self.programs {
            return Ok(());
        }
        grace::wait().inspect_err(|_| std::thread::sleep(MARGIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_fences_are_as_long_as_the_longest() {
        let two = Fence::hardware(Duration::from_millis(2));
        assert_eq!(two.and(two).and(Fence::PASSED), two);
        let both = two.and(Fence::programs());
        assert_eq!(both, Fence { programs: true, hardware: Duration::from_millis(2) });
        assert_eq!(Fence::PASSED.and(both), both);
    }
}
