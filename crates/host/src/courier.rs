//! Messages between two processes that carry open descriptors (`SCM_RIGHTS`, unix(7)).

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ebb_units::Time;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use crate::clock::monotonic;

/// Descriptors of one system call; Linux takes 253.
const GROUP: usize = 128;
const HEAD_LEN: usize = 8;
const TEXT_LEN_MAX: usize = 16 << 20;
const DESCRIPTORS_MAX: usize = 1 << 16;

/// One end of a conversation. What is sent arrives whole and in order, or the conversation ends.
///
/// ```
/// use std::io::Read;
/// use std::os::fd::AsFd;
/// let (mut one, mut other) = ebb_host::Courier::pair()?;
/// let (mut reader, writer) = std::io::pipe()?;
/// one.send("a pipe", vec![writer.into()])?;
/// let (text, descriptors) = other.receive(std::time::Duration::from_secs(5))?;
/// assert_eq!((text.as_str(), descriptors.len()), ("a pipe", 1));
/// drop(descriptors);
/// assert_eq!(reader.read(&mut [0])?, 0, "nobody else has the other end");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Courier {
    stream: UnixStream,
    /// What has come of a message that is not whole yet.
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Courier {
    /// Both ends.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub fn pair() -> io::Result<(Courier, Courier)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Courier::of(one), Courier::of(other)))
    }

    fn of(stream: UnixStream) -> Courier {
        Courier { stream, bytes: Vec::new(), descriptors: Vec::new() }
    }

    /// The end that this process was started with as its standard input, which it has no more.
    ///
    /// # Errors
    /// When standard input is closed.
    pub fn from_stdin() -> io::Result<Courier> {
        let stream = io::stdin().as_fd().try_clone_to_owned()?;
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Courier::of(stream.into()))
    }

    /// Readable when a message, or the end, has come.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Sends a message. The descriptors are closed here.
    ///
    /// # Errors
    /// When the other end is gone, hears no more ([`Courier::last_words`]) or takes nothing for 10 s: it has not the
    /// whole message then, and never will.
    pub fn send(&mut self, text: &str, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        self.stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        let mut head = [0; HEAD_LEN];
        head[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&(descriptors.len() as u32).to_le_bytes());
        self.stream.write_all(&head)?;
        self.stream.write_all(text.as_bytes())?;
        for group in descriptors.chunks(GROUP) {
            let numbers: Vec<RawFd> = group.iter().map(OwnedFd::as_raw_fd).collect();
            let rights = [ControlMessage::ScmRights(&numbers)];
            // A descriptor travels with a byte.
            let byte = [IoSlice::new(b"+")];
            sendmsg::<()>(self.stream.as_raw_fd(), &byte, &rights, MsgFlags::MSG_NOSIGNAL, None)?;
        }
        Ok(())
    }

    /// The next message.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other end is gone, `WouldBlock` when it has not come whole after `patience`, however
    /// slowly: what of it has come is kept for the next call.
    pub fn receive(&mut self, patience: Duration) -> io::Result<(String, Vec<OwnedFd>)> {
        let end = monotonic() + patience;
        self.receive_whole(|courier| courier.wait_at_most(end))
    }

    /// From now on nothing more can arrive: a message that the other end is still sending fails there. Returns the
    /// message that came whole before. So both ends agree whether it came, whatever time either of them has lost.
    ///
    /// # Errors
    /// `UnexpectedEof` when there is none.
    pub fn last_words(&mut self) -> io::Result<(String, Vec<OwnedFd>)> {
        self.stream.shutdown(Shutdown::Read)?;
        self.stream.set_read_timeout(None)?;
        self.receive_whole(|_| Ok(()))
    }

    fn receive_whole(
        &mut self,
        before_reading: impl Fn(&Courier) -> io::Result<()>,
    ) -> io::Result<(String, Vec<OwnedFd>)> {
        self.fill(HEAD_LEN, &before_reading)?;
        let number = |at: usize| {
            let bytes = self.bytes[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let (len, count) = (number(0), number(4));
        if len > TEXT_LEN_MAX || count > DESCRIPTORS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is malformed"));
        }
        self.fill(HEAD_LEN + len, &before_reading)?;
        while self.descriptors.len() < count {
            let wanted = GROUP.min(count - self.descriptors.len());
            before_reading(self)?;
            self.receive_group(wanted)?;
        }
        let text = String::from_utf8(std::mem::take(&mut self.bytes).split_off(HEAD_LEN));
        let descriptors = std::mem::take(&mut self.descriptors);
        Ok((text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?, descriptors))
    }

    /// Reads until so many bytes are here. Never more: behind them descriptors may travel.
    fn fill(
        &mut self,
        len: usize,
        before_reading: impl Fn(&Courier) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut place = [0; 4096];
        while self.bytes.len() < len {
            before_reading(self)?;
            let wanted = place.len().min(len - self.bytes.len());
            match self.stream.read(&mut place[..wanted]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.bytes.extend_from_slice(&place[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next reading ends at `end`.
    fn wait_at_most(&self, end: Time) -> io::Result<()> {
        let left = end.since(monotonic());
        if left.is_zero() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.stream.set_read_timeout(Some(left))
    }

    fn receive_group(&mut self, wanted: usize) -> io::Result<()> {
        let mut byte = [0];
        let mut space = nix::cmsg_space!([RawFd; GROUP]);
        let mut place = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(self.stream.as_raw_fd(), &mut place, Some(&mut space), flags)?;
        let before = self.descriptors.len();
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = part {
                // SAFETY: the kernel has just opened them for this process; nobody else knows them.
                let opened = numbers.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) });
                self.descriptors.extend(opened);
            }
        }
        match self.descriptors.len() - before == wanted {
            true => Ok(()),
            false => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file descriptors are missing"))
            }
        }
    }
}

