//! When to read again, and the reading.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::super::abi::{AF_INET, AF_INET6};
use super::super::ask::{ABSENT, Answer, Asker, UNNUMBERED};
use super::super::classifier;
use super::super::frame::{Builder, Fault, Messages, Parsed};
use super::super::socket::{Received, Socket};
use super::super::types::{Error, Result};
use super::types::{
    Chain, Discipline, Expression, Hook, Place, Rule, Ruleset, Source, Switches, Transforms,
};
use super::{expressions, legacy, netfilter, rules, sets, switches, traffic_control, xfrm};

const GET_RULE: u16 = 34;
const GET_QDISC: u16 = 38;
const GET_SWITCHES: u16 = 82;

const XFRM: i32 = 6;
const NETFILTER: i32 = 12;
/// `RTNLGRP_TC`, `_IPV4_RULE`, `_IPV6_IFADDR`, `_IPV6_RULE`, `_IPV4_NETCONF`, `_IPV6_NETCONF`.
const ROUTE_GROUPS: [u32; 6] = [4, 8, 9, 19, 24, 25];
/// `XFRMNLGRP_POLICY`.
const XFRM_GROUP: u32 = 4;
/// `NFNLGRP_NFTABLES`.
const NETFILTER_GROUP: u32 = 7;

/// Sockets that announcements come by: of routing, of IPsec, of packet filters. The kernel may be without the latter two.
pub const SOCKETS: usize = 3;

/// How often what the kernel does not announce is looked at.
const LOOK: Duration = Duration::from_millis(700);
/// Least time between two readings that announcements provoke, so that many changes cost little.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a generation of packet filters may be counted and not be announced.
const PATIENCE: Duration = Duration::from_secs(4);
/// Sets of which the elements are read.
const SETS_MAX: usize = 32_768;
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
    sockets: [Option<Socket>; SOCKETS],
    /// How many datagrams each had brought or lost when it was emptied last.
    heard: [u64; SOCKETS],
    ask_route: Asker,
    ask_xfrm: Option<Asker>,
    ask_netfilter: Option<Asker>,
    timer: TimerFd,
    legacy: Vec<Chain>,
    /// Where IPv6 is switched off, as far as was asked for.
    without_v6: BTreeMap<String, bool>,
    /// Of the rules of nftables: announced last, unless announcements were lost since; and as the kernel had counted them when
    /// they were read last, since then.
    generation: Option<u32>,
    counted: (u32, Instant),
    /// Sets that rules ask: a change of their elements is one of the rules.
    asked: BTreeSet<Place>,
    pending: BTreeSet<Source>,
    /// Could not be read, and are to be tried again.
    unread: BTreeSet<Source>,
    next: Instant,
}

impl Watch {
    /// Subscribes; every source counts as changed at first.
    ///
    /// # Errors
    /// When the kernel refuses the sockets. What the kernel was built without is empty.
    pub fn open() -> Result<Watch> {
        Watch::open_with(|_| Ok(()))
    }

