//! What a channel sends to its chips.

use super::timing::Ps;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Opens a row.
    Activate,
    /// Closes a bank's row.
    Precharge,
    /// Closes all rows of a rank.
    PrechargeAll,
    /// Reads a column.
    Read,
    /// Reads and closes the row as soon as that can be.
    ReadClosing,
    /// Writes a column.
    Write,
    /// Writes and closes the row as soon as that can be.
    WriteClosing,
    /// Refreshes a rank.
    Refresh,
}

/// A command with its time and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// When, ps.
    pub at: Ps,
    /// What.
    pub order: Order,
    /// To which rank,
    pub rank: usize,
    /// which bank of it,
    pub bank: usize,
    /// which row.
    pub row: u64,
}
