use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::{Decision, FibError, Interface, InterfaceId, Target};

/// What packets are forwarded by: prefixes, next hops, neighbours, interfaces. Shared by all
/// workers and read without locks.
#[derive(Debug)]
pub struct Fib {}

/// The one hand that changes a [`Fib`].
#[derive(Debug)]
pub struct FibWriter {}

#[allow(unused_variables)]
impl FibWriter {
    /// An empty table and its writer.
    pub fn new() -> (FibWriter, Arc<Fib>) {
        (FibWriter {}, Arc::new(Fib {}))
    }

    /// Adds or changes an interface; visible after [`FibWriter::publish`].
    pub fn set_interface(&mut self, id: InterfaceId, interface: Interface) {}

    /// Removes an interface and its neighbours; visible after [`FibWriter::publish`]. Routes
    /// through it stay and lead nowhere.
    pub fn remove_interface(&mut self, id: InterfaceId) {}

    /// Adds or replaces a route; visible at once.
    ///
    /// # Errors
    /// When a table is full; the former route stays.
    pub fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError> {
        Ok(())
    }

    /// Removes a route, at once; whether there was one.
    pub fn remove_route(&mut self, prefix: IpNet) -> bool {
        false
    }

    /// Makes a neighbour known or changes its MAC address; visible after [`FibWriter::publish`].
    pub fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]) {}

    /// Forgets a neighbour that failed or is gone; visible after [`FibWriter::publish`].
    pub fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr) {}

    /// Makes changes of interfaces and neighbours visible.
    pub fn publish(&mut self) {}

    /// Number of routes, without those made for neighbours.
    pub fn routes(&self) -> usize {
        0
    }

    /// What happens to packets for `address`.
    pub fn lookup(&self, address: IpAddr) -> Decision {
        Decision::NoRoute
    }
}
