//! What is asked of the kernel: one request, one answer.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use libc::{RTM_DELADDR, RTM_DELNEIGH, RTM_GETLINK, RTM_NEWADDR, RTM_NEWNEIGH};

use super::abi::*;
use super::frame::{Builder, Messages};
use super::parse::event;
use super::socket::{Received, Socket, acknowledged};
use super::types::{Elsewhere, Error, Event, Link, Result};

/// Batches of requests are sent in pieces below this.
pub(super) const SEND_LEN: usize = 128 * 1024;

/// A socket for requests to the network namespace in which it was opened.
///
/// ```no_run
/// use ebb_host::netlink::Requests;
/// let mut requests = Requests::open()?;
/// let loopback = requests.link_by_name("lo")?.expect("every namespace has one");
/// requests.set_up(loopback.index, true)?;
/// requests.add_address(loopback.index, "192.0.2.1/32".parse().unwrap())?;
/// # Ok::<(), ebb_host::netlink::Error>(())
/// ```
#[derive(Debug)]
pub struct Requests {
    pub(super) socket: Socket,
}

impl Requests {
    /// Opens the socket in the calling thread's network namespace; it stays there.
    ///
    /// # Errors
    /// When the kernel refuses the socket.
    pub fn open() -> Result<Self> {
        let socket = Socket::open(false)?;
        socket.set_send_buffer(4 * SEND_LEN);
        socket.set_receive_buffer(4 << 20);
        Ok(Requests { socket })
    }

