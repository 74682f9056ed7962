//! Capture files: packets out of .pcap and .pcapng, and into both.
//!
//! Room: a format, below `ports`, which plays captures through the router, and the simulators, which
//! take their timing from them. Bytes come from any [`Read`](std::io::Read) and go to any
//! [`Write`](std::io::Write): who opens files and what the packets mean is decided elsewhere.
//!
//! Captures come from anywhere, so a reader stops with an error that names the file and the
//! packet where the file stops making sense, and yields every packet before that. What it does not
//! need (options, statistics, names) it does not judge.
//!
//! ```
//! use ebb_capture::{Reader, Writer};
//! use ebb_units::Time;
//! let mut file = Vec::new();
//! let mut writer = Writer::new("memory", &mut file)?;
//! writer.write(Time::from_nanos(7), &[0; 60])?;
//! writer.finish()?;
//! let packet = Reader::new("memory", &file[..])?.next().unwrap()?;
//! assert_eq!((packet.time, packet.data.len()), (Time::from_nanos(7), 60));
//! # Ok::<(), ebb_capture::CaptureError>(())
//! ```

mod bytes;
mod filter;
mod link;
mod reader;
mod writer;

pub use filter::{Filter, FilterError, Instruction};
pub use link::{LINKTYPE_ETHERNET, link_name};
pub use reader::{Captured, Reader};
pub use writer::{Direction, Interface, Writer};

/// What can go wrong with a capture file.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file can't be opened, created or read from.
    #[error("{file}: {source}")]
    Open {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file begins neither like a .pcap nor like a .pcapng.
    #[error("{file}: not a capture file (.pcap or .pcapng): {what}")]
    NotACapture {
        /// The file.
        file: String,
        /// What is wrong with its beginning.
        what: String,
    },
    /// The file breaks off or makes no sense from a packet on.
    #[error("{file}: packet {number}: {what}")]
    Malformed {
        /// The file.
        file: String,
        /// Number of the packet, counted from 1.
        number: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file holds something else than Ethernet frames.
    #[error(
        "{file}: packet {number} has link type {link_type} ({}); only Ethernet is supported",
        link_name(*link_type)
    )]
    NotEthernet {
        /// The file.
        file: String,
        /// Number of the packet, counted from 1; 0 when the whole file says so.
        number: u64,
        /// The link type's number in the registry of capture link types.
        link_type: u32,
    },
    /// Writing failed.
    #[error("{file}: writing packet {number}: {source}")]
    Write {
        /// The file.
        file: String,
        /// Number of the packet, counted from 1.
        number: u64,
        /// What the system said.
        source: std::io::Error,
    },
}
