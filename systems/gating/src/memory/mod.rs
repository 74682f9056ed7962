//! Memory: channels, ranks, banks and rows behind a controller.

mod bank;
mod channel;
mod command;
#[cfg(test)]
mod tests;
mod timing;
pub mod verify;

pub use channel::ChannelCounts;
use channel::{Channel, DramAddress};
pub use command::{Command, Order};
pub(crate) use timing::memory;
pub use timing::{MemoryKind, MemorySettings, Ps, ps};

/// A line to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Who asks; answers carry it.
    pub id: u64,
    /// The line's number.
    pub line: u64,
    /// Whether it is written.
    pub write: bool,
    /// When it comes to the controller, ps.
    pub at: Ps,
    pub(crate) admitted: Ps,
    /// When its bank admitted it, and what the bank's counter said then; of reads.
    pub(crate) told: Ps,
    pub(crate) bound: Ps,
}

/// What the row of a read was when it was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Open.
    Open,
    /// Closed.
    Closed,
    /// Another one was open.
    Other,
}

/// A read that was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's.
    pub id: u64,
    /// When it came, ps.
    pub at: Ps,
    /// When its bank admitted it: a token can tell the bound from then on (section 2.3.4).
    pub told: Ps,
    /// The end of its data by the bank's counter, which knows nothing of the channel.
    pub bound: Ps,
    /// When it was decided on.
    pub decided: Ps,
    /// The end of its data if nothing were in the way from then on: never later than `done`. It is before
    /// `bound` only where a write that came later had opened its row.
    pub least: Ps,
    /// The end of its data.
    pub done: Ps,
    /// What its row was.
    pub row: Row,
}

/// A memory controller with all its channels.
pub struct Memory {
    channels: Vec<Channel>,
    columns: u64,
    ranks: u64,
    banks: u64,
    lines_over_banks: bool,
    /// The time of the last decision.
    decided: Ps,
}

impl Memory {
    /// Idle, all rows closed.
    pub fn new(settings: &MemorySettings) -> Memory {
        Memory {
            channels: (0..settings.channels).map(|_| Channel::new(settings)).collect(),
            columns: (settings.row_bytes / crate::caches::LINE).max(1),
            ranks: settings.ranks as u64,
            banks: settings.banks as u64,
            lines_over_banks: settings.lines_over_banks,
            decided: 0,
        }
    }

    /// Keeps every command from now on.
    pub fn keep_commands(&mut self) {
        self.channels.iter_mut().for_each(|channel| channel.commands = Some(Vec::new()));
    }

    /// The commands kept, by channel.
    pub fn commands(&self) -> impl Iterator<Item = &[Command]> {
        self.channels.iter().map(|channel| channel.commands.as_deref().unwrap_or_default())
    }

    /// What each channel did.
    pub fn counts(&self) -> impl Iterator<Item = ChannelCounts> {
        self.channels.iter().map(|channel| channel.counts)
    }

    /// Channel, column, bank, rank, row, from the lowest bits up; with lines over banks channel, bank, rank,
    /// column, row.
    fn place(&self, line: u64) -> (usize, DramAddress) {
        let channels = self.channels.len() as u64;
        let columns = if self.lines_over_banks { 1 } else { self.columns };
        let (channel, rest) = (line % channels, line / channels / columns);
        let (bank, rest) = (rest % self.banks, rest / self.banks);
        let (rank, row) = (rest % self.ranks, rest / self.ranks * columns / self.columns);
        (channel as usize, DramAddress { rank: rank as usize, bank: bank as usize, row })
    }

    /// Hands a request in, which must not come before what was decided last.
    pub fn submit(&mut self, id: u64, line: u64, write: bool, at: Ps) {
        assert!(at >= self.decided, "a request at {at} ps after a decision at {}", self.decided);
        let (channel, place) = self.place(line);
        self.channels[channel]
            .submit(Request { id, line, write, at, admitted: at, told: at, bound: at }, place);
    }

    /// When it decides next.
    #[inline]
    pub fn next(&self) -> Option<Ps> {
        self.channels.iter().filter_map(Channel::next).min()
    }

    /// Makes the next decision, wherever it is; whether there was one.
    pub fn step(&mut self, out: &mut Vec<Answer>) -> bool {
        let next = self.channels.iter_mut().filter_map(|channel| Some((channel.next()?, channel)));
        let Some((next, channel)) = next.min_by_key(|(next, _)| *next) else { return false };
        self.decided = next;
        channel.step(out);
        true
    }
}
