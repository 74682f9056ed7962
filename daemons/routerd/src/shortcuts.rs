//! Destinations whose packets the ports leave to the kernel before a worker sees them.
//!
//! A route through a tunnel, or through any interface that is no port, is the kernel's. A worker
//! that looks it up can only hand the packet back, at the price of a copy and a system call; the
//! ports' programs know such prefixes, and the routes inside them that are the workers' all the
//! same. The kernel forwards by the same routes, so a list that lags behind misroutes nothing.
//!
//! Every host with an address has such routes: its subnets' broadcast addresses. Those and other single
//! destinations are listed with the host's own addresses, which the programs look up in a table of hashes:
//! a trie, looked into for each packet, costs whoever sends to the port 30 ns of each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};

use ebb_apps::route::{FibError, FibWriter, Interface, InterfaceId, Target};
use ipnet::IpNet;

use crate::rib::{Tables, is_reserved};

/// Routes that are kept in mind. With more, all packets come to a worker first: a look-up in the
/// program's trie would cost them more than it spares the few.
const ROUTES_MAX: usize = 16_384;

/// Most single destinations among the addresses: the programs ask 4,096 bits before the table.
const HOSTS_MAX: usize = 256;

/// Most addresses with single destinations among them: half of the programs' table, so that lists before and
/// after a change fit into it together.
const ADDRESSES_MAX: usize = 2048;

/// Prefixes with whether they are the kernel's; the longest that covers a destination counts.
pub type KernelRoutes = BTreeMap<IpNet, bool>;

/// What the ports' programs are to leave to the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernels {
    /// The host's own addresses and single destinations, sorted.
    pub addresses: BTreeSet<IpAddr>,
    /// Prefixes.
    pub routes: KernelRoutes,
}

/// Follows the routes and works the list out.
#[derive(Debug, Default)]
pub struct Shortcuts {
    /// Every route with whether it is the kernel's; empty once there were too many.
    routes: BTreeMap<IpNet, bool>,
    kernels: BTreeSet<IpNet>,
    too_many: bool,
    local: BTreeSet<IpAddr>,
    /// Addresses of the host that come to the workers first all the same.
    reserved: BTreeSet<IpAddr>,
    dirty: bool,
}

impl Shortcuts {
    /// Follows a route that was set.
    pub fn set(&mut self, prefix: IpNet, kernels: bool) {
        if self.too_many || is_reserved(prefix) {
            return;
        }
        let kernels = kernels && !self.is_reserved(prefix);
        if self.routes.insert(prefix, kernels) != Some(kernels) {
            self.dirty |= kernels || self.concerns(prefix);
        }
        if kernels {
            self.kernels.insert(prefix);
        } else {
            self.kernels.remove(&prefix);
        }
        if self.routes.len() > ROUTES_MAX {
            let (local, reserved) =
                (std::mem::take(&mut self.local), std::mem::take(&mut self.reserved));
            *self =
                Shortcuts { too_many: true, dirty: true, local, reserved, ..Shortcuts::default() };
        }
    }

    /// Follows a route that was removed.
    pub fn remove(&mut self, prefix: IpNet) {
        if self.routes.remove(&prefix).is_some() {
            self.dirty |= self.concerns(prefix);
            self.kernels.remove(&prefix);
        }
    }

    /// The host's own addresses, which are always listed, but for those that are reserved.
    pub fn set_local(&mut self, addresses: &[IpAddr]) {
        self.local = addresses.iter().copied().collect();
        self.local.retain(|address| !self.reserved.contains(address));
        self.dirty = true;
    }

    /// Addresses of the host whose packets come to the workers first.
    pub fn reserve(&mut self, addresses: BTreeSet<IpAddr>) {
        if addresses == self.reserved {
            return;
        }
        self.local.retain(|address| !addresses.contains(address));
        for host in addresses.iter().copied().map(IpNet::from) {
            if self.kernels.remove(&host) {
                self.routes.insert(host, false);
            }
        }
        self.reserved = addresses;
        self.dirty = true;
    }

    fn is_reserved(&self, prefix: IpNet) -> bool {
        prefix.prefix_len() == prefix.max_prefix_len() && self.reserved.contains(&prefix.addr())
    }

