//! Interfaces that take the frames of others: what arrives at the lower one under its own address is
//! the upper one's (`rx_handler` in the kernel), and so no router's.
//!
//! One that lies in another namespace is not seen from here. Of those that were made here and moved
//! the kernel tells where they went; any other shows only in that its lower interface takes frames
//! for all stations although nothing here wants it to.

use std::collections::BTreeMap;

use ebb_host::netlink::{Elsewhere, Link};

/// What is known of interfaces that take frames of links and are not among the links.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Interfaces in other namespaces that were here before.
    moved: BTreeMap<Elsewhere, Moved>,
    /// Sockets that want a link to take frames for all stations, by link.
    listeners: BTreeMap<u32, u32>,
}

#[derive(Debug)]
struct Moved {
    name: String,
    parent: u32,
    claims: bool,
    mac: Option<[u8; 6]>,
}

impl Claims {
    /// A link has gone into another namespace.
    pub(super) fn moved(&mut self, link: &Link, to: Elsewhere) {
        let Some(parent) = link.parent else { return };
        let (name, claims, mac) = (link.name.clone(), link.claims_parent, link.mac);
        self.moved.insert(to, Moved { name, parent, claims, mac });
    }

    /// Interfaces in other namespaces that count.
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = Elsewhere> {
        self.moved.keys().copied()
    }

    /// One of them is no more; returns the link on which it lay.
    pub(super) fn end(&mut self, gone: Elsewhere) -> Option<u32> {
        self.moved.remove(&gone).map(|moved| moved.parent)
    }

    /// A link is gone, and what lay on it.
    pub(super) fn forget(&mut self, link: u32) {
        self.moved.retain(|_, moved| moved.parent != link);
        self.listeners.remove(&link);
    }

    /// So many sockets want a link to take frames for all stations; whether that is new.
    pub(super) fn set_listeners(&mut self, link: u32, count: u32) -> bool {
        self.listeners.insert(link, count).unwrap_or(0) != count
    }

    /// Who takes the frames of `link`, in words, if anybody does.
    pub(super) fn on(&self, link: &Link, all: &BTreeMap<u32, Link>) -> Option<String> {
        let here = || {
            let mut on_it = on_it(link, all).filter(|upper| upper.claims_parent);
            on_it.next().map(|upper| format!("{} receives its frames", upper.name))
        };
        let moved = || {
            let mut moved = self.moved.values();
            let moved = moved.find(|moved| moved.claims && moved.parent == link.index)?;
            Some(format!("{} in another namespace receives its frames", moved.name))
        };
        let unknown = || {
            let listeners = self.listeners.get(&link.index).copied().unwrap_or(0);
            (self.unexplained(link, all) > listeners).then(|| {
                "it is in promiscuous mode, perhaps for an interface in another namespace"
                    .to_owned()
            })
        };
        here().or_else(moved).or_else(unknown)
    }

    /// How many want the link to take frames for all stations, without those that are seen: who set
    /// it so by hand, and interfaces on it. Sockets that listen are still among them.
    pub(super) fn unexplained(&self, link: &Link, all: &BTreeMap<u32, Link>) -> u32 {
        let passed_on = on_it(link, all).filter(|upper| upper.promiscuity > 0).count() as u32;
        // A device that cannot filter by several addresses takes all frames once it has two
        // (`__dev_set_rx_mode`).
        let other = |mac: Option<[u8; 6]>| mac.is_some() && mac != link.mac;
        let addresses = on_it(link, all).any(|upper| other(upper.mac))
            || self.moved.values().any(|moved| moved.parent == link.index && other(moved.mac));
        let seen = u32::from(link.promiscuous) + passed_on + u32::from(addresses);
        link.promiscuity.saturating_sub(seen)
    }
}

fn on_it<'a>(link: &Link, all: &'a BTreeMap<u32, Link>) -> impl Iterator<Item = &'a Link> {
    let index = link.index;
    all.values().filter(move |upper| upper.parent == Some(index))
}
