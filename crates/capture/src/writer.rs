//! Writes captures: .pcap, and .pcapng with what it says beside the packets.

use std::io::Write;

use ebb_units::Time;

use crate::reader::{BYTE_ORDER, ENHANCED_PACKET, INTERFACE, NANOSECONDS, SECTION_HEADER, TSRESOL};
use crate::{CaptureError, LINKTYPE_ETHERNET};

/// Longest packet that readers are to expect.
const SNAPLEN: u32 = 65_535;
/// Options of all blocks, of sections, interfaces and packets (draft-ietf-opsawg-pcapng sections 3.5, 4.1 to 4.3).
const COMMENT: u16 = 1;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_FILTER: u16 = 11;
const PACKET_FLAGS: u16 = 2;
/// Longest text of an option.
const TEXT_MAX: usize = 65_532;

/// Which way packets of an interface went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Nothing is said of it.
    #[default]
    Unknown,
    /// They came in.
    Inbound,
    /// They went out.
    Outbound,
}

/// What a .pcapng says of the interface on which its packets were captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name; empty for none.
    pub name: String,
    /// Which packets were taken, as tcpdump writes it; empty for all.
    pub filter: String,
    /// Anything else; empty for nothing.
    pub comment: String,
    /// Which way they went.
    pub direction: Direction,
}

/// Writes Ethernet frames as a .pcap or .pcapng, both with nanosecond timestamps.
#[derive(Debug)]
pub struct Writer<W: Write> {
    file: String,
    sink: W,
    number: u64,
    /// Of a .pcapng.
    interfaces: Option<Vec<Direction>>,
}

impl<W: Write> Writer<W> {
    /// Begins a .pcap; `file` is what errors call it. Writes in small pieces: give it a buffered
    /// sink.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn new(file: &str, mut sink: W) -> Result<Writer<W>, CaptureError> {
        // Version 2.4, no time zone, no accuracy.
        let header = [NANOSECONDS, 4 << 16 | 2, 0, 0, SNAPLEN, LINKTYPE_ETHERNET];
        let open = |source| CaptureError::Open { file: file.to_owned(), source };
        sink.write_all(header.map(u32::to_le_bytes).as_flattened()).map_err(open)?;
        Ok(Writer { file: file.to_owned(), sink, number: 0, interfaces: None })
    }

    /// Begins a .pcapng of these interfaces, written by `application`.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn with_interfaces(
        file: &str,
        mut sink: W,
        application: &str,
        interfaces: &[Interface],
    ) -> Result<Writer<W>, CaptureError> {
        let open = |source| CaptureError::Open { file: file.to_owned(), source };
        let mut header = Block::new(u32::from_le_bytes(SECTION_HEADER));
        // Version 1.0, of a length that is not known.
        [BYTE_ORDER, 1, u32::MAX, u32::MAX].into_iter().for_each(|word| header.word(word));
        header.text(USER_APPLICATION, application);
        sink.write_all(&header.end()).map_err(open)?;
        for Interface { name, filter, comment, .. } in interfaces {
            let mut block = Block::new(INTERFACE);
            [LINKTYPE_ETHERNET, SNAPLEN].into_iter().for_each(|word| block.word(word));
            block.text(COMMENT, comment);
            block.text(INTERFACE_NAME, name);
            // Units of 10^-9 s.
            block.option(TSRESOL, &[9]);
            if !filter.is_empty() {
                // A leading 0 says that it is text.
                block.option(INTERFACE_FILTER, &[&[0], cut(filter).as_bytes()].concat());
            }
            sink.write_all(&block.end()).map_err(open)?;
        }
        let directions = interfaces.iter().map(|interface| interface.direction).collect();
        Ok(Writer { file: file.to_owned(), sink, number: 0, interfaces: Some(directions) })
    }

    /// Appends a frame, of the first interface.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn write(&mut self, time: Time, frame: &[u8]) -> Result<(), CaptureError> {
        self.write_on(0, time, frame, "")
    }

    /// Appends a frame of an interface with a comment, empty for none; a .pcap keeps neither.
    ///
    /// # Errors
    /// When the sink refuses.
    ///
    /// # Panics
    /// When there is no such interface.
    pub fn write_on(
        &mut self,
        interface: u32,
        time: Time,
        frame: &[u8],
        comment: &str,
    ) -> Result<(), CaptureError> {
        self.number += 1;
        let (nanos, len) = (time.as_nanos(), frame.len() as u32);
        let Some(interfaces) = &self.interfaces else {
            // The format's seconds wrap in 2106.
            let record = [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, len, len];
            let head = self.sink.write_all(record.map(u32::to_le_bytes).as_flattened());
            return head
                .and_then(|()| self.sink.write_all(frame))
                .map_err(|source| self.error(source));
        };
        let mut block = Block::new(ENHANCED_PACKET);
        let words = [interface, (nanos >> 32) as u32, nanos as u32, len, len];
        words.into_iter().for_each(|word| block.word(word));
        block.padded(frame);
        block.text(COMMENT, comment);
        let direction = match interfaces[interface as usize] {
            Direction::Unknown => 0u32,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        if direction > 0 {
            block.option(PACKET_FLAGS, &direction.to_le_bytes());
        }
        self.sink.write_all(&block.end()).map_err(|source| self.error(source))
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

/// As much of a text as an option has room for.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// A block of a .pcapng in the making.
struct Block {
    bytes: Vec<u8>,
    has_options: bool,
}

impl Block {
    fn new(kind: u32) -> Block {
        let mut block = Block { bytes: Vec::new(), has_options: false };
        // The length follows at the end.
        [kind, 0].into_iter().for_each(|word| block.word(word));
        block
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.has_options = true;
        self.bytes.extend(code.to_le_bytes());
        self.bytes.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    /// An option, unless it is empty.
    fn text(&mut self, code: u16, text: &str) {
        if !text.is_empty() {
            self.option(code, cut(text).as_bytes());
        }
    }

    fn end(mut self) -> Vec<u8> {
        if self.has_options {
            self.word(0);
        }
        let len = self.bytes.len() as u32 + 4;
        self.bytes[4..8].copy_from_slice(&len.to_le_bytes());
        self.word(len);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    /// Names, comments and times of two interfaces, as readers of others' programs see them in `tests`.
    #[test]
    fn packets_of_several_interfaces_come_back() {
        let (mut file, names) = (Vec::new(), ["eth1", ""]);
        let interfaces =
            names.map(|name| Interface { name: name.to_owned(), ..Interface::default() });
        let mut writer =
            Writer::with_interfaces("m", &mut file, "ebb", &interfaces).expect("memory");
        let long = "é".repeat(40_000);
        for (turn, (len, comment)) in
            [(60, "lost"), (61, ""), (1514, long.as_str())].into_iter().enumerate()
        {
            let time = Time::from_nanos(1_700_000_000_123_456_789 + turn as u64);
            writer
                .write_on(turn as u32 % 2, time, &vec![turn as u8; len], comment)
                .expect("memory");
        }
        writer.finish().expect("memory");
        let read: Vec<_> =
            Reader::new("m", &file[..]).expect("a capture").map(Result::unwrap).collect();
        let seen: Vec<_> =
            read.iter().map(|it| (it.time.as_nanos() % 10, it.data.len(), it.link_type)).collect();
        assert_eq!(seen, [(9, 60, 1), (0, 61, 1), (1, 1514, 1)]);
        assert!(read.iter().all(|packet| packet.original_len as usize == packet.data.len()));
    }
}
