//! Why work could not be moved.

use std::io;

use crate::Refusal;

/// Why work could not be moved, or did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// A thread cannot be bound to a CPU.
    #[error(
        "cannot run on CPU {cpu}: {source}; `cat /sys/devices/system/cpu/online` lists the CPUs \
        that are on, `taskset -p $$` those that are allowed"
    )]
    Cpu {
        /// Linux's number.
        cpu: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// A continuation ran into the guard page below its stack. Only that continuation has ended; what it
    /// owned on its stack is not freed.
    #[error(
        "stack overflow: a continuation needed more than its stack of {bytes} bytes; give it more (Settings::stack_bytes)"
    )]
    StackOverflow {
        /// Size of the stack, bytes.
        bytes: usize,
    },
    /// The target's thread ended while it ran a unit of work, which is lost with it: what it did until
    /// then is done, and running it again could do it twice.
    #[error("the target's thread ended while it ran a unit of work: the work is not run again")]
    Lost,
    /// A thread or a stack could not be made.
    #[error("cannot create {what}: {source}")]
    Resources {
        /// What was to be made.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The target does not accept work.
    #[error("the target did not accept the work: {}", match .0 { Refusal::Full => "every slot is taken", Refusal::Closed => "it accepts no more work" })]
    Refused(Refusal),
}
