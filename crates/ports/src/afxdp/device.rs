//! What an interface says of itself, by the ioctls of netdevice(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ebb_host::ethtool::{Driver, Interface};

use super::link::{has_links, reaches_before_the_stack};
use super::{AfXdpError, Mode, PacketPath};

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
    /// It is a piece of hardware, or a virtual machine's stand-in for one. Of others no driver is known that
    /// would not copy packets.
    pub(super) on_a_bus: bool,
    /// It is made of other interfaces, which receive in its stead.
    pub(super) aggregates: bool,
    /// Whoever sends to it brings the packet all the way himself.
    pub(super) carried: bool,
    /// VLAN tags may travel beside its frames, where programs do not see them.
    pub(super) beside: bool,
}

impl Device {
    /// Whether the kernel path's program is to run in the driver: where that is stated, and in drivers of cards, which
    /// spare the network stack's buffer for each packet. Links whose senders are programs would lose their
    /// super-frames by it.
    pub(super) fn forwards_in_driver(&self, mode: Mode) -> bool {
        match mode {
            Mode::Auto => self.on_a_bus && !self.unfinished,
            Mode::Native => true,
            Mode::Generic => false,
        }
    }
}

/// Whether the kernel path of an interface would be in its driver, which must leave VLAN tags in the frames then.
pub fn forwards_in_driver(name: &str, mode: Mode) -> bool {
    look_up(name).is_ok_and(|device| device.forwards_in_driver(mode))
}

/// Whether the kernel can forward what an interface receives by itself: before the network stack, or in the driver.
pub fn has_kernel_path(name: &str, mode: Mode) -> bool {
    look_up(name).is_ok_and(|device| {
        device.forwards_in_driver(mode) || reaches_before_the_stack(device.index)
    })
}

/// Whether the kernel path's program would stay at an interface after a sudden end of the process: as a filter, where the
/// kernel has no links before the network stack.
pub fn outlives_us(name: &str) -> bool {
    look_up(name).is_ok_and(|device| !has_links(device.index))
}

/// Drivers of devices on a bus whose senders are programs on the same machine.
const PARAVIRTUAL: [&str; 5] = ["virtio_net", "vif", "xen_netfront", "vmxnet3", "hv_netvsc"];

/// Whether it is made of other interfaces.
fn aggregates(driver: &Driver) -> bool {
    matches!(driver.name.as_str(), "bonding" | "team")
}

fn on_a_bus(driver: &Driver) -> bool {
    !matches!(driver.bus.as_str(), "" | "N/A" | "tap" | "tun")
}

/// Whether frames come from senders' memory: the interface is on no bus, or is one of
/// [`PARAVIRTUAL`]. An interface that says nothing of its driver is taken for such a one.
fn shares_memory(driver: &Driver) -> bool {
    !on_a_bus(driver) || PARAVIRTUAL.contains(&driver.name.as_str())
}

/// The same for the interface of an index, whatever its name is by now.
pub(super) fn look_up_index(index: u32) -> Result<Device, AfXdpError> {
    let name = name_of(index)
        .map_err(|_| AfXdpError::NoInterface { interface: format!("of index {index}") })?;
    look_up(&name)
}

/// Who forwards what the interface receives with less work for the machine. On links that are on no bus, and those
/// whose senders are programs on the same machine, each packet would be copied for a worker, which has to be woken
/// for it. Drivers of other cards may share frames with workers, and a kernel may have no such path.
pub fn cheaper_path(name: &str) -> PacketPath {
    match look_up(name) {
        Ok(Device { unfinished: true, index, .. }) if reaches_before_the_stack(index) => {
            PacketPath::Kernel
        }
        _ => PacketPath::Worker,
    }
}

/// The name that an interface has at present.
///
/// # Errors
/// When there is none of this index.
pub fn name_of(index: u32) -> io::Result<String> {
    let mut name = [0; libc::IFNAMSIZ];
    // SAFETY: the buffer has the length that the call writes at most.
    let result = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if result.is_null() {
        return Err(io::Error::last_os_error());
    }
    let bytes: Vec<u8> =
        name.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn look_up(name: &str) -> Result<Device, AfXdpError> {
    let failed = |source: io::Error| match source.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => AfXdpError::NoInterface { interface: name.to_owned() },
        _ => AfXdpError::system(format!("cannot read the properties of interface {name}"), source),
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
        let ethtool = Interface::open(name).map_err(failed)?;
        // Drivers that can't say have one.
        let queues = ethtool.channels().map_or(1, |channels| channels.receiving().max(1));
        let driver = ethtool.driver().unwrap_or_default();
        let (unfinished, aggregates) = (shares_memory(&driver), aggregates(&driver));
        let (carried, on_a_bus) = (driver.name == "tun", on_a_bus(&driver));
        // What comes from memory may have a tag beside it unless it was written to a tap.
        let beside = !on_a_bus && !carried || ethtool.strips_vlan_tags().unwrap_or(false);
        Ok(Device {
            index,
            up,
            mtu,
            mac,
            queues,
            unfinished,
            on_a_bus,
            aggregates,
            carried,
            beside,
        })
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_told_from_memory() {
        let driver = |name: &str, bus: &str| {
            let driver = Driver { name: name.to_owned(), bus: bus.to_owned() };
            (shares_memory(&driver), aggregates(&driver))
        };
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
