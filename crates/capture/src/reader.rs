//! Reads capture files, pcap and pcapng.

use std::io::{self, Read};

use ebb_units::Time;

use crate::CaptureError;
use crate::bytes::{Order, options};

/// First four bytes of a .pcapng, alike in both byte orders.
pub(crate) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// What a section begins with tells its byte order.
pub(crate) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Numbers of blocks (draft-ietf-opsawg-pcapng section 10.1), the obsolete one included.
pub(crate) const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;
/// Options of an interface.
pub(crate) const TSRESOL: u16 = 9;
const TSOFFSET: u16 = 14;
/// First four bytes of a .pcap: with microseconds, with nanoseconds, and with records eight bytes
/// longer.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
pub(crate) const NANOSECONDS: u32 = 0xa1b2_3c4d;
const LONGER_RECORDS: u32 = 0xa1b2_cd34;
/// The bits of a .pcap's link type that are one: those above it describe checksums.
const LINKTYPE_MASK: u32 = 0x03ff_ffff;
/// Longest block or packet that is believed.
const LEN_MAX: u32 = 1 << 26;

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
    source: Box<dyn Read + Send + 'a>,
    format: Format,
    /// The block or record being read.
    buffer: Vec<u8>,
    number: u64,
    ended: bool,
}

enum Format {
    Pcap(Pcap),
    PcapNg(Section),
}

/// What a .pcap says at its beginning.
struct Pcap {
    order: Order,
    /// Nanoseconds of the fraction of a second.
    fraction: u64,
    /// Bytes before a packet's own.
    record_len: usize,
    link_type: u32,
}

/// What the blocks before a packet said about it.
struct Section {
    order: Order,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: u32,
    snaplen: u32,
    /// The option if_tsresol.
    resolution: u8,
    /// The option if_tsoffset, seconds.
    offset: i64,
}

