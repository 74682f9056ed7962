//! The live programs' clock as nanoseconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// Time of day as a number that is greater after a program's or machine's new start than before it, as
/// long as nobody sets the clock back; ns since 1970.
pub fn since_1970_ns() -> u64 {
    let span = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since boot, see [`ebb_host::clock::monotonic`].
pub fn now_ns() -> u64 {
    ebb_host::clock::monotonic().as_nanos()
}
