//! Capture files as ports: opening them, and a [`Port`](crate::Port) over both directions.
//!
//! The format itself is in `ebb-capture`.

mod port;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

pub use ebb_capture::{CaptureError, Direction, Interface, LINKTYPE_ETHERNET};

pub use port::CapturePort;

/// An open capture.
pub type CaptureReader = ebb_capture::Reader<'static>;
/// A capture being written.
pub type CaptureWriter = ebb_capture::Writer<BufWriter<File>>;

/// Opens a .pcap or .pcapng.
///
/// # Errors
/// When the file can't be read or is not a capture.
pub fn open(path: &Path) -> Result<CaptureReader, CaptureError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(source) => CaptureReader::new(&file, BufReader::new(source)),
        Err(source) => Err(CaptureError::Open { file, source }),
    }
}

/// Creates or replaces a .pcap, or a .pcapng of `interface` where the name ends so.
///
/// # Errors
/// When the file can't be created.
pub fn create(path: &Path, interface: &Interface) -> Result<CaptureWriter, CaptureError> {
    let file = path.display().to_string();
    match File::create(path) {
        Ok(sink) if path.extension().is_some_and(|it| it.eq_ignore_ascii_case("pcapng")) => {
            let interfaces = std::slice::from_ref(interface);
            CaptureWriter::with_interfaces(&file, BufWriter::new(sink), "ebb", interfaces)
        }
        Ok(sink) => CaptureWriter::new(&file, BufWriter::new(sink)),
        Err(source) => Err(CaptureError::Open { file, source }),
    }
}
