//! A raw packet socket: what traffic tools use where AF_XDP is not to be had.
//!
//! It sees what the kernel sees and bypasses the queueing discipline when it sends; every call
//! moves up to 64 frames. The kernel takes VLAN tags out of frames before it shows them: frames of
//! a VLAN would seem to have none, and are left out (a priority tag, VLAN 0, is no VLAN).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Frames per system call.
const BATCH: usize = 64;
/// Room for one frame.
const BUFFER_LEN: usize = 2048;
/// Bytes asked for as the kernel's receive buffer; beyond the limit for ordinary users.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;

const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// `SKF_AD_OFF + SKF_AD_VLAN_TAG` of `linux/filter.h`: the tag beside a frame, 0 for none.
const TAG: u32 = (-0x1000_i32 + 44).cast_unsigned();
/// Of a tag, the bits that name the VLAN.
const VLAN: u32 = 0xfff;

/// When a frame came, by those that were asked to note it down ([`PacketSocket::stamp`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The kernel, when the driver handed the frame over: since 1970, as the system has it (`CLOCK_REALTIME`).
    pub kernel: Option<Duration>,
    /// The card, by its own clock, ns.
    pub card_ns: Option<u64>,
}

/// Room for a message with three times (`struct scm_timestamping`), aligned as its header is.
type Control = [u64; 16];

/// Raw frames to and from one interface.
#[derive(Debug)]
pub struct PacketSocket {
    name: String,
    index: libc::c_uint,
    socket: OwnedFd,
    buffers: Vec<[u8; BUFFER_LEN]>,
    staged: Vec<usize>,
    refused: u64,
    /// What the kernel says beside each frame; empty unless it was asked.
    controls: Vec<Control>,
}

