//! Interfaces that go, come back or change while the router runs.

use std::time::Duration;

use anyhow::Result;
use ebb_graph::PortId;
use ebb_host::clock::monotonic;
use tracing::{info, warn};

use super::interfaces::LiveInterface;
use super::open;
use super::parking::is_in_kernel;
use super::{HOUSEKEEPING, Live, start};
use crate::config::{self, Config};
use crate::moderation;

/// How often numbers of queues are looked at, at most.
const QUEUES_EVERY: Duration = Duration::from_secs(1);
/// How often ports that are up and could not be opened are tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

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

    /// Ports whose number of queues was changed, and what their drivers can send: nothing announces it.
    pub(super) fn look_at_queues(&mut self) {
        if monotonic().since(self.queues_looked_at) < QUEUES_EVERY {
            return;
        }
        self.queues_looked_at = monotonic();
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        interfaces.look_at_drivers();
        for live in interfaces.open.iter_mut().flatten() {
            let changed = live.interface.queues_changed().unwrap_or(false);
            if std::mem::replace(&mut live.queues_changed, changed) || !changed {
                continue;
            }
            let message = format!(
                "port {}: the number of queues of the interface changed; packets of queues \
                without a worker are left to the kernel: restore the number or restart the router",
                live.interface.name()
            );
            warn!(code = "EBB-R042", "{message}");
            let mut warnings = self.backend.warnings.lock().expect("warnings");
            if !warnings.contains(&message) {
                warnings.push(message);
            }
        }
    }

    /// Packets gather in the queues of workers' ports for as long as the workers wish, where all these ports can have
    /// that done.
    pub(super) fn follow_wishes(&mut self) {
        let shared = self.backend.router.shared();
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        let mut open: Vec<&mut LiveInterface> =
            interfaces.open.iter_mut().flatten().filter(|live| !is_in_kernel(live)).collect();
        let worth_it = match self.config.governor.moderation {
            config::Moderation::Auto => open.len() <= moderation::PORTS_MAX,
            config::Moderation::On => true,
            config::Moderation::Off => false,
        };
        let possible =
            worth_it && !open.is_empty() && open.iter().all(|live| live.moderation.is_some());
        let held = shared.moderation.holds();
        let wishes = || shared.workers.iter().map(|worker| &worker.wish);
        let holds = match possible {
            true => shared.moderation.due(wishes()).unwrap_or(held),
            false => Duration::ZERO,
        };
        // A port that has come back lets nothing gather yet.
        if open.iter_mut().all(|live| live.moderate(holds)) {
            shared.moderation.set(possible, holds);
        } else {
            shared.moderation.set(false, Duration::ZERO);
            open.into_iter().for_each(|live| _ = live.moderate(Duration::ZERO));
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
                code = "EBB-R043",
                "interface {what}; the other ports keep working, it is opened again when it \
                returns"
            );
            self.backend.router.detach_for_now(port);
            self.interfaces.lock().expect("interfaces").close(port, set_down);
        } else if up && !open {
            self.take_in(slot, &name);
        } else {
            info!(port = name, up, code = "EBB-R044", "link changed");
        }
    }

    /// Opens a port whose interface came or came up; what prevents it stands in the warnings until
    /// a later attempt succeeds.
    fn take_in(&mut self, slot: usize, name: &str) {
        let refusal = match self.open_port(slot) {
            Ok(()) => {
                info!(port = name, code = "EBB-R045", "interface is back");
                None
            }
            Err(error) => Some(format!("port {name} is up but cannot be opened: {error:#}")),
        };
        let mut refusals = self.backend.refusals.lock().expect("refusals");
        if let Some(refusal) = &refusal
            && refusals.get(&slot) != Some(refusal)
        {
            warn!(code = "EBB-R006", "{refusal}");
        }
        match refusal {
            Some(refusal) => refusals.insert(slot, refusal),
            None => refusals.remove(&slot),
        };
    }

    /// Tries ports again that are up and could not be opened so far; nothing may announce that they
    /// can be.
    pub(super) fn retry_ports(&mut self) {
        if monotonic().since(self.retried_at) < RETRY_EVERY {
            return;
        }
        self.retried_at = monotonic();
        let waiting = self.interfaces.lock().expect("interfaces").waiting();
        for port in waiting {
            let slot = usize::from(port.0);
            if let Some(name) = self.config.ports.get(slot).map(|port| port.name.clone()) {
                self.take_in(slot, &name);
            }
        }
    }

    /// How long the control thread may sleep when nothing happens.
    pub(super) fn patience(&self) -> Duration {
        if self.upgrade.is_some() {
            return RETRY_EVERY;
        }
        let patience = match self.interfaces.lock().expect("interfaces").waiting().is_empty() {
            true if self.sync.is_watching() => RETRY_EVERY,
            true => HOUSEKEEPING,
            false => RETRY_EVERY,
        };
        let others = [self.sync.patience(), self.kernel_cpus.patience(), self.costs_patience()];
        others.into_iter().flatten().fold(patience, Duration::min)
    }

    /// Frames into which the other ports receive.
    pub(super) fn posted_beside(&self, slot: usize) -> u64 {
        let interfaces = self.interfaces.lock().expect("interfaces");
        let others = interfaces.open.iter().enumerate().filter(|(other, _)| *other != slot);
        others.filter_map(|(_, live)| live.as_ref()).map(LiveInterface::posted).sum()
    }

    /// What decides how ports are opened under a configuration.
    pub(super) fn opened_by<'a>(&'a self, config: &'a Config) -> open::By<'a> {
        open::By { config, cheaper: self.cheaper(), flows: self.flows.as_ref() }
    }

    pub(super) fn open_port(&mut self, slot: usize) -> Result<()> {
        let workers = self.backend.router.limits().cores;
        let by = self.opened_by(&self.config);
        let mut port = self.config.ports[slot].clone();
        let configured = port.name.clone();
        // Somebody may have given the interface another name since.
        if let Some(name) = self.interfaces.lock().expect("interfaces").name_of(PortId(slot as u8))
        {
            name.clone_into(&mut port.name);
        }
        let (posted, frames) = (self.posted_beside(slot), self.umem.region().frames());
        start::ensure_room(&port, u32::from(workers), posted, frames)?;
        let (mut live, mut open) =
            open::open(&self.umem, &port, &by, u32::from(workers), &self.journal)?;
        open.name = configured;
        let active = self.backend.router.cores();
        let cpus = self.backend.router.cpus();
        live.take_knobs(&self.config.governor, cpus, active, &self.journal);
        let id = PortId(slot as u8);
        self.interfaces.lock().expect("interfaces").place(id, live);
        self.backend.router.attach(id, open)
    }
}
