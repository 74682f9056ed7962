//! What the programs count on each CPU, as in `bpf/state.h`.

use std::fmt;
use std::io;
use std::sync::Arc;

use aya::maps::{MapData, PerCpuArray, PerCpuValues};

use super::super::InterfaceCounters;
use super::super::policy::REASONS;
use super::{Program, broken};

/// The program times one packet of so many, as in `bpf/forward.h`.
const SAMPLED: u64 = 256;

/// What a CPU has done on the kernel path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets forwarded, those of super-frames singly.
    pub forwarded: u64,
    /// Time that the program took, in nanoseconds, one packet of 256 timed. What the kernel does after it, transmission and
    /// all that follows, is not in it.
    pub worked_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct CpuState {
    redirected: u64,
    passed: u64,
    stamped_ns: u64,
    jiffies: u64,
    count: u64,
    passed_for: [u64; REASONS],
    passed_long: u64,
    passed_beside: u64,
    forwarded: u64,
    forwarded_bytes: u64,
    seen: u64,
    sampled_ns: u64,
}

impl CpuState {
    /// Nanoseconds that the kernel path's program has worked, by the packets that it has timed.
    fn worked_ns(&self) -> u64 {
        let timed = self.seen.div_ceil(SAMPLED).max(1);
        (u128::from(self.sampled_ns) * u128::from(self.seen) / u128::from(timed)) as u64
    }
}

impl InterfaceCounters {
    /// Adds another's.
    pub fn add(&mut self, other: &InterfaceCounters) {
        self.redirected += other.redirected;
        self.passed += other.passed;
        self.passed_long += other.passed_long;
        self.passed_beside += other.passed_beside;
        self.passed_for.iter_mut().zip(other.passed_for).for_each(|(sum, more)| *sum += more);
        self.forwarded += other.forwarded;
        self.forwarded_bytes += other.forwarded_bytes;
        self.overrun += other.overrun;
    }
}

// SAFETY: only integers, without padding.
unsafe impl aya::Pod for CpuState {}

/// What all CPUs have counted, to be read by workers as well: the program itself is locked while it is attached or given
/// other tables, which may take the kernel 30 ms.
#[derive(Clone)]
pub(in super::super) struct States(Arc<PerCpuArray<MapData, CpuState>>);

impl States {
    pub(super) fn new(states: PerCpuArray<MapData, CpuState>) -> States {
        States(Arc::new(states))
    }

    /// Packets left to the kernel.
    pub(in super::super) fn passed(&self) -> io::Result<u64> {
        Ok(self.get()?.iter().map(|state| state.passed).sum())
    }

    fn get(&self) -> io::Result<PerCpuValues<CpuState>> {
        self.0.get(&0, 0).map_err(broken)
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}

impl Program {
    /// The counters alone.
    pub(in super::super) fn states(&self) -> States {
        self.states.clone()
    }

    /// What was done on the kernel path, by CPU.
    pub(in super::super) fn work_by_cpu(&self) -> io::Result<Vec<Work>> {
        let states = self.states.get()?;
        let work =
            |state: &CpuState| Work { forwarded: state.forwarded, worked_ns: state.worked_ns() };
        Ok(states.iter().map(work).collect())
    }

    pub(in super::super) fn counters(&self) -> io::Result<InterfaceCounters> {
        let states = self.states.get()?;
        let mut passed_for = [0; REASONS];
        for state in states.iter() {
            passed_for.iter_mut().zip(state.passed_for).for_each(|(sum, count)| *sum += count);
        }
        Ok(InterfaceCounters {
            passed_for,
            redirected: states.iter().map(|state| state.redirected).sum(),
            passed: states.iter().map(|state| state.passed).sum(),
            passed_long: states.iter().map(|state| state.passed_long).sum(),
            passed_beside: states.iter().map(|state| state.passed_beside).sum(),
            forwarded: states.iter().map(|state| state.forwarded).sum(),
            forwarded_bytes: states.iter().map(|state| state.forwarded_bytes).sum(),
            overrun: self.spread.counters().iter().map(|lane| lane.dropped).sum(),
        })
    }
}
