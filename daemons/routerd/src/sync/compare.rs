//! Comparisons with the kernel: when, and what becomes of those that fail.
//!
//! The kernel says of a list that changed while it was read that it is inconsistent; under churn that can be
//! any number of times in a row. What such a list shows is true and is taken over; what it does not show stays
//! known as it was, until a later one shows everything. Comparisons leave most of the time to what else
//! the control thread does.
//!
//! Whoever tells of the kernel, and of the time, is an argument ([`Tidings`]): `schedules` tries this beside a kernel in
//! miniature.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io;
use std::time::Duration;

use anyhow::{Result, bail};
use ebb_control::Pacing;
use ebb_host::clock;
use ebb_host::netlink::{Error, Event, Listed, Monitor, Part};
use ebb_units::Time;
use ipnet::IpNet;
use tracing::{info, warn};

use super::unlisted::{SHOWN, Shown};
use crate::rib::{self, Rib, Scope, Tables};

/// Inconsistent lists of one part that are read one after the other.
const ATTEMPTS_MAX: u32 = 3;
/// Times that a comparison begins anew because messages were lost.
const LOSSES_MAX: u32 = 3;
/// Calls that read what waits in the socket before a list: more than its buffer holds.
const WAITING_MAX: u32 = 128;
/// Before the first lists are read again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the first lists may take.
const FIRST_MAX: Duration = Duration::from_secs(20);

/// What the kernel tells of its tables.
pub(super) trait Tidings {
    /// The time.
    fn now(&self) -> Time;
    /// Lets time pass.
    fn pause(&mut self, span: Duration);
    /// See [`Monitor::poll`].
    fn poll(&mut self, each: &mut dyn FnMut(Event)) -> Result<usize, Error>;
    /// See [`Monitor::list`].
    fn list(&mut self, part: Part, each: &mut dyn FnMut(Event)) -> Result<Listed, Error>;
    /// Goes on with another socket.
    fn reopen(&mut self) -> Result<(), Error>;
    /// By how many ways the routes of the last list of IPv6 lead to each of these prefixes, those included that the list
    /// left out; none where nobody can tell.
    fn ways(&mut self, of: &HashSet<IpNet>) -> io::Result<HashMap<IpNet, Option<usize>>>;
}

/// The kernel of this machine.
pub(super) struct Netlink {
    pub(super) monitor: Monitor,
    shown: Shown,
}

impl Netlink {
    pub(super) fn new(monitor: Monitor) -> Netlink {
        Netlink { monitor, shown: Shown::open() }
    }
}

impl Tidings for Netlink {
    fn now(&self) -> Time {
        clock::monotonic()
    }

    fn pause(&mut self, span: Duration) {
        std::thread::sleep(span);
    }

    fn poll(&mut self, each: &mut dyn FnMut(Event)) -> Result<usize, Error> {
        self.monitor.poll(each)
    }

    fn list(&mut self, part: Part, each: &mut dyn FnMut(Event)) -> Result<Listed, Error> {
        let shown = &mut self.shown;
        if part == Part::Routes6 {
            shown.list_begins();
        }
        self.monitor.list(part, &mut |event| {
            shown.listed(&event);
            each(event);
        })
    }

    fn reopen(&mut self) -> Result<(), Error> {
        self.monitor = Monitor::open()?;
        Ok(())
    }

    fn ways(&mut self, of: &HashSet<IpNet>) -> io::Result<HashMap<IpNet, Option<usize>>> {
        self.shown.ways(of)
    }
}

/// Takes over what the kernel tells, and compares the model with it when the model wants that.
pub(super) struct Reading<K> {
    pub(super) kernel: K,
    /// Comparisons begun.
    pub(super) begun: u64,
    /// Parts that could not be read to their end.
    pub(super) unread: u64,
    /// Errors of the kernel's sockets.
    pub(super) failures: u64,
    pacing: Pacing,
    /// IPv6 prefixes of which routes of tables that are not followed have changed since the last list of that family
    /// began: how many of them it counted is out of date.
    outdated: HashSet<IpNet>,
}

impl<K: Tidings> Reading<K> {
    pub(super) fn new(kernel: K) -> Reading<K> {
        Reading {
            kernel,
            begun: 0,
            unread: 0,
            failures: 0,
            pacing: Pacing::default(),
            outdated: HashSet::new(),
        }
    }

    /// When the comparison that waits begins.
    pub(super) fn next(&self) -> Option<Time> {
        self.pacing.next()
    }

    pub(super) fn failed(&mut self, what: &str, error: &dyn Display) {
        self.failures += 1;
        warn!(what, %error, code = "EBB-R075", "cannot read from the kernel; forwarding continues with the known tables");
    }

