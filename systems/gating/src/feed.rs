//! Traces as references for cores.

use ebb_memtrace::{Access, Reader, TraceError};

use crate::machine::Feed;

/// References handed over at a time.
const BATCH: usize = 4096;
/// Address spaces of copies of one program: far apart, and on other pages of every cache.
const SPACE: u64 = (1 << 42) + 0x35_d000;

/// Which references of a trace a core gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All, in an address space of its own.
    Copy,
    /// Those of every thread whose number leaves this rest when divided by the number of cores.
    Threads {
        /// Cores.
        of: usize,
    },
}

/// A trace for one core.
pub struct TraceFeed<'a> {
    reader: Reader<'a>,
    core: usize,
    share: Share,
    left: u64,
}

impl<'a> TraceFeed<'a> {
    /// At most `most` references of `reader` for `core`.
    pub fn new(reader: Reader<'a>, core: usize, share: Share, most: u64) -> TraceFeed<'a> {
        TraceFeed { reader, core, share, left: most }
    }
}

impl Feed for TraceFeed<'_> {
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError> {
        while into.len() < BATCH && self.left > 0 {
            let Some(mut access) = self.reader.access()? else { break };
            match self.share {
                Share::Copy => {
                    access.address =
                        access.address.wrapping_add(SPACE.wrapping_mul(self.core as u64));
                }
                Share::Threads { of } if usize::from(access.thread) % of != self.core => continue,
                Share::Threads { .. } => {}
            }
            self.left -= 1;
            into.push(access);
        }
        Ok(())
    }
}

/// References that are there already, for tests and small studies.
pub struct Given(std::vec::IntoIter<Access>);

impl Given {
    /// Those of `accesses`.
    pub fn new(accesses: Vec<Access>) -> Given {
        Given(accesses.into_iter())
    }
}

impl Feed for Given {
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError> {
        into.extend(self.0.by_ref().take(BATCH));
        Ok(())
    }
}
