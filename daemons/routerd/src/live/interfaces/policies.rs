//! What ports leave to the kernel for the sake of its policy, by their path. Tells no port.

use std::collections::BTreeMap;

use ebb_apps::route::ReversePath;
use ebb_graph::PortId;
use ebb_ports::afxdp::{KernelPolicy, PacketPath};

use super::LiveInterface;

/// What ports leave to the kernel, by port.
#[derive(Clone, Default)]
pub(super) struct Policies {
    pub(super) workers: BTreeMap<PortId, KernelPolicy>,
    pub(super) kernel_path: BTreeMap<PortId, KernelPolicy>,
}

impl Policies {
    fn of(&self, id: PortId, (path, carries): (PacketPath, bool)) -> Option<&KernelPolicy> {
        match path == PacketPath::Kernel && carries {
            true => self.kernel_path.get(&id),
            false => self.workers.get(&id),
        }
    }
}

/// The path of an interface, and whether its program stands where it carries policy: in a driver, packets pass no
/// discipline when they leave, and no connection is known.
pub(super) fn path_of(live: &LiveInterface) -> (PacketPath, bool) {
    (live.interface.options().path, !live.interface.mode().native)
}

/// What a port leaves to the kernel. On the kernel path this has the filter of sources in it, and what may be too
/// long for its route.
pub(super) fn policy_of(
    policies: &Policies,
    (filtered, least_mtu): (&BTreeMap<PortId, ReversePath>, Option<u32>),
    id: PortId,
    path: (PacketPath, bool),
) -> Option<KernelPolicy> {
    let mut policy = policies.of(id, path).cloned()?;
    if path.0 == PacketPath::Kernel {
        least_mtu.into_iter().for_each(|mtu| policy.leave_longer(mtu));
        match filtered.get(&id) {
            Some(ReversePath::Strict) => policy.filter_sources(true),
            Some(ReversePath::Loose) => policy.filter_sources(false),
            Some(ReversePath::Off) | None => {}
        }
    }
    Some(policy)
}
