//! Mark and sweep: what a dump does not show is gone.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ebb_host::netlink::{Event, Part};
use ipnet::IpNet;

use super::Scope;
use super::links::Links;
use super::prefixes::Routes;

/// What a dump did not show.
#[derive(Clone, Debug, Default)]
pub(super) struct Unseen {
    pub(super) links: BTreeSet<u32>,
    pub(super) addresses: BTreeSet<(u32, IpNet)>,
    pub(super) next_hops: BTreeSet<u32>,
    /// Whether next-hop objects were part of the dump.
    pub(super) next_hops_listed: bool,
    pub(super) neighbours: BTreeSet<(u32, IpAddr)>,
    /// Families whose routes carry marks of their own.
    pub(super) routes: Routes,
}

/// The state of dumps: the one running, and those needed.
#[derive(Debug, Default)]
pub(super) struct Resync {
    running: Option<(Scope, Unseen, Unseen)>,
    wanted: BTreeSet<u8>,
    wanted_all: bool,
    /// The links were read to their end, and since then nothing was lost.
    pub(super) links_known: bool,
    /// Routes of IPv4 that come now come out of no dump.
    pub(super) announces4: bool,
}

impl Resync {
    pub(super) fn want(&mut self, part: Part) {
        self.links_known &= part != Part::Links;
        self.wanted.insert(number(part));
    }

    pub(super) fn want_if(&mut self, part: Part, condition: bool) {
        if condition {
            self.want(part);
        }
    }

    pub(super) fn want_all(&mut self) {
        self.wanted_all = true;
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn wants(&self) -> bool {
        self.wanted_all || !self.wanted.is_empty()
    }

    /// The next dump that is needed; it is then considered done.
    pub(super) fn wanted(&mut self) -> Option<Scope> {
        if std::mem::take(&mut self.wanted_all) {
            self.wanted.clear();
            return Some(Scope::All);
        }
        let first = self.wanted.pop_first()?;
        Part::ALL.into_iter().find(|part| number(*part) == first).map(Scope::Part)
    }

    pub(super) fn begin(&mut self, scope: Scope, links: &Links) {
        self.announces4 = false;
        let covers = |part| scope == Scope::All || scope == Scope::Part(part);
        let mut all = Unseen::default();
        if covers(Part::Links) {
            all.links = links.indexes().collect();
        }
        if covers(Part::Addresses) {
            all.addresses = links.addresses().collect();
        }
        if covers(Part::NextHops) {
            all.next_hops_listed = true;
            all.next_hops = links.next_hops.keys().copied().collect();
        }
        if covers(Part::Neighbours) {
            all.neighbours = links.neighbours().collect();
        }
        all.routes = Routes { v4: covers(Part::Routes4), v6: covers(Part::Routes6) };
        let again = all.clone();
        self.running = Some((scope, all, again));
    }

    /// Families whose routes are being compared.
    pub(super) fn routes(&self) -> Routes {
        self.running.as_ref().map_or(Routes::default(), |(_, unseen, _)| unseen.routes)
    }

    /// Whether routes to `prefix` come in the order of a dump.
    pub(super) fn covers(&self, prefix: IpNet) -> bool {
        let routes = self.routes();
        if prefix.addr().is_ipv4() { routes.v4 } else { routes.v6 }
    }

    pub(super) fn seen(&mut self, event: &Event) {
        let Some((_, unseen, _)) = &mut self.running else { return };
        match event {
            Event::Link(link) => {
                unseen.links.remove(&link.index);
            }
            Event::Address(address) => {
                unseen.addresses.remove(&(address.link, address.address));
            }
            Event::NextHop(object) => {
                unseen.next_hops.remove(&object.id);
            }
            Event::Neighbour(neighbour) => {
                unseen.neighbours.remove(&(neighbour.link, neighbour.address));
            }
            _ => {}
        }
    }

    /// Messages were lost. Whether a dump was running that starts over with this.
    pub(super) fn lost(&mut self) -> bool {
        self.links_known = false;
        match &mut self.running {
            Some((scope, unseen, all)) => {
                *unseen = all.clone();
                // A partial dump repeats its part only, and anything may have been lost.
                self.wanted_all |= *scope != Scope::All;
                true
            }
            None => {
                self.wanted_all = true;
                false
            }
        }
    }

    /// Ends a dump. Of parts that were not read to their end nothing is known to be gone; they are wanted
    /// again.
    pub(super) fn finish(&mut self, unread: &[Part]) -> Unseen {
        let (scope, mut unseen) = match self.running.take() {
            Some((scope, unseen, _)) => (Some(scope), unseen),
            None => (None, Unseen::default()),
        };
        self.links_known |= matches!(scope, Some(Scope::All | Scope::Part(Part::Links)));
        for part in unread {
            match part {
                Part::Links => unseen.links.clear(),
                Part::Addresses => unseen.addresses.clear(),
                Part::NextHops => {
                    unseen.next_hops.clear();
                    unseen.next_hops_listed = false;
                }
                Part::Neighbours => unseen.neighbours.clear(),
                Part::Routes4 => unseen.routes.v4 = false,
                Part::Routes6 => unseen.routes.v6 = false,
            }
            self.want(*part);
        }
        unseen
    }
}

/// Position in [`Part::ALL`]: dumps run in that order.
fn number(part: Part) -> u8 {
    part as u8
}
