//! Packet traces of gem5 (`src/proto/packet.proto`, as its communication monitors and memory probes write them).
//!
//! After the letters `gem5` come messages of protocol buffers, the length of each before it: a header, then a
//! packet each. Of a packet the command (1 a read, 4 a write), the address, the size and the flag of instruction
//! fetches are honoured; its tick, identity and program counter have no effect. Other commands have other numbers in
//! every version of gem5, so that they are refused.

use crate::source::Source;
use crate::text::Fetches;
use crate::{Access, Kind, TraceError};

/// How such a trace begins.
pub(crate) const MAGIC: &[u8] = b"gem5";
/// No message is longer.
const MESSAGE_MAX: u64 = 1 << 20;
/// No instruction is longer, in bytes (15 of x86); longer fetches are a core's buffer or a cache's line.
const INSTRUCTION_MAX: u16 = 16;
/// The flag of a request that fetches an instruction (`Request::INST_FETCH`).
const INSTRUCTION_FETCH: u64 = 0x100;

/// The packets.
#[derive(Default)]
pub(crate) struct Packets {
    fetches: Fetches,
}

/// A field of a message: its number, and its value where that is a number.
struct Field {
    number: u64,
    value: Option<u64>,
}

impl Packets {
    /// Reads the letters and the header.
    pub(crate) fn start(source: &mut Source<'_>) -> Result<Packets, TraceError> {
        for letter in MAGIC {
            if source.byte()? != Some(*letter) {
                return Err(source.fault_back(1, "a packet trace begins with the letters gem5"));
            }
        }
        let Some(mut left) = length(source)? else {
            return Err(source.fault_here("the header is missing"));
        };
        let mut frequency = false;
        while left > 0 {
            let field = field(source, &mut left)?;
            frequency |= field.number == 3 && field.value.is_some();
        }
        if !frequency {
            return Err(source.fault_here("the header has no tick frequency (field 3)"));
        }
        Ok(Packets::default())
    }

    pub(crate) fn assumes(&self) -> bool {
        self.fetches.assumed()
    }

    pub(crate) fn instructions_since(&self) -> u64 {
        self.fetches.since()
    }

    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        loop {
            let Some(mut left) = length(source)? else { return Ok(None) };
            let mut fields = [None; 8];
            while left > 0 {
                let Field { number, value } = field(source, &mut left)?;
                let known = (1..=7).contains(&number) && value.is_some();
                if !known {
                    let what = format!("field {number} is none of a packet's");
                    return Err(source.fault_here(what));
                }
                fields[number as usize] = value;
            }
            let [_, Some(_), Some(command), Some(address), Some(size), flags, ..] = fields else {
                let what = "a packet lacks its tick, command, address or size (fields 1 to 4)";
                return Err(source.fault_here(what));
            };
            let Ok(size) = u16::try_from(size) else {
                return Err(source.fault_here(format!("a packet of {size} bytes is too large")));
            };
            let access = match command {
                1 if flags.unwrap_or(0) & INSTRUCTION_FETCH != 0 => {
                    if size > INSTRUCTION_MAX {
                        self.fetches.assume();
                    }
                    match self.fetches.fetch(address, size) {
                        Some(access) => access,
                        None => continue,
                    }
                }
                1 => self.fetches.access(Kind::Read, address, size),
                4 => self.fetches.access(Kind::Write, address, size),
                _ => {
                    let what = format!(
                        "command {command} is neither 1, a read request, nor 4, a write request: record in front \
                         of the caches"
                    );
                    return Err(source.fault_here(what));
                }
            };
            return Ok(Some(access));
        }
    }
}

/// The length of the next message; `None` at the end.
fn length(source: &mut Source<'_>) -> Result<Option<u64>, TraceError> {
    let Some(first) = source.byte()? else { return Ok(None) };
    let mut left = u64::MAX;
    let length = varint(source, first, &mut left)?;
    if length > MESSAGE_MAX {
        return Err(source.fault_here(format!("a message of {length} bytes is too long")));
    }
    Ok(Some(length))
}

/// The next byte of a message that has `left`.
fn byte(source: &mut Source<'_>, left: &mut u64) -> Result<u8, TraceError> {
    *left =
        left.checked_sub(1).ok_or_else(|| source.fault_here("a field ends after its message"))?;
    source.byte()?.ok_or_else(|| source.fault_here("the trace ends inside a message"))
}

/// A number of seven bits a byte, the lowest first.
fn varint(source: &mut Source<'_>, first: u8, left: &mut u64) -> Result<u64, TraceError> {
    let (mut value, mut last) = (u64::from(first & 0x7f), first);
    for place in 1..10 {
        if last & 0x80 == 0 {
            return Ok(value);
        }
        last = byte(source, left)?;
        value |= u64::from(last & 0x7f) << (7 * place);
    }
    match last {
        0 | 1 => Ok(value),
        _ => Err(source.fault_here("a number is longer than 64 bits")),
    }
}

