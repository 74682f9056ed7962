//! The flow cache: buckets of eight places, two of which a flow may be in.
//!
//! A byte of each flow's hash stands in a table of its own, so that looking for a flow touches the line
//! of the flow itself and of no other (tags as in cuckoo filters, Fan et al. 2014; the less filled of two
//! buckets as in Azar et al. 1994, which fills three quarters before a place is missing). Memory that no
//! flow has used is never touched.
//!
//! Room: keys and words; when a flow ends, and what becomes of it, is decided above (`meter`).

use core::hint::select_unpredictable;

use ebb_graph::{prefetch, zeroes};

use super::flow::{Key, Words, last_ms};

/// Places of a bucket: the bytes of a word of tags.
const WAYS: usize = 8;
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// Words of a flow, which fill one line of the cache.
const WORDS: usize = 8;

/// Where a flow may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    buckets: [u32; 2],
    tag: u8,
    /// The place where it is, but for one flow of fifty; [`NOWHERE`].
    likely: u32,
}

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Where a new flow may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A free place.
    Free(usize),
    /// No place is free; this one's flow has been silent for longest.
    Taken(usize),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Cache {
    tags: Vec<u64>,
    words: Vec<u64>,
    /// Words before the first whole line.
    skip: usize,
    seed: u64,
    len: usize,
}

impl Cache {
    /// For so many flows, rounded up to whole buckets; `seed` is secret, or senders could fill a bucket.
    pub(super) fn new(flows: usize, seed: u64) -> Cache {
        let buckets = flows.div_ceil(WAYS).max(1);
        let words = zeroes((buckets * WAYS + 1) * WORDS);
        let skip = words.as_ptr().align_offset(64).min(WORDS);
        Cache { tags: zeroes(buckets), words, skip, seed, len: 0 }
    }

    /// Flows in it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Buckets.
    pub(super) fn buckets(&self) -> usize {
        self.tags.len()
    }

    /// Where a flow may be; the first lines that tell are asked for.
    #[inline]
    pub(super) fn places(&self, key: &Key) -> Places {
        let hash = hash(key, self.seed);
        let count = self.tags.len() as u64;
        let bucket = |half: u64| ((half * count) >> 32) as u32;
        let buckets = [bucket(hash >> 32), bucket(hash & 0xffff_ffff)];
        buckets.iter().for_each(|bucket| prefetch(&self.tags[*bucket as usize]));
        // Zero is a free place.
        Places { buckets, tag: ((hash >> 32) as u8).max(1), likely: NOWHERE }
    }

    /// Asks for the line in which the flow is, if it is there, and notes it.
    #[inline]
    pub(super) fn prefetch(&self, places: &mut Places) {
        let [one, other] = places.buckets;
        let [in_one, in_other] =
            [one, other].map(|bucket| equal_bytes(self.tags[bucket as usize], places.tag));
        // In either bucket as often as in the other: no branch foresees it.
        let found = select_unpredictable(in_one != 0, in_one, in_other);
        let bucket = select_unpredictable(in_one != 0, one, other);
        if found != 0 {
            let place = bucket as usize * WAYS + found.trailing_zeros() as usize / 8;
            prefetch(&self.words[self.skip + place * WORDS]);
            places.likely = place as u32;
        }
    }

    /// The place of a flow.
    #[inline]
    pub(super) fn find(&self, key: &Key, places: &Places) -> Option<usize> {
        // It may have been given to another flow since it was noted, but is not free.
        let likely = places.likely as usize;
        if places.likely != NOWHERE && key.iter().zip(self.at(likely)).all(|(a, b)| a == b) {
            debug_assert_ne!((self.tags[likely / WAYS] >> (likely % WAYS * 8)) as u8, 0);
            return Some(likely);
        }
        self.search(key, places)
    }

    fn search(&self, key: &Key, places: &Places) -> Option<usize> {
        places.buckets.iter().find_map(|bucket| {
            let first = *bucket as usize * WAYS;
            let mut ways = ways_with(self.tags[*bucket as usize], places.tag);
            // Word by word: a comparison of slices is a call.
            let same = |way: &usize| key.iter().zip(self.at(first + way)).all(|(a, b)| a == b);
            ways.find(same).map(|way| first + way)
        })
    }

    /// A place for a flow that is not there.
    pub(super) fn room(&self, places: &Places, now_ms: u32) -> Room {
        let [one, other] = places.buckets.map(|bucket| bucket as usize);
        let (more, less) = match free(self.tags[one]) >= free(self.tags[other]) {
            true => (one, other),
            false => (other, one),
        };
        if let Some(way) = ways_with(self.tags[more], 0).next() {
            return Room::Free(more * WAYS + way);
        }
        let all = [more, less]
            .into_iter()
            .flat_map(|bucket| (0..WAYS).map(move |way| bucket * WAYS + way));
        let silent = |place: &usize| now_ms.wrapping_sub(last_ms(self.at(*place)));
        Room::Taken(all.max_by_key(silent).expect("two buckets"))
    }

    /// What is known of the flow in a place.
    #[inline]
    pub(super) fn at(&self, place: usize) -> &Words {
        self.words[self.skip + place * WORDS..].first_chunk().expect("a place of the cache")
    }

