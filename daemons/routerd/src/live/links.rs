//! Interfaces that go, come back or change while the router runs.

use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_graph::PortId;
use tracing::{info, warn};

use super::{Live, interfaces};

/// How often numbers of queues are looked at, at most.
const QUEUES_EVERY: Duration = Duration::from_secs(1);

impl Live {
    /// Ports that workers reported: gone, or just refusing.
    pub(super) fn look_at_faults(&mut self) {
        let faults = self.backend.router.take_faults();
        for slot in (0..self.config.ports.len()).filter(|slot| faults & 1 << slot != 0) {
            let port = PortId(slot as u8);
            let interfaces = self.interfaces.lock().expect("interfaces");
            let gone =
                interfaces.get(port).is_some_and(|live| live.interface.queues_changed().is_err());
            drop(interfaces);
            if gone {
                self.link_changed(port, false, true);
            }
        }
    }

    /// Ports whose number of queues was changed: nothing announces it.
    pub(super) fn look_at_queues(&mut self) {
        if self.queues_looked_at.elapsed() < QUEUES_EVERY {
            return;
        }
        self.queues_looked_at = Instant::now();
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        for live in interfaces.open.iter_mut().flatten() {
            let changed = live.interface.queues_changed().unwrap_or(false);
            if std::mem::replace(&mut live.queues_changed, changed) || !changed {
                continue;
            }
            let message = format!(
                "port {}: the interface has another number of queues than when it was opened; \
                 packets of queues that are not served stay with the kernel: put it back or \
                 restart the router",
                live.interface.name()
            );
            warn!("{message}");
            let mut warnings = self.backend.warnings.lock().expect("warnings");
            if !warnings.contains(&message) {
                warnings.push(message);
            }
        }
    }

    pub(super) fn link_changed(&mut self, port: PortId, up: bool, gone: bool) {
        let slot = usize::from(port.0);
        let Some(name) = self.config.ports.get(slot).map(|port| port.name.clone()) else { return };
        let open = self.interfaces.lock().expect("interfaces").get(port).is_some();
        // What waits to be sent on a link that was set down would leave when it is set up again.
        let set_down = open && !up && !gone && {
            let interfaces = self.interfaces.lock().expect("interfaces");
            interfaces.get(port).is_some_and(|live| live.interface.is_set_down())
        };
        if open && (gone || set_down) {
            let what = if gone { "is gone" } else { "was set down" };
            warn!(
                port = name,
                "interface {what}; the others go on, it is reopened when it returns"
            );
            self.backend.router.detach_for_now(port);
            self.interfaces.lock().expect("interfaces").close(port, set_down);
        } else if up && !open {
            match self.open_port(slot) {
                Ok(()) => info!(port = name, "interface is back"),
                Err(error) => warn!(port = name, "interface is back but not opened: {error:#}"),
            }
        } else {
            info!(port = name, up, "link changed");
        }
    }

    pub(super) fn open_port(&mut self, slot: usize) -> Result<()> {
        let workers = self.backend.router.limits().cores;
        let port = &self.config.ports[slot];
        let redirect = self.config.router.redirect;
        let (live, open) =
            interfaces::open(&self.umem, port, redirect, u32::from(workers), &self.journal)?;
        let id = PortId(slot as u8);
        self.interfaces.lock().expect("interfaces").place(id, live);
        self.backend.router.attach(id, open)
    }
}