    fn concerns(&self, prefix: IpNet) -> bool {
        self.kernels.iter().any(|kernels| kernels.contains(&prefix))
    }

    /// The lists, if they may have changed since the last call.
    pub fn changed(&mut self) -> Option<Kernels> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let single = |prefix: &&IpNet| prefix.prefix_len() == prefix.max_prefix_len();
        let mut addresses = self.local.clone();
        let hosts = self.kernels.iter().filter(single).map(IpNet::addr);
        let count = hosts.clone().filter(|host| !self.local.contains(host)).count();
        if count <= HOSTS_MAX && self.local.len() + count <= ADDRESSES_MAX {
            addresses.extend(hosts);
        }
        let known = |prefix: &IpNet| single(&prefix) && addresses.contains(&prefix.addr());
        let mut routes = KernelRoutes::new();
        for kernels in self.kernels.iter().filter(|prefix| !known(prefix)) {
            let inside = self.routes.range(*kernels..);
            for (prefix, is_kernels) in inside.take_while(|(prefix, _)| kernels.contains(*prefix)) {
                if !known(prefix) {
                    routes.insert(*prefix, *is_kernels);
                }
            }
        }
        Some(Kernels { addresses, routes })
    }
}

/// The forwarding tables, with every change of a route noted.
pub struct Followed {
    fib: FibWriter,
    /// What was noted.
    pub shortcuts: Shortcuts,
}

impl Followed {
    /// Follows what is entered into `fib` from now on.
    pub fn new(fib: FibWriter) -> Followed {
        Followed { fib, shortcuts: Shortcuts::default() }
    }
}

impl Deref for Followed {
    type Target = FibWriter;
    fn deref(&self) -> &FibWriter {
        &self.fib
    }
}

impl DerefMut for Followed {
    fn deref_mut(&mut self) -> &mut FibWriter {
        &mut self.fib
    }
}

