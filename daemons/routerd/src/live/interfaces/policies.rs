//! What ports leave to the kernel for the sake of its policy, by their path. Tells no port.

use std::collections::BTreeMap;

use ebb_apps::route::ReversePath;
use ebb_graph::PortId;
use ebb_ports::afxdp::{KernelPolicy, PacketPath, VlanInterface};

use super::LiveInterface;
use crate::rib::PortVlan;

/// What ports leave to the kernel, by port.
#[derive(Default)]
pub(super) struct Policies {
    /// By path; ports that are absent leave everything.
    pub(super) workers: BTreeMap<PortId, KernelPolicy>,
    pub(super) kernel_path: BTreeMap<PortId, KernelPolicy>,
    /// Reverse-path filters that IPv4 packets have to pass, by the link where they come in.
    pub(super) filtered: BTreeMap<u32, ReversePath>,
    /// Longer packets of IPv4, and of IPv6, may be too long for their route.
    pub(super) least_route_mtus: [Option<u32>; 2],
}

impl Policies {
    /// What a port leaves to the kernel. On the kernel path this has the filter of sources in it, and what may be too
    /// long for its route.
    pub(super) fn of(
        &self,
        id: PortId,
        link: u32,
        (path, carries): (PacketPath, bool),
    ) -> Option<KernelPolicy> {
        let by_port = match path == PacketPath::Kernel && carries {
            true => &self.kernel_path,
            false => &self.workers,
        };
        let mut policy = by_port.get(&id).cloned()?;
        if path == PacketPath::Kernel {
            for (v6, mtu) in [false, true].into_iter().zip(self.least_route_mtus) {
                mtu.into_iter().for_each(|mtu| policy.leave_longer(v6, mtu));
            }
            self.filter_of(link).into_iter().for_each(|strict| policy.filter_sources(strict));
        }
        Some(policy)
    }

    /// The same of the port as it stands.
    pub(super) fn of_live(&self, id: PortId, live: &LiveInterface) -> Option<KernelPolicy> {
        self.of(id, live.interface.index(), path_of(live))
    }

    /// VLAN interfaces with the filters at them.
    pub(super) fn vlan_interfaces(&self, all: Option<&Vec<PortVlan>>) -> Vec<VlanInterface> {
        let of = |vlan: &PortVlan| VlanInterface {
            vlan: vlan.id,
            index: vlan.link,
            filter: self.filter_of(vlan.link),
        };
        all.into_iter().flatten().map(of).collect()
    }

    /// Whether the filter at a link asks for the interface as well; `None`: there is none.
    fn filter_of(&self, link: u32) -> Option<bool> {
        match self.filtered.get(&link)? {
            ReversePath::Strict => Some(true),
            ReversePath::Loose => Some(false),
            ReversePath::Off => None,
        }
    }
}

/// The path of an interface, and whether its program stands where it carries policy: in a driver, packets pass no
/// discipline when they leave, and no connection is known.
fn path_of(live: &LiveInterface) -> (PacketPath, bool) {
    (live.interface.options().path, !live.interface.mode().native)
}