fn number(source: &mut Source<'_>, left: &mut u64) -> Result<u64, TraceError> {
    let first = byte(source, left)?;
    varint(source, first, left)
}

fn field(source: &mut Source<'_>, left: &mut u64) -> Result<Field, TraceError> {
    let tag = number(source, left)?;
    let skipped = match tag & 7 {
        0 => return Ok(Field { number: tag >> 3, value: Some(number(source, left)?) }),
        1 => 8,
        2 => number(source, left)?,
        5 => 4,
        kind => return Err(source.fault_here(format!("there is no kind {kind} of fields"))),
    };
    for _ in 0..skipped {
        byte(source, left)?;
    }
    Ok(Field { number: tag >> 3, value: None })
}

#[cfg(test)]
mod tests {
    use crate::{Access, Format, Kind, Reader, TraceError};
    use proptest::prelude::*;

    fn varint(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    fn message(fields: &[(u64, u64)]) -> Vec<u8> {
        let inner: Vec<u8> = fields
            .iter()
            .flat_map(|(at, value)| [varint(at << 3), varint(*value)].concat())
            .collect();
        [varint(inner.len() as u64), inner].concat()
    }

    /// The header with every field that it may have, then packets.
    fn trace(packets: &[&[(u64, u64)]]) -> Vec<u8> {
        let header = b"\x0a\x03mon\x10\x00\x18\x80\x94\xeb\xdc\x03\x22\x06\x08\x01\x12\x02ab";
        let start = [b"gem5", varint(header.len() as u64).as_slice(), header].concat();
        let packets = packets.iter().flat_map(|packet| message(packet));
        start.into_iter().chain(packets).collect()
    }

    fn all(bytes: &[u8]) -> Result<Vec<Access>, TraceError> {
        Reader::new("system.mon.ptrc", bytes, None)?.collect()
    }

    #[test]
    fn every_field_of_a_packet_is_honoured_or_has_no_effect() {
        let read = all(&trace(&[
            &[(1, 500), (2, 1), (3, 0x1000), (4, 64), (5, 0x100), (6, 9), (7, 0x1000)],
            &[(1, 600), (2, 1), (3, 0x8000_0000_0000_0040), (4, 8)],
            &[(1, 600), (2, 1), (3, 0x1008), (4, 4), (5, 0x100)],
            &[(7, 3), (6, 1), (5, 2), (4, 8), (3, 0x80), (2, 4), (1, 700)],
        ]));
        let access = |kind, address, instructions, size| Access {
            instructions,
            size,
            ..Access::new(kind, address)
        };
        let expected = vec![
            access(Kind::Fetch, 0x1000, 1, 64),
            access(Kind::Read, 0x8000_0000_0000_0040, 0, 8),
            access(Kind::Write, 0x80, 1, 8),
        ];
        assert_eq!(read, Ok(expected));
        let bytes = trace(&[&[(1, 1), (2, 4), (3, 1), (4, 1)]]);
        let mut plain = Reader::new("t", &bytes[..], None).expect("a trace");
        assert_eq!(plain.format(), Format::Gem5);
        assert_eq!(plain.by_ref().map(|it| it.expect("good").instructions).sum::<u32>(), 1);
        assert!(plain.assumes_instructions());
        for (size, assumes) in [(4, false), (16, false), (17, true), (64, true)] {
            let bytes = trace(&[&[(1, 1), (2, 1), (3, 0x1000), (4, size), (5, 0x100)]]);
            let mut fetched = Reader::new("t", &bytes[..], None).expect("a trace");
            assert_eq!(fetched.by_ref().map(|it| it.expect("good").instructions).sum::<u32>(), 1);
            assert_eq!(fetched.assumes_instructions(), assumes, "{size} bytes");
        }
    }

    #[test]
    fn what_is_not_honoured_is_refused() {
        for (packet, words) in [
            (&[(1, 1), (2, 7), (3, 1), (4, 1)][..], "command 7"),
            (&[(1, 1), (2, 1), (3, 1), (4, 1), (8, 1)], "field 8"),
            (&[(1, 1), (2, 1), (4, 1)], "lacks"),
            (&[(1, 1), (2, 1), (3, 1), (4, 1 << 20)], "too large"),
        ] {
            let error = all(&trace(&[packet])).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        let whole = trace(&[&[(1, 1), (2, 1), (3, 1), (4, 1)]]);
        let cut = all(&whole[..whole.len() - 1]).expect_err("cut").to_string();
        assert!(cut.contains("ends inside a message"), "{cut}");
        assert!(all(b"gem5").expect_err("no header").to_string().contains("header"));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = all(&[b"gem5".as_slice(), &bytes].concat());
            let _ = all(&[trace(&[]), bytes].concat());
        }
    }
}
