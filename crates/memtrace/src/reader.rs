//! The references of a trace, whatever its format.

use std::io::Read;

use crate::champsim::ChampSim;
use crate::compact::Unpacked;
use crate::packets::Packets;
use crate::source::Source;
use crate::text::{Dinero, DynamoRio, Lackey, Memory, Ramulator};
use crate::{Access, Format, TraceError};

/// The references of a trace, one after another.
pub struct Reader<'a> {
    source: Source<'a>,
    how: How,
    format: Format,
    failed: bool,
}

enum How {
    ChampSim(Box<ChampSim>),
    CloudSuite(Box<ChampSim>),
    Lackey(Lackey),
    Dinero(Dinero),
    Ramulator(Ramulator),
    Memory(Memory),
    DynamoRio(DynamoRio),
    Gem5(Packets),
    Compact(Box<Unpacked>),
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, packed or not, of the trace that people call `file`. Without a format, the name
    /// and the first bytes decide.
    ///
    /// # Errors
    /// When the first bytes cannot be read, or are not of that format.
    pub fn new(
        file: &str,
        bytes: impl Read + Send + 'a,
        format: Option<Format>,
    ) -> Result<Reader<'a>, TraceError> {
        let mut source = Source::new(file, bytes)?;
        let detected = Format::detect(file, source.peek()?);
        if source.peek()?.is_empty() {
            return Err(source.fault_here("the file is empty"));
        }
        let format = format.unwrap_or(detected);
        let how = match format {
            Format::ChampSim => How::ChampSim(Box::default()),
            Format::CloudSuite => How::CloudSuite(Box::default()),
            Format::Lackey => How::Lackey(Lackey::default()),
            Format::Dinero => How::Dinero(Dinero::default()),
            Format::Ramulator => How::Ramulator(Ramulator::default()),
            Format::RamulatorMemory => How::Memory(Memory),
            Format::DynamoRio => How::DynamoRio(DynamoRio::default()),
            Format::Gem5 => How::Gem5(Packets::start(&mut source)?),
            Format::Compact => How::Compact(Box::new(Unpacked::start(&mut source)?)),
        };
        Ok(Reader { source, how, format, failed: false })
    }

    /// The same of bytes that `fill` puts into the front of a buffer, 0 only at the end.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn of_chunks(
        file: &str,
        fill: impl FnMut(&mut [u8]) -> Result<usize, String> + Send + 'a,
        format: Option<Format>,
    ) -> Result<Reader<'a>, TraceError> {
        Reader::new(file, Chunks(fill), format)
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether instructions are missing so far, as nothing says how many there are: a reference of which nothing is
    /// said, or a fetch that may be of several, is one instruction. DynamoRIO's log has only those that use the memory.
    pub fn assumes_instructions(&self) -> bool {
        match &self.how {
            How::Lackey(how) => how.assumes(),
            How::Dinero(how) => how.assumes(),
            How::Memory(_) | How::DynamoRio(_) => true,
            How::Gem5(how) => how.assumes(),
            How::ChampSim(_) | How::CloudSuite(_) | How::Ramulator(_) | How::Compact(_) => false,
        }
    }

    /// Instructions that came after the last reference of their thread so far.
    pub fn instructions_since(&self) -> u64 {
        match &self.how {
            How::ChampSim(how) | How::CloudSuite(how) => how.instructions_since(),
            How::Lackey(how) => how.instructions_since(),
            How::Dinero(how) => how.instructions_since(),
            How::DynamoRio(how) => how.instructions_since(),
            How::Gem5(how) => how.instructions_since(),
            How::Ramulator(_) | How::Memory(_) | How::Compact(_) => 0,
        }
    }

    /// The next reference; `None` at the end.
    ///
    /// # Errors
    /// When the trace is damaged; nothing comes after that.
    #[inline]
    pub fn access(&mut self) -> Result<Option<Access>, TraceError> {
        if self.failed {
            return Ok(None);
        }
        let source = &mut self.source;
        let next = match &mut self.how {
            How::ChampSim(how) => how.next(source),
            How::CloudSuite(how) => how.next_cloudsuite(source),
            How::Lackey(how) => how.next(source),
            How::Dinero(how) => how.next(source),
            How::Ramulator(how) => how.next(source),
            How::Memory(how) => how.next(source),
            How::DynamoRio(how) => how.next(source),
            How::Gem5(how) => how.next(source),
            How::Compact(how) => how.next(source),
        };
        self.failed = next.is_err();
        next
    }
}

struct Chunks<F>(F);

impl<F: FnMut(&mut [u8]) -> Result<usize, String>> Read for Chunks<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0(buffer).map_err(std::io::Error::other)
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.access().transpose()
    }
}
