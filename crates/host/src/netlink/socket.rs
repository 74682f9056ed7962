//! The socket: options, sending, receiving, acknowledgements.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::abi::*;
use super::frame::{Header, attributes, string_of};
use super::types::{Error, Result};

/// Larger than the kernel's largest dump datagram (32 KiB) and than any notification.
const RECEIVE_LEN: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    seq: u32,
    /// Datagrams that were received, whoever sent them.
    taken: u64,
    /// Those that were lost, and the kernel's count of them, which wraps around.
    lost: u64,
    lost_last: u32,
}

/// What a receive brought.
pub(super) enum Received {
    /// A datagram of this many bytes is in the buffer.
    Bytes(usize),
    /// Nothing waits.
    Nothing,
    /// Messages were lost.
    Overrun,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn failed(operation: &'static str) -> Error {
    Error::Socket { operation, source: io::Error::last_os_error() }
}

impl Socket {
    pub fn open(nonblocking: bool) -> Result<Self> {
        Self::open_protocol(libc::NETLINK_ROUTE, nonblocking)
    }

    pub fn open_protocol(protocol: i32, nonblocking: bool) -> Result<Self> {
        let kind =
            libc::SOCK_RAW | libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        // SAFETY: socket(2) takes no pointers; a non-negative result is a descriptor we own.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, kind, protocol);
            if fd < 0 {
                return Err(failed("socket"));
            }
            OwnedFd::from_raw_fd(fd)
        };
        let buffer = vec![0; RECEIVE_LEN];
        let socket = Socket { fd, buffer, seq: 0, taken: 0, lost: 0, lost_last: 0 };
        socket.bind()?;
        // Without these the kernel answers less precisely but correctly: refusal is no error.
        for option in [libc::NETLINK_GET_STRICT_CHK, libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let _ = socket.set_option(libc::SOL_NETLINK, option, 1);
        }
        Ok(socket)
    }

    /// Takes a port number: notifications pass by sockets that have none.
    fn bind(&self) -> Result<()> {
        // SAFETY: all fields of sockaddr_nl are plain data for which zero is a value.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        // SAFETY: the address is alive during the call and its size is passed along.
        let result = unsafe {
            let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            libc::bind(self.fd(), (&raw const address).cast(), len)
        };
        if result == 0 { Ok(()) } else { Err(failed("bind")) }
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn set_option(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        // SAFETY: the option value is a live i32 and its size is passed along.
        let result = unsafe {
            libc::setsockopt(
                self.fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub fn join(&self, group: u32) -> Result<()> {
        self.set_option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group as i32)
            .map_err(|source| Error::Socket { operation: "subscribe", source })
    }

    /// The port number that the kernel chose.
    pub fn port(&self) -> Result<u32> {
        // SAFETY: all fields of sockaddr_nl are plain data for which zero is a value.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: address and length are alive during the call, and the length is the address's.
        let result =
            unsafe { libc::getsockname(self.fd(), (&raw mut address).cast(), &raw mut len) };
        if result == 0 { Ok(address.nl_pid) } else { Err(failed("getsockname")) }
    }

    /// From now on the kernel drops notifications of what the socket of that port has asked for.
    pub fn ignore(&self, port: u32) -> Result<()> {
        let step =
            |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
        // `nlmsghdr.nlmsg_pid`, which the filter loads as if it were in network order.
        let mut program = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 12),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, port.to_be()),
            step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
            step(libc::BPF_RET | libc::BPF_K, 0, 0),
        ];
        let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
        // SAFETY: the filter and its four steps are alive during the call, and its size is passed along.
        let result = unsafe {
            libc::setsockopt(
                self.fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(failed("filter")) }
    }

    /// Sets the receive buffer, beyond the system's limit when permitted.
    pub fn set_receive_buffer(&self, bytes: usize) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        if self.set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
            let _ = self.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, bytes);
        }
    }

    pub fn set_send_buffer(&self, bytes: usize) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        if self.set_option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes).is_err() {
            let _ = self.set_option(libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
        }
    }

    /// A sequence number for the next request, never 0 (the kernel's own).
    pub fn next_seq(&mut self) -> u32 {
        self.seq = self.seq.wrapping_add(1).max(1);
        self.seq
    }

    pub fn send(&self, bytes: &[u8]) -> Result<()> {
        loop {
            // SAFETY: pointer and length describe one live slice.
            let sent = unsafe { libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
            if sent >= 0 {
                return Ok(());
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Err(failed("send"));
            }
        }
    }

    /// Receives one datagram of the kernel's; blocks when asked to, whatever the socket's mode. What another process
    /// sends to this port is passed over (netlink(7): the kernel's port is 0).
    pub fn receive(&mut self, wait: bool) -> Result<Received> {
        loop {
            let flags = libc::MSG_TRUNC | if wait { 0 } else { libc::MSG_DONTWAIT };
            let buffer = &mut self.buffer;
            let fd = self.fd.as_raw_fd();
            // SAFETY: all fields of sockaddr_nl are plain data for which zero is a value.
            let mut sender: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
            let mut sender_len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            // SAFETY: pointer and length describe one live, exclusively borrowed buffer; the sender's address and its
            // length are alive during the call, and the length is the address's.
            let len = unsafe {
                let sender = (&raw mut sender).cast();
                let place = buffer.as_mut_ptr().cast();
                libc::recvfrom(fd, place, buffer.len(), flags, sender, &raw mut sender_len)
            };
            if let Ok(len) = usize::try_from(len) {
                self.taken += 1;
                if sender.nl_pid != 0 {
                    continue;
                }
                if len <= self.buffer.len() {
                    return Ok(Received::Bytes(len));
                }
                // The datagram was cut: it is lost as a whole, like an overrun.
                // A buffer that grows leaves a copy behind.
                self.wipe(usize::MAX);
                self.buffer.resize(len.next_power_of_two(), 0);
                return Ok(Received::Overrun);
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ENOBUFS) => return Ok(Received::Overrun),
                Some(libc::EAGAIN) if wait => self.wait_readable()?,
                Some(libc::EAGAIN) => return Ok(Received::Nothing),
                _ => return Err(failed("receive")),
            }
        }
    }

    /// Datagrams that were received or lost so far, and whether some were lost that nobody has been told of.
    pub fn heard(&mut self) -> Result<(u64, bool)> {
        let mut memory = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
        let mut len = size_of_val(&memory) as libc::socklen_t;
        // SAFETY: the array and its length are alive during the call, and the length is the array's.
        let result = unsafe {
            let place = memory.as_mut_ptr().cast();
            libc::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, place, &raw mut len)
        };
        if result != 0 {
            return Err(failed("getsockopt"));
        }
        let dropped = memory[libc::SK_MEMINFO_DROPS as usize];
        let more = dropped.wrapping_sub(self.lost_last);
        self.lost_last = dropped;
        self.lost += u64::from(more);
        Ok((self.taken + self.lost, more > 0))
    }

    fn wait_readable(&self) -> Result<()> {
        let mut poll = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, alive during the call.
        if unsafe { libc::poll(&raw mut poll, 1, -1) } < 0
            && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted
        {
            return Err(failed("poll"));
        }
        Ok(())
    }

    pub fn received(&self, len: usize) -> &[u8] {
        &self.buffer[..len]
    }

    /// Overwrites the first bytes of the buffer, where a secret was.
    pub fn wipe(&mut self, len: usize) {
        let len = len.min(self.buffer.len());
        zeroize::Zeroize::zeroize(&mut self.buffer[..len]);
    }
}

