//! An interface's queues and how it spreads packets over them, by the ethtool ioctls: every
//! driver that has the netlink form has these too, and older kernels have nothing else.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

// linux/ethtool.h
const GDRVINFO: u32 = 0x03;
const GRXFHINDIR: u32 = 0x38;
const SRXFHINDIR: u32 = 0x39;
const GCHANNELS: u32 = 0x3c;
const SCHANNELS: u32 = 0x3d;
const GRINGPARAM: u32 = 0x10;
/// `ETHTOOL_GFLAGS` and `ETHTOOL_SFLAGS`: some offloads as bits of one word.
const GFLAGS: u32 = 0x25;
const SFLAGS: u32 = 0x26;
/// `ETHTOOL_GET_TS_INFO`.
const GET_TS_INFO: u32 = 0x41;
/// `SOF_TIMESTAMPING_RX_HARDWARE` and `SOF_TIMESTAMPING_RAW_HARDWARE`.
const STAMPS_OF_CARD: u32 = 1 << 2 | 1 << 6;
/// `ETH_FLAG_RXVLAN` and `ETH_FLAG_LRO`.
const FLAG_RXVLAN: u32 = 1 << 8;
const FLAG_LRO: u32 = 1 << 15;
/// Words of `struct ethtool_drvinfo`.
const DRVINFO_WORDS: usize = 49;
/// More than any device's indirection table.
const RSS_TABLE_LEN_MAX: u32 = 1 << 16;

/// An offload that changes what packets look like between interface and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Receive checksums are verified by the interface.
    ReceiveChecksum,
    /// Transport checksums are left to the interface: packets that never leave the machine carry
    /// none.
    TransmitChecksum,
    /// Packets larger than the MTU are cut by the interface.
    Segmentation,
    /// TCP segments are cut by the interface.
    TcpSegmentation,
    /// Packets of a flow are merged on receive (GRO).
    ReceiveMerging,
}

impl Offload {
    fn commands(self) -> (u32, u32) {
        match self {
            Offload::ReceiveChecksum => (0x14, 0x15),
            Offload::TransmitChecksum => (0x16, 0x17),
            Offload::TcpSegmentation => (0x1e, 0x1f),
            Offload::Segmentation => (0x23, 0x24),
            Offload::ReceiveMerging => (0x2b, 0x2c),
        }
    }
}

/// Numbers of an interface's queues. Combined ones receive and transmit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Queues that only receive.
    pub receive: u32,
    /// Queues that only transmit.
    pub transmit: u32,
    /// Queues for other things (link interrupts).
    pub other: u32,
    /// Queues that do both.
    pub combined: u32,
}

impl Channels {
    /// Queues that receive.
    pub fn receiving(&self) -> u32 {
        self.receive + self.combined
    }
}

/// What drives an interface (`struct ethtool_drvinfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// As in `virtio_net`; some say nothing.
    pub name: String,
    /// Where the device is; empty, `N/A` or what the driver likes where there is none.
    pub bus: String,
}

/// A string in memory that ends before its first zero.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// An interface of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Interface {
    name: String,
    socket: OwnedFd,
}

