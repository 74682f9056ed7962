//! Where packets enter and leave: memory, capture files, AF_XDP sockets.
//!
//! Room: below `graph`'s batches and above the operating system. A port knows frames and queues,
//! nothing of IP, policies or power. The rings in [`mod@afxdp`] hold the crate's only `unsafe`.

mod port;

pub use port::{Port, PortCounters, RedirectTable};
