//! Capture files: reading .pcap and .pcapng, writing .pcap, and a [`Port`](crate::Port) over both.
//!
//! Captures come from anywhere, so a reader stops with an error that names the file and the
//! packet where the file stops making sense, and yields every packet before that.

mod port;
mod reader;
mod writer;

use std::path::PathBuf;

pub use port::CapturePort;
pub use reader::{CaptureReader, Captured};
pub use writer::CaptureWriter;

/// Link type of Ethernet frames in capture files.
pub const LINKTYPE_ETHERNET: u32 = 1;

/// What can go wrong with a capture file.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file can't be opened or created.
    #[error("{}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file begins neither like a .pcap nor like a .pcapng.
    #[error("{}: not a capture file (.pcap or .pcapng): {what}", path.display())]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// What is wrong with its beginning.
        what: String,
    },
    /// The file breaks off or makes no sense from a packet on.
    #[error("{}: packet {number}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Number of the packet, counted from 1.
        number: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file holds something else than Ethernet frames.
    #[error(
        "{}: packet {number} has link type {link_type} ({name}); only Ethernet can be switched",
        path.display()
    )]
    NotEthernet {
        /// The file.
        path: PathBuf,
        /// Number of the packet, counted from 1; 0 when the whole file says so.
        number: u64,
        /// The link type's number in the registry of capture link types.
        link_type: u32,
        /// The link type's name.
        name: String,
    },
    /// Writing failed.
    #[error("{}: writing packet {number}: {what}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Number of the packet, counted from 1.
        number: u64,
        /// What the system said.
        what: String,
    },
}
