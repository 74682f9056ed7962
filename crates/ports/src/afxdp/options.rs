//! How an interface is to be opened.

use std::fmt;
use std::sync::Arc;

use super::KernelFlows;

/// Which table spreads an interface's packets over the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The NIC's own indirection table: worker i owns receive queue i.
    Rss,
    /// A table in the XDP program: every worker has a socket on every queue.
    Steer,
}

/// Who forwards the packets that an interface receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacketPath {
    /// Workers, over AF_XDP.
    #[default]
    Worker,
    /// A program in the kernel, before the network stack (`bpf/forward.h`). Workers can send by the
    /// interface all the same.
    Kernel,
}

/// How packets of the kernel path leave by an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Through its queueing discipline and its driver.
    Device = 1,
    /// Straight into what its peer receives: of a veth or netkit whose peer is in another network
    /// namespace and has no native XDP program, and by which nothing that the kernel does to packets on
    /// their way out is passed over.
    Peer = 2,
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// In the driver, or in the generic hook where the driver has none.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the network stack's generic hook.
    Generic,
}

/// Whether the NIC reads and writes the frames itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ZeroCopy {
    /// Where the driver can.
    #[default]
    Auto,
    /// Or not at all.
    Yes,
    /// Never: the kernel copies.
    No,
}

/// Whether received frames may carry checksums that the sender left to hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checksums {
    /// They may where the interface is not hardware, or shares memory with its senders: veth,
    /// TUN/TAP, virtio and the like.
    #[default]
    Auto,
    /// They may.
    Complete,
    /// All are whole.
    Trust,
}

/// How an interface is opened.
#[derive(Clone, Debug)]
pub struct InterfaceOptions {
    /// Its name.
    pub name: String,
    /// Workers, 1 to 128; each gets a port.
    pub workers: u32,
    /// Which redirect table.
    pub form: Form,
    /// Who forwards what it receives.
    pub path: PacketPath,
    /// Where the XDP program runs.
    pub mode: Mode,
    /// Whether the NIC does the copying.
    pub zero_copy: ZeroCopy,
    /// Whether packets are marked [`UNFINISHED`](ebb_graph::Packet::UNFINISHED).
    pub checksums: Checksums,
    /// Receive queues to serve; `None` for all that the interface has (in the form
    /// [`Form::Rss`]: as many as there are workers).
    pub queues: Option<u32>,
    /// Places in each ring, a power of two.
    pub ring_len: u32,
    /// Frames that a queue has to receive into as long as it is looked after in time; more, up to
    /// `ring_len`, where they ran low. For users that call [`prepare_idle`](crate::Port::prepare_idle) before
    /// they look away; others leave it at `u32::MAX`, as many as there are places.
    pub fill_min: u32,
    /// Whether every packet carries its time of arrival, not only one per millisecond.
    pub stamp_all: bool,
    /// Whether IPv4 packets with options and IPv6 packets with hop-by-hop options come to workers too; else they
    /// are the kernel's.
    pub ip_options: bool,
    /// Whether packets that are longer than a frame come to workers too, up to an MTU of 9,216, in long frames
    /// ([`Pool::with_long`](ebb_graph::Pool::with_long)): where the interface's MTU is so large when it is opened, from
    /// Linux 6.6 on. Else they are the kernel's.
    pub long: bool,
    /// Where the flows are counted that are forwarded on the kernel path, if they are to be.
    pub flows: Option<Arc<KernelFlows>>,
}

impl InterfaceOptions {
    /// The usual options: everything automatic, rings of 2048 places.
    pub fn new(name: &str, workers: u32, form: Form) -> InterfaceOptions {
        InterfaceOptions {
            name: name.to_owned(),
            workers,
            form,
            path: PacketPath::Worker,
            mode: Mode::Auto,
            zero_copy: ZeroCopy::Auto,
            checksums: Checksums::Auto,
            queues: None,
            ring_len: 2048,
            fill_min: u32::MAX,
            stamp_all: false,
            ip_options: false,
            long: false,
            flows: None,
        }
    }
}

/// How an interface was opened in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenMode {
    /// The driver runs the XDP program, not the generic hook, nor traffic control.
    pub native: bool,
    /// The NIC reads and writes the frames itself.
    pub zero_copy: bool,
}

impl fmt::Display for OpenMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let native = if self.native { "native" } else { "generic" };
        let copy = if self.zero_copy { "zero-copy" } else { "copy" };
        write!(f, "{native}, {copy}")
    }
}
