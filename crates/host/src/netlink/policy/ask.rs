//! One request, all of its answer.

use std::io;

use super::super::abi::{ACK, DONE, DUMP, DUMP_INTERRUPTED, ERROR, REQUEST};
use super::super::frame::{Builder, Header, Messages};
use super::super::socket::{Received, Socket, acknowledged};
use super::super::types::{Error, Result};

const ATTEMPTS_MAX: u32 = 8;

/// The messages of an answer: their kinds and bodies.
pub(super) type Answer = Vec<(Header, Vec<u8>)>;

/// A socket for requests of one protocol.
#[derive(Debug)]
pub(super) struct Asker(Socket);

impl Asker {
    pub(super) fn open(protocol: i32) -> Result<Asker> {
        Ok(Asker(Socket::open_protocol(protocol, false)?))
    }

    /// Everything that a dump lists; nothing where the kernel has no such thing.
    pub(super) fn dump(&mut self, what: &'static str, kind: u16, fixed: &[u8]) -> Result<Answer> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(answer) = self.exchange(what, kind, DUMP, fixed)? {
                return Ok(answer);
            }
        }
        Err(Error::Interrupted { what, attempts: ATTEMPTS_MAX })
    }

    /// The answer to a plain request; nothing where the kernel has no such thing.
    pub(super) fn get(&mut self, what: &'static str, kind: u16, fixed: &[u8]) -> Result<Answer> {
        Ok(self.exchange(what, kind, ACK, fixed)?.unwrap_or_default())
    }

    /// `None` when a dump was interrupted.
    fn exchange(
        &mut self,
        what: &'static str,
        kind: u16,
        flags: u16,
        fixed: &[u8],
    ) -> Result<Option<Answer>> {
        let seq = self.0.next_seq();
        let mut builder = Builder::default();
        builder.begin(kind, REQUEST | flags, seq, fixed).end();
        self.0.send(&builder.bytes)?;
        let mut answer = Answer::new();
        let mut whole = true;
        loop {
            let Received::Bytes(len) = self.0.receive(true)? else { return Ok(None) };
            for message in Messages::new(self.0.received(len)) {
                let (header, body) = message?;
                if header.seq != seq {
                    continue;
                }
                whole &= header.flags & DUMP_INTERRUPTED == 0;
                if !matches!(header.kind, ERROR | DONE) {
                    answer.push((header, body.to_vec()));
                    continue;
                }
                let (errno, message) = acknowledged(header, body);
                return match errno {
                    0 => Ok(whole.then_some(answer)),
                    libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EINVAL | libc::ENOENT => {
                        Ok(Some(Answer::new()))
                    }
                    _ => Err(Error::Refused {
                        request: format!("list of {what}"),
                        source: io::Error::from_raw_os_error(errno),
                        message,
                    }),
                };
            }
        }
    }
}
