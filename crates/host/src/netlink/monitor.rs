//! What exists and what changes, over one socket.

use std::os::fd::RawFd;

use libc::{RTM_GETADDR, RTM_GETLINK, RTM_GETNEIGH, RTM_GETROUTE};

use super::abi::*;
use super::frame::{Builder, Fault, Messages};
use super::parse::{event, parse};
use super::requests::Requests;
use super::socket::{Received, Socket, acknowledged};
use super::types::{Error, Event, Result};

/// Room for the notifications of a full table's change.
const RECEIVE_BUFFER: usize = 64 << 20;
const ATTEMPTS_MAX: u32 = 16;
/// Datagrams that one [`Monitor::poll`] reads, so that a flood of changes does not keep its caller
/// from everything else.
const POLL_MAX: usize = 1024;

/// A part of the kernel's state that can be dumped on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Links.
    Links,
    /// Addresses of both families.
    Addresses,
    /// Next-hop objects.
    NextHops,
    /// Neighbours of both families.
    Neighbours,
    /// IPv4 routes of all tables.
    Routes4,
    /// IPv6 routes of all tables.
    Routes6,
}

impl Part {
    /// All parts, in an order in which each refers only to those before it.
    pub const ALL: [Part; 6] = [
        Part::Links,
        Part::Addresses,
        Part::NextHops,
        Part::Neighbours,
        Part::Routes4,
        Part::Routes6,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Part::Links => "links",
            Part::Addresses => "addresses",
            Part::NextHops => "next hops",
            Part::Neighbours => "neighbours",
            Part::Routes4 => "IPv4 routes",
            Part::Routes6 => "IPv6 routes",
        }
    }

    fn request(self, seq: u32) -> Vec<u8> {
        let mut builder = Builder::default();
        let flags = REQUEST | DUMP;
        match self {
            Part::Links => {
                builder.begin(RTM_GETLINK, flags, seq, &[0; 16]).u32(IFLA_EXT_MASK, SKIP_STATISTICS)
            }
            Part::Addresses => builder.begin(RTM_GETADDR, flags, seq, &[0; 8]),
            Part::NextHops => builder.begin(GET_NEXTHOP, flags, seq, &[0; 8]),
            Part::Neighbours => builder.begin(RTM_GETNEIGH, flags, seq, &[0; 12]),
            Part::Routes4 => builder.begin(RTM_GETROUTE, flags, seq, &routes_of(AF_INET)),
            Part::Routes6 => builder.begin(RTM_GETROUTE, flags, seq, &routes_of(AF_INET6)),
        };
        builder.end();
        builder.bytes
    }
}

fn routes_of(family: u8) -> [u8; 12] {
    let mut fixed = [0; 12];
    fixed[0] = family;
    fixed
}

