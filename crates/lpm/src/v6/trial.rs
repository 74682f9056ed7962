//! Which way of lookups is faster on this processor, tried on routes made for it: a table is asked to choose
//! when it is new, and an empty one would say nothing of what lies below the roots.

use std::sync::Arc;
use std::time::Duration;

use super::{Ipv6Lpm, Ipv6Writer};
use crate::address::Address;
use crate::simd::no_slower;

/// Addresses looked up in one turn.
const ADDRESSES: usize = 256;

/// Bits that addresses of a kind have in common, and the length of the prefix that each has to itself.
type Kind = (u8, u8);

/// The network that kinds share as much of as they say.
const NETWORK: u128 = 0x2a00_0db8_0100 << 80;

/// What addresses meet, in turn: about as routers' do, with more that leads far down.
const KINDS: [Kind; 16] = [
    // A root alone.
    (3, 0),
    (3, 0),
    (3, 0),
    // A chunk, one of eight.
    (17, 32),
    (17, 32),
    (17, 32),
    // A chunk and ranges.
    (17, 48),
    (17, 48),
    (17, 44),
    // Crowded networks: a table and ranges, two tables and ranges.
    (32, 48),
    (32, 48),
    (32, 40),
    (40, 56),
    (40, 56),
    (40, 52),
    // A host far from others: ranges below ranges to the end.
    (17, 128),
];

/// Whether vectors are at least as fast, by `clock`. The processor must have them.
pub(super) fn vectors_pay(clock: impl Fn() -> Duration) -> bool {
    let (table, addresses) = representative();
    let mut values = [0; ADDRESSES];
    no_slower(clock, |vector| {
        table.use_vector(vector);
        table.lookup_batch(&addresses, &mut values);
    })
}

/// A table of which a few MiB are touched, and addresses of all kinds in it.
fn representative() -> (Arc<Ipv6Lpm>, [u128; ADDRESSES]) {
    let (mut writer, table) = Ipv6Writer::new();
    let addresses = std::array::from_fn(|at| {
        let (common, len) = KINDS[at % KINDS.len()];
        // Multiples of the golden ratio lie evenly apart.
        let own = (at as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let address = NETWORK.network(common) | own >> common;
        if len > 0 {
            let inserted = writer.insert(address.network(len), len, at as u32);
            inserted.expect("prefixes in form and far fewer than fit");
        }
        address
    });
    (table, addresses)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::Ordering::Relaxed;

    use super::super::nodes::{
        DOWN, FIRST_RANGE, RANGES_BITS, TABLE_BITS, TO_TABLE, first_word, range_of, range_slot,
        table_slot,
    };
    use super::super::{CHUNK, FIRST_LEN, ROOT_LEN};
    use super::*;

    /// Whether there is a chunk, and how many tables and ranges an address passes below.
    fn passed(table: &Ipv6Lpm, address: u128) -> (bool, usize, usize) {
        let root = table.roots[(address >> (128 - ROOT_LEN)) as usize].load(Relaxed);
        if root & DOWN == 0 {
            return (false, 0, 0);
        }
        let within = (address >> (128 - FIRST_LEN)) as usize % CHUNK;
        let mut word = table.chunks[(root & !DOWN) as usize * CHUNK + within].load(Relaxed);
        let (mut tables, mut ranges, mut depth) = (0, 0, FIRST_LEN);
        while word & DOWN != 0 {
            let first = first_word(word);
            let at = if word & TO_TABLE != 0 {
                tables += 1;
                first + table_slot(address, depth)
            } else {
                ranges += 1;
                first + FIRST_RANGE + range_of(&table.lines, first, range_slot(address, depth))
            };
            depth = FIRST_LEN + TABLE_BITS * tables as u8 + RANGES_BITS * ranges as u8;
            word = table.lines[at].load(Relaxed);
        }
        (true, tables, ranges)
    }

    #[test]
    fn the_trial_passes_everything_that_lookups_can() {
        let (table, addresses) = representative();
        let mut counts = BTreeMap::new();
        for address in addresses {
            *counts.entry(passed(&table, address)).or_insert(0) += 1;
        }
        for kind in [(false, 0, 0), (true, 0, 0), (true, 0, 1), (true, 1, 1), (true, 2, 1)] {
            let count = counts.get(&kind).copied().unwrap_or(0);
            assert!(count >= ADDRESSES / 16, "{kind:?} in {counts:?}");
        }
        assert!(counts.keys().any(|(_, _, ranges)| *ranges > 2), "{counts:?}");
    }
}
