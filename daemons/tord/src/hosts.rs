//! What is known of the racks' hosts, and whom to ask for: the kernel resolves them by ARP and neighbour
//! discovery, learns from what they announce, and this follows its table (RFC 1122 section 2.3.2, RFC 4861).
//!
//! Time is the order of events; nothing here does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ebb_host::netlink::{Neighbour, NeighbourState};

/// Most addresses of one Ethernet address on one interface; another one takes the place of the oldest. The
/// kernel's table has room for 1,024 of each family (`gc_thresh3`): no single host fills it.
const PER_HOST_MAX: usize = 256;
/// Most addresses that are asked for and do not answer; another one takes the place of the oldest.
const SILENT_MAX: usize = 256;

/// An address behind the interface of an index.
pub(crate) type Place = (u32, IpAddr);

/// What follows from what was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Frames to it go to this Ethernet address.
    Learn(Place, [u8; 6]),
    /// Nobody knows where it is.
    Forget(Place),
    /// The kernel is to find it, or to find out whether it is still there.
    Ask(Place),
    /// The kernel is to forget it, to make room for others.
    Evict(Place),
}

/// An Ethernet address behind the interface of an index.
type Host = (u32, [u8; 6]);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    known: BTreeMap<Place, ([u8; 6], u64)>,
    /// The addresses of each host, the oldest first.
    of_host: BTreeMap<Host, BTreeSet<(u64, IpAddr)>>,
    silent: BTreeMap<Place, u64>,
    /// The same, the oldest first.
    asked: BTreeSet<(u64, Place)>,
    order: u64,
}

impl Hosts {
    /// A packet waits for this address.
    pub(crate) fn wanted(&mut self, place: Place) -> Vec<Step> {
        let mut steps = vec![Step::Ask(place)];
        if !self.known.contains_key(&place) && !self.silent.contains_key(&place) {
            self.order += 1;
            self.silent.insert(place, self.order);
            self.asked.insert((self.order, place));
            if self.silent.len() > SILENT_MAX {
                let (_, oldest) = *self.asked.first().expect("as many as are silent");
                self.answered(oldest);
                steps.insert(0, Step::Evict(oldest));
            }
        }
        steps
    }

    /// The kernel says this of a neighbour.
    pub(crate) fn hear(&mut self, neighbour: &Neighbour) -> Vec<Step> {
        let place = (neighbour.link, neighbour.address);
        // The Ethernet address of a group is that of a broadcast address of the network, to which nothing is
        // forwarded (RFC 2644).
        let mac = neighbour.mac.filter(|mac| neighbour.usable && mac[0] & 1 == 0);
        let Some(mac) = mac else { return self.forget(place) };
        let mut steps = Vec::new();
        self.answered(place);
        if self.known.get(&place).map(|(known, _)| *known) != Some(mac) {
            self.forget(place);
            steps.push(Step::Learn(place, mac));
            steps.extend(self.learn(place, mac));
        }
        if neighbour.state == NeighbourState::Stale {
            steps.push(Step::Ask(place));
        }
        steps
    }

    /// The kernel has nothing about this address any more.
    pub(crate) fn gone(&mut self, place: Place) -> Vec<Step> {
        self.answered(place);
        self.forget(place)
    }

    /// Everything that is known, to be compared with what the kernel lists.
    pub(crate) fn all(&self) -> BTreeSet<Place> {
        self.known.keys().copied().collect()
    }

    fn learn(&mut self, place: Place, mac: [u8; 6]) -> Option<Step> {
        self.order += 1;
        self.known.insert(place, (mac, self.order));
        let addresses = self.of_host.entry((place.0, mac)).or_default();
        addresses.insert((self.order, place.1));
        let (_, oldest) = *addresses.first().filter(|_| addresses.len() > PER_HOST_MAX)?;
        // The rest follows when the kernel says that it is gone.
        Some(Step::Evict((place.0, oldest)))
    }

