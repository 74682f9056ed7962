//! Payloads of packets in a ring of bounded memory: what is new takes the place of what is oldest.
//!
//! Both ends have one. A payload's name is a hash of its bytes (`wire::Key`): the ends need not agree on any order.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use ebb_graph::zeroes;

/// A payload of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    start: u64,
    /// Hash of its bytes, whose lower half is its name between the ends.
    pub(super) id: u64,
    flow: u32,
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
            first: 0,
            records_max,
            by_name: HashMap::with_capacity_and_hasher(records_max, BuildHasherDefault::default()),
        }
    }

    /// Bytes that it holds at most.
    pub(super) fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Takes a payload of a flow in; its number is the next.
    pub(super) fn put(&mut self, id: u64, flow: u32, payload: &[u8]) -> u32 {
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
        let number = self.first.wrapping_add(self.records.len() as u32);
        self.records.push_back(Record {
            start,
            id,
            flow,
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

    /// Whether the name of this record means its bytes, and none others.
    pub(super) fn is_named(&self, record: &Record) -> bool {
        let named = self.by_name.get(&(record.id as u32)).and_then(|number| self.record(*number));
        named.is_some_and(|named| named.id == record.id)
    }

    /// Bytes that were written since the record.
    pub(super) fn age(&self, record: &Record) -> u64 {
        self.head - record.start
    }

    /// The peer has what is called so; returns its flow.
    pub(super) fn acknowledge(&mut self, name: u32) -> Option<u32> {
        let number = self.by_name.get(&name)?;
        let record = self.records.get_mut(number.wrapping_sub(self.first) as usize)?;
        record.acknowledged = true;
        Some(record.flow)
    }

    /// Nobody is to refer to it any more.
    pub(super) fn forget(&mut self, name: u32) {
        self.by_name.remove(&name);
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
            let number = store.put(id, 0, &payload);
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
            assert!(store.is_named(record) && store.age(record) <= store.capacity());
        }
        assert!(kept > 60_000 && kept <= 1 << 16, "{kept}");
        store.clear();
        assert!(store.get(999).is_none() && store.put(5, 0, &[1; 64]) == 1000);
    }

    #[test]
    fn a_name_means_the_newest_bytes() {
        let mut store = Store::new(1 << 16);
        let old = store.put(7, 3, &[1; 64]);
        assert_eq!(store.acknowledge(7), Some(3));
        let other = store.put(7 | 1 << 40, 3, &[2; 64]);
        assert!(!store.is_named(&store.get(old).expect("kept").0.clone()));
        assert!(store.is_named(&store.get(other).expect("kept").0.clone()));
        assert!(store.get(old).expect("kept").0.acknowledged);
        store.forget(7);
        assert!(store.named(7).is_none());
    }
}
