//! Finds in a payload what earlier payloads had, and remembers it.
//!
//! Neighbours: `sampling` chooses windows, `fingerprint` finds where they were seen, `store` has the bytes.

use super::fingerprint::{self, Index, Seen, WINDOW};
use super::sampling::Sampling;
use super::store::{Progress, Store};
use super::wire::{REFERENCE_LEN, REFERENCES_MAX, Reference};

/// A window that was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    start: u16,
    fingerprint: u64,
}

/// How windows are chosen and hashed; needs nothing of what other workers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampler {
    pub(super) sampling: Sampling,
    pub(super) period: usize,
    /// Known to this router alone.
    pub(super) key: u64,
}

impl Sampler {
    pub(super) fn sample(&self, payload: &[u8], starts: &mut Vec<u16>, samples: &mut Vec<Sample>) {
        starts.clear();
        samples.clear();
        self.sampling.choose(self.period, payload, starts);
        samples.extend(starts.iter().map(|start| {
            let window = &payload[usize::from(*start)..];
            let window = window.first_chunk::<WINDOW>().expect("a window lies within");
            Sample { start: *start, fingerprint: fingerprint::of(self.key, window) }
        }));
    }
}

/// Shortest part that is worth a reference.
const PART_MIN: usize = 2 * REFERENCE_LEN;

/// What may be referred to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Horizon {
    /// Nothing since which more was taken in, at either end.
    pub(super) limit: Progress,
    /// How far the peer has said that it is.
    pub(super) theirs: Progress,
}

/// The sending end's memory.
#[derive(Debug)]
pub(super) struct Encoder {
    pub(super) store: Store,
    index: Index,
}

impl Encoder {
    pub(super) fn new(bytes: usize, period: usize) -> Encoder {
        Encoder { store: Store::new(bytes), index: Index::new(bytes / period) }
    }

    pub(super) fn clear(&mut self) {
        // The index keeps numbers that the store has no records of any more: zeroing it would take long under the lock.
        self.store.clear();
    }

    /// Asks for the memory that [`Encoder::find`] reads.
    pub(super) fn prefetch(&self, samples: &[Sample]) {
        samples.iter().for_each(|sample| self.index.prefetch(sample.fingerprint));
    }

    /// The parts of a payload that the peer has said it has, and within the horizon; ascending, and none
    /// overlap.
    pub(super) fn find(
        &self,
        payload: &[u8],
        samples: &[Sample],
        horizon: &Horizon,
        references: &mut Vec<Reference>,
    ) {
        references.clear();
        let mut end = 0;
        for sample in samples {
            if usize::from(sample.start) < end {
                continue;
            }
            let seen = self.index.find(sample.fingerprint);
            let found =
                seen.filter_map(|seen| self.compare(payload, sample.start, end, seen, horizon));
            let Some(longest) = found.max_by_key(|reference| reference.len) else { continue };
            end = usize::from(longest.start) + usize::from(longest.len);
            references.push(longest);
            if references.len() == REFERENCES_MAX {
                return;
            }
        }
    }

    /// The part around `at` that is the same here and there; nothing before `from`.
    fn compare(
        &self,
        payload: &[u8],
        at: u16,
        from: usize,
        seen: Seen,
        horizon: &Horizon,
    ) -> Option<Reference> {
        let (record, bytes) = self.store.get(seen.number)?;
        let age = self.store.age(seen.number, record, horizon.theirs);
        if !record.acknowledged
            || !age.is_within(horizon.limit)
            || !self.store.is_named(seen.number, record)
        {
            return None;
        }
        let (here, there) = (usize::from(at), usize::from(seen.offset));
        let (before, behind) = (bytes.get(..there)?, bytes.get(there..)?);
        let ahead = same(&payload[here..], behind);
        let back = payload[from..here].iter().rev().zip(before.iter().rev());
        let back = back.take_while(|(one, other)| one == other).count();
        (ahead >= WINDOW && ahead + back > PART_MIN).then(|| Reference {
            name: record.id as u32,
            offset: (there - back) as u16,
            start: (here - back) as u16,
            len: (ahead + back) as u16,
            is_old: !age.is_within(Progress {
                bytes: horizon.limit.bytes / 2,
                records: horizon.limit.records / 2,
            }),
        })
    }

