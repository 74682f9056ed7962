//! Longest-prefix match for both IP families, read on many cores while one writer changes it.

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
    #[error("prefix length {len} is over {len_max}")]
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
    #[error("value {value} is not within 1..={MAX_VALUE}")]
    Value {
        /// The value asked for.
        value: Value,
    },
    /// The address space set aside for the table is used up; the table is unchanged.
    #[error("the table is full")]
    Full,
}