impl<'a> Reader<'a> {
    /// Reads the beginning of `source`; `file` is what errors call it. Reads in small pieces: give
    /// it a buffered source.
    ///
    /// # Errors
    /// When it is not a capture.
    pub fn new(file: &str, source: impl Read + Send + 'a) -> Result<Reader<'a>, CaptureError> {
        let mut reader = Reader {
            file: file.to_owned(),
            source: Box::new(source),
            format: Format::PcapNg(Section { order: Order::Little, interfaces: Vec::new() }),
            buffer: Vec::new(),
            number: 0,
            ended: false,
        };
        reader.begin().map_err(|what| CaptureError::NotACapture { file: file.to_owned(), what })?;
        Ok(reader)
    }

    /// The error for a packet that is not an Ethernet frame.
    pub fn not_ethernet(&self, link_type: u32) -> CaptureError {
        CaptureError::NotEthernet { file: self.file.clone(), number: self.number, link_type }
    }

    fn begin(&mut self) -> Result<(), String> {
        if !self.fill(4)? {
            return Err("the file is empty".to_owned());
        }
        let magic: [u8; 4] = self.buffer[..4].try_into().expect("four bytes");
        if magic == SECTION_HEADER {
            self.fill_all(4)?;
            let len = self.buffer[..4].try_into().expect("four bytes");
            return self.section(len);
        }
        let known = |magic| [MICROSECONDS, NANOSECONDS, LONGER_RECORDS].contains(&magic);
        let orders = [Order::Little, Order::Big];
        let order = orders.into_iter().find(|order| known(order.word(magic)));
        let order = order.ok_or("the first bytes are wrong")?;
        self.fill_all(20)?;
        let longer = order.word(magic) == LONGER_RECORDS;
        self.format = Format::Pcap(Pcap {
            order,
            fraction: if order.word(magic) == NANOSECONDS { 1 } else { 1000 },
            record_len: if longer { 24 } else { 16 },
            link_type: order.word_at(&self.buffer, 16).expect("20 bytes") & LINKTYPE_MASK,
        });
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Captured>, String> {
        match &self.format {
            Format::Pcap(_) => self.read_record(),
            Format::PcapNg(_) => self.read_blocks(),
        }
    }

    /// The next packet of a .pcap.
    fn read_record(&mut self) -> Result<Option<Captured>, String> {
        let Format::Pcap(Pcap { order, fraction, record_len, link_type }) = self.format else {
            return Ok(None);
        };
        if !self.fill(record_len)? {
            return Ok(None);
        }
        let word = |at| order.word_at(&self.buffer, at).expect("16 bytes");
        let (seconds, part, len, original_len) = (word(0), word(4), word(8), word(12));
        self.fill_all(believable(len)?)?;
        let nanos = u64::from(seconds) * 1_000_000_000 + u64::from(part) * fraction;
        let data = std::mem::take(&mut self.buffer);
        Ok(Some(Captured { time: Time::from_nanos(nanos), link_type, original_len, data }))
    }

    /// The next packet of a .pcapng, other blocks skipped.
    fn read_blocks(&mut self) -> Result<Option<Captured>, String> {
        while self.fill(8)? {
            let [kind, len] = [0, 4]
                .map(|at| <[u8; 4]>::try_from(&self.buffer[at..at + 4]).expect("eight bytes"));
            if kind == SECTION_HEADER {
                self.section(len)?;
                continue;
            }
            let Format::PcapNg(Section { order, .. }) = &self.format else { break };
            let (order, kind) = (*order, order.word(kind));
            let len = order.word(len);
            if len < 12 || !len.is_multiple_of(4) {
                return Err(format!("a block has the invalid length {len}"));
            }
            self.fill_all(believable(len)? - 8)?;
            let (body, again) = self.buffer.split_at(self.buffer.len() - 4);
            if order.word_at(again, 0) != Some(len) {
                return Err("the two lengths of a block differ".to_owned());
            }
            let Format::PcapNg(section) = &mut self.format else { break };
            if let Some(packet) = section.block(kind, body)? {
                return Ok(Some(packet));
            }
        }
        Ok(None)
    }

    /// The rest of a section header, whose length stood in the bytes `len`.
    fn section(&mut self, len: [u8; 4]) -> Result<(), String> {
        self.fill_all(4)?;
        let magic = self.buffer[..4].try_into().expect("four bytes");
        let orders = [Order::Little, Order::Big];
        let order = orders.into_iter().find(|order| order.word(magic) == BYTE_ORDER);
        let order = order.ok_or("the byte order of a section is unknown")?;
        let len = order.word(len);
        if len < 28 {
            return Err(format!("the header of a section has the invalid length {len}"));
        }
        self.fill_all(believable(len)? - 12)?;
        self.format = Format::PcapNg(Section { order, interfaces: Vec::new() });
        Ok(())
    }

    /// Reads `len` bytes into the buffer; false when nothing is left.
    fn fill(&mut self, len: usize) -> Result<bool, String> {
        self.buffer.clear();
        let read = self.source.by_ref().take(len as u64).read_to_end(&mut self.buffer);
        match read {
            Ok(0) if len > 0 => Ok(false),
            Ok(read) if read == len => Ok(true),
            Ok(_) => Err("the file is truncated".to_owned()),
            Err(error) => Err(broken(&error)),
        }
    }

    fn fill_all(&mut self, len: usize) -> Result<(), String> {
        if self.fill(len)? { Ok(()) } else { Err("the file is truncated".to_owned()) }
    }
}

impl Section {
    /// Takes a block in; gives its packet, if it has one.
    fn block(&mut self, kind: u32, body: &[u8]) -> Result<Option<Captured>, String> {
        let order = self.order;
        let word = |at| order.word_at(body, at).ok_or("a block is too short");
        match kind {
            INTERFACE => {
                self.interfaces.push(Interface::read(order, body, word(4)?));
                Ok(None)
            }
            ENHANCED_PACKET | PACKET => {
                let interface = match kind {
                    PACKET => u32::from(order.half_at(body, 0).ok_or("a block is too short")?),
                    _ => word(0)?,
                };
                let ticks = u64::from(word(4)?) << 32 | u64::from(word(8)?);
                let data = body[20.min(body.len())..].get(..word(12)? as usize);
                let data = data.ok_or("a packet is longer than its block")?;
                self.packet(interface, Some(ticks), word(16)?, data).map(Some)
            }
            SIMPLE_PACKET => {
                let original_len = word(0)?;
                let snaplen = self.interfaces.first().map_or(0, |interface| interface.snaplen);
                let len = if snaplen == 0 { original_len } else { original_len.min(snaplen) };
                let data = &body[4..];
                let data = &data[..data.len().min(len as usize)];
                self.packet(0, None, original_len, data).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn packet(
        &self,
        interface: u32,
        ticks: Option<u64>,
        original_len: u32,
        data: &[u8],
    ) -> Result<Captured, String> {
        let found = self.interfaces.get(interface as usize);
        let found =
            found.ok_or_else(|| format!("interface {interface} has no description block"))?;
        let nanos = ticks.map_or(0, |ticks| nanos(ticks, found.resolution, found.offset));
        Ok(Captured {
            time: Time::from_nanos(nanos),
            link_type: found.link_type,
            original_len,
            data: data.to_vec(),
        })
    }
}

impl Interface {
    fn read(order: Order, body: &[u8], snaplen: u32) -> Interface {
        let link_type = u32::from(order.half_at(body, 0).unwrap_or(0));
        let mut interface = Interface { link_type, snaplen, resolution: 6, offset: 0 };
        for (code, value) in options(order, &body[8..]) {
            match (code, value) {
                (TSRESOL, [resolution]) => interface.resolution = *resolution,
                (TSOFFSET, value) => interface.offset = order.long(value).unwrap_or(0),
                _ => {}
            }
        }
        interface
    }
}

fn believable(len: u32) -> Result<usize, String> {
    match len {
        0..=LEN_MAX => Ok(len as usize),
        _ => Err(format!("it has the invalid length {len}")),
    }
}

fn broken(error: &io::Error) -> String {
    format!("cannot read the file further: {error}")
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
        let packet = self.read().transpose();
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
