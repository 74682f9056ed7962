use std::io::Write;

use ebb_units::Time;
use pcap_parser::{LegacyPcapBlock, PcapHeader, ToVec};

use crate::CaptureError;

/// First bytes of a .pcap whose timestamps have nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
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
    /// Begins the capture; `file` is what errors call it.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn new(file: &str, mut sink: W) -> Result<Writer<W>, CaptureError> {
        let header =
            PcapHeader { magic_number: NANOSECONDS, snaplen: SNAPLEN, ..PcapHeader::default() };
        let open = |source| CaptureError::Open { file: file.to_owned(), source };
        let bytes = header.to_vec_raw().map_err(std::io::Error::other).map_err(open)?;
        sink.write_all(&bytes).map_err(open)?;
        Ok(Writer { file: file.to_owned(), sink, number: 0 })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn write(&mut self, time: Time, frame: &[u8]) -> Result<(), CaptureError> {
        self.number += 1;
        let nanos = time.as_nanos();
        let record = LegacyPcapBlock {
            // The format's seconds wrap in 2106.
            ts_sec: (nanos / 1_000_000_000) as u32,
            ts_usec: (nanos % 1_000_000_000) as u32,
            caplen: frame.len() as u32,
            origlen: frame.len() as u32,
            data: frame,
        };
        let bytes = record.to_vec_raw().map_err(std::io::Error::other);
        bytes.and_then(|bytes| self.sink.write_all(&bytes)).map_err(|source| self.error(source))
    }

    /// Frames written so far.
    pub fn number(&self) -> u64 {
        self.number
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
