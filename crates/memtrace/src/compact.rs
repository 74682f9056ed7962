//! The compact format: what `ebb trace record` and `convert` write.
//!
//! | part | bytes |
//! |---|---|
//! | magic | `EBBMEM1\n` |
//! | records | see below |
//! | end | `0xff`, then the number of records as a varint |
//!
//! All of it may be packed with zstd, and is by [`Writer`]. A record is a byte of flags and then the
//! varints (LEB128, 7 bits a byte, least significant first) that the flags ask for, in this order:
//!
//! | bits of the first byte | meaning |
//! |---|---|
//! | 0-1 | 0 read, 1 write, 2 fetch |
//! | 2-4 | size: 1, 2, 4, 8, 16, 32, 64 bytes; 7: a varint says |
//! | 5 | instructions are not 1: a varint says |
//! | 6 | depends on an earlier read: a varint says on which (1: the last) |
//! | 7 | the thread changes: a varint says to which |
//!
//! The last varint is the address as the difference to the address before of the same thread and
//! kind, zigzag coded (0, -1, 1, -2, ...), modulo 2^64. `0xff` is no record: its kind would be 3.

use std::io::{self, Write};

use crate::source::Source;
use crate::{Access, Kind, TraceError};

/// What a compact trace begins with when unpacked.
pub const MAGIC: &[u8] = b"EBBMEM1\n";
const END: u8 = 0xff;
const SIZES: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
/// zstd's own default: about 500 MB/s on one core.
const LEVEL: i32 = 3;

const INSTRUCTIONS: u8 = 1 << 5;
const AFTER: u8 = 1 << 6;
const THREAD: u8 = 1 << 7;

/// The last address of each thread and kind.
#[derive(Default)]
struct Last(Vec<[u64; 3]>);

impl Last {
    #[inline]
    fn of(&mut self, thread: u16, kind: Kind) -> &mut u64 {
        let thread = usize::from(thread);
        if thread >= self.0.len() {
            self.0.resize(thread + 1, [0; 3]);
        }
        &mut self.0[thread][kind as usize]
    }
}

/// Writes a compact trace, packed with zstd.
pub struct Writer<W: Write> {
    out: zstd::stream::write::Encoder<'static, W>,
    buffer: Vec<u8>,
    last: Last,
    thread: u16,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(out: W) -> io::Result<Writer<W>> {
        let out = zstd::stream::write::Encoder::new(out, LEVEL)?;
        let buffer = MAGIC.to_vec();
        Ok(Writer { out, buffer, last: Last::default(), thread: 0, records: 0 })
    }

    /// Adds a reference.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn push(&mut self, access: Access) -> io::Result<()> {
        let size = SIZES.iter().position(|&size| size == access.size);
        let mut flags = access.kind as u8 | (size.unwrap_or(7) as u8) << 2;
        for (said, bit) in [
            (access.instructions != 1, INSTRUCTIONS),
            (access.after != 0, AFTER),
            (access.thread != self.thread, THREAD),
        ] {
            flags |= if said { bit } else { 0 };
        }
        self.buffer.push(flags);
        let buffer = &mut self.buffer;
        if size.is_none() {
            varint(buffer, access.size.into());
        }
        if flags & INSTRUCTIONS != 0 {
            varint(buffer, access.instructions.into());
        }
        if flags & AFTER != 0 {
            varint(buffer, access.after.into());
        }
        if flags & THREAD != 0 {
            varint(buffer, access.thread.into());
            self.thread = access.thread;
        }
        let last = self.last.of(access.thread, access.kind);
        let step = access.address.wrapping_sub(*last) as i64;
        varint(buffer, (step << 1 ^ step >> 63) as u64);
        *last = access.address;
        self.records += 1;
        if self.buffer.len() >= 1 << 16 {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// How many references were added.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.buffer.push(END);
        varint(&mut self.buffer, self.records);
        self.out.write_all(&self.buffer)?;
        self.out.finish()
    }
}

fn varint(buffer: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

/// The references of a compact trace.
pub(crate) struct Unpacked {
    last: Last,
    thread: u16,
    records: u64,
    ended: bool,
}

impl Unpacked {
    pub(crate) fn start(source: &mut Source<'_>) -> Result<Unpacked, TraceError> {
        for expected in MAGIC {
            if source.byte()? != Some(*expected) {
                return Err(
                    source.fault_here("not a compact trace: it does not begin with EBBMEM1")
                );
            }
        }
        Ok(Unpacked { last: Last::default(), thread: 0, records: 0, ended: false })
    }

    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let flags = byte(source)?;
        if flags == END {
            self.ended = true;
            return self.end(source);
        }
        let kind = match flags & 3 {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Fetch,
            _ => return Err(source.fault_back(1, format!("no record begins with {flags:#04x}"))),
        };
        let size = match SIZES.get(usize::from(flags >> 2 & 7)) {
            Some(size) => *size,
            None => small(source, "a size")?.max(1),
        };
        let instructions = if flags & INSTRUCTIONS == 0 {
            1
        } else {
            let value = number(source)?;
            let wide = |_| source.fault_back(1, "more than 2^32 instructions");
            u32::try_from(value).map_err(wide)?
        };
        let after = if flags & AFTER == 0 { 0 } else { small(source, "a distance")? };
        if flags & THREAD != 0 {
            self.thread = small(source, "a thread")?;
        }
        let step = number(source)?;
        let step = (step >> 1) as i64 ^ -((step & 1) as i64);
        let last = self.last.of(self.thread, kind);
        *last = last.wrapping_add(step as u64);
        self.records += 1;
        let (address, thread) = (*last, self.thread);
        Ok(Some(Access { address, instructions, size, after, thread, kind }))
    }

    fn end(&self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        let said = number(source)?;
        if said != self.records {
            let message = format!("{} references, but its end declares {said}", self.records);
            return Err(source.fault_back(1, message));
        }
        match source.byte()? {
            None => Ok(None),
            Some(_) => Err(source.fault_back(1, "there are more bytes after its end")),
        }
    }
}

fn byte(source: &mut Source<'_>) -> Result<u8, TraceError> {
    let next = source.byte()?;
    next.ok_or_else(|| source.fault_here("the trace is truncated"))
}

fn small(source: &mut Source<'_>, what: &str) -> Result<u16, TraceError> {
    let value = number(source)?;
    u16::try_from(value).map_err(|_| source.fault_back(1, format!("{what} of {value}")))
}

fn number(source: &mut Source<'_>) -> Result<u64, TraceError> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let next = byte(source)?;
        let part = u64::from(next & 0x7f);
        if shift == 63 && next > 1 {
            break;
        }
        value |= part << shift;
        if next < 0x80 {
            return Ok(value);
        }
    }
    Err(source.fault_back(1, "a number has more than 64 bits"))
}
