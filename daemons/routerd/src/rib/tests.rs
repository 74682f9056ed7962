//! The model against a kernel in miniature: whatever happens, what the forwarding tables say of an
//! address is what a plain reading of the kernel's tables says.

mod claims;
mod grammar;
pub(crate) mod kernel;
mod lives;
mod table;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebb_apps::route::{FibError, Interface, InterfaceId, Target};
use ebb_graph::PortId;
use ebb_host::netlink::{Event, Route};
use ipnet::IpNet;
use proptest::prelude::*;

use super::{Rib, Scope, Tables};
use kernel::{Kernel, Op, op};

/// Forwarding tables as plain maps.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    interfaces: BTreeMap<InterfaceId, Interface>,
    routes: BTreeMap<IpNet, Target>,
    neighbours: BTreeMap<(InterfaceId, IpAddr), [u8; 6]>,
    capacity: Option<usize>,
    writes: usize,
}

impl Tables for Recorder {
    fn set_interface(&mut self, id: InterfaceId, interface: Interface) {
        self.interfaces.insert(id, interface);
    }
    fn remove_interface(&mut self, id: InterfaceId) {
        self.interfaces.remove(&id);
        self.neighbours.retain(|(on, _), _| *on != id);
    }
    fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError> {
        self.writes += 1;
        let full = self.capacity.is_some_and(|capacity| self.routes.len() >= capacity);
        if full && !self.routes.contains_key(&prefix) {
            return Err(FibError::PrefixesExhausted);
        }
        self.routes.insert(prefix, target.clone());
        Ok(())
    }
    fn remove_route(&mut self, prefix: IpNet) -> bool {
        self.routes.remove(&prefix).is_some()
    }
    fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]) {
        assert!(self.interfaces.contains_key(&interface), "a neighbour on no interface");
        self.neighbours.insert((interface, address), mac);
    }
    fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr) {
        self.neighbours.remove(&(interface, address));
    }
}

/// Where packets go, in terms of ports and VLANs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Nowhere,
    Kernel,
    Blackhole,
    Unreachable,
    Ways(Vec<(PortId, u16, Option<IpAddr>, u16)>),
}

impl Recorder {
    pub(crate) fn fate(&self, address: IpAddr) -> Fate {
        let covering = self.routes.iter().filter(|(prefix, _)| prefix.contains(&address));
        let Some((_, target)) = covering.max_by_key(|(prefix, _)| prefix.prefix_len()) else {
            return Fate::Nowhere;
        };
        let way = |id: InterfaceId, gateway, weight| {
            let interface = self.interfaces.get(&id).expect("a route through a known interface");
            (interface.port, interface.vlan, gateway, weight)
        };
        match target {
            Target::Kernel => Fate::Kernel,
            Target::Blackhole => Fate::Blackhole,
            Target::Unreachable | Target::Prohibit => Fate::Unreachable,
            Target::OnLink(id) => Fate::Ways(vec![way(*id, None, 1)]),
            Target::Paths(paths) => {
                Fate::Ways(paths.iter().map(|p| way(p.interface, p.gateway, p.weight)).collect())
            }
        }
    }
}

/// The router's half of the test.
struct Router {
    rib: Rib,
    out: Recorder,
}

impl Router {
    fn new() -> Router {
        let ports = [(PortId(0), "p0".to_owned()), (PortId(1), "p1".to_owned())];
        let mut router = Router { rib: Rib::new(&ports), out: Recorder::default() };
        router.rib.start(&mut router.out);
        router
    }

    fn apply(&mut self, events: &[Event]) {
        for event in events {
            self.rib.apply(event, &mut self.out);
        }
    }

    /// Dumps what the model wants until it wants no more; `between` happens in between.
    fn settle(&mut self, kernel: &mut Kernel, mut between: Vec<Op>) {
        while let Some(scope) = self.rib.wanted() {
            self.rib.begin(scope);
            for part in ebb_host::netlink::Part::ALL {
                if scope == Scope::All || scope == Scope::Part(part) {
                    self.apply(&kernel.dump(part));
                }
                if let Some(op) = between.pop() {
                    self.apply(&kernel.carry_out(&op));
                }
            }
            self.rib.finish(&mut self.out);
        }
    }

    fn compare(&self, kernel: &Kernel) -> Result<(), TestCaseError> {
        for address in kernel::addresses() {
            prop_assert_eq!(self.out.fate(address), kernel.fate(address), "for {}", address);
        }
        let mut interfaces: Vec<_> = self.out.interfaces.values().cloned().collect();
        interfaces.sort_by_key(|interface| (interface.port, interface.vlan));
        prop_assert_eq!(interfaces, kernel.interfaces());
        let known = self.out.neighbours.iter().map(|((id, address), mac)| {
            let interface = &self.out.interfaces[id];
            ((interface.port, interface.vlan, *address), *mac)
        });
        prop_assert_eq!(known.collect::<BTreeMap<_, _>>(), kernel.neighbours_on_ports());
        Ok(())
    }
}

/// The router, and the kernel that it has read.
fn started() -> (Router, Kernel) {
    let mut kernel = Kernel::new();
    let mut router = Router::new();
    router.rib.apply(&Event::Overrun, &mut router.out);
    router.settle(&mut kernel, Vec::new());
    (router, kernel)
}

fn added(route: Route) -> Event {
    Event::Route { route, replace: false, append: false }
}

/// 512 cases, or as many as `PROPTEST_CASES` says.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 512 };
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(config())]

    /// Following every event gives the kernel's own decisions at every step.
    #[test]
    fn events_keep_the_tables_in_step(ops in proptest::collection::vec(op(), 1..40)) {
        let mut kernel = Kernel::new();
        let mut router = Router::new();
        router.rib.apply(&Event::Overrun, &mut router.out);
        router.settle(&mut kernel, Vec::new());
        router.compare(&kernel)?;
        for op in ops {
            router.apply(&kernel.carry_out(&op));
            router.settle(&mut kernel, Vec::new());
            router.compare(&kernel)?;
        }
    }

    /// Whatever was lost, one comparison repairs it, also when things change meanwhile.
    #[test]
    fn losses_are_repaired(
        heard in proptest::collection::vec(op(), 0..20),
        lost in proptest::collection::vec(op(), 0..20),
        meanwhile in proptest::collection::vec(op(), 0..6),
    ) {
        let mut kernel = Kernel::new();
        let mut router = Router::new();
        router.rib.apply(&Event::Overrun, &mut router.out);
        router.settle(&mut kernel, Vec::new());
        for op in heard {
            router.apply(&kernel.carry_out(&op));
            router.settle(&mut kernel, Vec::new());
        }
        for op in lost {
            kernel.carry_out(&op);
        }
        router.rib.apply(&Event::Overrun, &mut router.out);
        router.settle(&mut kernel, meanwhile);
        router.compare(&kernel)?;
    }
}