impl From<OwnedFd> for Courier {
    fn from(stream: OwnedFd) -> Courier {
        Courier::of(stream.into())
    }
}

impl From<Courier> for OwnedFd {
    fn from(courier: Courier) -> OwnedFd {
        courier.stream.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_descriptors_and_long_texts_arrive_whole() {
        let (mut one, mut other) = Courier::pair().unwrap();
        let text = "long ".repeat(100_000);
        let sent = text.clone();
        let sender = std::thread::spawn(move || {
            let (kept, handed): (Vec<_>, Vec<_>) =
                (0..300).map(|_| UnixStream::pair().unwrap()).unzip();
            one.send(&sent, handed.into_iter().map(OwnedFd::from).collect()).unwrap();
            one.send("", Vec::new()).unwrap();
            kept
        });
        let patience = Duration::from_secs(10);
        let (received, descriptors) = other.receive(patience).unwrap();
        assert!(received == text);
        assert_eq!(other.receive(patience).unwrap().0, "");
        for (number, mut kept) in sender.join().unwrap().into_iter().enumerate() {
            kept.write_all(&[number as u8]).unwrap();
            let mut byte = [0];
            UnixStream::from(descriptors[number].try_clone().unwrap())
                .read_exact(&mut byte)
                .unwrap();
            assert_eq!(byte[0], number as u8);
        }
        let end = other.receive(patience).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn silence_ends_the_wait() {
        let (_one, mut other) = Courier::pair().unwrap();
        let error = other.receive(Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn both_ends_agree_whether_a_message_came() {
        let (mut one, mut other) = Courier::pair().unwrap();
        // Half of it comes in time, the rest before nobody hears any more.
        one.stream.write_all(&[4, 0, 0, 0, 0, 0, 0, 0, b'l', b'a']).unwrap();
        let error = other.receive(Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        one.stream.write_all(b"te").unwrap();
        one.send("later", Vec::new()).unwrap();
        assert_eq!(other.last_words().unwrap().0, "late");
        assert_eq!(other.last_words().unwrap().0, "later");
        let error = other.last_words().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = one.send("too late", Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        // The other way is open.
        other.send("no", Vec::new()).unwrap();
        assert_eq!(one.receive(Duration::from_secs(5)).unwrap().0, "no");
    }

    #[test]
    fn half_a_message_is_none() {
        let (mut one, mut other) = Courier::pair().unwrap();
        one.stream.write_all(&[4, 0, 0, 0, 0, 0, 0, 0, b'l', b'a']).unwrap();
        let error = other.last_words().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(one.stream.write_all(b"te").is_err());
    }

    /// Who sends a byte now and then holds nobody up for longer than who says nothing.
    #[test]
    fn a_byte_now_and_then_does_not_prolong_the_wait() {
        let (mut one, mut other) = Courier::pair().unwrap();
        let dripping = std::thread::spawn(move || {
            let mut bytes = [200, 0, 0, 0].into_iter().chain(std::iter::repeat(0));
            while one.stream.write_all(&[bytes.next().unwrap()]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let error = other.receive(Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(other);
        dripping.join().unwrap();
    }
}
