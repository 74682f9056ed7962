//! Messages between two processes that carry open descriptors (`SCM_RIGHTS`, unix(7)).

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ebb_units::Time;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use crate::clock::monotonic;

/// Descriptors of one system call; Linux takes 253.
const GROUP: usize = 128;
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
pub struct Courier(UnixStream);

impl Courier {
    /// Both ends.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub fn pair() -> io::Result<(Courier, Courier)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Courier(one), Courier(other)))
    }

    /// The end that this process was started with as its standard input, which it has no more.
    ///
    /// # Errors
    /// When standard input is closed.
    pub fn from_stdin() -> io::Result<Courier> {
        let stream = io::stdin().as_fd().try_clone_to_owned()?;
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Courier(stream.into()))
    }

    /// Readable when a message, or the end, has come.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sends a message. The descriptors are closed here.
    ///
    /// # Errors
    /// When the other end is gone or takes nothing for 10 s.
    pub fn send(&mut self, text: &str, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        self.0.set_write_timeout(Some(Duration::from_secs(10)))?;
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&(descriptors.len() as u32).to_le_bytes());
        self.0.write_all(&head)?;
        self.0.write_all(text.as_bytes())?;
        for group in descriptors.chunks(GROUP) {
            let numbers: Vec<RawFd> = group.iter().map(OwnedFd::as_raw_fd).collect();
            let rights = [ControlMessage::ScmRights(&numbers)];
            // A descriptor travels with a byte.
            let byte = [IoSlice::new(b"+")];
            sendmsg::<()>(self.0.as_raw_fd(), &byte, &rights, MsgFlags::MSG_NOSIGNAL, None)?;
        }
        Ok(())
    }

    /// The next message.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other end is gone, `WouldBlock` when it has not come whole after `patience`, however
    /// slowly; in either case the conversation is over.
    pub fn receive(&mut self, patience: Duration) -> io::Result<(String, Vec<OwnedFd>)> {
        let end = monotonic() + patience;
        let mut head = [0; 8];
        self.read_by(&mut head, end)?;
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (len, count) = (number(0) as usize, number(4) as usize);
        if len > TEXT_LEN_MAX || count > DESCRIPTORS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is malformed"));
        }
        let mut text = vec![0; len];
        self.read_by(&mut text, end)?;
        let mut descriptors = Vec::new();
        while descriptors.len() < count {
            let wanted = GROUP.min(count - descriptors.len());
            self.wait_at_most(end)?;
            self.receive_group(wanted, &mut descriptors)?;
        }
        let text = String::from_utf8(text);
        Ok((text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?, descriptors))
    }

    /// Reads so much, all of it before `end`.
    fn read_by(&mut self, mut place: &mut [u8], end: Time) -> io::Result<()> {
        while !place.is_empty() {
            self.wait_at_most(end)?;
            match self.0.read(place) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => place = &mut place[count..],
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
        self.0.set_read_timeout(Some(left))
    }

    fn receive_group(&self, wanted: usize, descriptors: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut byte = [0];
        let mut space = nix::cmsg_space!([RawFd; GROUP]);
        let mut place = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(self.0.as_raw_fd(), &mut place, Some(&mut space), flags)?;
        let before = descriptors.len();
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = part {
                // SAFETY: the kernel has just opened them for this process; nobody else knows them.
                descriptors.extend(numbers.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }));
            }
        }
        match descriptors.len() - before == wanted {
            true => Ok(()),
            false => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file descriptors are missing"))
            }
        }
    }
}

impl From<OwnedFd> for Courier {
    fn from(stream: OwnedFd) -> Courier {
        Courier(stream.into())
    }
}

impl From<Courier> for OwnedFd {
    fn from(courier: Courier) -> OwnedFd {
        courier.0.into()
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

    /// Who sends a byte now and then holds nobody up for longer than who says nothing.
    #[test]
    fn a_byte_now_and_then_does_not_prolong_the_wait() {
        let (mut one, mut other) = Courier::pair().unwrap();
        let dripping = std::thread::spawn(move || {
            let mut bytes = [200, 0, 0, 0].into_iter().chain(std::iter::repeat(0));
            while one.0.write_all(&[bytes.next().unwrap()]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let error = other.receive(Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(other);
        dripping.join().unwrap();
    }
}
