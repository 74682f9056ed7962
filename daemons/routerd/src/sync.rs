//! The forwarding tables' loop around the kernel: what netlink tells goes through the model of
//! [`crate::rib`] into the tables, and neighbours that packets wait for are asked for.
//!
//! No thread of its own: the control thread calls [`Sync::turn`] when one of [`Sync::fds`] or the
//! workers' doorbell says so.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use ebb_apps::route::{FibWriter, Requests};
use ebb_graph::PortId;
use ebb_host::netlink::{self, Monitor};
use serde_json::{Value, json};
use tracing::{debug, info};

use crate::rib::{Rib, Scope, Update};
use crate::status::Tables;

/// What the ports learn from the kernel's tables.
pub trait PortUpdates {
    /// The host's own addresses: their packets stay with the kernel.
    fn set_local_addresses(&mut self, addresses: &[IpAddr]);
    /// The MAC addresses on which a port's interfaces receive.
    fn set_macs(&mut self, port: PortId, macs: &[[u8; 6]]);
    /// A port's link went up or down, disappeared or came back.
    fn link_changed(&mut self, port: PortId, up: bool, gone: bool);
}

/// See the module.
pub struct Sync {
    monitor: Monitor,
    kernel: netlink::Requests,
    rib: Rib,
    fib: FibWriter,
    requests: Arc<Requests>,
    resyncs: u64,
}

impl Sync {
    /// Reads the kernel's tables into `fib` and follows them from then on.
    ///
    /// # Errors
    /// When netlink is refused.
    pub fn start(
        ports: &[(PortId, String)],
        fib: FibWriter,
        requests: Arc<Requests>,
    ) -> Result<Sync> {
        let monitor = Monitor::open().context("netlink monitor")?;
        Sync::with_monitor(monitor, ports, fib, requests)
    }

    /// Like [`Sync::start`], with a monitor opened by the caller.
    ///
    /// # Errors
    /// As [`Sync::start`].
    pub fn with_monitor(
        monitor: Monitor,
        ports: &[(PortId, String)],
        fib: FibWriter,
        requests: Arc<Requests>,
    ) -> Result<Sync> {
        let kernel = netlink::Requests::open().context("netlink requests")?;
        let rib = Rib::new(ports);
        let mut sync = Sync { monitor, kernel, rib, fib, requests, resyncs: 0 };
        sync.rib.start(&mut sync.fib);
        sync.dump(Scope::All)?;
        sync.fib.publish();
        Ok(sync)
    }

    /// Descriptors that are readable (or report an error) when there is something to do.
    pub fn fds(&self) -> Vec<RawFd> {
        vec![self.monitor.fd()]
    }

    /// Takes over what the kernel said and asks it what the workers want to know.
    ///
    /// # Errors
    /// When netlink fails for good.
    pub fn turn(&mut self, updates: &mut dyn PortUpdates) -> Result<()> {
        let (rib, fib) = (&mut self.rib, &mut self.fib);
        let events = self.monitor.poll(&mut |event| rib.apply(&event, fib)).context("netlink")?;
        if self.catch_up()? || events > 0 {
            self.fib.publish();
        }
        for update in self.rib.take_updates() {
            match update {
                Update::LocalAddresses(addresses) => updates.set_local_addresses(&addresses),
                Update::Macs(port, macs) => updates.set_macs(port, &macs),
                Update::Link { port, up, gone } => updates.link_changed(port, up, gone),
            }
        }
        self.ask();
        Ok(())
    }

    /// Goes on with other ports; what forwards through the others is not touched.
    ///
    /// # Errors
    /// When the kernel's tables had to be compared and cannot be read.
    pub fn set_ports(&mut self, ports: &[(PortId, String)]) -> Result<()> {
        self.rib.set_ports(ports, &mut self.fib);
        self.catch_up()?;
        self.fib.publish();
        Ok(())
    }

    /// Compares what the model wants compared; whether anything was.
    fn catch_up(&mut self) -> Result<bool> {
        let mut dumped = false;
        while let Some(scope) = self.rib.wanted() {
            info!(?scope, "comparing the tables with the kernel's");
            self.resyncs += 1;
            self.dump(scope)?;
            dumped = true;
        }
        Ok(dumped)
    }

    fn dump(&mut self, scope: Scope) -> Result<()> {
        self.rib.begin(scope);
        let (rib, fib) = (&mut self.rib, &mut self.fib);
        let mut each = |event| rib.apply(&event, fib);
        match scope {
            Scope::All => self.monitor.dump(&mut each),
            Scope::Part(part) => self.monitor.dump_part(part, &mut each),
        }
        .context("reading the kernel's tables")?;
        self.rib.finish(&mut self.fib);
        Ok(())
    }

    /// Asks the kernel for neighbours that packets wait for or whose confirmation ran out.
    fn ask(&mut self) {
        let mut wanted: BTreeSet<(u32, IpAddr)> = self.rib.take_stale().into_iter().collect();
        while let Some((interface, address)) = self.requests.pop() {
            wanted.extend(self.rib.link_of(interface).map(|link| (link, address)));
        }
        for (link, address) in wanted {
            if let Err(error) = self.kernel.resolve(link, address) {
                debug!(%address, link, %error, "neighbour not asked for");
            }
        }
    }

    /// Sizes for the status.
    pub fn tables(&self) -> Tables {
        Tables {
            routes: self.fib.routes() as u64,
            neighbours: self.fib.neighbours() as u64,
            interfaces: self.rib.interfaces() as u64,
            changes: self.rib.changes(),
            resyncs: self.resyncs,
        }
    }

    /// What happens to packets for an address.
    pub fn lookup(&self, address: IpAddr) -> Value {
        json!({ "address": address, "decision": self.fib.lookup(address).to_string() })
    }
}