    /// Like [`Watch::open`]; `prepare` is given the sockets before they are sent anything.
    ///
    /// # Errors
    /// As [`Watch::open`], or that of `prepare`.
    pub fn open_with(
        prepare: impl FnOnce([Option<BorrowedFd<'_>>; SOCKETS]) -> io::Result<()>,
    ) -> Result<Watch> {
        let sockets = [
            Some(Socket::open(true)?),
            present(Socket::open_protocol(XFRM, true))?,
            present(Socket::open_protocol(NETFILTER, true))?,
        ];
        prepare(sockets.each_ref().map(|socket| socket.as_ref().map(AsFd::as_fd)))
            .map_err(|source| Error::Socket { operation: "filter", source })?;
        let groups: [&[u32]; SOCKETS] = [&ROUTE_GROUPS, &[XFRM_GROUP], &[NETFILTER_GROUP]];
        for (socket, groups) in sockets.iter().zip(groups) {
            let Some(socket) = socket else { continue };
            socket.set_receive_buffer(RECEIVE_BUFFER);
            groups.iter().try_for_each(|group| socket.join(*group))?;
        }
        let failed =
            |errno: nix::errno::Errno| Error::Socket { operation: "timer", source: errno.into() };
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(failed)?;
        let watch = Watch {
            sockets,
            heard: [0; SOCKETS],
            ask_route: Asker::open(libc::NETLINK_ROUTE)?,
            ask_xfrm: present(Asker::open(XFRM))?,
            ask_netfilter: present(Asker::open(NETFILTER))?,
            timer,
            legacy: legacy::chains(),
            without_v6: BTreeMap::new(),
            generation: None,
            counted: (0, Instant::now()),
            asked: BTreeSet::new(),
            pending: Source::ALL.into(),
            unread: BTreeSet::new(),
            next: Instant::now(),
        };
        watch.wake_in(LOOK);
        Ok(watch)
    }

    /// Descriptors that are readable (or report an error) when [`Watch::changed`] has something
    /// to do.
    pub fn fds(&self) -> Vec<RawFd> {
        let mut fds: Vec<RawFd> = self.sockets.iter().flatten().map(Socket::fd).collect();
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
            self.look(&mut pending);
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

    /// Looks at what the kernel does not announce.
    fn look(&mut self, pending: &mut BTreeSet<Source>) {
        pending.append(&mut self.unread);
        let legacy = legacy::chains();
        if legacy != self.legacy {
            self.legacy = legacy;
            pending.insert(Source::Netfilter);
        }
        if self.without_v6.iter().any(|(name, off)| switches::is_without_v6(name) != *off) {
            pending.insert(Source::Switches);
        }
    }

    /// A source may have changed for a reason that the kernel does not announce.
    pub fn touch(&mut self, source: Source) {
        self.pending.insert(source);
    }

    /// A source could not be read: it counts as changed once more, after a while.
    pub fn try_again(&mut self, source: Source) {
        self.unread.insert(source);
    }

    /// To be called when everything that had changed has been taken over: the next reading begins no sooner
    /// than after half the time that this one took, so that a policy that is large and changes all the time
    /// leaves time for everything else.
    pub fn rest(&mut self) {
        let begun = self.next - PAUSE;
        self.next = self.next.max(Instant::now() + begun.elapsed() / 2);
    }

    fn wake_in(&self, span: Duration) {
        let at = Expiration::OneShot(TimeSpec::from_duration(span));
        self.timer.set(at, TimerSetTimeFlags::empty()).expect("a valid time");
    }

    /// Whether so many announcements, as counted at each socket, had come when [`Watch::changed`] was called last, and it
    /// told of all their sources.
    pub fn has_told(&self, announcements: [u64; SOCKETS]) -> bool {
        let pairs = self.heard.iter().zip(announcements);
        self.pending.is_empty() && pairs.into_iter().all(|(heard, counted)| *heard >= counted)
    }

    fn drain(&mut self, pending: &mut BTreeSet<Source>) -> Result<()> {
        let asked = &self.asked;
        let of_route = |kind, _: &[u8]| match kind {
            // The addresses of an interface go when IPv6 is switched off there, and come when it is on again.
            20 | 21 => Some(Source::Switches),
            32..=34 => Some(Source::Rules),
            36..=47 | 100..=102 => Some(Source::TrafficControl),
            80..=82 => Some(Source::Switches),
            _ => None,
        };
        let of_set = |kind, body: &[u8]| {
            netfilter::tells_of_elements(kind)
                && sets::set_of(body).is_ok_and(|set| asked.contains(&set))
        };
        let generation = Cell::new(self.generation);
        let of_filters = |kind, body: &[u8]| {
            if let Ok(Some(announced)) = netfilter::generation(kind, body) {
                generation.set(Some(announced));
            }
            (netfilter::tells(kind) || of_set(kind, body)).then_some(Source::Netfilter)
        };
        let of_transforms = |_, _: &[u8]| Some(Source::Transforms);
        let sources: [Telling<'_>; SOCKETS] = [&of_route, &of_transforms, &of_filters];
        for ((socket, heard), source) in self.sockets.iter_mut().zip(&mut self.heard).zip(sources) {
            let Some(socket) = socket else { continue };
            follow(socket, pending, source)?;
            let lost;
            (*heard, lost) = socket.heard()?;
            if lost {
                pending.extend(Source::ALL);
                generation.set(None);
            }
        }
        self.generation = generation.get();
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
            for (_, body) in self.ask_route.dump(what, ABSENT, (kind, &fixed))? {
                found.extend(understood(parse(&body))?);
            }
        }
        Ok(found)
    }

    /// Which of these interfaces drop whatever IPv6 comes in, because it is switched off there
    /// (`net.ipv6.conf.NAME.disable_ipv6`) or there is no IPv6 at all (`ip6_rcv_core`). From now on a change
    /// of it is one of [`Source::Switches`].
    pub fn without_v6(&mut self, names: &[&str]) -> BTreeSet<String> {
        let mut off = BTreeSet::new();
        for name in names {
            let is_off = switches::is_without_v6(name);
            self.without_v6.insert((*name).to_owned(), is_off);
            if is_off {
                off.insert((*name).to_owned());
            }
        }
        off
    }

    /// No interface's IPv6 is looked at any more, until it is asked for again.
    pub fn forget_v6(&mut self) {
        self.without_v6.clear();
    }

    /// All IPsec policies that forwarded packets may meet.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses, for example for lack of `CAP_NET_ADMIN`.
    pub fn transforms(&mut self) -> Result<Transforms> {
        let Some(ask) = &mut self.ask_xfrm else { return Ok(Transforms::default()) };
        let id = [0; xfrm::POLICY_ID_LEN];
        let policies = ask.dump("IPsec policies", ABSENT, (xfrm::GET_POLICY, &id))?;
        let default =
            ask.get("IPsec default policies", UNNUMBERED, (xfrm::GET_DEFAULT, &[0; 4]))?;
        let bodies = policies.iter().map(|(_, body)| body.as_slice());
        Ok(xfrm::transforms(bodies, default.first().map(|(_, body)| body.as_slice())))
    }

    /// All chains that are hooked into the ways of IP packets, of nftables and iptables, and the rules of nftables. `None`
    /// while a change is being made that is not announced yet, so that what was read may be partly of before and partly of
    /// after it: it counts as changed once more.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses, for example for lack of `CAP_NET_ADMIN`.
    pub fn chains(&mut self) -> Result<Option<(Vec<Chain>, Ruleset)>> {
        let mut chains = self.legacy.clone();
        let Some(ask) = &mut self.ask_netfilter else {
            return Ok(Some((chains, Ruleset::default())));
        };
        let announced = match self.generation {
            Some(announced) => announced,
            // Whatever change is being made is announced when the kernel is done with one of nothing.
            None => {
                let counted = generation(ask)?;
                ask.tell(&netfilter::NO_CHANGE)?;
                *self.generation.insert(counted)
            }
        };
        let before = generation(ask)?;
        let rules = filters(ask, &mut chains, &mut self.asked);
        let after = generation(ask)?;
        // The kernel goes over to the next generation after it has counted it, and before it announces it.
        let (counted, since) = self.counted;
        if counted != after {
            self.counted = (after, Instant::now());
        }
        let was_counted = counted == before && since.elapsed() >= PATIENCE;
        if before != after || !(announced == before || was_counted) {
            self.touch(Source::Netfilter);
            self.wake_in(PAUSE);
            return Ok(None);
        }
        Ok(Some((chains, rules?)))
    }

    /// What traffic control does at these interfaces beyond sending packets as they come.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses.
    pub fn disciplines(&mut self, links: &[u32]) -> Result<Vec<Discipline>> {
        let mut found = Vec::new();
        for (_, body) in
            self.ask_route.dump("queueing disciplines", ABSENT, (GET_QDISC, &[0; 20]))?
        {
            let queueing = understood(traffic_control::queueing(&body))?;
            if !links.contains(&queueing.link) {
                continue;
            }
            let (receiving, sending) = queueing.parents();
            let strange = queueing.strange;
            let ingress = strange || queueing.blocks.0 || self.filters(queueing.link, receiving)?;
            let filters = self.filters_at(queueing.link, sending)?;
            let egress = strange || queueing.blocks.1 || queueing.shapes() || !filters.is_empty();
            if ingress || egress {
                let looks_elsewhere = strange
                    || queueing.blocks.1
                    || !filters.iter().all(|(_, body)| traffic_control::is_plain_filter(body));
                let (link, kind) = (queueing.link, queueing.kind);
                found.push(Discipline { link, kind, ingress, egress, looks_elsewhere });
            }
        }
        Ok(found)
    }

    fn filters(&mut self, link: u32, parent: Option<u32>) -> Result<bool> {
        Ok(!self.filters_at(link, parent)?.is_empty())
    }

    fn filters_at(&mut self, link: u32, parent: Option<u32>) -> Result<Answer> {
        let Some(parent) = parent else { return Ok(Answer::new()) };
        classifier::others_at(&mut self.ask_route, link, parent)
    }
}

/// Of the rules of nftables; 0 where there is no nftables.
fn generation(ask: &mut Asker) -> Result<u32> {
    let answer = ask.get("generation", UNNUMBERED, (netfilter::GET_GENERATION, &[0; 4]))?;
    let mut found = 0;
    for (header, body) in &answer {
        found = understood(netfilter::generation(header.kind, body))?.unwrap_or(found);
    }
    Ok(found)
}

/// Adds the chains of nftables that are hooked in. Their rules, and the elements of sets that nobody can change, and of
/// those that rules of chains ask that packets may come to from these; `asked` are the latter.
fn filters(
    ask: &mut Asker,
    chains: &mut Vec<Chain>,
    asked: &mut BTreeSet<Place>,
) -> Result<Ruleset> {
    for (_, body) in ask.dump("chains", UNNUMBERED, (netfilter::GET_CHAIN, &[0; 4]))? {
        chains.extend(understood(netfilter::chain(&body))?);
    }
    let mut found = Ruleset::default();
    let matters = |chain: &Chain| !matches!(chain.hook, Hook::Input | Hook::Output);
    if !chains.iter().any(|chain| matters(chain) && (chain.place.is_some() || chain.rules > 0)) {
        return Ok(found);
    }
    for (_, body) in ask.dump("rules", UNNUMBERED, (expressions::GET_RULE, &[0; 4]))? {
        let (place, rule) = understood(expressions::rule(&body))?;
        found.chains.entry(place).or_default().push(rule);
    }
    for chain in chains.iter_mut() {
        let Some(place) = &chain.place else { continue };
        chain.rules = found.chains.get(place).map_or(0, |rules| rules.len() as u32);
    }
    if !chains.iter().any(|chain| matters(chain) && chain.rules > 0) {
        return Ok(Ruleset::default());
    }
    let from = chains.iter().filter(|chain| matters(chain));
    let from: Vec<&Place> = from.filter_map(|chain| chain.place.as_ref()).collect();
    // Before their elements are read: from now on a change of them is announced.
    *asked = sets::asked(&found, &found.reach(from.iter().copied()));
    let fills = |one: &Expression| matches!(one, Expression::Does(what) if what == "dynset");
    let filled = found.chains.values().flatten().flatten().any(fills);
    let all = ask.dump("sets", UNNUMBERED, (expressions::GET_SET, &[0; 4]))?;
    for (_, body) in all.iter().take(SETS_MAX) {
        let fixed = understood(expressions::fixed_set(body))?;
        let set = understood(sets::set(body))?.filter(|set| asked.contains(&set.place));
        let set = set.filter(|set| !filled || set.is_constant());
        let Some(place) = fixed.as_ref().or(set.as_ref().map(|set| &set.place)) else { continue };
        let mut request = Builder::default();
        request.begin(0, 0, 0, &[place.0, 0, 0, 0]).string(1, &place.1).string(2, &place.2).end();
        let request = (expressions::GET_ELEMENTS, &request.bytes[16..]);
        let answer = ask.dump("elements of a set", UNNUMBERED, request)?;
        if let Some(set) = set {
            let bodies: Vec<&[u8]> = answer.iter().map(|(_, body)| &body[..]).collect();
            if let Some(ranges) = understood(sets::ranges(&set, &bodies))? {
                found.ranges.insert(set.place, Arc::new(ranges));
            }
        }
        if let Some(place) = fixed {
            let mut elements = Vec::new();
            for (_, body) in &answer {
                elements.extend(understood(expressions::elements(body))?);
            }
            found.sets.insert(place, elements);
        }
    }
    Ok(found)
}

/// A socket, or nothing where the kernel was built without its protocol.
fn present<T>(opened: Result<T>) -> Result<Option<T>> {
    match opened {
        Err(Error::Socket { source, .. })
            if source.raw_os_error() == Some(libc::EPROTONOSUPPORT) =>
        {
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

fn understood<T>(parsed: Parsed<T>) -> Result<T> {
    parsed.map_err(|Fault(what)| Error::Malformed { what, offset: 0 })
}

/// What a message tells of, by its kind and its body.
type Telling<'a> = &'a dyn Fn(u16, &[u8]) -> Option<Source>;

/// Reads what waits on one socket; lost messages may have told of anything.
fn follow(socket: &mut Socket, pending: &mut BTreeSet<Source>, source: Telling<'_>) -> Result<()> {
    for _ in 0..POLL_MAX {
        match socket.receive(false)? {
            Received::Nothing => return Ok(()),
            Received::Overrun => pending.extend(Source::ALL),
            Received::Bytes(len) => {
                let messages = Messages::new(socket.received(len)).filter_map(Result::ok);
                pending.extend(messages.filter_map(|(header, body)| source(header.kind, body)));
            }
        }
    }
    Ok(())
}
