//! Longest-prefix match for both IP families, read on many cores while one writer changes it.
//!
//! Room: `apps` looks up packets' destinations here, the control side turns routes into changes. The
//! crate knows addresses and numbers; what a number means (a next hop) is its users' business.
//!
//! [`Ipv4Lpm`] is DIR-24-8 (one load for nearly every address), [`Ipv6Lpm`] lines of ranges and small tables
//! below two plain tables. Each is written through its one [`Ipv4Writer`] or [`Ipv6Writer`], which also remembers
//! the prefixes themselves.
//!
//! ```
//! use ebb_lpm::Ipv4Writer;
//!
//! let (mut routes, table) = Ipv4Writer::new();
//! routes.insert(0x0a00_0000, 8, 1)?;
//! routes.insert(0x0a01_0000, 16, 2)?;
//! let mut values = [0; 3];
//! table.lookup_batch(&[0x0a01_0203, 0x0a02_0304, 0x0b00_0001], &mut values);
//! assert_eq!(values, [2, 1, 0]);
//! routes.remove(0x0a01_0000, 16);
//! assert_eq!(table.lookup(0x0a01_0203), 1);
//! # Ok::<(), ebb_lpm::LpmError>(())
//! ```
//!
//! # Readers and the writer
//! Lookups take no lock, write nothing that is shared and need no registration. For every address they
//! return the value from before or from after a concurrent change of one prefix: a change builds what
//! it needs aside and then stores single words. Memory that a change frees is used again only after a
//! count of generations moved, which makes batches that were under way look again; the proof stands in
//! the source of the module `generation`. A reader that sleeps, or dies, holds nothing back.
//!
//! # Scaling
//! Readers share only lines that nobody writes but the writer, so lookups scale with cores until the
//! shared cache's bandwidth ends: an IPv4 lookup of an unpredictable address moves one line of the
//! first table (32 MiB, of 16-bit entries; 64 MiB more once values or groups pass 32,767), an IPv6 lookup
//! one line of a chunk and one per node (none up to /32, one to three for /48). Looking up
//! batches of 32 or more is what hides the latency of these loads. Each change of one prefix
//! invalidates the lines it stores to in the readers' caches, besides that readers do not notice it:
//! a few for most, up to all 4 MiB of the IPv6 roots for ::/0 (of 0.0.0.0/0, one).
//!
//! DIR-24-8 pays 1 KiB for every /24 that holds longer prefixes: host routes strewn over a
//! million /24s are its limit ([`LpmError::Full`]); the Internet's table has some thousand. IPv6 prefixes
//! of over 32 bits share 2^23 lines of 64 bytes: one that is far from others takes a line for each 16
//! bits beyond 32, one for a /48 and six for a /128, so 1.3 million strewn hosts are the limit; where more
//! than 11 ranges meet within 16 bits there is a table of 1 KiB. Chunks are one for each /20 that has
//! prefixes of over 20 bits, and at most 2^15.
//!
//! Tables reserve up to 1.4 GiB of address space each and touch memory as routes come; a process
//! that locks its memory should do so on fault (`MCL_ONFAULT`).
//!
//! # Unsafe code
//! Few small places, each with its proof: mappings with huge pages (`pages`), the call of code
//! compiled for processors with BMI, gathers, and prefetches (all `simd`), lookups by vectors (`vector` of
//! either family, called from `v4` and `v6`), four IPv4 entries at once (`v4`), and the load of a line of
//! ranges (`v6::nodes`). The tables themselves are atomics behind masked or checked indices.

mod address;
mod generation;
mod pages;
mod simd;
mod store;
mod v4;
mod v6;

pub use v4::{Ipv4Lpm, Ipv4Writer};
pub use v6::{Ipv6Lpm, Ipv6Writer};

/// What a prefix leads to, for instance the number of a next hop: 0 is no route, valid values are
/// 1 to [`MAX_VALUE`].
pub type Value = u32;

/// The greatest value a prefix can have.
pub const MAX_VALUE: Value = (1 << 31) - 1;

/// Why a prefix was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// The prefix is longer than the family's addresses.
    #[error("prefix length {len} is above {len_max}")]
    Length {
        /// The length asked for, in bits.
        len: u8,
        /// The family's address width, in bits.
        len_max: u8,
    },
    /// A bit after the prefix length is set.
    #[error("the prefix has bits set after its length of {len}")]
    HostBits {
        /// The length asked for, in bits.
        len: u8,
    },
    /// The value is 0 or over [`MAX_VALUE`].
    #[error("value {value} is not from 1 to {MAX_VALUE}")]
    Value {
        /// The value asked for.
        value: Value,
    },
    /// The address space set aside for the table is used up, but for what removals may need; the table is
    /// unchanged. Room comes back as prefixes are removed.
    #[error("the table is full")]
    Full,
}