/// The result in an acknowledgement: 0, or the errno and the kernel's explanation.
pub(super) fn acknowledged(header: Header, body: &[u8]) -> (i32, String) {
    let Some((code, rest)) = body.split_first_chunk::<4>() else {
        return (libc::EBADMSG, String::new());
    };
    let errno = i32::from_ne_bytes(*code).saturating_neg();
    let mut message = String::new();
    if header.flags & ACK_ATTRIBUTES != 0 {
        // The header of the request follows, and all of it when the answer is not capped.
        let request = rest.first_chunk().map_or(0, |len| u32::from_ne_bytes(*len) as usize);
        let skip = if header.flags & CAPPED != 0 { 16 } else { request.next_multiple_of(4) };
        let _ = attributes(rest.get(skip..).unwrap_or(&[]), |kind, value| {
            const NLMSGERR_ATTR_MSG: u16 = 1;
            if kind == NLMSGERR_ATTR_MSG {
                message = string_of(value);
            }
            Ok(())
        });
    }
    (errno, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_acknowledgement_is_read_without_panic(
            flags in any::<u16>(), body in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let header = Header { kind: ERROR, flags, seq: 1 };
            let _ = acknowledged(header, &body);
        }
    }

    #[test]
    fn what_another_process_sends_is_passed_over() {
        let mut ours = Socket::open(true).expect("a socket");
        let theirs = Socket::open(true).expect("a socket");
        // SAFETY: all fields of sockaddr_nl are plain data for which zero is a value.
        let mut to: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        (to.nl_family, to.nl_pid) =
            (libc::AF_NETLINK as libc::sa_family_t, ours.port().expect("a port"));
        for word in [vec![0_u8; 16], vec![1; RECEIVE_LEN + 4096]] {
            let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            let (place, to) = (word.as_ptr().cast(), (&raw const to).cast());
            theirs.set_send_buffer(1 << 22);
            // SAFETY: word and address are alive during the call, and their lengths are passed along.
            let sent = unsafe { libc::sendto(theirs.fd(), place, word.len(), 0, to, len) };
            if sent < 0 {
                let error = io::Error::last_os_error();
                eprintln!("skipped: {} bytes are not sent: {error}", word.len());
            }
        }
        assert!(matches!(ours.receive(false), Ok(Received::Nothing)));
        let mut request = super::super::frame::Builder::default();
        // RTM_GETLINK: the kernel is heard as before.
        request.begin(18, REQUEST | DUMP, ours.next_seq(), &[0; 16]).end();
        ours.send(&request.bytes).expect("sent");
        assert!(matches!(ours.receive(true), Ok(Received::Bytes(len)) if len > 0));
    }

    #[test]
    fn the_kernels_words_are_found() {
        let mut body = (-libc::EINVAL).to_ne_bytes().to_vec();
        body.extend([0; 16]);
        body.extend([8, 0, 1, 0, b'n', b'o', b'!', 0]);
        let header = Header { kind: ERROR, flags: CAPPED | ACK_ATTRIBUTES, seq: 1 };
        assert_eq!(acknowledged(header, &body), (libc::EINVAL, "no!".to_owned()));
    }
}