    /// Remembers a payload. Windows that `references` cover are found where they are, unless it will soon be gone.
    pub(super) fn put(
        &mut self,
        id: u64,
        payload: &[u8],
        samples: &[Sample],
        references: &[Reference],
    ) {
        let number = self.store.put(id, payload);
        let mut covered = references.iter().peekable();
        for sample in samples {
            let within = |of: &Reference| {
                let end = usize::from(sample.start) + WINDOW;
                !of.is_old && sample.start >= of.start && end <= of.end()
            };
            while covered.next_if(|of| of.end() <= usize::from(sample.start)).is_some() {}
            if !covered.peek().is_some_and(|of| within(of)) {
                self.index.put(sample.fingerprint, Seen { number, offset: sample.start });
            }
        }
    }
}

impl Reference {
    fn end(&self) -> usize {
        usize::from(self.start) + usize::from(self.len)
    }
}

/// Bytes at the beginning in which the two are the same.
fn same(one: &[u8], other: &[u8]) -> usize {
    let len = one.len().min(other.len());
    let (one, other) = (&one[..len], &other[..len]);
    let ((words, _), (others, _)) = (one.as_chunks::<16>(), other.as_chunks::<16>());
    let whole = words.iter().zip(others).take_while(|(word, other)| word == other).count() * 16;
    let rest = one[whole..].iter().zip(&other[whole..]);
    whole + rest.take_while(|(byte, other)| byte == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_acknowledged_and_young_is_referred_to() {
        let sampler = Sampler { sampling: Sampling::Maxp, period: 32, key: 3 };
        let mut encoder = Encoder::new(1 << 20, 32);
        let payload: Vec<u8> =
            (0..1400u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect();
        let (mut starts, mut samples, mut references) = (Vec::new(), Vec::new(), Vec::new());
        let within = |bytes, records| Horizon {
            limit: Progress { bytes, records },
            theirs: Progress { bytes: 50, records: 5 },
        };
        let all = within(u64::MAX, u64::MAX);
        sampler.sample(&payload, &mut starts, &mut samples);
        encoder.find(&payload, &samples, &all, &mut references);
        assert!(references.is_empty());
        encoder.put(9, &payload, &samples, &references);
        encoder.find(&payload, &samples, &all, &mut references);
        assert!(references.is_empty(), "not acknowledged");
        encoder.store.acknowledge(9, Progress::default());
        encoder.find(&payload, &samples, &within(100, 99), &mut references);
        assert!(references.is_empty(), "too old");
        encoder.find(&payload, &samples, &within(9000, 4), &mut references);
        assert!(references.is_empty(), "too many payloads ago at the peer");
        encoder.find(&payload, &samples, &all, &mut references);
        assert_eq!(
            references,
            [Reference { name: 9, offset: 0, start: 0, len: 1400, is_old: false }]
        );
        let mut moved = [&[5; 33], &payload[100..900]].concat();
        moved[633] ^= 1;
        sampler.sample(&moved, &mut starts, &mut samples);
        encoder.find(&moved, &samples, &all, &mut references);
        let parts: Vec<_> = references.iter().map(|of| (of.offset, of.start, of.len)).collect();
        assert_eq!(parts, [(100, 33, 600), (701, 634, 199)]);
        encoder.find(&moved, &samples, &within(2000, 99), &mut references);
        assert!(references.iter().all(|of| of.is_old), "found in time where it is not old");
        encoder.store.forget(9);
        encoder.find(&moved, &samples, &all, &mut references);
        assert!(references.is_empty(), "forgotten");
    }
}
