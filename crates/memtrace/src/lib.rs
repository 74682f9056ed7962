//! Traces of memory references: what a program read, wrote and fetched, in order.
//!
//! Room: bytes into [`Access`]es and back. It reads the formats of ChampSim (with CloudSuite's), valgrind's
//! lackey, Dinero and Ramulator (processor and memory traces), and one of its own ([`compact`]), plain or packed (gzip, xz, zstd), as a
//! stream: memory does not grow with the trace. It opens no file and knows no cache.
//!
//! ```
//! use ebb_memtrace::{Format, Kind, Reader};
//! let text: &[u8] = b"3 20734016\n1 20846400 20734016\n";
//! let mut reader = Reader::new("t.trace", text, Some(Format::Ramulator)).unwrap();
//! let first = reader.access().unwrap().unwrap();
//! assert_eq!((first.instructions, first.address, first.kind), (4, 20734016, Kind::Read));
//! assert_eq!(reader.by_ref().count(), 2);
//! ```

mod champsim;
pub mod compact;
mod error;
mod format;
mod packets;
mod reader;
mod source;
mod text;
mod unpack;

pub use compact::Writer;
pub use error::TraceError;
pub use format::Format;
pub use reader::Reader;

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Loads data.
    Read,
    /// Stores data.
    Write,
    /// Fetches instructions.
    Fetch,
}

/// One reference of a program to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte.
    pub address: u64,
    /// Instructions of this thread from the access before (not counted) up to this one (counted);
    /// 0 where both belong to one instruction.
    pub instructions: u32,
    /// How many bytes, at least 1.
    pub size: u16,
    /// Which read of this thread the address was computed from: 1 is the last read before this
    /// access, 0 none that is known. Only ChampSim's and the compact format say.
    pub after: u16,
    /// The thread, from 0.
    pub thread: u16,
    /// What it does.
    pub kind: Kind,
}

impl Access {
    /// A reference of thread 0 to 8 bytes that ends an instruction and depends on nothing.
    pub fn new(kind: Kind, address: u64) -> Access {
        Access { address, instructions: 1, size: 8, after: 0, thread: 0, kind }
    }
}
