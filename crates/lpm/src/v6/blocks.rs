//! Lines of one large array, taken singly or as blocks of 16 neighbours, retired, and reused.
//!
//! A block is handed out whole or line by line, and is whole again once all its lines are free. Single
//! lines come from blocks that are in pieces as long as there are any, so that the others stay whole.

use super::nodes::TABLE_LINES;

/// Lines of a block.
pub(super) const BLOCK: u32 = TABLE_LINES;

/// Blocks that insertions leave to removals, which have no way to fail: of two equal neighbours that were
/// one range they may make more nodes. A change takes under [`CHANGE_MAX`] of them and usually gives back
/// as many.
pub(super) const ROOM: usize = 1 << 15;

/// More blocks and lines than one change takes: a table, a node in each of its at most 12 slots within which
/// ranges end, 5 lines one below the other in one of them, and a line for each of up to 12 levels above.
pub(super) const CHANGE_MAX: usize = 32;

/// All lines of a block, a bit each.
const ALL: u16 = u16::MAX;

/// The free lines of one array.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Which lines of each block are free; blocks beyond were never used.
    free: Vec<u16>,
    /// The blocks whose lines are all free.
    whole: Vec<u32>,
    /// Each block of which some lines are free and some are not, and some that are no longer so.
    pieces: Vec<u32>,
    /// First lines and how many of each.
    retired: Vec<(u32, u8)>,
    blocks_max: u32,
}

impl Blocks {
    /// Of at most so many lines, a multiple of 16.
    pub(super) fn new(lines: usize) -> Self {
        let blocks_max = u32::try_from(lines).expect("numbers of lines fit 32 bits") / BLOCK;
        let (whole, pieces, retired) = (Vec::new(), Vec::new(), Vec::new());
        Self { free: Vec::new(), whole, pieces, retired, blocks_max }
    }

    /// How many blocks are whole or were never used: as many times a block or a line can be had,
    /// whatever the order.
    pub(super) fn whole_len(&self) -> usize {
        self.whole.len() + self.unused_len()
    }

    fn unused_len(&self) -> usize {
        self.blocks_max as usize - self.free.len()
    }

    /// Whether all blocks were used already.
    pub(super) fn is_used_up(&self) -> bool {
        self.unused_len() == 0
    }

    /// Whether a line, or a block, would have to come from a block that was never used.
    pub(super) fn lacks(&mut self, len: u32) -> bool {
        self.whole.is_empty() && (len == BLOCK || self.piece().is_none())
    }

    /// The first line of a block, or one line.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn take(&mut self, len: u32) -> u32 {
        if len == BLOCK {
            return self.take_whole() * BLOCK;
        }
        let block = self.piece().unwrap_or_else(|| {
            let block = self.take_whole();
            self.free[block as usize] = ALL;
            self.pieces.push(block);
            block
        });
        let free = &mut self.free[block as usize];
        let line = block * BLOCK + free.trailing_zeros();
        *free &= *free - 1;
        if *free == 0 {
            self.pieces.pop();
        }
        line
    }

    fn take_whole(&mut self) -> u32 {
        if let Some(block) = self.whole.pop() {
            self.free[block as usize] = 0;
            return block;
        }
        assert!(
            !self.is_used_up(),
            "out of lines: insertions leave {ROOM} blocks to removals, enough for {} of them at least",
            ROOM / CHANGE_MAX
        );
        self.free.push(0);
        self.free.len() as u32 - 1
    }

    /// The last block in pieces, where there is one.
    fn piece(&mut self) -> Option<u32> {
        while let Some(&block) = self.pieces.last() {
            if !matches!(self.free[block as usize], 0 | ALL) {
                return Some(block);
            }
            self.pieces.pop();
        }
        None
    }

    /// Notes lines that no word leads to any more.
    pub(super) fn retire(&mut self, start: u32, len: u32) {
        self.retired.push((start, len as u8));
    }

    pub(super) fn retired_len(&self) -> usize {
        self.retired.len()
    }

    /// Makes retired lines free; the generation must have advanced since the last of them retired.
    pub(super) fn reclaim(&mut self) {
        for (start, len) in self.retired.drain(..) {
            let block = start / BLOCK;
            let free = &mut self.free[block as usize];
            let lines = if u32::from(len) == BLOCK { ALL } else { 1 << (start % BLOCK) };
            if *free == 0 && lines != ALL {
                self.pieces.push(block);
            }
            *free |= lines;
            if *free == ALL {
                self.whole.push(block);
            }
        }
    }

    /// Lines in use now or before.
    pub(super) fn used(&self) -> usize {
        self.free.len() * BLOCK as usize
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.free.capacity() * size_of::<u16>()
            + (self.whole.capacity() + self.pieces.capacity()) * size_of::<u32>()
            + self.retired.capacity() * size_of::<(u32, u8)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_that_are_all_free_again_are_a_block() {
        let mut blocks = Blocks::new(4 * BLOCK as usize);
        let lines: Vec<u32> = (0..4 * BLOCK).map(|_| blocks.take(1)).collect();
        assert!(blocks.is_used_up() && blocks.whole_len() == 0);
        lines.iter().for_each(|&line| blocks.retire(line, 1));
        blocks.reclaim();
        assert_eq!(blocks.whole_len(), 4);
        let taken: BTreeSet<u32> = (0..4).map(|_| blocks.take(BLOCK)).collect();
        assert_eq!(taken, BTreeSet::from([0, 16, 32, 48]));
    }

    proptest! {
        /// Nothing is handed out twice, and everything can be had again in the end.
        #[test]
        fn lines_in_use_are_nobody_elses(
            steps in prop::collection::vec((0..4u8, any::<prop::sample::Index>()), 1..400),
        ) {
            const LINES: u32 = 64 * BLOCK;
            let mut blocks = Blocks::new(LINES as usize);
            let (mut held, mut in_use) = (Vec::new(), vec![false; LINES as usize]);
            for (kind, index) in steps {
                match kind {
                    0 | 1 if !blocks.is_used_up() => {
                        let len = if kind == 0 { 1 } else { BLOCK };
                        let start = blocks.take(len);
                        for line in start..start + len {
                            prop_assert!(!std::mem::replace(&mut in_use[line as usize], true));
                        }
                        held.push((start, len));
                    }
                    2 if !held.is_empty() => {
                        let (start, len) = held.swap_remove(index.index(held.len()));
                        in_use[start as usize..(start + len) as usize].fill(false);
                        blocks.retire(start, len);
                    }
                    _ => blocks.reclaim(),
                }
            }
            for (start, len) in held {
                blocks.retire(start, len);
            }
            blocks.reclaim();
            prop_assert_eq!(blocks.whole_len() as u32, LINES / BLOCK);
            let all: BTreeSet<u32> = (0..LINES / BLOCK).map(|_| blocks.take(BLOCK)).collect();
            prop_assert_eq!(all.len() as u32, LINES / BLOCK);
        }
    }
}
