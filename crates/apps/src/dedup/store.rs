//! Payloads of packets in a ring of bounded memory: what is new takes the place of what is oldest.
//!
//! Both ends have one. A payload's name is a hash of its bytes (`wire::Key`): the ends need not agree on any order.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use ebb_graph::zeroes;

/// Bytes and payloads that a store has ever taken in, or of them those since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) bytes: u64,
    pub(super) records: u64,
}

impl Progress {
    /// Neither is more.
    pub(super) fn is_within(self, limit: Progress) -> bool {
        self.bytes <= limit.bytes && self.records <= limit.records
    }

    /// The lesser of each.
    pub(super) fn min(self, other: Progress) -> Progress {
        Progress { bytes: self.bytes.min(other.bytes), records: self.records.min(other.records) }
    }
}

/// A payload of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    start: u64,
    /// Hash of its bytes, whose lower half is its name between the ends.
    pub(super) id: u64,
    /// How far the peer was when it took it in.
    came_at: Progress,
    /// Of the newest record of a name: older ones than this number are not to be referred to.
    valid_from: u32,
    len: u16,
    /// The peer said that it has it.
    pub(super) acknowledged: bool,
}

/// Names are hashes already.
#[derive(Debug, Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        // The table looks at the upper bits, too.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Store {
    words: Vec<u64>,
    /// Bytes ever written, gaps at the ring's end included.
    head: u64,
    records: VecDeque<Record>,
    /// Payloads ever taken in.
    taken: u64,
    /// Number of the oldest record.
    first: u32,
    records_max: usize,
    by_name: HashMap<u32, u32, BuildHasherDefault<AsItIs>>,
}

/// Mean payload below which there is not a record for each.
const MEAN_LEN: usize = 512;

impl Store {
    /// Of so many bytes.
    pub(super) fn new(bytes: usize) -> Store {
        let records_max = (bytes / MEAN_LEN).max(16);
        Store {
            words: zeroes(bytes.max(1 << 16) / 8),
            head: 0,
            records: VecDeque::with_capacity(records_max),
            taken: 0,
            first: 0,
            records_max,
            by_name: HashMap::with_capacity_and_hasher(records_max, BuildHasherDefault::default()),
        }
    }

    /// Payloads that it holds at most.
    pub(super) fn records_max(&self) -> u64 {
        self.records_max as u64
    }

    /// What it has ever taken in.
    pub(super) fn progress(&self) -> Progress {
        Progress { bytes: self.head, records: self.taken }
    }

    /// Number of the next record.
    fn next(&self) -> u32 {
        self.first.wrapping_add(self.records.len() as u32)
    }

    /// Bytes that it holds at most.
    pub(super) fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Takes a payload in; its number is the next.
    pub(super) fn put(&mut self, id: u64, payload: &[u8]) -> u32 {
        let (capacity, len) = (self.capacity(), payload.len() as u64);
        assert!(len <= capacity && len <= u64::from(u16::MAX), "a packet's payload");
        let at = self.head % capacity;
        // Payloads lie in one piece.
        let start = if at + len > capacity { self.head + capacity - at } else { self.head };
        while self.records.len() >= self.records_max
            || self.records.front().is_some_and(|oldest| oldest.start + capacity < start + len)
        {
            self.drop_oldest();
        }
        let from = (start % capacity) as usize;
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[from..from + payload.len()]
            .copy_from_slice(payload);
        self.head = start + len;
        self.taken += 1;
        let number = self.next();
        let former = self.by_name.get(&(id as u32)).and_then(|former| self.record(*former));
        let valid_from = former.map_or(number, |former| former.valid_from);
        self.records.push_back(Record {
            start,
            id,
            came_at: Progress::default(),
            valid_from,
            len: payload.len() as u16,
            acknowledged: false,
        });
        self.by_name.insert(id as u32, number);
        number
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.records.pop_front() else { return };
        if self.by_name.get(&(oldest.id as u32)) == Some(&self.first) {
            self.by_name.remove(&(oldest.id as u32));
        }
        self.first = self.first.wrapping_add(1);
    }

    fn record(&self, number: u32) -> Option<&Record> {
        self.records.get(number.wrapping_sub(self.first) as usize)
    }

    /// A payload by its number, while it is there.
    pub(super) fn get(&self, number: u32) -> Option<(&Record, &[u8])> {
        let record = self.record(number)?;
        let from = (record.start % self.capacity()) as usize;
        Some((record, &self.bytes()[from..from + usize::from(record.len)]))
    }

    /// The newest payload of a name.
    pub(super) fn named(&self, name: u32) -> Option<&[u8]> {
        Some(self.get(*self.by_name.get(&name)?)?.1)
    }

