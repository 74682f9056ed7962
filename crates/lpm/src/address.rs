//! What the two families' addresses have in common: their width and their masks.

use std::fmt::Debug;

/// An address of either family in host byte order.
pub(crate) trait Address: Copy + Ord + Debug + 'static {
    /// Width in bits.
    const BITS: u8;

    /// Leading bits by which the prefixes of at least that length are sorted into buckets.
    const BUCKET_LEN: u8;

    /// Address and length in one, in prefix order: by address, then the shorter prefix first.
    type Key: Copy + Ord + Debug;

    /// The key of an address with a length of up to `BITS` + 1.
    fn key(self, len: u8) -> Self::Key;

    /// The bucket of an address, under 2 to the power of `BUCKET_LEN`.
    fn bucket(self) -> usize;

    /// What the key was made of.
    fn of_key(key: Self::Key) -> (Self, u8);

    /// The address with all bits after the first `len` cleared.
    fn network(self, len: u8) -> Self;

    /// How many leading bits two addresses share.
    fn common_len(self, other: Self) -> u8;
}

macro_rules! address {
    ($integer:ty, $bits:literal, $bucket_len:literal, $key:ty, $to_key:expr, $of_key:expr) => {
        impl Address for $integer {
            const BITS: u8 = $bits;
            const BUCKET_LEN: u8 = $bucket_len;
            type Key = $key;

            #[inline]
            fn bucket(self) -> usize {
                self.checked_shr($bits - $bucket_len).unwrap_or(0) as usize
            }

            #[inline]
            fn key(self, len: u8) -> $key {
                $to_key(self, len)
            }

            #[inline]
            fn of_key(key: $key) -> (Self, u8) {
                $of_key(key)
            }

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

address!(
    u32,
    32,
    16,
    u64,
    |address: u32, len: u8| u64::from(address) << 8 | u64::from(len),
    |key: u64| ((key >> 8) as u32, key as u8)
);
address!(u128, 128, 0, (u128, u8), |address, len| (address, len), |key| key);
