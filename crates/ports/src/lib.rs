//! Where packets enter and leave: memory, capture files, AF_XDP sockets.
//!
//! Room: below `graph`'s batches and above the operating system. A port knows frames and queues,
//! nothing of IP, policies or power. The rings in [`mod@afxdp`] hold the crate's only `unsafe`
//! beside the one call that makes an eventfd.

pub mod afxdp;
pub mod capture_file;
pub mod memory;

mod eventfd;
mod fence;
mod grace;
mod packet_socket;
mod port;
#[cfg(test)]
mod samples;

pub use fence::Fence;
pub use packet_socket::{Arrived, PacketSocket};
pub use port::{Port, PortCounters, RedirectTable};
