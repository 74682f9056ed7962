//! The live programs' clock as nanoseconds.

/// Nanoseconds since boot, see [`ebb_host::clock::monotonic`].
pub fn now_ns() -> u64 {
    ebb_host::clock::monotonic().as_nanos()
}
