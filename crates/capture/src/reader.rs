use std::io::Read;

use ebb_units::Time;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGOption, create_reader};

use crate::CaptureError;

/// Bytes read at once; grows as far as a block needs.
const BUFFER: usize = 1 << 16;
/// Longest block that is believed.
const BLOCK_MAX: usize = 1 << 24;
/// The obsolete packet block (draft-ietf-opsawg-pcapng appendix A).
const PACKET_BLOCK: u32 = 2;
/// The bits of a .pcap's link type that are one: those above it describe checksums.
const LINKTYPE_MASK: u32 = 0x03ff_ffff;

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When it was captured, since 1970.
    pub time: Time,
    /// Kind of link it was captured on, see [`LINKTYPE_ETHERNET`](crate::LINKTYPE_ETHERNET).
    pub link_type: u32,
    /// Bytes it had on the wire, of which the file may hold fewer.
    pub original_len: u32,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Iterates over the packets of a .pcap or .pcapng, of whatever link type.
///
/// The first error ends the iteration.
pub struct Reader<'a> {
    file: String,
    blocks: Box<dyn PcapReaderIterator + Send + 'a>,
    section: Section,
    number: u64,
    ended: bool,
}

/// What the blocks before a packet said about it.
#[derive(Default)]
struct Section {
    /// Nanoseconds of a .pcap's fraction of a second.
    fraction: u64,
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Default)]
struct Interface {
    link_type: u32,
    /// The option if_tsresol.
    resolution: u8,
    /// The option if_tsoffset, seconds.
    offset: i64,
}

