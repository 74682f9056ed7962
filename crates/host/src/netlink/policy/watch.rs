//! When to read again, and the reading.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::super::abi::{AF_INET, AF_INET6};
use super::super::frame::{Fault, Messages, Parsed};
use super::super::socket::{Received, Socket};
use super::super::types::{Error, Result};
use super::ask::Asker;
use super::types::{Chain, Discipline, Rule, Source, Switches, Transforms};
use super::{legacy, netfilter, rules, switches, traffic_control, xfrm};

const GET_RULE: u16 = 34;
const GET_QDISC: u16 = 38;
const GET_FILTER: u16 = 46;
const GET_SWITCHES: u16 = 82;

const XFRM: i32 = 6;
const NETFILTER: i32 = 12;
/// `RTNLGRP_TC`, `_IPV4_RULE`, `_IPV6_RULE`, `_IPV4_NETCONF`, `_IPV6_NETCONF`.
const ROUTE_GROUPS: [u32; 5] = [4, 8, 19, 24, 25];
/// `XFRMNLGRP_POLICY`.
const XFRM_GROUP: u32 = 4;
/// `NFNLGRP_NFTABLES`.
const NETFILTER_GROUP: u32 = 7;

/// How often what the kernel does not announce is looked at.
const LOOK: Duration = Duration::from_millis(700);
/// Least time between two readings that announcements provoke, so that many changes cost little.
const PAUSE: Duration = Duration::from_millis(100);
/// Datagrams that one call reads.
const POLL_MAX: usize = 256;
const RECEIVE_BUFFER: usize = 1 << 20;

/// The kernel's policy in the network namespace in which it was opened.
///
/// ```no_run
/// use ebb_host::netlink::policy::{Source, Watch};
/// let mut watch = Watch::open()?;
/// // At first, and whenever one of watch.fds() is ready:
/// if watch.changed()?.contains(&Source::Rules) {
///     println!("{:?}", watch.rules()?);
/// }
/// # Ok::<(), ebb_host::netlink::Error>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    /// By which announcements come: routing, and where the kernel has them IPsec and nftables.
    route: Socket,
    xfrm: Option<Socket>,
    netfilter: Option<Socket>,
    ask_route: Asker,
    ask_xfrm: Option<Asker>,
    ask_netfilter: Option<Asker>,
    timer: TimerFd,
    legacy: Vec<Chain>,
    pending: BTreeSet<Source>,
    next: Instant,
}

impl Watch {
    /// Subscribes; every source counts as changed at first.
    ///
    /// # Errors
    /// When the kernel refuses the sockets. What the kernel was built without is empty.
    pub fn open() -> Result<Watch> {
        let route = Socket::open(true)?;
        route.set_receive_buffer(RECEIVE_BUFFER);
        ROUTE_GROUPS.into_iter().try_for_each(|group| route.join(group))?;
        let followed = |protocol, group| {
            let socket = Socket::open_protocol(protocol, true).ok()?;
            socket.set_receive_buffer(RECEIVE_BUFFER);
            socket.join(group).ok().map(|()| socket)
        };
        let failed =
            |errno: nix::errno::Errno| Error::Socket { operation: "timer", source: errno.into() };
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(failed)?;
        let watch = Watch {
            xfrm: followed(XFRM, XFRM_GROUP),
            netfilter: followed(NETFILTER, NETFILTER_GROUP),
            route,
            ask_route: Asker::open(libc::NETLINK_ROUTE)?,
            ask_xfrm: Asker::open(XFRM).ok(),
            ask_netfilter: Asker::open(NETFILTER).ok(),
            timer,
            legacy: legacy::chains(),
            pending: Source::ALL.into(),
            next: Instant::now(),
        };
        watch.wake_in(LOOK);
        Ok(watch)
    }

    /// Descriptors that are readable (or report an error) when [`Watch::changed`] has something
    /// to do.
    pub fn fds(&self) -> Vec<RawFd> {
        let sockets = [Some(&self.route), self.xfrm.as_ref(), self.netfilter.as_ref()];
        let mut fds: Vec<RawFd> = sockets.into_iter().flatten().map(Socket::fd).collect();
        fds.push(self.timer.as_fd().as_raw_fd());
        fds
    }

    /// Sources that may have changed since the last call, without blocking. Sources that change
    /// very often are held back for a moment.
    ///
    /// # Errors
    /// When a socket fails.
    pub fn changed(&mut self) -> Result<BTreeSet<Source>> {
        let mut pending = std::mem::take(&mut self.pending);
        let drained = self.drain(&mut pending);
        // `EAGAIN` when the time has not come.
        let woken = self.timer.wait().is_ok();
        if woken {
            let legacy = legacy::chains();
            if legacy != self.legacy {
                self.legacy = legacy;
                pending.insert(Source::Netfilter);
            }
        }
        drained?;
        let now = Instant::now();
        if pending.is_empty() || now < self.next {
            if woken || !pending.is_empty() {
                self.wake_in(if pending.is_empty() { LOOK } else { self.next - now });
            }
            self.pending = pending;
            return Ok(BTreeSet::new());
        }
        self.next = now + PAUSE;
        self.wake_in(LOOK);
        Ok(pending)
    }