    fn forget(&mut self, place: Place) -> Vec<Step> {
        let Some((mac, order)) = self.known.remove(&place) else { return Vec::new() };
        let host = (place.0, mac);
        if let Some(addresses) = self.of_host.get_mut(&host) {
            addresses.remove(&(order, place.1));
            if addresses.is_empty() {
                self.of_host.remove(&host);
            }
        }
        vec![Step::Forget(place)]
    }

    fn answered(&mut self, place: Place) {
        if let Some(order) = self.silent.remove(&place) {
            self.asked.remove(&(order, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
    const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

    fn place(number: u16) -> Place {
        (3, IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, number]))
    }

    fn says(number: u16, mac: Option<[u8; 6]>, state: NeighbourState) -> Neighbour {
        let (link, address) = place(number);
        Neighbour { link, address, mac, state, usable: mac.is_some() }
    }

    #[test]
    fn a_host_is_found_moves_ages_and_is_lost() {
        use NeighbourState::{Failed, Reachable, Stale};
        let mut hosts = Hosts::default();
        assert_eq!(hosts.wanted(place(1)), [Step::Ask(place(1))]);
        assert_eq!(hosts.hear(&says(1, Some(A), Reachable)), [Step::Learn(place(1), A)]);
        assert_eq!(hosts.hear(&says(1, Some(A), Reachable)), []);
        // Somebody else announces it: frames go there at once, and whether that is so is asked.
        let moved = [Step::Learn(place(1), B), Step::Ask(place(1))];
        assert_eq!(hosts.hear(&says(1, Some(B), Stale)), moved);
        assert_eq!(hosts.hear(&says(1, Some(B), Stale)), [Step::Ask(place(1))], "aged");
        assert_eq!(hosts.hear(&says(1, None, Failed)), [Step::Forget(place(1))]);
        assert_eq!(hosts.hear(&says(1, None, Failed)), []);
        assert!(hosts.all().is_empty() && hosts.of_host.is_empty());
    }

    #[test]
    fn no_host_fills_the_table_and_its_own_addresses_give_way() {
        let mut hosts = Hosts::default();
        hosts.hear(&says(9999, Some(B), NeighbourState::Reachable));
        let mut evicted = Vec::new();
        for number in 0..1000 {
            for step in hosts.hear(&says(number, Some(A), NeighbourState::Reachable)) {
                if let Step::Evict(place) = step {
                    evicted.push(place);
                    hosts.gone(place);
                }
            }
        }
        let oldest: Vec<Place> = (0..1000 - PER_HOST_MAX as u16).map(place).collect();
        assert_eq!(evicted, oldest);
        assert_eq!(hosts.all().len(), PER_HOST_MAX + 1);
        assert!(hosts.all().contains(&place(9999)));
    }

    #[test]
    fn addresses_that_do_not_answer_make_room_for_others() {
        let mut hosts = Hosts::default();
        for number in 0..SILENT_MAX as u16 {
            assert_eq!(hosts.wanted(place(number)), [Step::Ask(place(number))]);
        }
        assert_eq!(hosts.wanted(place(0)).len(), 1, "it is asked for already");
        let next = hosts.wanted(place(9999));
        assert_eq!(next, [Step::Evict(place(0)), Step::Ask(place(9999))]);
        // One that answers is silent no more.
        hosts.hear(&says(1, Some(A), NeighbourState::Reachable));
        assert_eq!(hosts.wanted(place(9998)).len(), 1);
        assert_eq!((hosts.silent.len(), hosts.asked.len()), (SILENT_MAX, SILENT_MAX));
    }

    #[test]
    fn broadcast_addresses_of_a_network_are_nobody() {
        let mut hosts = Hosts::default();
        let broadcast = says(1, Some([0xff; 6]), NeighbourState::NoArp);
        assert_eq!(hosts.hear(&broadcast), []);
        assert!(hosts.all().is_empty());
    }
}
