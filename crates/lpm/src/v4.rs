//! IPv4: one load for almost every address (DIR-24-8: Gupta, Lin and McKeown, "Routing lookups in
//! hardware at memory access speeds", INFOCOM 1998).
//!
//! The first 24 bits index a table of entries. An entry is the value, or names a group of 256 values
//! indexed by the last 8 bits, for the few /24s that have longer prefixes inside. Two deviations:
//!
//! * Entries have 16 bits as long as values and groups number less than 32,768, which halves the
//!   memory that the cache has to hold; the first that does not fit switches the table to 32 bits.
//! * The default route is not spread over the table but kept beside it: an entry of 0 leads there. A
//!   change of the default route costs two stores instead of 16 million.

#[cfg(target_arch = "x86_64")]
mod vector;
mod writer;

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicUsize};
use std::time::Duration;

use crate::Value;
use crate::generation::Generation;
use crate::pages::Pages;
use crate::simd::no_slower;

pub use writer::Ipv4Writer;

const FIRST_LEN: usize = 1 << 24;
const GROUP_LEN: usize = 256;
const GROUPS_MAX: usize = 1 << 20;

/// Addresses looked up between two looks at the generation.
const CHUNK_LEN: usize = 64;

/// The IPv4 table that readers share.
///
/// [`lookup`](Self::lookup) and [`lookup_batch`](Self::lookup_batch) may run on any number of threads
/// while the [`Ipv4Writer`] changes the table. They take no lock and write nothing shared. For every
/// address they return the value from before or from after a concurrent change of one prefix.
#[derive(Debug)]
pub struct Ipv4Lpm {
    generation: Generation,
    default: AtomicU32,
    narrow: Pages<AtomicU16, FIRST_LEN>,
    wide: OnceLock<Pages<AtomicU32, FIRST_LEN>>,
    groups: Pages<AtomicU32, { GROUPS_MAX * GROUP_LEN }>,
    groups_used: AtomicUsize,
    /// Entries are gathered by vector instructions, which the processor has.
    vector: AtomicBool,
}

/// An entry of the first table: 0, a value, or the top bit and the number of a group.
trait Entry: Sized {
    const GROUP: u32;
    fn load(&self) -> u32;
    fn store(&self, entry: u32);

    /// Looks up as many addresses as fill whole vectors, and returns how many that were.
    ///
    /// # Safety
    /// The processor has what the function is compiled for; `values` is as long as `addresses`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn read_vectors(
        first: &[Self; FIRST_LEN],
        beyond: vector::Beyond<'_>,
        addresses: &[u32],
        values: &mut [Value],
    ) -> usize;
}

impl Entry for AtomicU16 {
    const GROUP: u32 = 1 << 15;

    #[inline(always)]
    fn load(&self) -> u32 {
        u32::from(AtomicU16::load(self, Acquire))
    }

    fn store(&self, entry: u32) {
        AtomicU16::store(self, entry as u16, Release);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn read_vectors(
        first: &[Self; FIRST_LEN],
        beyond: vector::Beyond<'_>,
        addresses: &[u32],
        values: &mut [Value],
    ) -> usize {
        // SAFETY: handed on to the caller.
        unsafe { vector::read_narrow(first, beyond, addresses, values) }
    }
}

impl Entry for AtomicU32 {
    const GROUP: u32 = 1 << 31;

    #[inline(always)]
    fn load(&self) -> u32 {
        AtomicU32::load(self, Acquire)
    }

