//! How memory is reused while readers may still look at it: readers check, they never announce.
//!
//! The writer unlinks a block, then *retires* it, and hands retired blocks out again only after it
//! has counted the generation up. A reader notes the generation before a batch and compares after
//! it; when it moved, the batch is looked up again. Readers write nothing that is shared, need no
//! handle, may sleep for ever, and start again only if memory was recycled within their batch, which
//! happens once per some dozens or hundreds of updates that free memory.
//!
//! # Proof
//! [`Generation::advance`] is a release store followed by a release fence; [`Generation::begin`] is an
//! acquire load and [`Generation::unchanged`] an acquire fence followed by a load.
//!
//! 1. *A batch that began in generation g sees every write made before g began*: its acquire load
//!    read the value of that release store (or a later one). So it finds no block that was unlinked
//!    before g began.
//! 2. *A batch that ends unchanged saw no write made after g ended.* Had one of its (relaxed) loads
//!    seen such a write, the writer's fence, which stands before the write, would synchronise with the
//!    reader's fence, which stands after the load, and the comparison would read at least g + 1.
//!
//! Together: what an unchanged batch saw, it saw as of one generation. Blocks retired in g are
//! overwritten after g ended, so by (2) it saw none overwritten, and those retired earlier it did not
//! reach by (1). Within a batch that will be discarded, loads may see any mixture of blocks; such a
//! walk stays inside the table because indices are masked to its size and depth is bounded.
//!
//! The same argument lets a lookup combine two places (a table and the default route): a change of
//! the second place stands alone in a generation, so in every generation only one of the two moves.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// Counts how often retired memory became usable again.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Generation(AtomicU64);

impl Generation {
    /// Starts a batch of reads.
    #[inline(always)]
    pub(crate) fn begin(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Whether all reads since `begun` belong to one generation.
    #[inline(always)]
    pub(crate) fn unchanged(&self, begun: u64) -> bool {
        fence(Acquire);
        self.0.load(Relaxed) == begun
    }

    /// Ends a generation. Only the one writer calls this.
    pub(crate) fn advance(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Release);
        fence(Release);
    }

    /// Makes a change that has a generation of its own.
    pub(crate) fn alone(&self, change: impl FnOnce()) {
        self.advance();
        change();
        self.advance();
    }
}
