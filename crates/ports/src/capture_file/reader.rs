use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use ebb_units::Time;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::Block;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::{DataLink, PcapError, TsResolution};

use super::CaptureError;

type Source = std::io::Chain<Cursor<Vec<u8>>, File>;

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When it was captured, since 1970.
    pub time: Time,
    /// Kind of link it was captured on, see [`LINKTYPE_ETHERNET`](super::LINKTYPE_ETHERNET).
    pub link_type: u32,
    /// Bytes it had on the wire, of which the file may hold fewer.
    pub original_len: u32,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Iterates over the packets of a .pcap or .pcapng file, of whatever link type.
///
/// The first error ends the iteration.
pub struct CaptureReader {
    path: PathBuf,
    format: Format,
    number: u64,
    ended: bool,
}

enum Format {
    Pcap(PcapReader<Source>),
    PcapNg(Box<PcapNgReader<Source>>),
}

impl CaptureReader {
    /// Opens a capture.
    ///
    /// # Errors
    /// When the file can't be read or is not a capture.
    pub fn open(path: &Path) -> Result<CaptureReader, CaptureError> {
        let open = |source| CaptureError::Open { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(open)?;
        let mut magic = Vec::with_capacity(4);
        (&mut file).take(4).read_to_end(&mut magic).map_err(open)?;
        let is_pcapng = magic == [0x0a, 0x0d, 0x0d, 0x0a];
        let source = Cursor::new(magic).chain(file);
        let wrong =
            |e: PcapError| CaptureError::NotACapture { path: path.to_owned(), what: describe(&e) };
        let format = if is_pcapng {
            Format::PcapNg(Box::new(PcapNgReader::new(source).map_err(wrong)?))
        } else {
            Format::Pcap(PcapReader::new(source).map_err(wrong)?)
        };
        Ok(CaptureReader { path: path.to_owned(), format, number: 0, ended: false })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Link type of the whole file; `None` for .pcapng files, where every packet has its own.
    pub fn link_type(&self) -> Option<u32> {
        match &self.format {
            Format::Pcap(reader) => Some(u32::from(reader.header().datalink)),
            Format::PcapNg(_) => None,
        }
    }

    /// Packets read so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The error for a packet that is not an Ethernet frame.
    pub fn not_ethernet(&self, link_type: u32) -> CaptureError {
        CaptureError::NotEthernet {
            path: self.path.clone(),
            number: self.number,
            link_type,
            name: format!("{:?}", DataLink::from(link_type)),
        }
    }

    fn read(&mut self) -> Option<Result<Captured, PcapError>> {
        match &mut self.format {
            Format::Pcap(reader) => {
                let header = reader.header();
                let fraction = match header.ts_resolution {
                    TsResolution::MicroSecond => 1000,
                    TsResolution::NanoSecond => 1,
                };
                Some(reader.next_raw_packet()?.map(|packet| Captured {
                    time: Time::from_nanos(
                        u64::from(packet.ts_sec) * 1_000_000_000
                            + u64::from(packet.ts_frac) * fraction,
                    ),
                    link_type: u32::from(header.datalink),
                    original_len: packet.orig_len,
                    data: packet.data.into_owned(),
                }))
            }
            Format::PcapNg(reader) => read_block(reader),
        }
    }
}

/// The next packet of a .pcapng file, other blocks skipped.
fn read_block(reader: &mut PcapNgReader<Source>) -> Option<Result<Captured, PcapError>> {
    loop {
        let (interface, ticks, original_len, data) = match reader.next_block()? {
            Err(error) => return Some(Err(error)),
            Ok(Block::EnhancedPacket(packet)) => {
                // The library takes every timestamp for nanoseconds; the unit is the interface's.
                let ticks = packet.timestamp.as_nanos() as u64;
                (packet.interface_id, Some(ticks), packet.original_len, packet.data.into_owned())
            }
            Ok(Block::Packet(packet)) => (
                u32::from(packet.interface_id),
                Some(packet.timestamp),
                packet.original_len,
                packet.data.into_owned(),
            ),
            Ok(Block::SimplePacket(packet)) => {
                (0, None, packet.original_len, packet.data.into_owned())
            }
            Ok(_) => continue,
        };
        let Some(interface) = reader.interfaces().get(interface as usize) else {
            return Some(Err(PcapError::InvalidInterfaceId(interface)));
        };
        let resolution = interface.options.iter().find_map(|option| match option {
            InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
            _ => None,
        });
        return Some(Ok(Captured {
            time: Time::from_nanos(ticks.map_or(0, |ticks| nanos(ticks, resolution.unwrap_or(6)))),
            link_type: u32::from(interface.linktype),
            original_len,
            data,
        }));
    }
}

/// Nanoseconds of `ticks` in the unit that the option if_tsresol states: a negative power of ten,
/// or of two when the highest bit is set (draft-ietf-opsawg-pcapng section 4.2).
fn nanos(ticks: u64, resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let per_second = match resolution & 0x80 {
        0 => 10u128.checked_pow(exponent),
        _ => 1u128.checked_shl(exponent),
    };
    let nanos = match per_second {
        Some(per_second) => u128::from(ticks) * 1_000_000_000 / per_second,
        None => 0,
    };
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

impl Iterator for CaptureReader {
    type Item = Result<Captured, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let packet = self.read();
        self.ended = !matches!(packet, Some(Ok(_)));
        let packet = packet?;
        self.number += 1;
        Some(packet.map_err(|error| CaptureError::Malformed {
            path: self.path.clone(),
            number: self.number,
            what: describe(&error),
        }))
    }
}

impl std::fmt::Debug for CaptureReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureReader")
            .field("path", &self.path)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

fn describe(error: &PcapError) -> String {
    match error {
        PcapError::IncompleteBuffer => "the file breaks off".to_owned(),
        PcapError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the file breaks off".to_owned()
        }
        PcapError::IoError(e) => e.to_string(),
        PcapError::InvalidField(field) => (*field).to_owned(),
        PcapError::InvalidInterfaceId(id) => format!("interface {id} is not described"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::nanos;

    #[test]
    fn timestamps_follow_the_interface_resolution() {
        assert_eq!(nanos(1_500_000, 6), 1_500_000_000);
        assert_eq!(nanos(7, 9), 7);
        assert_eq!(nanos(3 << 9, 0x80 | 10), 1_500_000_000);
        assert_eq!(nanos(u64::MAX, 0), u64::MAX);
        assert_eq!(nanos(u64::MAX, 0xff), 0);
        assert_eq!(nanos(5, 127), 0);
    }
}
