use std::io;

/// A NIC's own indirection table (RSS), as ethtool shows it.
pub trait Indirection: Send {
    /// The receive queue of each entry; the length is the device's.
    ///
    /// # Errors
    /// When the device has no such table or refuses.
    fn read(&mut self) -> io::Result<Vec<u32>>;

    /// Replaces the table; of the length that [`Indirection::read`] returned.
    ///
    /// # Errors
    /// When the device refuses; the old table stays.
    fn write(&mut self, table: &[u32]) -> io::Result<()>;
}
