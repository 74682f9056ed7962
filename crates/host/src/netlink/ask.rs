//! One request, all of its answer.

use std::io;

use zeroize::Zeroizing;

use super::abi::{ACK, DONE, DUMP, DUMP_INTERRUPTED, ERROR, REPLACE, REQUEST};
use super::frame::{Builder, Header, Messages};
use super::socket::{Received, Socket, acknowledged};
use super::types::{Error, Result};

const ATTEMPTS_MAX: u32 = 8;

/// Answers by which the kernel says that it was built without a protocol, or a family of it.
pub(super) const ABSENT: &[i32] = &[libc::EOPNOTSUPP, libc::EAFNOSUPPORT];
/// The same of requests that are dealt out by number, such as nfnetlink's and newer ones of IPsec: it does not
/// know the number. Elsewhere this is an error like others: something is there and cannot be read.
pub(super) const UNNUMBERED: &[i32] = &[libc::EOPNOTSUPP, libc::EAFNOSUPPORT, libc::EINVAL];

/// The messages of an answer: their kinds and bodies, which are wiped, for there may be keys in them.
pub(super) type Answer = Vec<(Header, Zeroizing<Vec<u8>>)>;

/// A socket for requests of one protocol.
#[derive(Debug)]
pub(super) struct Asker(Socket);

impl Asker {
    pub(super) fn open(protocol: i32) -> Result<Asker> {
        Ok(Asker(Socket::open_protocol(protocol, false)?))
    }

    /// Everything that a dump lists; nothing where the kernel has no such thing, which `absent` answers say.
    pub(super) fn dump(
        &mut self,
        what: &'static str,
        absent: &[i32],
        (kind, fixed): (u16, &[u8]),
    ) -> Result<Answer> {
        self.whole(what, absent, kind, DUMP, fixed)
    }

    /// The answer to a plain request; nothing where the kernel has no such thing.
    pub(super) fn get(
        &mut self,
        what: &'static str,
        absent: &[i32],
        (kind, fixed): (u16, &[u8]),
    ) -> Result<Answer> {
        self.whole(what, absent, kind, ACK, fixed)
    }

    /// The answer to a request that replaces something which is there.
    pub(super) fn replace(
        &mut self,
        what: &'static str,
        (kind, fixed): (u16, &[u8]),
    ) -> Result<Answer> {
        self.whole(what, &[], kind, ACK | REPLACE, fixed)
    }

    fn whole(
        &mut self,
        what: &'static str,
        absent: &[i32],
        kind: u16,
        flags: u16,
        fixed: &[u8],
    ) -> Result<Answer> {
        for _ in 0..ATTEMPTS_MAX {
            let seq = self.0.next_seq();
            let mut builder = Builder::default();
            builder.begin(kind, REQUEST | flags, seq, fixed).end();
            self.0.send(&builder.bytes)?;
            if let Some(answer) = self.answer(what, absent, seq)? {
                return Ok(answer);
            }
        }
        Err(Error::Interrupted { what, attempts: ATTEMPTS_MAX })
    }

    /// Sends messages whose answers, if there are any, nobody reads; when it returns the kernel has done what they ask for.
    pub(super) fn tell(&mut self, messages: &[(u16, &[u8])]) -> Result<()> {
        let mut builder = Builder::default();
        for (kind, fixed) in messages {
            builder.begin(*kind, REQUEST, self.0.next_seq(), fixed).end();
        }
        self.0.send(&builder.bytes)
    }

    /// Wipes what answers have left in the buffer.
    pub(super) fn wipe(&mut self) {
        self.0.wipe(usize::MAX);
    }

    /// `None` when it was interrupted.
    fn answer(&mut self, what: &'static str, absent: &[i32], seq: u32) -> Result<Option<Answer>> {
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
                    answer.push((header, Zeroizing::new(body.to_vec())));
                    continue;
                }
                let (errno, message) = acknowledged(header, body);
                return match errno {
                    0 => Ok(whole.then_some(answer)),
                    errno if absent.contains(&errno) => Ok(Some(Answer::new())),
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
