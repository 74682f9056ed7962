//! Readers beside the writer: every value seen is one that the address could have, and memory that
//! updates free is used again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use ebb_lpm::{Ipv4Writer, Ipv6Writer, MAX_VALUE, Value};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A prefix with a value that no other has.
#[derive(Clone, Copy)]
struct Route<A> {
    prefix: A,
    len: u8,
    value: Value,
    /// Never removed.
    pinned: bool,
}

macro_rules! family {
    ($module:ident, $writer:ident, $address:ty, $base:expr, $lens:expr, $block:expr) => {
        mod $module {
            use super::*;

            const BITS: u32 = <$address>::BITS;

            fn host(len: u8) -> $address {
                <$address>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }

            fn covers(route: &Route<$address>, address: $address) -> bool {
                address & !host(route.len) == route.prefix
            }

            /// Nested prefixes in 300 blocks of `$block` bits under one short pinned prefix; each block
            /// has longer ones than its parent table can hold, so that groups and nodes come and go.
            fn routes(random: &mut ChaCha8Rng) -> Vec<Route<$address>> {
                let mut routes = vec![(0, 0, false), ($base, 8, true), ($base, 12, false)];
                for block in 0..300 as $address {
                    let address = $base | block << (BITS - $block);
                    let mut parent: $address = address;
                    for (depth, len) in $lens.into_iter().enumerate() {
                        parent |= random.random::<$address>() & host($block) & !host(len);
                        let pinned = depth == 1 && block % 3 == 0;
                        routes.push((parent & !host(len), len, pinned));
                    }
                }
                routes.sort();
                routes.dedup_by_key(|route| (route.0, route.1));
                let routes = routes.into_iter().zip(1..);
                routes
                    .map(|((prefix, len, pinned), value)| Route { prefix, len, value, pinned })
                    .collect()
            }

            /// What an address may lead to while any unpinned route comes and goes.
            fn allowed(routes: &[Route<$address>], address: $address) -> Vec<Value> {
                let covering = routes.iter().filter(|route| covers(route, address));
                let pinned_len = covering.clone().filter(|route| route.pinned);
                let pinned_len = pinned_len.map(|route| route.len).max().expect("a short one is");
                let longer = covering.filter(|route| route.len >= pinned_len);
                longer.map(|route| route.value).collect()
            }

            #[test]
            fn readers_see_only_what_an_address_can_have() {
                readers_see_only_what_an_address_can_have_by(false);
            }

            #[test]
            fn readers_by_vectors_see_only_what_an_address_can_have() {
                readers_see_only_what_an_address_can_have_by(true);
            }

            fn readers_see_only_what_an_address_can_have_by(vector: bool) {
                let mut random = ChaCha8Rng::seed_from_u64(1);
                let mut routes = routes(&mut random);
                let (mut writer, table) = $writer::new();
                table.use_vector(vector);
                // Half way, one value grows past what narrow entries hold.
                let grown = routes.iter().position(|route| !route.pinned).expect("some are not");
                routes[grown].value = MAX_VALUE;
                for route in routes.iter().filter(|route| route.pinned) {
                    writer.insert(route.prefix, route.len, route.value).expect("is valid");
                }
                let probes: Vec<($address, Vec<Value>)> = routes
                    .iter()
                    .filter(|route| route.len > 8)
                    .map(|route| route.prefix | random.random::<$address>() & host(route.len))
                    .map(|address| (address, allowed(&routes, address)))
                    .collect();
                let done = AtomicBool::new(false);
                let changes_seen = AtomicUsize::new(0);
                thread::scope(|scope| {
                    for seed in 0..2 {
                        let (probes, done, table) = (&probes, &done, &table);
                        let changes_seen = &changes_seen;
                        scope.spawn(move || {
                            let mut random = ChaCha8Rng::seed_from_u64(seed);
                            let mut last = vec![0; probes.len()];
                            while !done.load(Relaxed) {
                                let picks: Vec<_> =
                                    (0..64).map(|_| random.random_range(0..probes.len())).collect();
                                let addresses: Vec<_> =
                                    picks.iter().map(|&pick| probes[pick].0).collect();
                                let mut values = [0; 64];
                                for _ in 0..20 {
                                    table.lookup_batch(&addresses, &mut values);
                                    for (&pick, &value) in picks.iter().zip(&values) {
                                        let (address, allowed) = &probes[pick];
                                        let known = allowed.contains(&value);
                                        assert!(known, "{address:x}: {value} not in {allowed:?}");
                                        changes_seen
                                            .fetch_add(usize::from(last[pick] != value), Relaxed);
                                        last[pick] = value;
                                    }
                                }
                            }
                        });
                    }
                    for change in 0..200_000 {
                        let route = routes.choose(&mut random).expect("there are routes");
                        if route.pinned || change < 100_000 && route.value == MAX_VALUE {
                            continue;
                        }
                        if writer.remove(route.prefix, route.len).is_none() {
                            writer.insert(route.prefix, route.len, route.value).expect("is valid");
                        }
                    }
                    done.store(true, Relaxed);
                });
                assert!(changes_seen.into_inner() > 1000, "readers and writer hardly overlapped");
            }

            #[test]
            fn flaps_do_not_grow_the_table() {
                let mut random = ChaCha8Rng::seed_from_u64(1);
                let routes = routes(&mut random);
                let (mut writer, table) = $writer::new();
                let mut flap = |writer: &mut $writer, count| {
                    for _ in 0..count {
                        let route = routes.choose(&mut random).expect("there are routes");
                        if writer.remove(route.prefix, route.len).is_none() {
                            writer.insert(route.prefix, route.len, route.value).expect("is valid");
                        }
                    }
                };
                flap(&mut writer, 30_000);
                let (table_bytes, writer_bytes) = (table.memory_bytes(), writer.memory_bytes());
                flap(&mut writer, 100_000);
                assert!(table.memory_bytes() <= table_bytes + table_bytes / 20);
                assert!(writer.memory_bytes() <= writer_bytes + writer_bytes / 10);
            }
        }
    };
}

family!(ipv4, Ipv4Writer, u32, 10 << 24, [22, 25, 27, 30, 32], 24);
family!(ipv6, Ipv6Writer, u128, 0x20 << 120, [19, 31, 36, 48, 64, 128], 28);
// Two blocks in each /32, whose ranges are now fewer than a table needs and now more than a line holds.
family!(ipv6_crowded, Ipv6Writer, u128, 0x20 << 120, [30, 40, 43, 46, 48, 64], 33);
