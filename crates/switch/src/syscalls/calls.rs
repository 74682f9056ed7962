//! The calls themselves, made for another process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::remote;

/// What became of the calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Made on the system's core.
    pub moved: u64,
    /// Left where they were: they might have blocked, or their files were out of reach.
    pub left: u64,
    /// What the moved ones returned, where it counts bytes.
    pub bytes: u64,
    /// Time on the system's core, ns.
    pub ns: u64,
}

/// What is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The call's result, or its error number.
    Done(Result<i64, i32>),
    /// The program makes the call itself.
    Yourself,
}

/// A call as the kernel describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) tid: i32,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

/// Largest piece in which data is copied.
const PIECE: usize = 1 << 20;

type Outcome = Result<i64, i32>;

fn result(value: isize) -> Outcome {
    if value < 0 {
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    } else {
        Ok(value as i64)
    }
}

fn code(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EFAULT)
}

fn mode(file: &OwnedFd) -> libc::mode_t {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: room for what the call writes; zeroes are a valid value should it write nothing.
    unsafe {
        libc::fstat(file.as_raw_fd(), status.as_mut_ptr());
        status.assume_init().st_mode & libc::S_IFMT
    }
}

fn never_blocks(file: &OwnedFd) -> bool {
    // SAFETY: asks for flags; no pointers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    mode(file) == libc::S_IFREG || (flags >= 0 && flags & libc::O_NONBLOCK != 0)
}

impl Request {
    /// Makes the call, if it can be made from here.
    pub(super) fn make(&self, process: &OwnedFd, buffer: &mut Vec<u8>) -> Answer {
        let file = |argument: usize| {
            remote::take_descriptor(process, self.arguments[argument] as i32).ok()
        };
        let Some(first) = file(0) else { return Answer::Yourself };
        match self.number {
            libc::SYS_fsync => {
                // SAFETY: the descriptor is open.
                Answer::Done(result(unsafe { libc::fsync(first.as_raw_fd()) } as isize))
            }
            libc::SYS_fdatasync => {
                // SAFETY: the descriptor is open.
                Answer::Done(result(unsafe { libc::fdatasync(first.as_raw_fd()) } as isize))
            }
            libc::SYS_read | libc::SYS_pread64 if mode(&first) == libc::S_IFREG => {
                Answer::Done(self.read(&first, buffer))
            }
            libc::SYS_write | libc::SYS_pwrite64 if mode(&first) == libc::S_IFREG => {
                self.write(&first, buffer)
            }
            libc::SYS_sendfile => match file(1) {
                Some(from) if never_blocks(&first) && self.is_unlimited() => {
                    self.sendfile(&first, &from)
                }
                _ => Answer::Yourself,
            },
            libc::SYS_copy_file_range => match file(2) {
                Some(to) if self.is_unlimited() => self.copy_range(&first, &to),
                _ => Answer::Yourself,
            },
            _ => Answer::Yourself,
        }
    }

    /// Whether the call names its own place in the file.
    fn offset(&self) -> Option<i64> {
        let own = [libc::SYS_pread64, libc::SYS_pwrite64].contains(&self.number);
        own.then_some(self.arguments[3] as i64)
    }

    fn read(&self, file: &OwnedFd, buffer: &mut Vec<u8>) -> Outcome {
        let (address, count) = (self.arguments[1], self.arguments[2] as usize);
        let mut done = 0;
        while done < count {
            let piece = PIECE.min(count - done);
            buffer.resize(piece, 0);
            let place = buffer.as_mut_ptr().cast();
            // SAFETY: the buffer has room for the piece.
            let got = result(unsafe {
                match self.offset() {
                    Some(offset) => {
                        libc::pread(file.as_raw_fd(), place, piece, offset + done as i64)
                    }
                    None => libc::read(file.as_raw_fd(), place, piece),
                }
            });
            let got = match got {
                Ok(got) => got as usize,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            };
            let given = remote::write_memory(self.tid, address + done as u64, &buffer[..got]);
            let given = given.unwrap_or(0);
            if given < got && self.offset().is_none() {
                // What the program cannot take was not read.
                // SAFETY: moves the offset of an open file.
                unsafe { libc::lseek(file.as_raw_fd(), given as i64 - got as i64, libc::SEEK_CUR) };
            }
            done += given;
            if given < got {
                return if done == 0 { Err(libc::EFAULT) } else { Ok(done as i64) };
            }
            if got < piece {
                break;
            }
        }
        Ok(done as i64)
    }