impl PacketSocket {
    /// A socket for the interface `name`, which is made promiscuous as long as the socket lives.
    ///
    /// # Errors
    /// When there is no such interface or the process lacks CAP_NET_RAW.
    pub fn open(name: &str) -> io::Result<PacketSocket> {
        let index = index_of(name)?;
        let every = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers involved.
        let socket = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let fd = socket.as_raw_fd();
        set(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
        _ = set(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32);
        if set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER).is_err() {
            _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER);
        }
        leave_vlans_out(fd)?;
        // SAFETY: all zero is a valid packet_mreq.
        let mut member: libc::packet_mreq = unsafe { std::mem::zeroed() };
        member.mr_ifindex = index as i32;
        member.mr_type = libc::PACKET_MR_PROMISC as u16;
        set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)?;
        // SAFETY: all zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = index as i32;
        let len = size_of_val(&address) as u32;
        // SAFETY: `address` is a sockaddr_ll of `len` bytes.
        check(unsafe { libc::bind(fd, (&raw const address).cast(), len) })?;
        Ok(PacketSocket {
            name: name.to_owned(),
            index,
            socket,
            buffers: vec![[0; BUFFER_LEN]; BATCH],
            staged: Vec::with_capacity(BATCH),
            refused: 0,
            controls: Vec::new(),
        })
    }

    /// Has frames from a moment later on come with the time of their arrival: the kernel's, and the card's where somebody has switched its
    /// stamps on (`hwstamp_ctl`, a daemon of PTP; this changes nothing on the card).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stamp(&mut self) -> io::Result<()> {
        let kernel = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        let card = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        set(self.fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &(kernel | card))?;
        self.controls = vec![[0; 16]; BATCH];
        Ok(())
    }

    /// A socket of the interface that has the name now, where that is another one than this socket's: it was
    /// deleted and made again.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn renewed(&self) -> io::Result<Option<PacketSocket>> {
        match index_of(&self.name) {
            Ok(index) if index != self.index => {
                let mut socket = PacketSocket::open(&self.name)?;
                if !self.controls.is_empty() {
                    socket.stamp()?;
                }
                Ok(Some(socket))
            }
            _ => Ok(None),
        }
    }

    /// Descriptor that is readable while frames wait.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Frames that came when the kernel's buffer for this socket was full, since the last call.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn missed(&self) -> io::Result<u32> {
        // `struct tpacket_stats`: frames, and those of them that were dropped.
        let mut seen = [0_u32; 2];
        let mut len = size_of_val(&seen) as u32;
        let (fd, level) = (self.socket.as_raw_fd(), libc::SOL_PACKET);
        // SAFETY: `seen` has `len` bytes.
        check(unsafe {
            let out = (&raw mut seen).cast();
            libc::getsockopt(fd, level, libc::PACKET_STATISTICS, out, &raw mut len)
        })?;
        Ok(seen[1])
    }

    /// Frames that can be staged before the next [`PacketSocket::flush`].
    pub fn room(&self) -> usize {
        BATCH - self.staged.len()
    }

    /// Stages one frame: `write` fills the buffer and returns the frame's length.
    ///
    /// # Panics
    /// When there is no [`PacketSocket::room`].
    pub fn stage(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        assert!(self.staged.len() < BATCH, "the ring has no room for a frame");
        let len = write(&mut self.buffers[self.staged.len()]);
        self.staged.push(len);
    }

    /// Sends the staged frames and returns how many the interface took. One that it has no space
    /// for is counted as [`PacketSocket::refused`] and gone, as on a full transmit ring.
    ///
    /// # Errors
    /// When the interface is gone or down.
    pub fn flush(&mut self) -> io::Result<usize> {
        let mut vectors = [const { empty_vector() }; BATCH];
        let mut messages = [const { empty_message() }; BATCH];
        for (index, len) in self.staged.iter().enumerate() {
            vectors[index].iov_base = self.buffers[index].as_mut_ptr().cast();
            vectors[index].iov_len = *len;
            messages[index].msg_hdr.msg_iov = &raw mut vectors[index];
            messages[index].msg_hdr.msg_iovlen = 1;
        }
        let count = self.staged.len();
        self.staged.clear();
        let (mut done, mut sent) = (0, 0);
        while done < count {
            let pending = &mut messages[done..count];
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: each message points at one vector, each vector at initialised bytes of
            // `self.buffers`; all outlive the call.
            let result = check(unsafe {
                libc::sendmmsg(self.fd(), pending.as_mut_ptr(), pending.len() as u32, flags as _)
            });
            match result {
                Ok(taken) => {
                    done += taken as usize;
                    sent += taken as usize;
                }
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) =>
                {
                    self.refused += 1;
                    done += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Frames that were staged but not taken by the interface.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Shows up to 64 waiting frames to `see` and returns how many there were. Staged frames must
    /// have been flushed.
    ///
    /// # Errors
    /// When the interface is gone or down.
    ///
    /// # Panics
    /// When frames are staged.
    pub fn receive(&mut self, mut see: impl FnMut(&[u8])) -> io::Result<usize> {
        self.receive_stamped(|frame, _| see(frame))
    }

    /// The same, with when each frame came, as far as that was noted down.
    ///
    /// # Errors
    /// When the interface is gone or down.
    ///
    /// # Panics
    /// When frames are staged.
    pub fn receive_stamped(&mut self, mut see: impl FnMut(&[u8], Arrived)) -> io::Result<usize> {
        assert!(self.staged.is_empty(), "flush before receiving");
        let mut vectors = [const { empty_vector() }; BATCH];
        let mut messages = [const { empty_message() }; BATCH];
        for (index, buffer) in self.buffers.iter_mut().enumerate() {
            vectors[index].iov_base = buffer.as_mut_ptr().cast();
            vectors[index].iov_len = BUFFER_LEN;
            messages[index].msg_hdr.msg_iov = &raw mut vectors[index];
            messages[index].msg_hdr.msg_iovlen = 1;
        }
        for (control, message) in self.controls.iter_mut().zip(&mut messages) {
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        let flags = libc::MSG_DONTWAIT;
        let no_timeout = std::ptr::null_mut();
        // SAFETY: each message points at one vector, each vector at a whole buffer of `self.buffers`, and at one of
        // `self.controls` or none; all outlive the call.
        let result = check(unsafe {
            libc::recvmmsg(self.fd(), messages.as_mut_ptr(), BATCH as u32, flags as _, no_timeout)
        });
        let count = match result {
            Ok(count) => count as usize,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for (message, buffer) in messages[..count].iter().zip(&self.buffers) {
            let arrived = arrived(&message.msg_hdr);
            see(&buffer[..(message.msg_len as usize).min(BUFFER_LEN)], arrived);
        }
        Ok(count)
    }
}

/// The times beside a frame, of a message that the kernel has filled in.
fn arrived(message: &libc::msghdr) -> Arrived {
    let mut arrived = Arrived::default();
    // SAFETY: `msg_control` is null, or points at a `Control` that outlives this, of which the kernel has written the first
    // `msg_controllen` bytes; these two bound where a header is found.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: a header that was found lies within the control data, which is aligned for it.
    while let Some(header) = unsafe { at.as_ref() } {
        let stamps = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        let len = header.cmsg_len;
        // SAFETY: only computes a length.
        let whole = unsafe { libc::CMSG_LEN(size_of::<[libc::timespec; 3]>() as u32) } as usize;
        if (header.cmsg_level, header.cmsg_type) == stamps && len >= whole {
            // SAFETY: the header says that three times follow it (`struct scm_timestamping`), wherever they are aligned.
            let times: [libc::timespec; 3] =
                unsafe { libc::CMSG_DATA(at).cast::<[libc::timespec; 3]>().read_unaligned() };
            let time = |time: libc::timespec| {
                let span = Duration::new(u64::try_from(time.tv_sec).ok()?, time.tv_nsec as u32);
                (!span.is_zero()).then_some(span)
            };
            arrived.kernel = time(times[0]);
            arrived.card_ns = time(times[2]).and_then(|span| u64::try_from(span.as_nanos()).ok());
        }
        // SAFETY: as for the first; `at` is a header of this message.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    arrived
}

const fn empty_vector() -> libc::iovec {
    libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }
}

const fn empty_message() -> libc::mmsghdr {
    // SAFETY: all zero is a valid message without address, vectors and control data.
    unsafe { std::mem::zeroed() }
}

fn index_of(name: &str) -> io::Result<libc::c_uint> {
    let name = CString::new(name)?;
    // SAFETY: a terminated string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Has the kernel show no frames of a VLAN.
fn leave_vlans_out(fd: RawFd) -> io::Result<()> {
    let step =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, TAG, 0, 0),
        // Of a VLAN: over the next step.
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, VLAN, 1, 0),
        step(libc::BPF_RET | libc::BPF_K, u32::MAX, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // The kernel copies the steps during the call.
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn set<T>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    // SAFETY: `value` is a plain structure of `len` bytes as the option expects.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), len) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_interface_is_an_error() {
        let error = PacketSocket::open("no-such-if").expect_err("there is none");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    /// The loopback interface shows each frame to the socket that sent it.
    #[test]
    fn frames_travel_over_loopback() {
        let Ok(mut socket) = PacketSocket::open("lo") else {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to open packet sockets");
            eprintln!("skipped: packet sockets need CAP_NET_RAW");
            return;
        };
        let frame: Vec<u8> =
            [[0; 12].as_slice(), &[0x88, 0xb5], b"ebb packet socket test"].concat();
        for _ in 0..3 {
            socket.stage(|buffer| {
                buffer[..frame.len()].copy_from_slice(&frame);
                frame.len()
            });
        }
        assert_eq!(socket.flush().expect("loopback is up"), 3);
        let mut seen = 0;
        for _ in 0..1000 {
            socket
                .receive_stamped(|bytes, arrived| {
                    seen += usize::from(bytes == frame);
                    assert_eq!(arrived, Arrived::default(), "nobody was asked");
                })
                .expect("loopback is up");
            if seen >= 3 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(seen, 3);
    }

    /// Frames that lie in the socket for a while come with the time at which they were put there.
    #[test]
    fn frames_say_when_they_came() {
        let Ok(mut socket) = PacketSocket::open("lo") else { return };
        socket.stamp().expect("every kernel has them");
        let frame = [[0; 12].as_slice(), &[0x88, 0xb5], b"ebb packet stamps test"].concat();
        let since_1970 = || std::time::UNIX_EPOCH.elapsed().expect("a clock of the day");
        let lies = Duration::from_millis(20);
        // The kernel begins to note times down a moment after it was asked.
        for _ in 0..100 {
            let before = since_1970();
            socket.stage(|buffer| {
                buffer[..frame.len()].copy_from_slice(&frame);
                frame.len()
            });
            socket.flush().expect("loopback is up");
            std::thread::sleep(lies);
            let mut came = None;
            let see = |bytes: &[u8], arrived: Arrived| {
                came = came.or((bytes == frame).then_some(arrived));
            };
            socket.receive_stamped(see).expect("loopback is up");
            let now = since_1970();
            let Arrived { kernel, card_ns } = came.expect("it is there");
            assert_eq!(card_ns, None, "there is no card");
            if let Some(at) = kernel {
                assert!(at >= before && at + lies <= now, "{before:?} {at:?} {now:?}");
                return;
            }
        }
        panic!("no frame was stamped");
    }
}