impl<'a> Reader<'a> {
    /// Reads the beginning of `source`; `file` is what errors call it.
    ///
    /// # Errors
    /// When it is not a capture.
    pub fn new(file: &str, source: impl Read + Send + 'a) -> Result<Reader<'a>, CaptureError> {
        let blocks = create_reader(BUFFER, source).map_err(|error| CaptureError::NotACapture {
            file: file.to_owned(),
            what: match error {
                PcapError::Eof => "it is empty".to_owned(),
                PcapError::Incomplete(_) => "the file breaks off".to_owned(),
                other => describe(&other),
            },
        })?;
        let section = Section::default();
        Ok(Reader { file: file.to_owned(), blocks, section, number: 0, ended: false })
    }

    /// What errors call the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Packets read so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The error for a packet that is not an Ethernet frame.
    pub fn not_ethernet(&self, link_type: u32) -> CaptureError {
        CaptureError::NotEthernet { file: self.file.clone(), number: self.number, link_type }
    }

    fn read(&mut self) -> Option<Result<Captured, String>> {
        let mut room = BUFFER;
        loop {
            let refill = match self.blocks.next() {
                Ok((len, block)) => {
                    let packet = self.section.take(&block);
                    self.blocks.consume(len);
                    match packet {
                        None => continue,
                        some => return some,
                    }
                }
                Err(PcapError::Eof) => return None,
                Err(PcapError::Incomplete(_)) => self.blocks.refill(),
                Err(PcapError::BufferTooSmall) if room < BLOCK_MAX => {
                    room *= 2;
                    self.blocks.grow(room);
                    self.blocks.refill()
                }
                Err(error) => Err(error),
            };
            if let Err(error) = refill {
                return Some(Err(describe(&error)));
            }
        }
    }
}

impl Section {
    /// Takes a block in; gives its packet, if it has one.
    fn take(&mut self, block: &PcapBlockOwned<'_>) -> Option<Result<Captured, String>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.fraction = if header.is_nanosecond_precision() { 1 } else { 1000 };
                let link_type = header.network.0 as u32 & LINKTYPE_MASK;
                self.interfaces = vec![Interface { link_type, ..Interface::default() }];
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let fraction = u64::from(packet.ts_usec) * self.fraction;
                let nanos = u64::from(packet.ts_sec) * 1_000_000_000 + fraction;
                Some(Ok(self.captured(0, nanos, packet.origlen, packet.data)?))
            }
            PcapBlockOwned::NG(block) => self.take_ng(block),
        }
    }

    fn take_ng(&mut self, block: &Block<'_>) -> Option<Result<Captured, String>> {
        match block {
            Block::SectionHeader(header) => {
                self.big_endian = header.big_endian();
                self.interfaces.clear();
                None
            }
            Block::InterfaceDescription(interface) => {
                self.interfaces.push(Interface {
                    link_type: interface.linktype.0 as u32,
                    resolution: interface.if_tsresol,
                    offset: self.offset(&interface.options),
                });
                None
            }
            Block::EnhancedPacket(packet) => {
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let data = &packet.data[..packet.data.len().min(packet.caplen as usize)];
                Some(self.packet(packet.if_id, Some(ticks), packet.origlen, data))
            }
            Block::SimplePacket(packet) => {
                // The padding is only to be told by the packet's length.
                let data = &packet.data[..packet.data.len().min(packet.origlen as usize)];
                Some(self.packet(0, None, packet.origlen, data))
            }
            Block::Unknown(block) if self.word(block.block_type.to_le_bytes()) == PACKET_BLOCK => {
                Some(self.obsolete(block.data))
            }
            _ => None,
        }
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// The option if_tsoffset; the library's own takes no account of the byte order.
    fn offset(&self, options: &[PcapNGOption<'_>]) -> i64 {
        let option = options.iter().find(|option| option.code == OptionCode::IfTsoffset);
        let bytes = option.and_then(|option| option.value.first_chunk::<8>());
        let of = if self.big_endian { i64::from_be_bytes } else { i64::from_le_bytes };
        bytes.map_or(0, |bytes| of(*bytes))
    }

    /// The obsolete packet block's fields: interface and drops, time, lengths, bytes.
    fn obsolete(&self, body: &[u8]) -> Result<Captured, String> {
        let short = || "a packet block is too short".to_owned();
        let (fixed, data) = body.split_at_checked(20).ok_or_else(short)?;
        let word = |at: usize| self.word([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let interface = if self.big_endian { word(0) >> 16 } else { word(0) & 0xffff };
        let ticks = u64::from(word(4)) << 32 | u64::from(word(8));
        let data = data.get(..word(12) as usize).ok_or_else(short)?;
        self.packet(interface, Some(ticks), word(16), data)
    }

    fn packet(
        &self,
        interface: u32,
        ticks: Option<u64>,
        original_len: u32,
        data: &[u8],
    ) -> Result<Captured, String> {
        let found = self.interfaces.get(interface as usize);
        let nanos = found.and_then(|of| ticks.map(|ticks| nanos(ticks, of.resolution, of.offset)));
        self.captured(interface, nanos.unwrap_or(0), original_len, data)
            .ok_or_else(|| format!("interface {interface} is not described"))
    }

    fn captured(
        &self,
        interface: u32,
        nanos: u64,
        original_len: u32,
        data: &[u8],
    ) -> Option<Captured> {
        let link_type = self.interfaces.get(interface as usize)?.link_type;
        let time = Time::from_nanos(nanos);
        Some(Captured { time, link_type, original_len, data: data.to_vec() })
    }
}

/// Nanoseconds of `ticks` in the unit that the option if_tsresol states: a negative power of ten,
/// or of two when the highest bit is set; `offset` seconds later (draft-ietf-opsawg-pcapng
/// section 4.2).
fn nanos(ticks: u64, resolution: u8, offset: i64) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let per_second = match resolution & 0x80 {
        0 => 10u128.checked_pow(exponent),
        _ => 1u128.checked_shl(exponent),
    };
    let nanos = match per_second {
        Some(per_second) => u128::from(ticks) * 1_000_000_000 / per_second,
        None => 0,
    };
    let shifted = nanos as i128 + i128::from(offset) * 1_000_000_000;
    u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
}

impl Iterator for Reader<'_> {
    type Item = Result<Captured, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let packet = self.read();
        self.ended = !matches!(packet, Some(Ok(_)));
        let packet = packet?;
        self.number += 1;
        Some(packet.map_err(|what| CaptureError::Malformed {
            file: self.file.clone(),
            number: self.number,
            what,
        }))
    }
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Reader { file, number, .. } = self;
        f.debug_struct("Reader").field("file", file).field("number", number).finish_non_exhaustive()
    }
}

fn describe<I>(error: &PcapError<I>) -> String {
    match error {
        PcapError::UnexpectedEof | PcapError::Eof | PcapError::Incomplete(_) => {
            "the file breaks off"
        }
        PcapError::BufferTooSmall => "it is said to be longer than 16 MiB",
        PcapError::ReadError => "the file can't be read on",
        PcapError::HeaderNotRecognized => "its first bytes are not those of one",
        PcapError::NomError(..) | PcapError::OwnedNomError(..) => {
            "its fields contradict each other"
        }
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::nanos;

    #[test]
    fn timestamps_follow_the_interface_resolution() {
        assert_eq!(nanos(1_500_000, 6, 0), 1_500_000_000);
        assert_eq!(nanos(7, 9, 0), 7);
        assert_eq!(nanos(3 << 9, 0x80 | 10, 0), 1_500_000_000);
        assert_eq!(nanos(u64::MAX, 0, 0), u64::MAX);
        assert_eq!(nanos(u64::MAX, 0xff, 0), 0);
        assert_eq!(nanos(5, 127, 0), 0);
        assert_eq!(nanos(5, 9, 2), 2_000_000_005);
        assert_eq!(nanos(5, 9, -2), 0);
    }
}
