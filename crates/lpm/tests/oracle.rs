//! Whatever is inserted and removed in whatever order, lookups give what trying every prefix gives.

use std::collections::BTreeMap;

use ebb_lpm::{Ipv4Writer, Ipv6Writer, LpmError, MAX_VALUE, Value};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Change<A> {
    prefix: A,
    len: u8,
    /// 0 removes.
    value: Value,
}

macro_rules! family {
    ($module:ident, $writer:ident, $address:ty, $lens:expr, $place:expr) => {
        mod $module {
            use super::*;

            const BITS: u8 = <$address>::BITS as u8;

            fn mask(len: u8) -> $address {
                !<$address>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }

            /// Few bits vary, at all places, so that prefixes nest and meet often.
            fn address() -> impl Strategy<Value = $address> {
                (any::<$address>(), any::<$address>(), any::<$address>(), 0..4u8).prop_map(
                    |(a, b, c, way)| {
                        let place: fn($address) -> $address = $place;
                        place(match way {
                            0 => a & b & c,
                            1 => (a & b & c) >> (a as u32 % u32::from(BITS)),
                            2 => !(a & b & c),
                            _ => (a & 3) << (b as u32 % (u32::from(BITS) - 1)),
                        })
                    },
                )
            }

            fn change() -> impl Strategy<Value = Change<$address>> {
                let value = prop_oneof![
                    2 => Just(0u32),
                    4 => 1..5u32,
                    1 => 1..=MAX_VALUE,
                ];
                (address(), $lens, value).prop_map(|(address, len, value)| {
                    Change { prefix: address & mask(len), len, value }
                })
            }

            fn expected(routes: &BTreeMap<($address, u8), Value>, address: $address) -> Value {
                (0..=BITS)
                    .rev()
                    .find_map(|len| routes.get(&(address & mask(len), len)))
                    .copied()
                    .unwrap_or(0)
            }

            fn check(changes: &[Change<$address>], more: &[$address]) -> Result<(), TestCaseError> {
                let (mut writer, table) = $writer::new();
                let mut routes = BTreeMap::new();
                let edges = changes.iter().flat_map(|change| {
                    let last = change.prefix | !mask(change.len);
                    let (before, after) = (change.prefix.wrapping_sub(1), last.wrapping_add(1));
                    [change.prefix, last, before, after]
                });
                let addresses: Vec<_> = edges.chain(more.iter().copied()).collect();
                let mut values = vec![0; addresses.len()];
                for (count, change) in changes.iter().enumerate() {
                    let key = (change.prefix, change.len);
                    if change.value == 0 {
                        // Removing at random would hardly ever hit.
                        let key = routes.keys().nth(count % 7).copied().unwrap_or(key);
                        prop_assert_eq!(writer.remove(key.0, key.1), routes.remove(&key));
                        prop_assert_eq!(writer.get(key.0, key.1), None);
                    } else {
                        let before = writer.insert(key.0, key.1, change.value);
                        prop_assert_eq!(before, Ok(routes.insert(key, change.value)));
                        prop_assert_eq!(writer.get(key.0, key.1), Some(change.value));
                    }
                    table.use_vector(count % 2 == 1);
                    table.lookup_batch(&addresses, &mut values);
                    for (&address, &value) in addresses.iter().zip(&values) {
                        prop_assert_eq!(value, expected(&routes, address), "{:x}", address);
                        prop_assert_eq!(table.lookup(address), value);
                    }
                }
                let listed: Vec<_> = writer.iter().collect();
                let held: Vec<_> = routes.iter().map(|(&(p, len), &v)| (p, len, v)).collect();
                prop_assert_eq!(listed, held);
                prop_assert_eq!(writer.len(), routes.len());

                for (prefix, len) in routes.into_keys() {
                    writer.remove(prefix, len);
                }
                prop_assert!(writer.is_empty());
                table.lookup_batch(&addresses, &mut values);
                prop_assert!(values.iter().all(|&value| value == 0));
                Ok(())
            }

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(80))]

                #[test]
                fn lookups_are_those_of_the_oracle(
                    changes in prop::collection::vec(change(), 1..60),
                    more in prop::collection::vec(address(), 1..20),
                ) {
                    check(&changes, &more)?;
                }
            }

            #[test]
            fn what_no_table_may_hold_is_refused() {
                let (mut writer, table) = $writer::new();
                let too_long = LpmError::Length { len: BITS + 1, len_max: BITS };
                assert_eq!(writer.insert(0, BITS + 1, 1), Err(too_long));
                assert_eq!(writer.insert(1, BITS - 1, 1), Err(LpmError::HostBits { len: BITS - 1 }));
                assert_eq!(writer.insert(0, 8, 0), Err(LpmError::Value { value: 0 }));
                let value = MAX_VALUE + 1;
                assert_eq!(writer.insert(0, 8, value), Err(LpmError::Value { value }));
                assert_eq!(writer.remove(1, BITS + 1), None);
                assert!(writer.is_empty());
                assert_eq!(table.lookup(0), 0);
            }
        }
    };
}

family!(
    ipv4,
    Ipv4Writer,
    u32,
    prop_oneof![2 => 24..=32u8, 1 => 12..24u8, 1 => Just(0u8)],
    |address| address
);
family!(
    ipv6,
    Ipv6Writer,
    u128,
    prop_oneof![3 => 17..=128u8, 2 => 24..34u8, 1 => 0..=16u8],
    |address| address
);
// All in one /32, where more come together than a line holds.
family!(ipv6_crowded, Ipv6Writer, u128, prop_oneof![4 => 33..=50u8, 1 => 28..=128u8], |address| {
    0x2001_0db8 << 96 | address >> 32
});