    /// Whether the program may write files of any size. Where it may not, it runs into the limit, and into
    /// its signal, itself.
    fn is_unlimited(&self) -> bool {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: asks only; the structure is this frame's.
        let known = unsafe {
            libc::prlimit(self.tid, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut limit) == 0
        };
        known && limit.rlim_cur == libc::RLIM_INFINITY
    }

    fn write(&self, file: &OwnedFd, buffer: &mut Vec<u8>) -> Answer {
        if !self.is_unlimited() {
            return Answer::Yourself;
        }
        let (address, count) = (self.arguments[1], self.arguments[2] as usize);
        let mut done = 0;
        while done < count {
            let piece = PIECE.min(count - done);
            buffer.resize(piece, 0);
            let got = remote::read_memory(self.tid, address + done as u64, buffer);
            let got = match got {
                Ok(got) if got > 0 => got,
                _ if done == 0 => return Answer::Done(Err(libc::EFAULT)),
                _ => break,
            };
            let place = buffer.as_ptr().cast();
            // SAFETY: the buffer holds `got` bytes.
            let put = result(unsafe {
                match self.offset() {
                    Some(offset) => {
                        libc::pwrite(file.as_raw_fd(), place, got, offset + done as i64)
                    }
                    None => libc::write(file.as_raw_fd(), place, got),
                }
            });
            match put {
                Ok(put) => {
                    done += put as usize;
                    if (put as usize) < piece {
                        break;
                    }
                }
                Err(error) if done == 0 => return Answer::Done(Err(error)),
                Err(_) => break,
            }
        }
        Answer::Done(Ok(done as i64))
    }

    /// An offset that the program keeps at `address`; nothing where it keeps none.
    fn offset_at(&self, address: u64) -> Result<Option<i64>, i32> {
        if address == 0 {
            return Ok(None);
        }
        let mut bytes = [0_u8; 8];
        let got =
            remote::read_memory(self.tid, address, &mut bytes).map_err(|error| code(&error))?;
        if got == 8 { Ok(Some(i64::from_ne_bytes(bytes))) } else { Err(libc::EFAULT) }
    }

    fn keep_offset(&self, address: u64, offset: Option<i64>) {
        if let Some(offset) = offset {
            let _ = remote::write_memory(self.tid, address, &offset.to_ne_bytes());
        }
    }

    fn sendfile(&self, to: &OwnedFd, from: &OwnedFd) -> Answer {
        let mut offset = match self.offset_at(self.arguments[2]) {
            Ok(offset) => offset,
            Err(error) => return Answer::Done(Err(error)),
        };
        let place = offset.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let count = self.arguments[3] as usize;
        // SAFETY: `place` is null or this frame's.
        let sent =
            result(unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), place, count) });
        if sent == Err(libc::EPIPE) {
            // With a signal, which is the program's.
            return Answer::Yourself;
        }
        self.keep_offset(self.arguments[2], offset);
        Answer::Done(sent)
    }

    fn copy_range(&self, from: &OwnedFd, to: &OwnedFd) -> Answer {
        let offsets = (self.offset_at(self.arguments[1]), self.offset_at(self.arguments[3]));
        let (mut read, mut written) = match offsets {
            (Ok(read), Ok(written)) => (read, written),
            (Err(error), _) | (_, Err(error)) => return Answer::Done(Err(error)),
        };
        let place = |offset: &mut Option<i64>| {
            offset.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut)
        };
        let (count, flags) = (self.arguments[4] as usize, self.arguments[5] as u32);
        // SAFETY: both places are null or this frame's.
        let copied = result(unsafe {
            libc::copy_file_range(
                from.as_raw_fd(),
                place(&mut read),
                to.as_raw_fd(),
                place(&mut written),
                count,
                flags,
            )
        });
        self.keep_offset(self.arguments[1], read);
        self.keep_offset(self.arguments[3], written);
        Answer::Done(copied)
    }
}
