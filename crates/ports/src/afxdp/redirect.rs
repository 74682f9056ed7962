//! The two redirect tables of an interface: the program's own and the NIC's.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::maps::Table;
use crate::{Fence, RedirectTable};

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
    /// When the device refuses. What it has taken by then is put back by the caller.
    fn write(&mut self, table: &[u32]) -> io::Result<()>;
}

fn check(table: &[u8; 128], workers: u32) -> io::Result<()> {
    match table.iter().find(|worker| u32::from(**worker) >= workers) {
        Some(worker) => {
            let message = format!("worker {worker} in the table of a port with {workers} workers");
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
        None => Ok(()),
    }
}

/// The form `Steer`: the XDP program's own table, in memory shared with it.
#[derive(Debug)]
pub(super) struct SteerTable {
    table: Arc<Table>,
    workers: u32,
}

impl SteerTable {
    pub(super) fn new(table: Arc<Table>, workers: u32) -> SteerTable {
        SteerTable { table, workers }
    }
}

impl RedirectTable for SteerTable {
    fn form(&self) -> &'static str {
        "steer"
    }

    fn write(&mut self, table: &[u8; 128]) -> io::Result<Fence> {
        check(table, self.workers)?;
        self.table.write(table);
        Ok(Fence::programs())
    }
}

/// The form `Rss`: the device's indirection table.
///
/// Hardware gives no sign, so its fence is as long as a packet may take from the device's table
/// into a receive queue.
///
/// The first rewrite always writes: virtio-net (Linux 6.1) sets its number of queues when an XDP
/// program is attached, on which the device drops its table, while the driver goes on showing it.
pub(super) struct RssTable {
    indirection: Box<dyn Indirection>,
    workers: u32,
    settle: Duration,
    written: bool,
}

impl RssTable {
    pub(super) fn new(
        indirection: Box<dyn Indirection>,
        workers: u32,
        settle: Duration,
    ) -> RssTable {
        RssTable { indirection, workers, settle, written: false }
    }
}

impl RssTable {
    /// Undoes what a driver may have done before it failed; returns the failure.
    fn put_back(&mut self, before: &[u32], error: io::Error) -> io::Error {
        self.written = false;
        if self.indirection.read().is_ok_and(|now| now == before) {
            return error;
        }
        match self.indirection.write(before) {
            Ok(()) => error,
            Err(again) => io::Error::other(format!(
                "{error}; the old table cannot be restored either ({again}): some packets may go \
                to sleeping workers"
            )),
        }
    }
}

impl RedirectTable for RssTable {
    fn form(&self) -> &'static str {
        "rss"
    }

    fn write(&mut self, table: &[u8; 128]) -> io::Result<Fence> {
        check(table, self.workers)?;
        let present = self.indirection.read()?;
        if present.is_empty() {
            let message = "the device has no indirection table";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let wanted = expand(table, present.len());
        if wanted == present && self.written {
            return Ok(Fence::PASSED);
        }
        match self.indirection.write(&wanted) {
            Ok(()) => {
                self.written = true;
                Ok(Fence::hardware(self.settle))
            }
            Err(error) => Err(self.put_back(&present, error)),
        }
    }
}

/// The 128 entries repeated over a device's table. Devices index theirs by the low bits of the
/// hash, so entry i of 128 governs the same packets at i, i + 128 and so on. Where the device has
/// fewer entries than 128, its entry i follows ours numbered i * 128 / len.
fn expand(table: &[u8; 128], len: usize) -> Vec<u32> {
    (0..len)
        .map(|index| match len {
            128.. => u32::from(table[index % 128]),
            _ => u32::from(table[index * 128 / len]),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A device's table and the writes so far; its driver takes the table of the first `fails` writes
    /// and fails afterwards.
    struct Fake {
        state: Arc<Mutex<(Vec<u32>, u32)>>,
        fails: u32,
    }

    impl Indirection for Fake {
        fn read(&mut self) -> io::Result<Vec<u32>> {
            Ok(self.state.lock().unwrap().0.clone())
        }
        fn write(&mut self, table: &[u32]) -> io::Result<()> {
            let mut state = self.state.lock().unwrap();
            state.0 = table.to_vec();
            state.1 += 1;
            if state.1 <= self.fails { Err(io::Error::other("no answer")) } else { Ok(()) }
        }
    }

    /// What the device holds, and how often it was written.
    type Held = Arc<Mutex<(Vec<u32>, u32)>>;

    /// For two workers over a device with a table of `len` entries.
    fn fake(len: usize, fails: u32) -> (RssTable, Held) {
        let state = Arc::new(Mutex::new((vec![0; len], 0)));
        let device = Fake { state: state.clone(), fails };
        (RssTable::new(Box::new(device), 2, Duration::ZERO), state)
    }

    #[test]
    fn the_table_is_expanded_to_the_device_and_written_when_it_differs() {
        for len in [16usize, 128, 512] {
            let (mut rss, state) = fake(len, 0);
            let table = std::array::from_fn(|entry| u8::from(entry >= 64));
            rss.rewrite(&table).unwrap();
            rss.rewrite(&table).unwrap();
            let (written, writes) = &*state.lock().unwrap();
            assert_eq!(*writes, 1);
            assert_eq!(written.iter().sum::<u32>() as usize, len / 2);
            assert_eq!(written[0], 0);
            assert_eq!(written[127.min(len - 1)], 1);
        }
    }

    #[test]
    fn the_first_rewrite_writes_whatever_the_device_shows() {
        let (mut rss, state) = fake(128, 0);
        rss.rewrite(&[0; 128]).unwrap();
        rss.rewrite(&[0; 128]).unwrap();
        assert_eq!(state.lock().unwrap().1, 1);
    }

    #[test]
    fn a_write_that_fails_half_way_is_undone() {
        let (mut rss, state) = fake(128, 1);
        assert!(rss.rewrite(&[1; 128]).is_err());
        assert_eq!(state.lock().unwrap().0, [0; 128]);
        rss.rewrite(&[1; 128]).unwrap();
        assert_eq!(state.lock().unwrap().0, [1; 128]);
    }

    #[test]
    fn absent_workers_are_refused() {
        let (mut rss, state) = fake(128, 0);
        assert!(rss.rewrite(&[2; 128]).is_err());
        assert_eq!(state.lock().unwrap().1, 0);
    }
}