    /// Takes over what the kernel said; whether it said something. `each` is told of every event.
    pub(super) fn listen(
        &mut self,
        rib: &mut Rib,
        fib: &mut impl Tables,
        each: &mut dyn FnMut(&Event),
    ) -> bool {
        let before = rib.changes();
        rib.pass(self.kernel.now(), fib);
        let told = self.kernel.poll(&mut |event| {
            each(&event);
            rib.apply(&event, fib);
        });
        match told {
            Ok(events) => events > 0 || before != rib.changes(),
            Err(error) => {
                self.failed("netlink", &error);
                self.reopen(rib, fib);
                true
            }
        }
    }

    /// Goes on with another socket, or with this one if there is none: all may have changed.
    fn reopen(&mut self, rib: &mut Rib, fib: &mut impl Tables) {
        if let Err(error) = self.kernel.reopen() {
            self.failed("cannot watch the kernel's tables", &error);
        }
        rib.apply(&Event::Overrun, fib);
    }

    /// Reads everything for the first time.
    ///
    /// # Errors
    /// When the kernel refuses, or its routes cannot be read to their end for long: without a route, packets
    /// would go where others lead.
    pub(super) fn read_first(&mut self, rib: &mut Rib, fib: &mut impl Tables) -> Result<()> {
        let begun = self.kernel.now();
        loop {
            rib.pass(self.kernel.now(), fib);
            self.hear_out(rib, fib);
            rib.begin(Scope::All);
            let (unread, refusal) = self.list(Scope::All, rib, fib);
            self.finish(Scope::All, &mut unread.clone(), rib, fib);
            if let Some(refusal) = refusal {
                return Err(anyhow::Error::from(refusal).context("reading the kernel's tables"));
            }
            let lacks = |part: Part| matches!(part, Part::Routes4 | Part::Routes6);
            self.ended(begun, &unread);
            if !unread.into_iter().any(lacks) {
                return Ok(());
            }
            if self.kernel.now().since(begun) > FIRST_MAX {
                bail!(
                    "the kernel's routes change too fast to be read; start the router when they \
                    are stable"
                );
            }
            self.kernel.pause(PAUSE);
        }
    }

    /// Compares what the model wants compared, when it is time; whether anything was.
    pub(super) fn catch_up(&mut self, rib: &mut Rib, fib: &mut impl Tables) -> bool {
        let mut compared = false;
        while rib.wants() {
            if !self.pacing.may_begin(self.kernel.now()) {
                break;
            }
            let Some(scope) = rib.wanted() else { break };
            self.compare(scope, rib, fib);
            compared = true;
        }
        if !rib.wants() {
            self.pacing.rest();
        }
        compared
    }

    fn compare(&mut self, scope: Scope, rib: &mut Rib, fib: &mut impl Tables) {
        info!(?scope, code = "EBB-R077", "comparing with the kernel's tables");
        self.begun += 1;
        let begun = self.kernel.now();
        rib.pass(begun, fib);
        self.hear_out(rib, fib);
        rib.begin(scope);
        let (mut unread, error) = self.list(scope, rib, fib);
        self.finish(scope, &mut unread, rib, fib);
        if let Some(error) = error {
            self.failed("reading the kernel's tables", &error);
            if matches!(error, Error::Socket { .. }) {
                self.reopen(rib, fib);
            }
        }
        self.ended(begun, &unread);
    }

    /// Takes over what waits in the socket. It is older than the lists that follow and proves nothing beside them: behind it
    /// messages may have been lost that took back what it says.
    fn hear_out(&mut self, rib: &mut Rib, fib: &mut impl Tables) {
        self.hear_out_with(rib, fib, &mut |_| ());
    }

    fn hear_out_with(
        &mut self,
        rib: &mut Rib,
        fib: &mut impl Tables,
        each: &mut dyn FnMut(&Event),
    ) {
        for _ in 0..WAITING_MAX {
            let told = self.kernel.poll(&mut |event| {
                each(&event);
                rib.apply(&event, fib);
            });
            match told {
                Ok(0) => break,
                Ok(_) => {}
                // The list that follows fails as well, and says so.
                Err(_) => {
                    each(&Event::Overrun);
                    rib.apply(&Event::Overrun, fib);
                    break;
                }
            }
        }
    }

    /// One took place from `begun` on and left these parts unread.
    fn ended(&mut self, begun: Time, unread: &[Part]) {
        self.unread += unread.len() as u64;
        let now = self.kernel.now();
        if let Some(again) = self.pacing.ended(begun, now, unread.is_empty()) {
            let parts: Vec<&str> = unread.iter().map(|part| part.name()).collect();
            let again_ms = again.as_millis() as u64;
            warn!(
                parts = parts.join(", "),
                again_ms,
                code = "EBB-R076",
                "kernel tables changed while they were read; trying again later"
            );
        }
    }