    /// The same, to be changed; its key is not to be.
    #[inline]
    pub(super) fn at_mut(&mut self, place: usize) -> &mut Words {
        self.words[self.skip + place * WORDS..].first_chunk_mut().expect("a place of the cache")
    }

    /// Puts a flow into a free place that [`Cache::room`] named.
    pub(super) fn put(&mut self, place: usize, places: &Places, flow: Words) {
        *self.at_mut(place) = flow;
        self.tags[place / WAYS] |= u64::from(places.tag) << (place % WAYS * 8);
        self.len += 1;
    }

    /// Takes a flow out.
    pub(super) fn take(&mut self, place: usize) -> Words {
        self.tags[place / WAYS] &= !(0xff << (place % WAYS * 8));
        self.len -= 1;
        *self.at(place)
    }

    /// Places of the flows in a bucket.
    pub(super) fn taken(&self, bucket: usize) -> impl Iterator<Item = usize> + use<> {
        let tags = self.tags[bucket];
        let is_taken = move |way: &usize| (tags >> (way * 8)) as u8 != 0;
        (0..WAYS).filter(is_taken).map(move |way| bucket * WAYS + way)
    }

    /// Whether a bucket has no flow.
    #[inline]
    pub(super) fn is_empty(&self, bucket: usize) -> bool {
        self.tags[bucket] == 0
    }
}

/// The highest bit of each byte of a bucket that is `tag`: the exact test for zero bytes of the difference (Warren, Hacker's
/// Delight, section 6-1).
#[inline]
fn equal_bytes(tags: u64, tag: u8) -> u64 {
    let other = tags ^ (LOW * u64::from(tag));
    !(((other & !HIGH) + !HIGH) | other | !HIGH)
}

/// Those places.
#[inline]
fn ways_with(tags: u64, tag: u8) -> impl Iterator<Item = usize> {
    let mut found = equal_bytes(tags, tag);
    std::iter::from_fn(move || {
        let way = (found != 0).then(|| found.trailing_zeros() as usize / 8);
        found &= found.wrapping_sub(1);
        way
    })
}

fn free(tags: u64) -> usize {
    ways_with(tags, 0).count()
}

/// Folded products, as [`ebb_wire::Flow::hash`], under a secret.
#[inline]
fn hash(key: &Key, seed: u64) -> u64 {
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    // The fractional parts of the square roots of 2, 3, 5 and 7.
    let mut hash = mix(key[0] ^ seed ^ 0xa54f_f53a_5f1d_36f1, key[1] ^ 0x6a09_e667_f3bc_c909);
    hash = mix(hash ^ key[2], key[3] ^ 0xbb67_ae85_84ca_a73b ^ seed.rotate_left(32));
    mix(hash ^ key[4], 0x3c6e_f372_fe94_f82b ^ seed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u64) -> Key {
        [0, number, 0, number ^ 0xffff, number << 24]
    }

    fn flow(key: Key, last: u32) -> Words {
        let [a, b, c, d, e] = key;
        [a, b, c, d, e, u64::from(last), 1 << 32, 0]
    }

    fn insert(cache: &mut Cache, number: u64) -> Option<Words> {
        let places = cache.places(&key(number));
        let (place, evicted) = match cache.room(&places, 1000) {
            Room::Free(place) => (place, None),
            Room::Taken(place) => (place, Some(cache.take(place))),
        };
        cache.put(place, &places, flow(key(number), number as u32 % 1000));
        evicted
    }

    #[test]
    fn three_quarters_are_filled_before_a_place_is_missing() {
        let mut cache = Cache::new(8000, 77);
        let first = (0..8000).find(|number| insert(&mut cache, *number).is_some());
        assert!(first > Some(6000), "the first eviction came with {first:?} flows");
    }

    #[test]
    fn each_place_is_a_line_of_the_cache() {
        let cache = Cache::new(100, 1);
        for place in 0..100 {
            assert_eq!(cache.at(place).as_ptr().addr() % 64, 0);
        }
    }

    proptest! {
        #[test]
        fn what_is_put_is_found_until_it_is_taken(
            steps in proptest::collection::vec((0u64..200, any::<bool>()), 0..400),
            seed in any::<u64>(),
        ) {
            let mut cache = Cache::new(64, seed);
            let mut known = std::collections::BTreeSet::new();
            for (number, put) in steps {
                let places = cache.places(&key(number));
                match (put, cache.find(&key(number), &places)) {
                    (true, None) => {
                        if let Some(evicted) = insert(&mut cache, number) {
                            prop_assert!(known.remove(&evicted[1]));
                        }
                        known.insert(number);
                    }
                    (false, Some(place)) => {
                        prop_assert_eq!(cache.take(place)[1], number);
                        known.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(cache.len(), known.len());
            }
            for number in 0..200u64 {
                let places = cache.places(&key(number));
                let there = cache.find(&key(number), &places);
                prop_assert_eq!(there.is_some(), known.contains(&number));
            }
            let buckets = (0..cache.buckets()).flat_map(|bucket| cache.taken(bucket));
            let there: std::collections::BTreeSet<u64> = buckets.map(|place| cache.at(place)[1]).collect();
            prop_assert_eq!(there, known);
        }
    }
}
