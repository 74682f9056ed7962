//! Why an interface can't be opened for AF_XDP.

use std::io;

/// Why an interface can't be opened for AF_XDP.
#[derive(Debug, thiserror::Error)]
pub enum AfXdpError {
    /// No such interface.
    #[error("interface {interface} does not exist")]
    NoInterface {
        /// Its name.
        interface: String,
    },
    /// The interface is administratively down.
    #[error("interface {interface} is down: ip link set {interface} up")]
    Down {
        /// Its name.
        interface: String,
    },
    /// A bond or team.
    #[error(
        "interface {interface} is a bond or team and cannot be a port: the kernel runs its XDP \
        program on the members, whose packets do not reach sockets of the bond, and removes VLAN \
        tags first; remove it from the configuration, and the kernel forwards through it"
    )]
    Aggregate {
        /// Its name.
        interface: String,
    },
    /// The process may not do that.
    #[error(
        "no permission to {what}: run as root or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF \
         ({source})"
    )]
    Permission {
        /// What was attempted.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Neither native nor generic XDP, as asked for.
    #[error("cannot attach an XDP program to interface {interface} ({mode}): {reason}")]
    NoXdp {
        /// Its name.
        interface: String,
        /// The mode that was asked for.
        mode: &'static str,
        /// What the system said.
        reason: String,
    },
    /// Another program holds the interface.
    #[error(
        "interface {interface} is in use: another XDP program is attached, perhaps a second \
         instance (see: ip link show {interface})"
    )]
    ProgramBusy {
        /// Its name.
        interface: String,
    },
    /// Another socket holds the queue.
    #[error(
        "queue {queue} of {interface} is in use by another AF_XDP socket, perhaps a second instance"
    )]
    QueueBusy {
        /// Its name.
        interface: String,
        /// Receive queue.
        queue: u32,
    },
    /// The kernel has no hook for the kernel path.
    #[error(
        "interface {interface} cannot be on the kernel path: it needs traffic control links \
        (Linux 6.6) or the kernel's modules sch_ingress and cls_bpf: set path = \"worker\""
    )]
    NoKernelPath {
        /// Its name.
        interface: String,
    },
    /// The driver has no zero-copy mode.
    #[error("interface {interface} has no zero-copy mode: set zero_copy to no or auto")]
    NoZeroCopy {
        /// Its name.
        interface: String,
    },
    /// The form needs at least one queue per worker.
    #[error(
        "interface {interface} has {queues} receive queues for {workers} workers: run ethtool -L \
        {interface} combined {workers}, or set redirect = \"steer\""
    )]
    TooFewQueues {
        /// Its name.
        interface: String,
        /// Receive queues it has.
        queues: u32,
        /// Workers that want one each.
        workers: u32,
    },
    /// Too little memory may be locked for the rings or the frames.
    #[error("not enough memory to {what}: raise the limit of locked memory ({source})")]
    Memory {
        /// What was attempted.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused the XDP program.
    #[error("the kernel rejected the XDP program: {reason}")]
    Program {
        /// What the loader said.
        reason: String,
    },
    /// Anything else the system refused.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl AfXdpError {
    /// The error for a failed system call, told apart where the remedy differs.
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> AfXdpError {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => AfXdpError::Permission { what, source },
            Some(libc::ENOMEM | libc::ENOBUFS) => AfXdpError::Memory { what, source },
            _ => AfXdpError::System { what, source },
        }
    }
}
