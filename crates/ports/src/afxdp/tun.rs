use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A TUN device through which IP packets enter the kernel's stack; gone with the value.
#[derive(Debug)]
pub(super) struct Tun {
    device: File,
}

impl Tun {
    /// Makes a device named `ebb0`, `ebb1` and so on and brings it up. Packets keep their sources
    /// whatever the route back is: the device's reverse-path filter is off, which is effective
    /// where the filter for all interfaces is off or loose.
    pub(super) fn new() -> io::Result<Tun> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
        // SAFETY: all zeroes are a valid value of this structure.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(b"ebb%d") {
            *place = *byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request reads and writes one `ifreq`.
        check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
        let name: String = request
            .ifr_name
            .iter()
            .take_while(|byte| **byte != 0)
            .map(|byte| char::from(*byte as u8))
            .collect();
        std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0")?;
        bring_up(&mut request)?;
        Ok(Tun { device })
    }

    /// Writes the IP packet inside an Ethernet frame.
    pub(super) fn inject(&mut self, frame: &[u8]) -> io::Result<()> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "not an IP packet");
        let mut at = 12;
        while let Some([0x81, 0x00] | [0x88, 0xa8]) = frame.get(at..at + 2) {
            at += 4;
        }
        match frame.get(at..at + 2) {
            Some([0x08, 0x00] | [0x86, 0xdd]) => self.device.write_all(&frame[at + 2..]),
            _ => Err(invalid()),
        }
    }
}

fn bring_up(request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request reads one `ifreq`.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, request) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
