//! What an interface says of itself, by the ioctls of netdevice(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::AfXdpError;

/// Facts about an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub(super) index: u32,
    pub(super) up: bool,
    /// In bytes, Ethernet header excluded.
    pub(super) mtu: u32,
    pub(super) mac: [u8; 6],
    /// Receive queues in use.
    pub(super) queues: u32,
    /// Its senders may leave checksums to hardware that is not there.
    pub(super) unfinished: bool,
    /// It is made of other interfaces, which receive in its stead.
    pub(super) aggregates: bool,
}

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// Drivers of devices on a bus whose senders are programs on the same machine.
const PARAVIRTUAL: [&str; 5] = ["virtio_net", "vif", "xen_netfront", "vmxnet3", "hv_netvsc"];

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct Driver {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    expansion_rom: [u8; 32],
    reserved: [u8; 12],
    lengths: [u32; 5],
}

impl Driver {
    fn aggregates(&self) -> bool {
        matches!(text(&self.driver).as_str(), "bonding" | "team")
    }

    /// Whether frames come from senders' memory: the interface is on no bus, or is one of
    /// [`PARAVIRTUAL`]. An interface that says nothing of its driver is taken for such a one.
    fn shares_memory(&self) -> bool {
        let on_a_bus = !matches!(text(&self.bus).as_str(), "" | "N/A" | "tap" | "tun");
        !on_a_bus || PARAVIRTUAL.contains(&text(&self.driver).as_str())
    }
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

pub(super) fn look_up(name: &str) -> Result<Device, AfXdpError> {
    let failed = |source: io::Error| match source.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => AfXdpError::NoInterface { interface: name.to_owned() },
        _ => AfXdpError::system(format!("ask interface {name} for its properties"), source),
    };
    let mut request = Request::new(name).map_err(failed)?;
    // SAFETY: each member read is the one that the preceding request filled in.
    unsafe {
        request.call(libc::SIOCGIFINDEX).map_err(failed)?;
        let index = request.fields.ifr_ifru.ifru_ifindex as u32;
        request.call(libc::SIOCGIFFLAGS).map_err(failed)?;
        let up = libc::c_int::from(request.fields.ifr_ifru.ifru_flags) & libc::IFF_UP != 0;
        request.call(libc::SIOCGIFMTU).map_err(failed)?;
        let mtu = request.fields.ifr_ifru.ifru_mtu as u32;
        request.call(libc::SIOCGIFHWADDR).map_err(failed)?;
        let address = request.fields.ifr_ifru.ifru_hwaddr.sa_data;
        let mac = std::array::from_fn(|i| address[i] as u8);
        let (queues, driver) = (request.queues(), request.driver());
        let (unfinished, aggregates) = (driver.shares_memory(), driver.aggregates());
        Ok(Device { index, up, mtu, mac, queues, unfinished, aggregates })
    }
}

struct Request {
    socket: OwnedFd,
    fields: libc::ifreq,
}

impl Request {
    fn new(name: &str) -> io::Result<Request> {
        let no_such_name = || io::Error::from_raw_os_error(libc::ENODEV);
        if name.len() >= libc::IFNAMSIZ || name.is_empty() || name.contains('\0') {
            return Err(no_such_name());
        }
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all zeroes are a valid value of this structure.
        let mut fields: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in fields.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        Ok(Request { socket, fields })
    }

    fn call(&mut self, request: libc::Ioctl) -> io::Result<()> {
        // SAFETY: these requests read and write one `ifreq`, and what it points to.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &mut self.fields) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn driver(&mut self) -> Driver {
        // SAFETY: all zeroes are a valid value of this structure of integers.
        let mut driver: Driver = unsafe { std::mem::zeroed() };
        driver.command = ETHTOOL_GDRVINFO;
        let pointer: *mut Driver = &mut driver;
        self.fields.ifr_ifru.ifru_data = pointer.cast();
        // What fails leaves zeroes.
        let _ = self.call(libc::SIOCETHTOOL as libc::Ioctl);
        driver
    }

    /// Receive queues; drivers that can't say have one.
    fn queues(&mut self) -> u32 {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        let pointer: *mut Channels = &mut channels;
        self.fields.ifr_ifru.ifru_data = pointer.cast();
        match self.call(libc::SIOCETHTOOL as libc::Ioctl) {
            Ok(()) => (channels.rx + channels.combined).max(1),
            Err(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_told_from_memory() {
        let driver = |name: &str, bus: &str| {
            // SAFETY: all zeroes are a valid value of this structure of integers.
            let mut driver: Driver = unsafe { std::mem::zeroed() };
            driver.driver[..name.len()].copy_from_slice(name.as_bytes());
            driver.bus[..bus.len()].copy_from_slice(bus.as_bytes());
            (driver.shares_memory(), driver.aggregates())
        };
        assert_eq!(size_of::<Driver>(), 196);
        let memory = [("veth", ""), ("tun", "tap"), ("bridge", "N/A"), ("virtio_net", "virtio0")];
        assert!(memory.iter().all(|(name, bus)| driver(name, bus) == (true, false)));
        let hardware = [("ixgbe", "0000:03:00.0"), ("r8152", "usb-0000:00:14.0-1")];
        assert!(hardware.iter().all(|(name, bus)| driver(name, bus) == (false, false)));
        assert_eq!([driver("", ""), driver("bonding", "")], [(true, false), (true, true)]);
    }

    #[test]
    fn loopback_has_an_index_and_an_absent_interface_is_named() {
        let device = look_up("lo").unwrap();
        assert!(device.index > 0 && device.mtu > 1000 && device.queues >= 1);
        let error = look_up("no-such-port").unwrap_err().to_string();
        assert_eq!(error, "interface no-such-port does not exist");
        assert!(matches!(look_up("a-name-longer-than-any"), Err(AfXdpError::NoInterface { .. })));
    }
}