impl Tables for Followed {
    fn set_interface(&mut self, id: InterfaceId, interface: Interface) {
        self.fib.set_interface(id, interface);
    }
    fn remove_interface(&mut self, id: InterfaceId) {
        self.fib.remove_interface(id);
    }
    fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError> {
        self.fib.set_route(prefix, target)?;
        self.shortcuts.set(prefix.trunc(), *target == Target::Kernel);
        Ok(())
    }
    fn remove_route(&mut self, prefix: IpNet) -> bool {
        self.shortcuts.remove(prefix.trunc());
        self.fib.remove_route(prefix)
    }
    fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]) {
        self.fib.set_neighbour(interface, address, mac);
    }
    fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr) {
        self.fib.remove_neighbour(interface, address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect("a prefix")
    }

    fn list(shortcuts: &mut Shortcuts) -> Vec<String> {
        let list = shortcuts.changed().expect("a change").routes;
        list.iter().map(|(prefix, kernels)| format!("{prefix} {kernels}")).collect()
    }

    #[test]
    fn reserved_addresses_are_not_listed_whatever_covers_them() {
        let [reserved, other]: [IpAddr; 2] =
            ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        let mut shortcuts = Shortcuts::default();
        shortcuts.set(net("10.0.0.1/32"), true);
        shortcuts.set_local(&[reserved, other]);
        shortcuts.reserve([reserved].into());
        let list = |shortcuts: &mut Shortcuts| shortcuts.changed().expect("a change");
        assert_eq!(list(&mut shortcuts).addresses, [other].into());
        shortcuts.set(net("10.0.0.0/24"), true);
        shortcuts.set(net("10.0.0.1/32"), true);
        shortcuts.set_local(&[reserved, other]);
        let kernels = list(&mut shortcuts);
        assert_eq!(kernels.addresses, [other].into());
        assert_eq!(
            kernels.routes,
            [(net("10.0.0.0/24"), true), (net("10.0.0.1/32"), false)].into()
        );
    }

    #[test]
    fn kernel_routes_and_what_lies_inside_them_are_listed() {
        let mut shortcuts = Shortcuts::default();
        shortcuts.set_local(&["10.0.0.1".parse().expect("an address")]);
        shortcuts.set(net("10.0.0.0/24"), false);
        shortcuts.set(net("10.0.0.1/32"), true);
        shortcuts.set(net("127.0.0.0/8"), true);
        assert!(list(&mut shortcuts).is_empty(), "own and reserved addresses are known elsewhere");
        shortcuts.set(net("192.168.0.0/16"), false);
        assert_eq!(shortcuts.changed(), None, "nothing of it is the kernel's");
        shortcuts.set(net("10.8.0.0/16"), true);
        shortcuts.set(net("10.8.1.0/24"), false);
        shortcuts.set(net("2001:db8::/32"), true);
        let wanted = ["10.8.0.0/16 true", "10.8.1.0/24 false", "2001:db8::/32 true"];
        assert_eq!(list(&mut shortcuts), wanted);
        // A default route through a tunnel: whatever else is routed stays the workers'.
        shortcuts.set(net("0.0.0.0/0"), true);
        assert_eq!(list(&mut shortcuts).len(), 6);
        shortcuts.remove(net("0.0.0.0/0"));
        shortcuts.set(net("10.8.0.0/16"), false);
        assert_eq!(list(&mut shortcuts), ["2001:db8::/32 true"]);
        shortcuts.remove(net("192.168.0.0/16"));
        assert_eq!(shortcuts.changed(), None);
    }

    #[test]
    fn single_destinations_are_listed_with_the_own_addresses_unless_they_are_many() {
        let mut shortcuts = Shortcuts::default();
        shortcuts.set_local(&["10.0.0.1".parse().expect("an address")]);
        shortcuts.set(net("10.0.0.1/32"), true);
        shortcuts.set(net("10.0.0.0/24"), false);
        shortcuts.set(net("10.0.0.255/32"), true);
        shortcuts.set(net("2001:db8::/128"), true);
        let lists = shortcuts.changed().expect("a change");
        let addresses: Vec<String> = lists.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["10.0.0.1", "10.0.0.255", "2001:db8::"]);
        assert!(lists.routes.is_empty(), "{:?}", lists.routes);
        // One that lies inside a prefix of the kernel's, and one inside that is a worker's.
        shortcuts.set(net("10.8.0.0/16"), true);
        shortcuts.set(net("10.8.0.7/32"), true);
        shortcuts.set(net("10.8.0.8/32"), false);
        let lists = shortcuts.changed().expect("a change");
        assert!(lists.addresses.contains(&IpAddr::from([10, 8, 0, 7])));
        let routes: Vec<String> =
            lists.routes.iter().map(|(net, to)| format!("{net} {to}")).collect();
        assert_eq!(routes, ["10.8.0.0/16 true", "10.8.0.8/32 false"]);
        for number in 0..=HOSTS_MAX as u32 {
            let address = std::net::Ipv4Addr::from_bits(0x0b00_0000 + number);
            shortcuts.set(IpNet::new(address.into(), 32).expect("a prefix"), true);
        }
        let lists = shortcuts.changed().expect("a change");
        assert_eq!(lists.addresses, shortcuts.local);
        assert!(lists.routes.len() > HOSTS_MAX);
    }

    #[test]
    fn too_many_routes_leave_every_packet_to_the_workers() {
        let mut shortcuts = Shortcuts::default();
        let own: IpAddr = "10.0.0.1".parse().expect("an address");
        shortcuts.set_local(&[own]);
        shortcuts.set(net("0.0.0.0/0"), true);
        assert_eq!(list(&mut shortcuts), ["0.0.0.0/0 true"]);
        for number in 0..=ROUTES_MAX as u32 {
            let address = std::net::Ipv4Addr::from_bits(0x0b00_0000 + (number << 8));
            shortcuts.set(IpNet::new(address.into(), 24).expect("a prefix"), false);
        }
        let lists = shortcuts.changed().expect("a change");
        assert_eq!(lists, Kernels { addresses: [own].into(), ..Kernels::default() });
        shortcuts.set(net("10.8.0.0/16"), true);
        assert_eq!(shortcuts.changed(), None);
    }
}