    fn finish(
        &mut self,
        scope: Scope,
        unread: &mut Vec<Part>,
        rib: &mut Rib,
        fib: &mut impl Tables,
    ) {
        rib.finish_without(unread, fib);
        let covers = matches!(scope, Scope::All | Scope::Part(Part::Routes6));
        if covers && !unread.contains(&Part::Routes6) && !self.look_for_unlisted(rib, fib) {
            rib.want(Part::Routes6);
            unread.push(Part::Routes6);
        }
    }

    /// A list of IPv6 routes was read to its end: prefixes of which there is more than it showed are the
    /// kernel's. Whether nothing is to be asked for again.
    fn look_for_unlisted(&mut self, rib: &mut Rib, fib: &mut impl Tables) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            let merged = rib.merged();
            if merged.is_empty() {
                return true;
            }
            let ways = self.kernel.ways(&merged);
            if let Err(error) = &ways {
                warn!(file = SHOWN, %error, code = "EBB-R078", "merged IPv6 routes are left to the kernel: it may have \
                    more than it lists");
            }
            if ways.is_ok() && self.has_moved(&merged, rib, fib) {
                continue;
            }
            let mut outdated = false;
            for prefix in merged {
                let number = ways.as_ref().ok().and_then(|ways| *ways.get(&prefix)?);
                let since = self.outdated.contains(&prefix);
                outdated |= since;
                rib.count_ways(prefix, number.filter(|_| !since), fib);
            }
            // Where there is no such file there will be none.
            return ways
                .map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |_| !outdated);
        }
        rib.merged().into_iter().for_each(|prefix| rib.count_ways(prefix, None, fib));
        false
    }

    /// Whether routes of `merged` prefixes have changed since they were counted, or may have. Of tables that are not
    /// followed no count can tell how many are left: these are noted, and the list is to be read again.
    fn has_moved(&mut self, merged: &HashSet<IpNet>, rib: &mut Rib, fib: &mut impl Tables) -> bool {
        let mut moved = false;
        let mut outdated = std::mem::take(&mut self.outdated);
        self.hear_out_with(rib, fib, &mut |event| {
            moved |= match event {
                Event::Route { route, .. } | Event::RouteGone(route) => {
                    let of_merged = merged.contains(&route.prefix);
                    if of_merged && !rib::is_followed(route.table) {
                        outdated.insert(route.prefix);
                    }
                    of_merged && rib::is_followed(route.table)
                }
                Event::Address(_) | Event::AddressGone(_) => false,
                Event::Neighbour(_) | Event::NeighbourGone(_) => false,
                _ => true,
            };
        });
        self.outdated = outdated;
        moved
    }

    /// Takes over what the kernel lists; the parts that were not read to their end, and the last error.
    fn list(
        &mut self,
        scope: Scope,
        rib: &mut Rib,
        fib: &mut impl Tables,
    ) -> (Vec<Part>, Option<Error>) {
        let wanted = |part: &Part| scope == Scope::All || scope == Scope::Part(*part);
        let parts: Vec<Part> = Part::ALL.into_iter().filter(wanted).collect();
        let mut refusal = None;
        'anew: for _ in 0..LOSSES_MAX {
            let mut unread = Vec::new();
            for part in &parts {
                match self.list_part(*part, rib, fib) {
                    Ok(Listed::Complete) => {}
                    Ok(Listed::Inconsistent) => unread.push(*part),
                    Ok(Listed::Overrun) => {
                        self.hear_out(rib, fib);
                        rib.apply(&Event::Overrun, fib);
                        continue 'anew;
                    }
                    Err(error) => {
                        unread.push(*part);
                        refusal = Some(error);
                    }
                }
            }
            return (unread, refusal);
        }
        (parts, refusal)
    }

    fn list_part(
        &mut self,
        part: Part,
        rib: &mut Rib,
        fib: &mut impl Tables,
    ) -> Result<Listed, Error> {
        let mut listed = Listed::Inconsistent;
        rib.lists(part);
        for _ in 0..ATTEMPTS_MAX {
            if part == Part::Routes6 {
                self.outdated.clear();
            }
            let outdated = &mut self.outdated;
            listed = self.kernel.list(part, &mut |event| {
                outdated.extend(announced_of_others(&event));
                rib.apply(&event, fib);
            })?;
            if listed != Listed::Inconsistent {
                break;
            }
        }
        Ok(listed)
    }
}

/// The IPv6 prefix of a route in a table that is not followed, if the event cannot come from a list.
fn announced_of_others(event: &Event) -> Option<IpNet> {
    match event {
        Event::Route { route, replace, append } if *replace || *append => Some(route),
        Event::RouteGone(route) => Some(route),
        _ => None,
    }
    .filter(|route| route.prefix.addr().is_ipv6() && !rib::is_followed(route.table))
    .map(|route| route.prefix)
}
