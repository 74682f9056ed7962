//! What the two families' addresses have in common: their width and their masks.

use std::fmt::Debug;

/// An address of either family in host byte order.
pub(crate) trait Address: Copy + Ord + Debug + 'static {
    /// Width in bits.
    const BITS: u8;

    /// The address with all bits after the first `len` cleared.
    fn network(self, len: u8) -> Self;

    /// How many leading bits two addresses share.
    fn common_len(self, other: Self) -> u8;
}

macro_rules! address {
    ($integer:ty, $bits:literal) => {
        impl Address for $integer {
            const BITS: u8 = $bits;

            #[inline]
            fn network(self, len: u8) -> Self {
                self & !(<$integer>::MAX.checked_shr(u32::from(len)).unwrap_or(0))
            }

            #[inline]
            fn common_len(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
        }
    };
}

address!(u32, 32);
address!(u128, 128);
