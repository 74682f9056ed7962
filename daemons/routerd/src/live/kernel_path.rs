//! By which ports packets of the kernel path may leave, and how.

use std::collections::{BTreeMap, BTreeSet};

use ebb_host::netlink::{Link, Requests, redirect_targets};
use ebb_ports::afxdp::{Exit, Interface};
use tracing::{debug, warn};

/// The largest MTU that a veth takes as long as its peer has no XDP program in its driver
/// (`veth_xdp_set` bounds it, whatever the program takes).
const MTU_MAX_FREE: u32 = 65_535;

/// By which interfaces packets of the kernel path may leave.
pub(super) struct Exits {
    /// How they leave.
    ways: BTreeMap<u32, Exit>,
    /// Those by which a program in a driver may send.
    drivers: BTreeSet<u32>,
}

impl Exits {
    /// Those among these interfaces that are there.
    pub(super) fn of(indices: impl Iterator<Item = u32>, sending: &BTreeSet<u32>) -> Exits {
        let ways = exits(indices, sending);
        let drivers = redirect_targets().unwrap_or_else(|error| {
            debug!(%error, code = "EBB-R039", "no driver is known to send what is redirected to it");
            BTreeSet::new()
        });
        let drivers = drivers.into_iter().filter(|index| ways.contains_key(index)).collect();
        Exits { ways, drivers }
    }

    /// Tells an interface on the kernel path.
    pub(super) fn tell(&self, interface: &mut Interface) {
        if let Err(error) = interface.set_exits(&self.ways, &self.drivers) {
            warn!(port = interface.name(), %error, code = "EBB-R040", "cannot set the exits of the kernel path");
        }
    }

    /// Interfaces by which a program in a driver cannot send.
    pub(super) fn without_redirects(&self) -> BTreeSet<u32> {
        self.ways.keys().filter(|index| !self.drivers.contains(index)).copied().collect()
    }
}

/// How packets may leave by each of these interfaces; those that are gone are left out. `sending`: at whose sending
/// side something looks at packets or holds them back.
fn exits(indices: impl Iterator<Item = u32>, sending: &BTreeSet<u32>) -> BTreeMap<u32, Exit> {
    let links = Requests::open().and_then(|mut kernel| kernel.links());
    let links = links.unwrap_or_else(|error| {
        debug!(%error, code = "EBB-R041", "the kernel path has no exits");
        Vec::new()
    });
    let exit = |index| {
        let link = links.iter().find(|link| link.index == index)?;
        let exit = if sending.contains(&index) { Exit::Device } else { exit_of(link) };
        Some((index, exit))
    };
    indices.filter_map(exit).collect()
}

/// A packet that goes straight to the peer passes no queue of the interface, neither its XDP program in the driver over, where there
/// is one, nor a namespace's border: the kernel drops what would stay in the same one.
fn exit_of(link: &Link) -> Exit {
    let pair = link.kind.as_deref() == Some("veth");
    let queues = link.discipline != "noqueue";
    match pair && !queues && link.parent.is_none() && link.mtu_max == MTU_MAX_FREE {
        true => Exit::Peer,
        false => Exit::Device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_across_namespaces_without_a_program_are_left_for_the_peer() {
        let veth = Link {
            index: 3,
            kind: Some("veth".into()),
            mtu_max: MTU_MAX_FREE,
            discipline: "noqueue".into(),
            ..Link::default()
        };
        assert_eq!(exit_of(&veth), Exit::Peer);
        let here = Link { parent: Some(4), ..veth.clone() };
        let filtered = Link { mtu_max: 3_520, ..veth.clone() };
        let queued = Link { discipline: "pfifo_fast".into(), ..veth.clone() };
        let tap = Link { kind: Some("tun".into()), ..veth.clone() };
        let card = Link { kind: None, ..veth };
        assert!(
            [here, filtered, queued, tap, card].iter().all(|link| exit_of(link) == Exit::Device)
        );
    }
}
