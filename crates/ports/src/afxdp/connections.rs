//! The kernel path's program where it may look connections up (`bpf/connections.h`): with the functions for it, which
//! the kernel or its module that tracks connections has from Linux 6.1 on.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use super::decision;
use super::functions::{CAST, Function, Kind, Source};

/// The functions, and the numbers that stand for them in `bpf/kernel.h`.
const FUNCTIONS: [Function; 4] = [
    Function("bpf_skb_ct_lookup", 0x4542_4211),
    Function("bpf_ct_release", 0x4542_4212),
    Function("bpf_ct_change_timeout", 0x4542_4213),
    Function(CAST, 0x4542_4214),
];
/// The map in whose place the process's own is.
const DECISIONS: &str = "decisions";
/// The first Linux that is known to have them all: `bpf_ct_change_timeout` came with 6.0.
const SINCE: (u32, u32) = (6, 1);
/// The program, that for VLAN interfaces, and those that are only asked.
pub(super) const PLAIN: &str = "forward_connected";
pub(super) const TAGGED: &str = "forward_tagged_connected";
pub(super) const EXPLAIN: &str = "explain_connected";
pub(super) const EXPLAIN_TAGGED: &str = "explain_tagged_connected";
/// The one that only takes a decision.
pub(super) const DECISION: &str = "decision_of";

/// Loads one of them, with the maps that `aya` has made of the same object, its constants among them.
///
/// # Errors
/// When the kernel lacks a function or refuses: reading what it knows of a connection takes `CAP_PERFMON`.
pub(super) fn load(bytes: &[u8], maps: &[(String, RawFd)], name: &str) -> io::Result<OwnedFd> {
    let mut maps = maps.to_vec();
    let decisions = decision::map()?;
    maps.iter_mut().filter(|(name, _)| name == DECISIONS).for_each(|(_, fd)| *fd = decisions);
    Source::read(bytes, &[], &maps, (&FUNCTIONS, SINCE))?.load(name, Kind::Classifier)
}

/// Nanoseconds between two ticks of the kernel's clock, in which it keeps the time of connections: the resolution of
/// the clock that goes on with each tick.
pub(super) fn tick_ns() -> u64 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer leads to a live timespec, which the call fills.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    if result == 0 && resolution.tv_nsec > 0 { resolution.tv_nsec as u64 } else { 4_000_000 }
}
