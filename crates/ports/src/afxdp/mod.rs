//! AF_XDP: the kernel's rings mapped into the workers, and the XDP program in front of them.
//!
//! An [`Interface`] loads and attaches the program of `bpf/steer.c` and opens one socket for each
//! worker and queue it serves. All interfaces share one region of frames ([`Umem`]): a packet
//! received on one leaves by another without a copy of ours. The sockets of a queue share its
//! fill and completion rings, which whoever comes first services.
//!
//! VLAN tags must be in the packet for the program to see them: interfaces that strip them need
//! `ethtool -K … rxvlan off`, and the far side of a veth pair `txvlan off`.

mod device;
mod error;
mod handoff;
mod inject;
mod interface;
mod kernel_path;
mod link;
mod memory;
mod options;
mod policy;
mod port;
mod program;
mod redirect;
mod ring;
mod socket;
mod sys;
mod test_run;
mod tun;
mod umem;

pub use error::AfXdpError;
pub use handoff::{Description, Handoff};
pub use inject::KernelInjector;
pub use interface::{Interface, InterfaceCounters, WORKERS_MAX};
pub use options::{Checksums, Exit, Form, InterfaceOptions, Mode, OpenMode, PacketPath, ZeroCopy};
pub use policy::{KernelPolicy, REASONS, Side};
pub use port::AfXdpPort;
pub use redirect::Indirection;
pub use umem::{Inheritance, Umem};
