use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ebb_units::Time;
use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness, TsResolution};

use super::CaptureError;

/// Writes Ethernet frames to a .pcap file with nanosecond timestamps.
pub struct CaptureWriter {
    path: PathBuf,
    writer: PcapWriter<BufWriter<File>>,
    number: u64,
}

impl CaptureWriter {
    /// Creates or replaces the file.
    ///
    /// # Errors
    /// When the file can't be created.
    pub fn create(path: &Path) -> Result<CaptureWriter, CaptureError> {
        let open = |source| CaptureError::Open { path: path.to_owned(), source };
        let file = BufWriter::new(File::create(path).map_err(open)?);
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(file, header)
            .map_err(|error| open(std::io::Error::other(error)))?;
        Ok(CaptureWriter { path: path.to_owned(), writer, number: 0 })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&mut self, time: Time, frame: &[u8]) -> Result<(), CaptureError> {
        self.number += 1;
        let nanos = time.as_nanos();
        let packet = RawPcapPacket {
            // The format's seconds wrap in 2106.
            ts_sec: (nanos / 1_000_000_000) as u32,
            ts_frac: (nanos % 1_000_000_000) as u32,
            incl_len: frame.len() as u32,
            orig_len: frame.len() as u32,
            data: frame.into(),
        };
        match self.writer.write_raw_packet(&packet) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// Frames written so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Writes everything out and closes the file.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn finish(self) -> Result<(), CaptureError> {
        let CaptureWriter { path, writer, number } = self;
        let what = |what: String| CaptureError::Write { path: path.clone(), number, what };
        writer.into_writer().flush().map_err(|error| what(error.to_string()))
    }

    fn error(&self, error: &dyn std::fmt::Display) -> CaptureError {
        CaptureError::Write {
            path: self.path.clone(),
            number: self.number,
            what: error.to_string(),
        }
    }
}

impl std::fmt::Debug for CaptureWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureWriter")
            .field("path", &self.path)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