    /// Whether the name of this record means its bytes, and none others, and was not forgotten since.
    pub(super) fn is_named(&self, number: u32, record: &Record) -> bool {
        let named = self.by_name.get(&(record.id as u32)).and_then(|number| self.record(*number));
        named.is_some_and(|named| {
            named.id == record.id && number.wrapping_sub(named.valid_from) as i32 >= 0
        })
    }

    /// What was taken in since the record: here, or, if that is more, by the peer, which has come so far.
    pub(super) fn age(&self, number: u32, record: &Record, theirs: Progress) -> Progress {
        let came_at = if record.acknowledged { record.came_at } else { theirs };
        Progress {
            bytes: (self.head - record.start).max(theirs.bytes.saturating_sub(came_at.bytes)),
            records: u64::from(self.next().wrapping_sub(number))
                .max(theirs.records.saturating_sub(came_at.records)),
        }
    }

    /// The peer has what is called so; it was not further when it came.
    pub(super) fn acknowledge(&mut self, name: u32, came_at: Progress) {
        if let Some(record) = self.newest(name) {
            record.acknowledged = true;
            record.came_at = came_at;
        }
    }

    fn newest(&mut self, name: u32) -> Option<&mut Record> {
        let number = self.by_name.get(&name)?;
        self.records.get_mut(number.wrapping_sub(self.first) as usize)
    }

    /// Nobody is to refer to what is called so, before it is acknowledged anew.
    pub(super) fn forget(&mut self, name: u32) {
        let next = self.next();
        if let Some(record) = self.newest(name) {
            record.acknowledged = false;
            record.valid_from = next;
        }
    }

    pub(super) fn clear(&mut self) {
        self.first = self.first.wrapping_add(self.records.len() as u32);
        self.records.clear();
        self.by_name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_takes_the_place_of_what_is_oldest() {
        let mut store = Store::new(1 << 16);
        for id in 0..1000u64 {
            let payload = vec![id as u8; 100 + (id as usize * 37) % 1400];
            let number = store.put(id, &payload);
            assert_eq!(number, id as u32);
            assert_eq!(store.named(id as u32), Some(&payload[..]));
        }
        let mut kept = 0;
        for id in 0..1000u64 {
            let Some((record, bytes)) = store.get(id as u32) else {
                assert!(kept == 0 && store.named(id as u32).is_none(), "the oldest go first");
                continue;
            };
            kept += bytes.len();
            assert!(bytes.iter().all(|byte| *byte == id as u8) && record.id == id);
            let age = store.age(id as u32, record, Progress::default());
            assert!(store.is_named(id as u32, record) && age.bytes <= store.capacity());
            assert_eq!(age.records, 1000 - id);
        }
        assert!(kept > 60_000 && kept <= 1 << 16, "{kept}");
        store.clear();
        assert!(store.get(999).is_none() && store.put(5, &[1; 64]) == 1000);
    }

    #[test]
    fn a_name_means_the_newest_bytes() {
        let mut store = Store::new(1 << 16);
        let old = store.put(7, &[1; 64]);
        store.acknowledge(7, Progress::default());
        let other = store.put(7 | 1 << 40, &[2; 64]);
        let is_named = |store: &Store, number| store.is_named(number, store.get(number).unwrap().0);
        assert!(!is_named(&store, old) && is_named(&store, other));
        assert!(store.get(old).expect("kept").0.acknowledged);
        store.forget(7);
        assert!(!is_named(&store, other));
    }

    /// Neither the record that was newest nor those before it.
    #[test]
    fn what_is_forgotten_is_not_referred_to_when_it_is_put_again() {
        let mut store = Store::new(1 << 16);
        let usable = |store: &Store, number| {
            let record = store.get(number).expect("kept").0;
            record.acknowledged && store.is_named(number, record)
        };
        let first = store.put(7, &[1; 64]);
        store.acknowledge(7, Progress::default());
        let second = store.put(7, &[1; 64]);
        store.acknowledge(7, Progress::default());
        assert!(usable(&store, first) && usable(&store, second));
        store.forget(7);
        let third = store.put(7, &[1; 64]);
        assert!([first, second, third].iter().all(|number| !usable(&store, *number)));
        store.acknowledge(7, Progress::default());
        assert!(usable(&store, third) && !usable(&store, first) && !usable(&store, second));
    }

    #[test]
    fn a_record_is_as_old_as_the_end_says_that_took_in_more() {
        let mut store = Store::new(1 << 16);
        let number = store.put(7, &[1; 100]);
        store.acknowledge(7, Progress { bytes: 1000, records: 10 });
        store.put(8, &[2; 100]);
        let age = |bytes, records| {
            let record = store.get(number).expect("kept").0;
            store.age(number, record, Progress { bytes, records })
        };
        assert_eq!(age(1000, 10), Progress { bytes: 200, records: 2 });
        assert_eq!(age(5000, 50), Progress { bytes: 4000, records: 40 });
    }
}