    fn store(&self, entry: u32) {
        AtomicU32::store(self, entry, Release);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn read_vectors(
        first: &[Self; FIRST_LEN],
        beyond: vector::Beyond<'_>,
        addresses: &[u32],
        values: &mut [Value],
    ) -> usize {
        // SAFETY: handed on to the caller.
        unsafe { vector::read_wide(first, beyond, addresses, values) }
    }
}

/// Puts the default in the place of entries of 0; returns which lead to groups, a bit each.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fill_in(entries: &mut [u32; 4], flag: u32, default: Value) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: every processor of this kind has SSE2; reads and writes the 16 bytes of the array.
    unsafe {
        let shift = _mm_cvtsi32_si128(flag.leading_zeros().cast_signed());
        let all = _mm_loadu_si128(entries.as_ptr().cast());
        let nothing = _mm_cmpeq_epi32(all, _mm_setzero_si128());
        let default = _mm_and_si128(nothing, _mm_set1_epi32(default.cast_signed()));
        _mm_storeu_si128(entries.as_mut_ptr().cast(), _mm_or_si128(all, default));
        _mm_movemask_ps(_mm_castsi128_ps(_mm_sll_epi32(all, shift))).cast_unsigned()
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn fill_in(entries: &mut [u32; 4], flag: u32, default: Value) -> u32 {
    let mut grouped = 0;
    for (at, entry) in entries.iter_mut().enumerate() {
        grouped |= u32::from(*entry & flag != 0) << at;
        *entry = if *entry == 0 { default } else { *entry };
    }
    grouped
}

impl Ipv4Lpm {
    fn new() -> Self {
        Self {
            generation: Generation::default(),
            default: AtomicU32::new(0),
            narrow: Pages::dense(),
            wide: OnceLock::new(),
            groups: Pages::sparse(),
            groups_used: AtomicUsize::new(0),
            vector: AtomicBool::new(false),
        }
    }

    /// Takes vectors where they are at least as fast on this processor: they are gathered in very
    /// different ways, and on some very slowly since an error of theirs was mended. Tries both, for about
    /// 20 us by `clock`, which counts from whenever; returns whether vectors are used.
    pub fn take_faster(&self, clock: impl Fn() -> Duration) -> bool {
        let addresses: [u32; 256] =
            std::array::from_fn(|at| (at as u32).wrapping_mul(0x9e37_79b9) >> 12);
        let mut values = [0; 256];
        let pays = Self::has_vector()
            && no_slower(clock, |vector| {
                self.use_vector(vector);
                self.lookup_batch(&addresses, &mut values);
            });
        self.use_vector(pays)
    }

    /// Whether this processor can read the table by vectors (AVX-512F).
    pub fn has_vector() -> bool {
        #[cfg(target_arch = "x86_64")]
        return vector::available();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Reads the table by vectors of 16 addresses from now on, or one by one (as at the start). Without
    /// such vectors it stays one by one; returns whether vectors are used.
    pub fn use_vector(&self, wanted: bool) -> bool {
        let used = wanted && Self::has_vector();
        self.vector.store(used, Relaxed);
        used
    }

    /// The value of the longest prefix that covers `address` (host byte order); 0 if none does.
    #[inline]
    pub fn lookup(&self, address: u32) -> Value {
        let mut value = [0];
        self.lookup_batch(&[address], &mut value);
        value[0]
    }

    /// Looks up every address (host byte order), faster than one by one.
    ///
    /// # Panics
    /// If `values` is shorter than `addresses`. Values beyond are left alone.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u32], values: &mut [Value]) {
        let values = &mut values[..addresses.len()];
        for (addresses, values) in addresses.chunks(CHUNK_LEN).zip(values.chunks_mut(CHUNK_LEN)) {
            loop {
                let begun = self.generation.begin();
                match self.wide.get() {
                    None => self.read(&self.narrow, addresses, values),
                    Some(wide) => self.read(wide, addresses, values),
                }
                if self.generation.unchanged(begun) {
                    break;
                }
            }
        }
    }

    #[inline(always)]
    fn read<E: Entry>(&self, first: &[E; FIRST_LEN], addresses: &[u32], values: &mut [Value]) {
        #[cfg(target_arch = "x86_64")]
        let (addresses, values) = if self.vector.load(Relaxed) {
            let beyond =
                vector::Beyond { default: self.default.load(Relaxed), groups: &self.groups };
            // SAFETY: `use_vector` asked the processor; `lookup_batch` cut both to one length.
            let read = unsafe { E::read_vectors(first, beyond, addresses, values) };
            (&addresses[read..], &mut values[read..])
        } else {
            (addresses, values)
        };
        for (value, &address) in values.iter_mut().zip(addresses) {
            *value = first[(address >> 8) as usize].load();
        }
        self.follow(E::GROUP, addresses, values);
    }

    /// Puts members of groups and the default in the place of entries that lead there; at most
    /// [`CHUNK_LEN`] of them.
    #[inline(always)]
    fn follow(&self, flag: u32, addresses: &[u32], values: &mut [Value]) {
        let default = self.default.load(Relaxed);
        let (fours, rest) = values.as_chunks_mut::<4>();
        let mut grouped = 0;
        for (at, four) in fours.iter_mut().enumerate() {
            grouped |= u64::from(fill_in(four, flag, default)) << (4 * at);
        }
        let before = 4 * fours.len();
        for (at, value) in rest.iter_mut().enumerate() {
            grouped |= u64::from(*value & flag != 0) << (before + at);
            *value = if *value == 0 { default } else { *value };
        }
        while grouped != 0 {
            let at = grouped.trailing_zeros() as usize;
            grouped &= grouped - 1;
            let group = (values[at] & !flag) as usize & (GROUPS_MAX - 1);
            let member = group * GROUP_LEN + (addresses[at] & 255) as usize;
            let value = self.groups[member].load(Relaxed);
            values[at] = if value == 0 { default } else { value };
        }
    }

    /// Memory that the table holds, in bytes; the writer's own is
    /// [`Ipv4Writer::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        let wide = self.wide.get().map_or(0, |wide| size_of_val(&**wide));
        size_of_val(&*self.narrow)
            + wide
            + self.groups_used.load(Relaxed) * GROUP_LEN * size_of::<AtomicU32>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Entries, groups, holes and the default, narrow and wide, in batches of any length.
        #[test]
        fn vectors_find_what_single_reads_find(
            routes in prop::collection::vec((any::<u32>(), 0..=32u8, 1..40_000u32), 1..40),
            near in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>()), 1..100),
        ) {
            let (mut writer, table) = Ipv4Writer::new();
            let mask = |address: u32, len: u8| {
                address & !u32::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            };
            for &(address, len, value) in &routes {
                writer.insert(mask(address, len), len, value).expect("a valid prefix");
            }
            let addresses: Vec<u32> =
                near.iter().map(|(at, low)| at.get(&routes).0 ^ u32::from(*low)).collect();
            let (mut singly, mut by_vectors) = (vec![0; 100], vec![0; 100]);
            table.use_vector(false);
            table.lookup_batch(&addresses, &mut singly);
            if table.use_vector(true) {
                table.lookup_batch(&addresses, &mut by_vectors);
                prop_assert_eq!(singly, by_vectors);
            }
        }
    }

    #[test]
    fn a_processor_without_vectors_stays_with_single_reads() {
        let (_writer, table) = Ipv4Writer::new();
        assert_eq!(table.use_vector(true), Ipv4Lpm::has_vector());
        assert!(!table.use_vector(false));
        // A clock that stands still: equally fast.
        assert_eq!(table.take_faster(|| Duration::ZERO), Ipv4Lpm::has_vector());
    }
}
