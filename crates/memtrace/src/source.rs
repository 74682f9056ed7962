//! The unpacked bytes of a trace, with their position.

use std::io::Read;

use crate::TraceError;
use crate::unpack::unpack;

/// How much is held at a time.
const BUFFER: usize = 1 << 18;
/// No line of a trace is longer.
const LINE_MAX: usize = 1 << 12;

/// The unpacked bytes of a trace, by lines or by records, which knows where it is.
pub(crate) struct Source<'a> {
    file: String,
    bytes: Box<dyn Read + Send + 'a>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Of `start`.
    offset: u64,
    line: u64,
    ended: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &str, packed: impl Read + Send + 'a) -> Result<Source<'a>, TraceError> {
        let bytes = unpack(packed).map_err(|error| TraceError {
            file: file.to_owned(),
            offset: 0,
            line: None,
            message: format!("cannot read the file: {error}"),
        })?;
        let buffer = vec![0; BUFFER];
        let file = file.to_owned();
        Ok(Source { file, bytes, buffer, start: 0, end: 0, offset: 0, line: 0, ended: false })
    }

    /// The first bytes, as many as the buffer holds.
    pub(crate) fn peek(&mut self) -> Result<&[u8], TraceError> {
        while self.end < BUFFER && !self.ended {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// The next line without its end; the last need not have one.
    pub(crate) fn line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start + searched..self.end];
            let length = memchr::memchr(b'\n', rest).map(|at| at + searched);
            let (length, whole) = match length {
                Some(length) => (length, length + 1),
                None if self.ended => (self.end - self.start, self.end - self.start),
                None => {
                    searched = self.end - self.start;
                    if searched > LINE_MAX {
                        self.line += 1;
                        return Err(self.fault_here("a line is longer than 4096 bytes"));
                    }
                    self.fill()?;
                    continue;
                }
            };
            if whole == 0 {
                return Ok(None);
            }
            let from = self.start;
            self.start += whole;
            self.offset += whole as u64;
            self.line += 1;
            let line = &self.buffer[from..from + length];
            return Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)));
        }
    }

    /// The next `N` bytes; `None` at the end of the trace.
    pub(crate) fn record<const N: usize>(&mut self) -> Result<Option<&[u8; N]>, TraceError> {
        while self.end - self.start < N {
            if self.ended {
                if self.start == self.end {
                    return Ok(None);
                }
                let left = self.end - self.start;
                let message = format!("the last record has only {left} of {N} bytes");
                return Err(self.fault_at(self.offset + left as u64, None, message));
            }
            self.fill()?;
        }
        let from = self.start;
        self.start += N;
        self.offset += N as u64;
        Ok(Some(self.buffer[from..from + N].try_into().expect("N bytes")))
    }

    /// The next byte; `None` at the end of the trace.
    #[inline]
    pub(crate) fn byte(&mut self) -> Result<Option<u8>, TraceError> {
        if self.start == self.end {
            if self.ended {
                return Ok(None);
            }
            self.fill()?;
            return self.byte();
        }
        let byte = self.buffer[self.start];
        self.start += 1;
        self.offset += 1;
        Ok(Some(byte))
    }

    /// A fault `back` bytes before the next one to be read.
    pub(crate) fn fault_back(&self, back: u64, message: impl Into<String>) -> TraceError {
        self.fault_at(self.offset - back, None, message)
    }

    /// A fault at the next byte to be read.
    pub(crate) fn fault_here(&self, message: impl Into<String>) -> TraceError {
        let line = (self.line > 0).then_some(self.line);
        self.fault_at(self.offset, line, message)
    }

    /// A fault in the line that was read last, `length` bytes long.
    pub(crate) fn fault_in_line(&self, length: usize, message: impl Into<String>) -> TraceError {
        let start = self.offset.saturating_sub(length as u64 + 1);
        self.fault_at(start, Some(self.line), message)
    }

    fn fault_at(&self, offset: u64, line: Option<u64>, message: impl Into<String>) -> TraceError {
        TraceError { file: self.file.clone(), offset, line, message: message.into() }
    }

    fn fill(&mut self) -> Result<(), TraceError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            return Ok(());
        }
        match self.bytes.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(count) => self.end += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let reached = self.offset + (self.end - self.start) as u64;
                let message = format!("the compressed data are truncated or damaged: {error}");
                return Err(self.fault_at(reached, None, message));
            }
        }
        Ok(())
    }
}
