//! STREAM (McCalpin 1995): copy, scale, add and triad over arrays of doubles, each thread over its own
//! (section 2.5.4 runs it "embarrassingly parallel"). Its references follow from the code alone.

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
}

impl Default for StreamSettings {
    fn default() -> StreamSettings {
        StreamSettings { elements: 200_000, times: 1 }
    }
}

/// A kernel: arrays read, the array written, instructions a reference ends at (its arithmetic and its
/// share of the loop, which compilers unroll).
const KERNELS: [(&[u64], u64, [u32; 3]); 4] =
    [(&[0], 2, [1, 2, 0]), (&[2], 1, [1, 3, 0]), (&[0, 1], 2, [1, 1, 3]), (&[1, 2], 0, [1, 1, 4])];

/// The references of one thread.
pub struct Stream {
    base: u64,
    settings: StreamSettings,
    time: u64,
    kernel: usize,
    element: u64,
}

impl Stream {
    /// Thread `thread`, whose arrays follow those of the threads before.
    pub fn new(settings: StreamSettings, thread: usize) -> Stream {
        let bytes = Self::array(&settings) * 3;
        let base = (1 << 32) + thread as u64 * bytes;
        Stream { base, settings, time: 0, kernel: 0, element: 0 }
    }

    /// Bytes from array to array: whole pages and one more.
    fn array(settings: &StreamSettings) -> u64 {
        ((settings.elements * 8).div_ceil(4096) + 1) * 4096
    }

    fn address(&self, array: u64) -> u64 {
        self.base + array * Self::array(&self.settings) + self.element * 8
    }
}

impl Feed for Stream {
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError> {
        while into.len() < 4096 && self.time < self.settings.times {
            let (read, written, instructions) = KERNELS[self.kernel];
            let kinds =
                read.iter().map(|array| (Kind::Read, *array)).chain([(Kind::Write, written)]);
            for ((kind, array), instructions) in kinds.zip(instructions) {
                into.push(Access { instructions, ..Access::new(kind, self.address(array)) });
            }
            self.element += 1;
            if self.element == self.settings.elements {
                (self.element, self.kernel) = (0, self.kernel + 1);
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

    #[test]
    fn ten_references_an_element_and_every_array_is_written() {
        let mut stream = Stream::new(StreamSettings { elements: 10, times: 2 }, 1);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            batch.clear();
            stream.fill(&mut batch).expect("no file");
            if batch.is_empty() {
                break;
            }
            all.append(&mut batch);
        }
        assert_eq!(all.len(), 10 * 10 * 2);
        let writes = all.iter().filter(|access| access.kind == Kind::Write);
        let pages: std::collections::BTreeSet<u64> =
            writes.map(|access| access.address >> 13).collect();
        assert_eq!(pages.len(), 3);
    }
}