/// A subscription to the links, addresses, next hops, neighbours and routes of the network
/// namespace in which it was opened.
///
/// What the kernel does *not* announce, and its user must infer: IPv4 routes vanish without a
/// message when their link goes administratively down or away, when the address they prefer as
/// source goes, and when their next-hop object goes; hops are marked dead or without carrier, and
/// revived, silently. [`Monitor::dump_part`] asks anew at any time.
///
/// ```no_run
/// use std::collections::BTreeMap;
/// use ebb_host::netlink::{Event, Monitor};
/// let mut monitor = Monitor::open()?;
/// let mut routes = BTreeMap::new();
/// let mut follow = |event| match event {
///     Event::Overrun => routes.clear(),
///     Event::Route { route, .. } => {
///         routes.insert((route.table, route.prefix, route.metric), route.hops);
///     }
///     Event::RouteGone(route) => {
///         routes.remove(&(route.table, route.prefix, route.metric));
///     }
///     _ => {}
/// };
/// monitor.dump(&mut follow)?;
/// // Whenever monitor.fd() is ready:
/// monitor.poll(&mut follow)?;
/// # Ok::<(), ebb_host::netlink::Error>(())
/// ```
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// Subscribes; what happens from now on is remembered for [`Monitor::poll`].
    ///
    /// # Errors
    /// When the kernel refuses the socket or a subscription. Kernels without next-hop objects
    /// (before 5.3) are served without them.
    pub fn open() -> Result<Self> {
        Self::with_receive_buffer(RECEIVE_BUFFER)
    }

    /// Like [`Monitor::open`], with a receive buffer of `bytes`: a small one overruns sooner.
    ///
    /// # Errors
    /// As [`Monitor::open`].
    pub fn with_receive_buffer(bytes: usize) -> Result<Self> {
        let socket = Socket::open(true)?;
        socket.set_receive_buffer(bytes);
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
            libc::RTNLGRP_NEIGH,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV6_ROUTE,
        ] {
            socket.join(group)?;
        }
        let _ = socket.join(libc::RTNLGRP_NEXTHOP);
        Ok(Monitor { socket })
    }

    /// Ready when [`Monitor::poll`] has something to say: readable, or with an error pending
    /// (`POLLERR`) when messages were lost, which the next [`Monitor::poll`] reports and clears.
    pub fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    /// From now on says nothing of changes that come from `requests`: whoever makes very many knows them,
    /// and would overrun its own buffer.
    ///
    /// # Errors
    /// When the kernel refuses the filter.
    pub fn ignore(&self, requests: &Requests) -> Result<()> {
        self.socket.ignore(requests.socket.port()?)
    }

    /// Reports what waits, without blocking, and returns the number of events. After very many it
    /// leaves the rest for the next call; the descriptor stays readable.
    ///
    /// # Errors
    /// When the socket fails. A malformed message is logged and counts as lost.
    pub fn poll(&mut self, each: &mut dyn FnMut(Event)) -> Result<usize> {
        let mut count = 0;
        for _ in 0..POLL_MAX {
            match self.socket.receive(false)? {
                Received::Nothing => break,
                Received::Overrun => {
                    each(Event::Overrun);
                    count += 1;
                }
                Received::Bytes(len) => match parse(self.socket.received(len), each) {
                    Ok(events) => count += events,
                    Err(error) => {
                        tracing::warn!(%error, code = "EBB-H006", "a netlink message was lost");
                        each(Event::Overrun);
                        count += 1;
                    }
                },
            }
        }
        Ok(count)
    }

    /// Reports everything that exists, mixed with the changes that happen meanwhile, in the order
    /// in which they are true: applying all events as they come gives the state at return.
    ///
    /// # Errors
    /// When the socket fails, the kernel refuses, or [`Error::Interrupted`] when changes are too
    /// many to complete a dump.
    pub fn dump(&mut self, each: &mut dyn FnMut(Event)) -> Result<()> {
        'whole: for _ in 0..ATTEMPTS_MAX {
            for part in Part::ALL {
                if !self.dump_attempt(part, each)? {
                    each(Event::Overrun);
                    continue 'whole;
                }
            }
            return Ok(());
        }
        Err(Error::Interrupted { what: "everything", attempts: ATTEMPTS_MAX })
    }

    /// Reports one part of what exists, mixed with changes of any part.
    ///
    /// # Errors
    /// As [`Monitor::dump`].
    pub fn dump_part(&mut self, part: Part, each: &mut dyn FnMut(Event)) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            if self.dump_attempt(part, each)? {
                return Ok(());
            }
            each(Event::Overrun);
        }
        Err(Error::Interrupted { what: part.name(), attempts: ATTEMPTS_MAX })
    }

    /// False when messages were lost. An inconsistent dump is repeated here: since changes arrive in
    /// order on this socket, what was said before stays true.
    fn dump_attempt(&mut self, part: Part, each: &mut dyn FnMut(Event)) -> Result<bool> {
        for _ in 0..ATTEMPTS_MAX {
            match self.list(part, each)? {
                Listed::Complete => return Ok(true),
                Listed::Inconsistent => {}
                Listed::Overrun => return Ok(false),
            }
        }
        Err(Error::Interrupted { what: part.name(), attempts: ATTEMPTS_MAX })
    }

    /// Reports one part of what exists, mixed with changes of any part, once: whoever must go on with other
    /// work decides himself when to ask again.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses.
    pub fn list(&mut self, part: Part, each: &mut dyn FnMut(Event)) -> Result<Listed> {
        let seq = self.socket.next_seq();
        self.socket.send(&part.request(seq))?;
        let (mut consistent, mut lost) = (true, false);
        loop {
            let len = match self.socket.receive(true)? {
                Received::Bytes(len) => len,
                Received::Overrun => {
                    // The dump goes on and must be read to its end before another can start.
                    lost = true;
                    continue;
                }
                Received::Nothing => continue,
            };
            for message in Messages::new(self.socket.received(len)) {
                let Ok((header, body)) = message else {
                    tracing::warn!(code = "EBB-H007", "a malformed netlink message was ignored");
                    lost = true;
                    break;
                };
                let ours = header.seq == seq;
                match header.kind {
                    DONE if ours => {
                        consistent &= header.flags & DUMP_INTERRUPTED == 0;
                        let (errno, _) = acknowledged(header, body);
                        return finish(part, errno, consistent, lost);
                    }
                    ERROR if ours => {
                        let (errno, message) = acknowledged(header, body);
                        return refused(part, errno, message);
                    }
                    ERROR | DONE => {}
                    _ => {
                        if ours && header.flags & DUMP_INTERRUPTED != 0 {
                            consistent = false;
                        }
                        match event(header, body) {
                            Ok(Some(event)) => each(event),
                            Ok(None) => {}
                            Err(Fault(what)) => {
                                tracing::warn!(
                                    what,
                                    code = "EBB-H008",
                                    "skipped a malformed netlink message"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What came of [`Monitor::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Everything was listed: what was not is not there.
    Complete,
    /// The kernel says that the list changed meanwhile (`NLM_F_DUMP_INTR`): what was listed is true,
    /// what was not may be there all the same.
    Inconsistent,
    /// Messages were lost: anything may have changed.
    Overrun,
}

fn finish(part: Part, errno: i32, consistent: bool, lost: bool) -> Result<Listed> {
    if errno != 0 {
        return refused(part, errno, String::new());
    }
    Ok(match (lost, consistent) {
        (true, _) => Listed::Overrun,
        (false, true) => Listed::Complete,
        (false, false) => Listed::Inconsistent,
    })
}

fn refused(part: Part, errno: i32, message: String) -> Result<Listed> {
    // Kernels without next-hop objects or without IPv6 have none of them.
    if matches!(errno, libc::EOPNOTSUPP | libc::EAFNOSUPPORT)
        && matches!(part, Part::NextHops | Part::Routes6)
    {
        return Ok(Listed::Complete);
    }
    Err(Error::Refused {
        request: format!("dump of {}", part.name()),
        source: std::io::Error::from_raw_os_error(errno),
        message,
    })
}
