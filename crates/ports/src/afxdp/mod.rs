//! AF_XDP: the kernel's rings mapped into the workers, and the XDP program in front of them.
//!
//! An [`Interface`] loads and attaches the program of `bpf/steer.c` and opens one socket for each
//! worker and queue it serves. All interfaces share one region of frames ([`Umem`]): a packet
//! received on one leaves by another without a copy of ours. The sockets of a queue share its
//! fill and completion rings, which whoever comes first services.
//!
//! The program sees VLAN tags in packets. Of those that travel beside them (on veth, and where an
//! interface strips them) it asks the driver (Linux 6.8) and leaves such packets to the kernel;
//! [`Interface::sees_tags`] says whether it can.

pub mod announced;
mod beside;
mod connections;
mod decision;
mod decision_run;
mod device;
mod error;
mod explain;
mod flows;
mod functions;
mod handoff;
mod inject;
mod interface;
mod kernel_path;
mod link;
mod maps;
mod memory;
mod modules;
mod opener;
mod options;
mod policy;
mod policy_maps;
mod port;
mod program;
mod redirect;
mod ring;
mod socket;
mod spread;
mod sys;
mod tag_watch;
mod test_run;
mod umem;
mod vlans;

pub use decision::{Decision, PARTS, Part, STEPS_MAX, SetTable, Step, Steps};
pub use decision_run::DecisionRun;
pub use device::{cheaper_path, forwards_in_driver, has_kernel_path, name_of, outlives_us};
pub use error::AfXdpError;
pub use explain::{Fate, Why};
pub use flows::{KernelFlow, KernelFlows};
pub use handoff::{Description, Handoff};
pub use inject::KernelInjector;
pub use interface::{Interface, InterfaceCounters, MTU_LONG, MTU_WHOLE, WORKERS_MAX};
pub use modules::{find_modules, module_descriptor};
pub use options::{Checksums, Exit, Form, InterfaceOptions, Mode, OpenMode, PacketPath, ZeroCopy};
pub use policy::{CONNECTION_MARK, KernelPolicy, PREFIXES_MAX, REASONS, Side, UNHELD};
pub use port::AfXdpPort;
pub use program::{Work, prepare};
pub use redirect::Indirection;
pub use spread::{LANES, LaneCounters};
pub use tag_watch::TagWatch;
pub use umem::{Inheritance, Umem};
pub use vlans::VlanInterface;
