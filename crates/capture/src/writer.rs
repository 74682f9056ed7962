//! Writes pcap files.

use std::io::Write;

use ebb_units::Time;

use crate::reader::NANOSECONDS;
use crate::{CaptureError, LINKTYPE_ETHERNET};

/// Longest packet that readers are to expect.
const SNAPLEN: u32 = 65_535;

/// Writes Ethernet frames as a .pcap with nanosecond timestamps.
#[derive(Debug)]
pub struct Writer<W: Write> {
    file: String,
    sink: W,
    number: u64,
}

impl<W: Write> Writer<W> {
    /// Begins the capture; `file` is what errors call it. Writes in small pieces: give it a buffered
    /// sink.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn new(file: &str, mut sink: W) -> Result<Writer<W>, CaptureError> {
        // Version 2.4, no time zone, no accuracy.
        let header = [NANOSECONDS, 4 << 16 | 2, 0, 0, SNAPLEN, LINKTYPE_ETHERNET];
        let open = |source| CaptureError::Open { file: file.to_owned(), source };
        sink.write_all(header.map(u32::to_le_bytes).as_flattened()).map_err(open)?;
        Ok(Writer { file: file.to_owned(), sink, number: 0 })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn write(&mut self, time: Time, frame: &[u8]) -> Result<(), CaptureError> {
        self.number += 1;
        let (nanos, len) = (time.as_nanos(), frame.len() as u32);
        // The format's seconds wrap in 2106.
        let record = [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, len, len];
        let head = self.sink.write_all(record.map(u32::to_le_bytes).as_flattened());
        head.and_then(|()| self.sink.write_all(frame)).map_err(|source| self.error(source))
    }

    /// Writes everything out.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        self.sink.flush().map_err(|source| self.error(source))
    }

    fn error(&self, source: std::io::Error) -> CaptureError {
        CaptureError::Write { file: self.file.clone(), number: self.number, source }
    }
}