    fn wake_in(&self, span: Duration) {
        let at = Expiration::OneShot(TimeSpec::from_duration(span));
        self.timer.set(at, TimerSetTimeFlags::empty()).expect("a valid time");
    }

    fn drain(&mut self, pending: &mut BTreeSet<Source>) -> Result<()> {
        let of_route = |kind| match kind {
            32..=34 => Some(Source::Rules),
            36..=47 | 100..=102 => Some(Source::TrafficControl),
            80..=82 => Some(Source::Switches),
            _ => None,
        };
        follow(&mut self.route, pending, &of_route)?;
        if let Some(xfrm) = &mut self.xfrm {
            follow(xfrm, pending, &|_| Some(Source::Transforms))?;
        }
        if let Some(netfilter) = &mut self.netfilter {
            let telling = |kind| netfilter::tells(kind).then_some(Source::Netfilter);
            follow(netfilter, pending, &telling)?;
        }
        Ok(())
    }

    /// All routing rules, in ascending order within each family.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses.
    pub fn rules(&mut self) -> Result<Vec<Rule>> {
        self.both_families("routing rules", GET_RULE, 12, rules::rule)
    }

    /// The switches of all interfaces, and those for all at once.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses.
    pub fn switches(&mut self) -> Result<Vec<Switches>> {
        self.both_families("forwarding switches", GET_SWITCHES, 4, switches::switches)
    }

    fn both_families<T>(
        &mut self,
        what: &'static str,
        kind: u16,
        header_len: usize,
        parse: impl Fn(&[u8]) -> Parsed<Option<T>>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            let mut fixed = vec![0; header_len];
            fixed[0] = family;
            for (_, body) in self.ask_route.dump(what, kind, &fixed)? {
                found.extend(understood(parse(&body))?);
            }
        }
        Ok(found)
    }

    /// All IPsec policies that forwarded packets may meet.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses, for example for lack of `CAP_NET_ADMIN`.
    pub fn transforms(&mut self) -> Result<Transforms> {
        let Some(ask) = &mut self.ask_xfrm else { return Ok(Transforms::default()) };
        let id = [0; xfrm::POLICY_ID_LEN];
        let policies = ask.dump("IPsec policies", xfrm::GET_POLICY, &id)?;
        let default = ask.get("IPsec default policies", xfrm::GET_DEFAULT, &[0; 4])?;
        let bodies = policies.iter().map(|(_, body)| body.as_slice());
        Ok(xfrm::transforms(bodies, default.first().map(|(_, body)| body.as_slice())))
    }

    /// All chains that are hooked into the ways of IP packets, of nftables and iptables.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses, for example for lack of `CAP_NET_ADMIN`.
    pub fn chains(&mut self) -> Result<Vec<Chain>> {
        let mut chains = self.legacy.clone();
        let Some(ask) = &mut self.ask_netfilter else { return Ok(chains) };
        let mut dormant = BTreeSet::new();
        for (_, body) in ask.dump("tables", netfilter::GET_TABLE, &[0; 4])? {
            dormant.extend(understood(netfilter::dormant(&body))?);
        }
        for (_, body) in ask.dump("chains", netfilter::GET_CHAIN, &[0; 4])? {
            chains.extend(understood(netfilter::chain(&body, &dormant))?);
        }
        Ok(chains)
    }

    /// What traffic control does at these interfaces beyond sending packets as they come.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses.
    pub fn disciplines(&mut self, links: &[u32]) -> Result<Vec<Discipline>> {
        let mut found = Vec::new();
        for (_, body) in self.ask_route.dump("queueing disciplines", GET_QDISC, &[0; 20])? {
            let queueing = understood(traffic_control::queueing(&body))?;
            if !links.contains(&queueing.link) {
                continue;
            }
            let (receiving, sending) = queueing.parents();
            let ingress = queueing.blocks.0 || self.filters(queueing.link, receiving)?;
            let egress =
                queueing.blocks.1 || queueing.shapes() || self.filters(queueing.link, sending)?;
            if ingress || egress {
                let (link, kind) = (queueing.link, queueing.kind);
                found.push(Discipline { link, kind, ingress, egress });
            }
        }
        Ok(found)
    }

    fn filters(&mut self, link: u32, parent: Option<u32>) -> Result<bool> {
        let Some(parent) = parent else { return Ok(false) };
        let fixed = traffic_control::filters_of(link, parent);
        Ok(!self.ask_route.dump("filters", GET_FILTER, &fixed)?.is_empty())
    }
}

fn understood<T>(parsed: Parsed<T>) -> Result<T> {
    parsed.map_err(|Fault(what)| Error::Malformed { what, offset: 0 })
}

/// Reads what waits on one socket; lost messages may have told of anything.
fn follow(
    socket: &mut Socket,
    pending: &mut BTreeSet<Source>,
    source: &dyn Fn(u16) -> Option<Source>,
) -> Result<()> {
    for _ in 0..POLL_MAX {
        match socket.receive(false)? {
            Received::Nothing => return Ok(()),
            Received::Overrun => pending.extend(Source::ALL),
            Received::Bytes(len) => {
                let messages = Messages::new(socket.received(len)).filter_map(Result::ok);
                pending.extend(messages.filter_map(|(header, _)| source(header.kind)));
            }
        }
    }
    Ok(())
}