impl Interface {
    /// Opens the way to an interface; whether it exists shows with the first request (`ENODEV`).
    ///
    /// # Errors
    /// When the name is longer than 15 bytes or the kernel refuses a socket.
    pub fn open(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an interface name"));
        }
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        Ok(Interface { name: name.to_owned(), socket })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands `words` to the driver, which may fill them. The first word is the command; the rest
    /// must have the length that the command and its own fields announce.
    fn ask(&self, words: &mut [u32]) -> io::Result<()> {
        // SAFETY: all fields of ifreq are plain data for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the name is terminated since it is shorter than its field, and the data points
        // to exclusively borrowed memory as long as the command says, which callers see to.
        let result = unsafe {
            libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The number of the clock (`/dev/ptpN`) by which the card stamps frames that it receives; none where it does not.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn stamping_clock(&self) -> io::Result<Option<u32>> {
        // `struct ethtool_ts_info`: command, what it stamps, the clock, and which frames.
        let mut words = [0; 11];
        words[0] = GET_TS_INFO;
        self.ask(&mut words)?;
        let stamps = words[1] & STAMPS_OF_CARD == STAMPS_OF_CARD;
        Ok(u32::try_from(words[2].cast_signed()).ok().filter(|_| stamps))
    }

    /// What drives it.
    ///
    /// # Errors
    /// `ENODEV` without such an interface.
    pub fn driver(&self) -> io::Result<Driver> {
        let mut words = [0; DRVINFO_WORDS];
        words[0] = GDRVINFO;
        self.ask(&mut words)?;
        Ok(Driver { name: text(&words[1..9]), bus: text(&words[25..33]) })
    }

    fn channel_words(&self) -> io::Result<[u32; 9]> {
        let mut words = [0; 9];
        words[0] = GCHANNELS;
        self.ask(&mut words)?;
        Ok(words)
    }

    /// The numbers of queues now.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver has a fixed number, `ENODEV` without such an interface.
    pub fn channels(&self) -> io::Result<Channels> {
        let [.., receive, transmit, other, combined] = self.channel_words()?;
        Ok(Channels { receive, transmit, other, combined })
    }

    /// The largest numbers of queues.
    ///
    /// # Errors
    /// As [`Interface::channels`].
    pub fn channels_max(&self) -> io::Result<Channels> {
        let [_, receive, transmit, other, combined, ..] = self.channel_words()?;
        Ok(Channels { receive, transmit, other, combined })
    }

    /// Descriptors of each receive ring, and the most there can be.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver does not say.
    pub fn receive_ring(&self) -> io::Result<(u32, u32)> {
        let mut words = [0; 9];
        words[0] = GRINGPARAM;
        self.ask(&mut words)?;
        Ok((words[5], words[1]))
    }

    /// Sets the numbers of queues. Most drivers interrupt traffic for it and reset the RSS table.
    ///
    /// # Errors
    /// `EINVAL` outside the driver's limits or below what the RSS table or AF_XDP sockets use.
    pub fn set_channels(&self, channels: Channels) -> io::Result<()> {
        let Channels { receive, transmit, other, combined } = channels;
        self.ask(&mut [SCHANNELS, 0, 0, 0, 0, receive, transmit, other, combined])
    }

    /// The queue of each entry of the RSS indirection table.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the interface has none.
    pub fn rss_table(&self) -> io::Result<Vec<u32>> {
        let mut ask_len = [GRXFHINDIR, 0];
        self.ask(&mut ask_len)?;
        let len = ask_len[1];
        if len == 0 || len > RSS_TABLE_LEN_MAX {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let mut words = vec![0; 2 + len as usize];
        (words[0], words[1]) = (GRXFHINDIR, len);
        self.ask(&mut words)?;
        words.drain(..2);
        Ok(words)
    }

    /// Writes the RSS indirection table; an empty one asks for the driver's default.
    ///
    /// # Errors
    /// `EINVAL` for a wrong length or a queue that is not there.
    pub fn set_rss_table(&self, table: &[u32]) -> io::Result<()> {
        let len = u32::try_from(table.len()).ok().filter(|&len| len <= RSS_TABLE_LEN_MAX);
        let len = len.ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
        let mut words = vec![SRXFHINDIR, len];
        words.extend(table);
        self.ask(&mut words)
    }

    /// Whether an offload is on.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver does not know it.
    pub fn offload(&self, offload: Offload) -> io::Result<bool> {
        let mut words = [offload.commands().0, 0];
        self.ask(&mut words)?;
        Ok(words[1] != 0)
    }

    /// Whether the interface takes VLAN tags out of received frames and reports them aside, where
    /// XDP programs cannot see them (`rxvlan`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver does not know it.
    pub fn strips_vlan_tags(&self) -> io::Result<bool> {
        let mut words = [GFLAGS, 0];
        self.ask(&mut words)?;
        Ok(words[1] & FLAG_RXVLAN != 0)
    }

    /// Whether the interface merges received packets in hardware (LRO), which cannot be undone before they are
    /// forwarded.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver does not know it.
    pub fn merges_in_hardware(&self) -> io::Result<bool> {
        let mut words = [GFLAGS, 0];
        self.ask(&mut words)?;
        Ok(words[1] & FLAG_LRO != 0)
    }

    /// Makes the interface take VLAN tags out, or leave them in.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver can't.
    pub fn strip_vlan_tags(&self, on: bool) -> io::Result<()> {
        let mut words = [GFLAGS, 0];
        self.ask(&mut words)?;
        let flags = if on { words[1] | FLAG_RXVLAN } else { words[1] & !FLAG_RXVLAN };
        self.ask(&mut [SFLAGS, flags])
    }

    /// Switches an offload.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver can't.
    pub fn set_offload(&self, offload: Offload, on: bool) -> io::Result<()> {
        self.ask(&mut [offload.commands().1, u32::from(on)])
    }
}

/// An interface's RSS indirection table.
#[derive(Debug)]
pub struct RssTable {
    interface: Interface,
}

impl RssTable {
    /// For `interface`.
    ///
    /// # Errors
    /// When the interface has no such table.
    pub fn open(interface: &str) -> io::Result<Self> {
        let interface = Interface::open(interface)?;
        interface.rss_table()?;
        Ok(RssTable { interface })
    }

    /// The queue of each entry.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn read(&self) -> io::Result<Vec<u32>> {
        self.interface.rss_table()
    }

    /// Writes all entries, as many as [`RssTable::read`] gives.
    ///
    /// # Errors
    /// When the interface refuses.
    pub fn write(&self, table: &[u32]) -> io::Result<()> {
        self.interface.set_rss_table(table)
    }
}