    /// Sends one request and awaits its acknowledgement.
    pub(super) fn ask(
        &mut self,
        what: impl FnOnce() -> String,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        fill: impl FnOnce(&mut Builder),
    ) -> Result<()> {
        let seq = self.socket.next_seq();
        let mut builder = Builder::default();
        builder.begin(kind, REQUEST | ACK | flags, seq, fixed);
        fill(&mut builder);
        builder.end();
        self.socket.send(&builder.bytes)?;
        let (errno, message) = self.answer(seq, &mut |_| {})?;
        if errno == 0 {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(errno);
        Err(Error::Refused { request: what(), source, message })
    }

    /// Reads to the end of the answer to `seq`: an acknowledgement or the end of a dump. A dump that changed
    /// while it was read is as one that was refused with `EINTR`.
    fn answer(&mut self, seq: u32, each: &mut dyn FnMut(Event)) -> Result<(i32, String)> {
        let mut consistent = true;
        loop {
            let Received::Bytes(len) = self.socket.receive(true)? else {
                return Ok((libc::ENOBUFS, String::new()));
            };
            for message in Messages::new(self.socket.received(len)) {
                let (header, body) = message?;
                if header.seq != seq {
                    continue;
                }
                consistent &= header.flags & DUMP_INTERRUPTED == 0;
                if matches!(header.kind, ERROR | DONE) {
                    let (errno, message) = acknowledged(header, body);
                    let changed = errno == 0 && header.kind == DONE && !consistent;
                    return Ok((if changed { libc::EINTR } else { errno }, message));
                }
                if let Ok(Some(event)) = event(header, body) {
                    each(event);
                }
            }
        }
    }

    /// Whether there is a link in another namespace. Without a privilege there it is taken to be.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn is_elsewhere(&mut self, link: Elsewhere) -> Result<bool> {
        let mut fixed = [0; 16];
        fixed[4..8].copy_from_slice(&link.index.to_ne_bytes());
        let asked = self.ask(
            || format!("link {} of namespace {}", link.index, link.namespace),
            RTM_GETLINK,
            0,
            &fixed,
            |b| _ = b.u32(IFLA_TARGET_NETNSID, link.namespace.cast_unsigned()),
        );
        match asked {
            // No such link, or no namespace of that number any more.
            Err(error) if matches!(error.errno(), Some(libc::ENODEV | libc::EINVAL)) => Ok(false),
            Err(Error::Refused { .. }) | Ok(()) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Asks the kernel to find the Ethernet address of `address` on `link` by ARP or neighbour
    /// discovery, as if it had a packet to send there; a [`Monitor`](super::Monitor) tells the
    /// outcome.
    ///
    /// # Errors
    /// When the link is gone or down, or without privilege.
    pub fn resolve(&mut self, link: u32, address: IpAddr) -> Result<()> {
        let fixed = neighbour_header(link, address, libc::NUD_NONE, NTF_USE);
        self.ask(
            || format!("resolve {address} on link {link}"),
            RTM_NEWNEIGH,
            CREATE,
            &fixed,
            |b| {
                b.ip(NDA_DST, address);
            },
        )
    }

    /// Sets a neighbour by hand, permanently.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_neighbour(&mut self, link: u32, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        let fixed = neighbour_header(link, address, libc::NUD_PERMANENT, 0);
        self.ask(
            || format!("add neighbour {address} on link {link}"),
            RTM_NEWNEIGH,
            CREATE | REPLACE,
            &fixed,
            |b| {
                b.ip(NDA_DST, address).attribute(NDA_LLADDR, &mac);
            },
        )
    }

    /// Forgets a neighbour.
    ///
    /// # Errors
    /// When the kernel refuses, for example because there is none.
    pub fn delete_neighbour(&mut self, link: u32, address: IpAddr) -> Result<()> {
        let fixed = neighbour_header(link, address, libc::NUD_NONE, 0);
        self.ask(
            || format!("delete neighbour {address} on link {link}"),
            RTM_DELNEIGH,
            0,
            &fixed,
            |b| {
                b.ip(NDA_DST, address);
            },
        )
    }

    /// Gives a link an address, without duplicate address detection.
    ///
    /// # Errors
    /// When the kernel refuses, for example because the link has it already.
    pub fn add_address(&mut self, link: u32, address: IpNet) -> Result<()> {
        self.change_address(RTM_NEWADDR, CREATE | EXCLUSIVE, "add", link, address)
    }

    /// Takes an address from a link.
    ///
    /// # Errors
    /// When the kernel refuses, for example because the link does not have it.
    pub fn delete_address(&mut self, link: u32, address: IpNet) -> Result<()> {
        self.change_address(RTM_DELADDR, 0, "delete", link, address)
    }

    fn change_address(
        &mut self,
        kind: u16,
        flags: u16,
        verb: &str,
        link: u32,
        address: IpNet,
    ) -> Result<()> {
        let mut fixed = [0; 8];
        fixed[0] = family_of(address.addr());
        fixed[1] = address.prefix_len();
        fixed[2] = IFA_F_NODAD;
        fixed[4..].copy_from_slice(&link.to_ne_bytes());
        self.ask(
            || format!("{verb} address {address} on link {link}"),
            kind,
            flags,
            &fixed,
            |b| {
                b.ip(IFA_LOCAL, address.addr()).ip(IFA_ADDRESS, address.addr());
            },
        )
    }

    /// All links.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        const ATTEMPTS_MAX: u32 = 16;
        for _ in 0..ATTEMPTS_MAX {
            let seq = self.socket.next_seq();
            let mut builder = Builder::default();
            builder
                .begin(RTM_GETLINK, REQUEST | DUMP, seq, &[0; 16])
                .u32(IFLA_EXT_MASK, SKIP_STATISTICS)
                .end();
            self.socket.send(&builder.bytes)?;
            let mut links = Vec::new();
            let (errno, message) = self.answer(seq, &mut |event| {
                if let Event::Link(link) = event {
                    links.push(link);
                }
            })?;
            match errno {
                0 => return Ok(links),
                libc::EINTR => {}
                _ => {
                    let source = io::Error::from_raw_os_error(errno);
                    return Err(Error::Refused { request: "list links".into(), source, message });
                }
            }
        }
        Err(Error::Interrupted { what: "links", attempts: ATTEMPTS_MAX })
    }

    /// The link with this name, if there is one.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn link_by_name(&mut self, name: &str) -> Result<Option<Link>> {
        Ok(self.links()?.into_iter().find(|link| link.name == name))
    }

    /// The index of the link that must have this name.
    ///
    /// # Errors
    /// When there is none, or the socket fails.
    pub fn index_of(&mut self, name: &str) -> Result<u32> {
        let link = self.link_by_name(name)?;
        Ok(link.ok_or_else(|| Error::NoLink(name.to_owned()))?.index)
    }
}

pub(super) fn family_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

/// `struct ndmsg`.
fn neighbour_header(link: u32, address: IpAddr, state: u16, flags: u8) -> [u8; 12] {
    let mut fixed = [0; 12];
    fixed[0] = family_of(address);
    fixed[4..8].copy_from_slice(&link.to_ne_bytes());
    fixed[8..10].copy_from_slice(&state.to_ne_bytes());
    fixed[10] = flags;
    fixed
}
