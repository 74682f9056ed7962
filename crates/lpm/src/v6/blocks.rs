//! Blocks of 1 to 64 neighbours within one large array: taken, retired, and reused by size.
//!
//! Blocks are not merged, and split only when the array is used up. What each size needs at its peak
//! stays with that size, so updates that come and go for ever need no more than their worst moment did.

/// The free blocks of one array.
#[derive(Debug)]
pub(crate) struct Blocks {
    free: [Vec<u32>; 65],
    retired: Vec<(u32, u8)>,
    /// Everything from here on was never used.
    fresh: u32,
    limit: u32,
}

impl Blocks {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = u32::try_from(limit).expect("numbers of elements fit 32 bits");
        Self { free: [const { Vec::new() }; 65], retired: Vec::new(), fresh: 0, limit }
    }

    /// Whether `count` more elements are there whatever was retired.
    pub(crate) fn has_room(&self, count: u32) -> bool {
        self.limit - self.fresh >= count
    }

    /// Whether a block of this size would have to come from fresh elements.
    pub(crate) fn lacks(&self, len: u32) -> bool {
        len > 0 && self.free[len as usize].is_empty()
    }

    /// The first element of a block of `len`; 0 when `len` is 0.
    pub(crate) fn take(&mut self, len: u32) -> u32 {
        if len == 0 {
            return 0;
        }
        if let Some(start) = self.free[len as usize].pop() {
            return start;
        }
        if !self.has_room(len) {
            return self.split(len);
        }
        let start = self.fresh;
        self.fresh += len;
        start
    }

    fn split(&mut self, len: u32) -> u32 {
        let sizes = len as usize + 1..self.free.len();
        let larger = sizes.into_iter().find(|&size| !self.free[size].is_empty());
        let larger = larger.expect("insertions leave room for removals");
        let start = self.free[larger].pop().expect("found just now");
        self.free[larger - len as usize].push(start + len);
        start
    }

    /// Notes a block that no word leads to any more.
    pub(crate) fn retire(&mut self, start: u32, len: u32) {
        if len > 0 {
            self.retired.push((start, len as u8));
        }
    }

    pub(crate) fn retired_len(&self) -> usize {
        self.retired.len()
    }

    /// Makes retired blocks free; the generation must have advanced since the last of them retired.
    pub(crate) fn reclaim(&mut self) {
        for (start, len) in self.retired.drain(..) {
            self.free[len as usize].push(start);
        }
    }

    /// Elements in use now or before.
    pub(crate) fn used(&self) -> usize {
        self.fresh as usize
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(Vec::capacity).sum();
        free * size_of::<u32>() + self.retired.capacity() * size_of::<(u32, u8)>()
    }
}
