//! Longest-prefix match for both IP families, read on many cores while one writer changes it.

mod address;
mod generation;
mod pages;
mod store;
mod v4;

pub use v4::{Ipv4Lpm, Ipv4Writer};

use std::sync::{Arc, RwLock};
use store::Store;

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

macro_rules! family {
    ($lpm:ident, $writer:ident, $address:ty) => {
        /// The table that readers share.
        #[derive(Debug)]
        pub struct $lpm {
            store: RwLock<Store<$address>>,
        }

        impl $lpm {
            /// The value of the longest prefix that covers `address` (host order), 0 if none does.
            pub fn lookup(&self, address: $address) -> Value {
                let store = self.store.read().expect("no writer panics");
                store.cover(address, <$address>::BITS as u8 + 1).map_or(0, |(_, value)| value)
            }

            /// Looks up every address; panics if `values` is shorter than `addresses`.
            pub fn lookup_batch(&self, addresses: &[$address], values: &mut [Value]) {
                assert!(values.len() >= addresses.len());
                for (value, &address) in values.iter_mut().zip(addresses) {
                    *value = self.lookup(address);
                }
            }

            /// Memory held by the table, in bytes.
            pub fn memory_bytes(&self) -> usize {
                self.store.read().expect("no writer panics").len() * 32
            }
        }

        /// The one writer of a table.
        #[derive(Debug)]
        pub struct $writer {
            table: Arc<$lpm>,
        }

        impl $writer {
            /// An empty table: its writer and the part that readers share.
            #[allow(clippy::new_ret_no_self)]
            pub fn new() -> ($writer, Arc<$lpm>) {
                let table = Arc::new($lpm { store: RwLock::new(Store::new()) });
                ($writer { table: Arc::clone(&table) }, table)
            }

            /// Sets the value of a prefix and returns the value it had.
            ///
            /// # Errors
            /// [`LpmError`] if the length, the prefix or the value is out of range.
            pub fn insert(
                &mut self,
                prefix: $address,
                len: u8,
                value: Value,
            ) -> Result<Option<Value>, LpmError> {
                Store::check(prefix, len, value)?;
                Ok(self.table.store.write().expect("no reader panics").insert(prefix, len, value))
            }

            /// Removes a prefix and returns the value it had.
            pub fn remove(&mut self, prefix: $address, len: u8) -> Option<Value> {
                self.table.store.write().expect("no reader panics").remove(prefix, len)
            }

            /// Memory that the writer holds beside the table, in bytes.
            pub fn memory_bytes(&self) -> usize {
                0
            }

            /// The value of exactly this prefix.
            pub fn get(&self, prefix: $address, len: u8) -> Option<Value> {
                self.table.store.read().expect("no writer panics").get(prefix, len)
            }

            /// How many prefixes there are.
            pub fn len(&self) -> usize {
                self.table.store.read().expect("no writer panics").len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// All prefixes in prefix order: (prefix, length, value).
            pub fn iter(&self) -> impl Iterator<Item = ($address, u8, Value)> + '_ {
                let all: Vec<_> =
                    self.table.store.read().expect("no writer panics").iter().collect();
                all.into_iter()
            }
        }
    };
}

family!(Ipv6Lpm, Ipv6Writer, u128);
