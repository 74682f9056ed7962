//! Where the model's changes go.

use std::net::IpAddr;

use ebb_apps::route::{FibError, FibWriter, Interface, InterfaceId, Target};
use ipnet::IpNet;

/// Where changes go.
pub trait Tables {
    /// Adds or changes an interface.
    fn set_interface(&mut self, id: InterfaceId, interface: Interface);
    /// Removes an interface and its neighbours.
    fn remove_interface(&mut self, id: InterfaceId);
    /// Adds or replaces a route.
    ///
    /// # Errors
    /// When a table is full; the former route stays.
    fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError>;
    /// Removes a route; whether there was one.
    fn remove_route(&mut self, prefix: IpNet) -> bool;
    /// Makes a neighbour known or changes its MAC address.
    fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]);
    /// Forgets a neighbour.
    fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr);
}

impl Tables for FibWriter {
    fn set_interface(&mut self, id: InterfaceId, interface: Interface) {
        FibWriter::set_interface(self, id, interface);
    }
    fn remove_interface(&mut self, id: InterfaceId) {
        FibWriter::remove_interface(self, id);
    }
    fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError> {
        FibWriter::set_route(self, prefix, target)
    }
    fn remove_route(&mut self, prefix: IpNet) -> bool {
        FibWriter::remove_route(self, prefix)
    }
    fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]) {
        FibWriter::set_neighbour(self, interface, address, mac);
    }
    fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr) {
        FibWriter::remove_neighbour(self, interface, address);
    }
}

/// Tables for those who only want to know what [`super::Rib`] makes of links.
pub struct Nowhere;

impl Tables for Nowhere {
    fn set_interface(&mut self, _: InterfaceId, _: Interface) {}
    fn remove_interface(&mut self, _: InterfaceId) {}
    fn set_route(&mut self, _: IpNet, _: &Target) -> Result<(), FibError> {
        Ok(())
    }
    fn remove_route(&mut self, _: IpNet) -> bool {
        false
    }
    fn set_neighbour(&mut self, _: InterfaceId, _: IpAddr, _: [u8; 6]) {}
    fn remove_neighbour(&mut self, _: InterfaceId, _: IpAddr) {}
}
