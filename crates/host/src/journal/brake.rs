//! What the guard does while its program stands still: the packets that it does not take are the kernel's.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Longest value of a map, bytes.
const VALUE_MAX: usize = 4096;
/// `enum bpf_cmd` of linux/bpf.h.
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;

/// Tells the guard what to hold.
#[derive(Clone, Debug)]
pub struct Brake(pub(super) Arc<OwnedFd>);

impl Brake {
    /// From now on the guard writes zero into the first 8 bytes of this BPF array's only value, of
    /// `value_len` bytes, while the program stands still, and puts back what was there when it goes on. A
    /// further array under the same `name` replaces it.
    ///
    /// # Errors
    /// When the guard has ended, or the value is too long.
    pub fn place(&self, name: u8, array: BorrowedFd<'_>, value_len: u32) -> io::Result<()> {
        if !(8..=VALUE_MAX).contains(&(value_len as usize)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such value is held"));
        }
        let mut text = [name, 0, 0, 0, 0];
        text[1..].copy_from_slice(&value_len.to_ne_bytes());
        let descriptors = [array.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(&text)], &rights, flags, None)?;
        Ok(())
    }
}

/// The guard's side of it.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    arrays: BTreeMap<u8, Array>,
}

#[derive(Debug)]
struct Array {
    fd: OwnedFd,
    len: usize,
    /// What was there before the program stood still.
    before: Option<Vec<u8>>,
}

impl Arrays {
    /// Takes in what the program sent; `false` once it has died.
    pub(super) fn listen(&mut self, line: &OwnedFd) -> bool {
        let mut text = [0u8; 5];
        let mut space = cmsg_space!([RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut text)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let heard = recvmsg::<()>(line.as_raw_fd(), &mut parts, Some(&mut space), flags);
        let message = match heard {
            Ok(message) => message,
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => return true,
            Err(_) => return false,
        };
        if message.bytes == 0 {
            return false;
        }
        let descriptors = message.cmsgs().into_iter().flatten().filter_map(|part| match part {
            ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
            _ => None,
        });
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = descriptors.last().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let [name, len @ ..] = text;
        let len = u32::from_ne_bytes(len) as usize;
        if let Some(fd) = fd.filter(|_| (8..=VALUE_MAX).contains(&len)) {
            self.arrays.insert(name, Array { fd, len, before: None });
        }
        true
    }

    /// The program stands still, or goes on. The program may have written meanwhile: what is there and is
    /// not ours stays.
    pub(super) fn hold(&mut self, still: bool) {
        for array in self.arrays.values_mut() {
            // An array that is not to be read or written any more is nobody's.
            let Ok(mut value) = array.read() else { continue };
            let halted = value[..8] == [0; 8];
            if still && !halted {
                let before = value.clone();
                value[..8].fill(0);
                if array.write(&value).is_ok() {
                    array.before = Some(before);
                }
            } else if !still && let Some(before) = array.before.take() {
                let ours = halted && value[8..] == before[8..];
                if ours {
                    _ = array.write(&before);
                }
            }
        }
    }
}

impl Array {
    fn read(&self) -> io::Result<Vec<u8>> {
        // Per-CPU arrays would write more; those are not sent.
        let mut value = vec![0; self.len.next_multiple_of(8)];
        self.call(MAP_LOOKUP, value.as_mut_ptr())?;
        value.truncate(self.len);
        Ok(value)
    }

    fn write(&self, value: &[u8]) -> io::Result<()> {
        let mut value = value.to_vec();
        value.resize(self.len.next_multiple_of(8), 0);
        self.call(MAP_UPDATE, value.as_mut_ptr())
    }

    fn call(&self, command: libc::c_long, value: *mut u8) -> io::Result<()> {
        /// The part of `union bpf_attr` of both commands.
        #[repr(C)]
        struct Attributes {
            map: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let key = 0u32;
        let mut attributes = Attributes {
            map: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: value as u64,
            flags: 0,
        };
        let len = size_of::<Attributes>() as libc::c_long;
        // SAFETY: key and value live during the call, and the value has the array's length.
        let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attributes, len) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
