//! What the status socket and the metrics see of the live router, and the way their commands take
//! to the control thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_apps::route::InterfaceId;
use ebb_host::{Doorbell, clock};
use ebb_power::Basis;
use ebb_service::Daemon;
use ebb_telemetry::Snapshot;
use serde_json::{Map, Value};

use super::interfaces::Interfaces;
use crate::api::Command;
use crate::applications;
use crate::router::Router;
use crate::snapshot;
use crate::status::{self, PolicyObject, Port, Status, Tables};

/// How long a command may wait for the control thread.
const PATIENCE: Duration = Duration::from_secs(60);

type Answer = Result<Value, String>;

/// Shared between the control thread and the serving thread.
pub struct LiveBackend {
    /// The router.
    pub router: Arc<Router>,
    /// Its interfaces.
    pub interfaces: Arc<Mutex<Interfaces>>,
    /// Sizes of the tables, kept by the control thread.
    pub tables: Mutex<Tables>,
    /// What the kernel's policy consists of, kept by the control thread.
    pub policy: Mutex<Arc<Vec<PolicyObject>>>,
    /// Conditions an operator should know of.
    pub warnings: Mutex<Vec<String>>,
    /// How often the router stalled, kept by the control thread.
    pub stalls: AtomicU64,
    /// Flows are counted on the kernel path.
    pub counts_flows: bool,
    /// Layer-3 interfaces: number, name, port number and VLAN of each.
    pub layer3: Mutex<Vec<(InterfaceId, String, u8, u16)>>,
    /// Why a port whose link is up is not open, by port number.
    pub refusals: Mutex<BTreeMap<usize, String>>,
    /// Commands for the control thread.
    pub inbox: Mutex<Vec<(Command, SyncSender<Answer>)>>,
    /// Wakes the control thread.
    pub control: Arc<Doorbell>,
}

impl LiveBackend {
    /// Shows this warning instead of the one that begins alike.
    pub fn replace_warning(&self, begin: &str, warning: String) {
        let mut warnings = self.warnings.lock().expect("warnings");
        warnings.retain(|known| !known.starts_with(begin));
        warnings.push(warning);
    }

    fn layer3(&self, ports: &[Port]) -> Vec<status::Interface> {
        let known = self.layer3.lock().expect("interfaces");
        let line = |(id, name, port, vlan): &(InterfaceId, String, u8, u16)| {
            let [received, forwarded] = self.router.interface_volumes(*id);
            status::Interface {
                name: name.clone(),
                port: ports.get(usize::from(*port)).map_or(String::new(), |port| port.name.clone()),
                vlan: *vlan,
                received: received.packets,
                received_bytes: received.bytes,
                forwarded: forwarded.packets,
                forwarded_bytes: forwarded.bytes,
            }
        };
        known.iter().map(line).collect()
    }

    /// The present state.
    fn state(&self) -> Status {
        let interfaces = self.interfaces.lock().expect("interfaces");
        let uptime = clock::monotonic().since(self.router.started()).as_secs_f64();
        let in_kernel: Vec<_> = interfaces.forwarding_cpus(uptime).collect();
        let worked = in_kernel.iter().map(|cpu| cpu.busy_seconds).sum();
        self.router.energy().kernel_worked(Duration::from_secs_f64(worked));
        let mut status = snapshot::of_router(&self.router);
        for (slot, name) in self.router.names().into_iter().enumerate() {
            let Some(name) = name else { continue };
            let mut line = Port {
                name,
                latency: snapshot::latency_of(&snapshot::merged(&self.router, Some(slot))),
                ..Port::default()
            };
            let counters = self.router.port_counters(slot);
            line.received = counters.received;
            line.transmitted = counters.transmitted;
            [line.received_bytes, line.transmitted_bytes] = self.router.port_bytes(slot);
            line.receive_dropped = counters.receive_dropped;
            line.transmit_invalid = counters.transmit_invalid;
            line.transmit_dropped = counters.transmit_dropped;
            interfaces.describe(slot, &mut line);
            status.ports.push(line);
        }
        if self.counts_flows {
            applications::counted_in_the_kernel(&mut status, interfaces.of_flows());
        }
        if !in_kernel.is_empty() {
            status.workers.extend(in_kernel);
            let packets = status.packets().forwarded;
            status.energy.joules_per_packet = Some(status.energy.joules / packets as f64);
            if status.energy.basis == Basis::Modelled {
                let note = "the modelled energy includes the time of the kernel path's program, not the kernel's work after it";
                status.warnings.push(note.to_owned());
            }
        }
        for (mechanism, count) in status.ports.iter().flat_map(|port| &port.passed_for) {
            *status.policy.kernel_packets.entry(mechanism.clone()).or_default() += count;
        }
        status.stalls = self.stalls.load(Relaxed);
        status.policy.objects = self.policy.lock().expect("policy").to_vec();
        status.interfaces = self.layer3(&status.ports);
        status.tables = self.tables.lock().expect("tables").clone();
        status.warnings.extend(interfaces.notes());
        status.warnings.extend(self.refusals.lock().expect("refusals").values().cloned());
        status.warnings.splice(0..0, self.warnings.lock().expect("warnings").iter().cloned());
        status
    }
}

impl Daemon for LiveBackend {
    fn status(&self) -> Answer {
        serde_json::to_value(self.state()).map_err(|error| error.to_string())
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        Ok(Snapshot::of(&self.state()))
    }

    fn command(&self, command: Map<String, Value>) -> Answer {
        let command = Command::read(command).map_err(|error| error.to_string())?;
        let (sender, receiver) = sync_channel(1);
        self.inbox.lock().expect("inbox").push((command, sender));
        self.control.ring();
        receiver
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| Err("the router is busy or is shutting down; try again".into()))
    }
}
