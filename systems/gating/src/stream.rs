//! STREAM (McCalpin 1995): copy, scale, add and triad over arrays of doubles. Its references follow from the code
//! alone.

use ebb_memtrace::{Access, Kind, TraceError};
use ebb_scenario::Described;
use serde::Deserialize;

use crate::machine::Feed;

/// Its length.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct StreamSettings {
    /// Doubles in each of the three arrays of a thread.
    #[schema(least = 1, most = 1u64 << 32)]
    pub elements: u64,
    /// Times all four kernels run.
    #[schema(least = 1)]
    pub times: u64,
    /// The threads share the three arrays, and each takes its part of them, as STREAM's do; otherwise each has
    /// three of its own.
    pub shared: bool,
    /// The loops are unrolled; otherwise an element takes what the loop takes on a machine without indexed
    /// addresses: a step for each array, one for the count, and a branch.
    pub unrolled: bool,
}

impl Default for StreamSettings {
    fn default() -> StreamSettings {
        StreamSettings { elements: 200_000, times: 1, shared: false, unrolled: true }
    }
}

/// A kernel: arrays read, the array written, instructions a reference ends at (its arithmetic and its
/// share of the loop, unrolled).
const KERNELS: [(&[u64], u64, [u32; 3]); 4] =
    [(&[0], 2, [1, 2, 0]), (&[2], 1, [1, 3, 0]), (&[0, 1], 2, [1, 1, 3]), (&[1, 2], 0, [1, 1, 4])];

/// Instructions of a loop that is not unrolled, by kernel: loads, arithmetic and store, a step of each array, one of
/// the count, a branch. The steps lie before the first reference.
const ROLLED: [[u32; 3]; 4] = [[4, 2, 0], [4, 3, 0], [5, 1, 3], [5, 1, 4]];

/// The references of one thread.
pub struct Stream {
    base: u64,
    settings: StreamSettings,
    time: u64,
    kernel: usize,
    element: u64,
    /// Its part of the arrays, and their bytes from one to the next.
    part: (u64, u64),
    array: u64,
}

impl Stream {
    /// Thread `thread` of `threads`. Arrays that are not shared follow those of the threads before.
    pub fn new(settings: StreamSettings, thread: usize, threads: usize) -> Stream {
        let (thread, threads) = (thread as u64, threads as u64);
        let (base, array, part) = if settings.shared {
            let from = |thread: u64| settings.elements * thread / threads;
            (1 << 32, settings.elements * 8, (from(thread), from(thread + 1)))
        } else {
            // Whole pages and one more.
            let array = ((settings.elements * 8).div_ceil(4096) + 1) * 4096;
            ((1 << 32) + thread * array * 3, array, (0, settings.elements))
        };
        Stream { base, settings, time: 0, kernel: 0, element: part.0, part, array }
    }

    fn address(&self, array: u64) -> u64 {
        self.base + array * self.array + self.element * 8
    }
}

impl Feed for Stream {
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError> {
        while into.len() < 4096 && self.time < self.settings.times {
            if self.part.0 == self.part.1 {
                break;
            }
            let (read, written, unrolled) = KERNELS[self.kernel];
            let instructions = if self.settings.unrolled { unrolled } else { ROLLED[self.kernel] };
            let kinds =
                read.iter().map(|array| (Kind::Read, *array)).chain([(Kind::Write, written)]);
            for ((kind, array), instructions) in kinds.zip(instructions) {
                into.push(Access { instructions, ..Access::new(kind, self.address(array)) });
            }
            self.element += 1;
            if self.element == self.part.1 {
                (self.element, self.kernel) = (self.part.0, self.kernel + 1);
            }
            if self.kernel == KERNELS.len() {
                (self.kernel, self.time) = (0, self.time + 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(settings: StreamSettings, thread: usize, threads: usize) -> Vec<Access> {
        let mut stream = Stream::new(settings, thread, threads);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            batch.clear();
            stream.fill(&mut batch).expect("no file");
            if batch.is_empty() {
                return all;
            }
            all.append(&mut batch);
        }
    }

    /// However many threads there are, they touch the arrays of one once; without unrolling an element of all four
    /// kernels takes 6, 7, 9 and 10 instructions.
    #[test]
    fn threads_that_share_touch_what_one_would() {
        let settings = StreamSettings { elements: 10, times: 1, shared: true, unrolled: false };
        let of = |threads: usize| {
            let all = (0..threads).flat_map(|thread| all(settings, thread, threads));
            let mut all: Vec<(u64, bool)> =
                all.map(|access| (access.address, access.kind == Kind::Write)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(of(1).len(), 10 * 10);
        assert!([2, 3, 16].into_iter().all(|threads| of(threads) == of(1)));
        let instructions: u32 = all(settings, 0, 1).iter().map(|one| one.instructions).sum();
        assert_eq!(instructions, 10 * (6 + 7 + 9 + 10));
    }

    #[test]
    fn ten_references_an_element_and_every_array_is_written() {
        let settings = StreamSettings { elements: 10, times: 2, ..StreamSettings::default() };
        let all = all(settings, 1, 2);
        assert_eq!(all.len(), 10 * 10 * 2);
        let writes = all.iter().filter(|access| access.kind == Kind::Write);
        let pages: std::collections::BTreeSet<u64> =
            writes.map(|access| access.address >> 13).collect();
        assert_eq!(pages.len(), 3);
    }
}
