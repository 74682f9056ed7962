//! The configuration file read again while the router runs: all of it is taken over, or nothing.
//!
//! What can fail is done first and taken back when something else fails: the metrics' new address
//! is bound, knobs are opened, ports are opened (an interface that changes is closed before, and
//! opened as it was if the change fails). What follows cannot fail.

use std::time::Duration;

use anyhow::{Context, Result};
use ebb_control::Limits;
use ebb_control::policies::{self, Points};
use ebb_graph::PortId;
use ebb_host::clock::monotonic;
use ebb_ports::afxdp::AfXdpError;
use ebb_service::PreparedMetrics;
use ebb_units::Hertz;
use serde_json::{Value, json};
use tracing::{error, info, warn};

use super::interfaces::LiveInterface;
use super::open;
use super::start::frames;
use super::{Live, port_names, start};
use crate::applications;
use crate::config::{self, Change, Config};
use crate::energy::Meter;
use crate::knobs::{self, MachineKnobs};
use crate::power::Fitted;
use crate::router::{OpenPort, limits};
use crate::static_tables::live_route_limits;

/// How long workers may take to close a port, and the kernel to let go of its queues.
pub(super) const CLOSING: Duration = Duration::from_secs(2);

/// What a reload did, a step a line, for people and for programs.
pub(super) struct Report(Vec<String>);

impl Report {
    pub(super) fn text(&self) -> String {
        if self.0.is_empty() { "nothing changed".into() } else { self.0.join("; ") }
    }

    pub(super) fn json(&self) -> Value {
        json!({ "reloaded": self.text(), "changes": self.0 })
    }
}

/// A port opened for a new configuration that no worker has yet.
type Pending = (PortId, LiveInterface, OpenPort);

/// What the policy may use under a new configuration.
struct Machine {
    levels: Vec<Hertz>,
    limits: Limits,
    points: Points,
    /// Present when knobs were exchanged.
    meter: Option<Meter>,
}

impl Live {
    /// Reads the file again and takes over what differs.
    pub(super) fn reload(&mut self) -> Result<Report> {
        let mut new = Config::load(&self.path)?;
        let changes = Config::diff(&self.config, &new);
        // Fields that only a restart changes keep their present value, so that the next reload
        // compares with the truth.
        new.keep_what_needs_a_restart(&self.config);
        new.check_files()?;
        anyhow::ensure!(
            applications::are_in_order(self.backend.router.applications(), &new),
            "apps: only a restart changes the order in which packets pass them"
        );
        let moved = changes.iter().any(|change| matches!(change, Change::Metrics(_)));
        let api = self.api.as_ref().context("metrics and status are not served")?;
        let metrics = moved.then(|| api.prepare_metrics(new.metrics.listen)).transpose()?;
        let is_port =
            |change: &Change| matches!(change, Change::PortAdded(..) | Change::PortRemoved(..));
        match changes.iter().any(is_port) {
            true => self.bypassed(|live| live.take_over(new, &changes, metrics)),
            false => self.take_over(new, &changes, metrics),
        }
    }

    fn take_over(
        &mut self,
        new: Config,
        changes: &[Change],
        metrics: Option<PreparedMetrics>,
    ) -> Result<Report> {
        let knobs = changes.iter().any(|change| matches!(change, Change::Knobs { .. }));
        let opened = self.open_machine(&new, knobs).and_then(|machine| {
            // Refused now, it leaves everything as it was.
            policies::with_points(
                &new.router.mode,
                machine.limits,
                &new.powersave,
                &machine.points,
            )?;
            Ok((machine, self.open_changed_ports(changes, &new)?))
        });
        let (machine, pending) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if knobs {
                    self.exchange_knobs(&self.config);
                }
                return Err(error.context("the old configuration stays in use"));
            }
        };
        if let (Some(metrics), Some(api)) = (metrics, &self.api) {
            api.commit_metrics(metrics);
        }
        self.commit(changes, new, machine, pending)
    }

    fn commit(
        &mut self,
        changes: &[Change],
        new: Config,
        machine: Machine,
        pending: Vec<Pending>,
    ) -> Result<Report> {
        for change in changes {
            if let Change::PortRemoved(slot, name) = change {
                info!(port = name, code = "EBB-R054", "port closed");
                self.close_port(*slot);
                let id = PortId(*slot as u8);
                let stays = |change: &Change| matches!(change, Change::PortAdded(at, port) if at == slot && port.name == *name);
                let mut interfaces = self.interfaces.lock().expect("interfaces");
                interfaces.forget_policy(id);
                if !changes.iter().any(stays) {
                    interfaces.forget(id);
                }
                drop(interfaces);
                self.backend.router.detach(id);
            }
        }
        let ports_changed = changes
            .iter()
            .any(|change| matches!(change, Change::PortAdded(..) | Change::PortRemoved(..)));
        let old = std::mem::replace(&mut self.config, new);
        applications::choose_ports(self.backend.router.applications(), &self.config);
        for change in changes {
            if let Change::PortAdded(slot, port) = change {
                self.backend.router.name(PortId(*slot as u8), &port.name);
            }
        }
        for (id, live, open) in pending {
            self.interfaces.lock().expect("interfaces").place(id, live);
            self.backend.router.attach(id, open)?;
        }
        let router = &self.backend.router;
        router.set_route_limits(&live_route_limits(&self.config));
        let policy_changed = self.config.router.mode != old.router.mode
            || self.config.powersave != old.powersave
            || machine.meter.is_some();
        if let Some(meter) = machine.meter {
            router.set_range(machine.limits, machine.levels, meter);
        }
        self.points = machine.points;
        router.shared().set_latency_budget(self.config.powersave.latency_budget());
        if policy_changed {
            let mode = self.config.router.mode.clone();
            self.set_mode(&mode)?;
        }
        if ports_changed {
            self.sync.set_ports(&port_names(&self.config));
            self.sync.repeat_policy();
        }
        if self.config.governor.moderation != old.governor.moderation {
            let mut interfaces = self.interfaces.lock().expect("interfaces");
            for live in interfaces.open.iter_mut().flatten() {
                live.take_moderation(&self.config.governor, &self.journal);
            }
        }
        if self.config.kernel != old.kernel {
            self.sync.ignore_policy(&self.config.kernel.ignore);
        }
        if ports_changed || self.config.kernel != old.kernel {
            let mut interfaces = self.interfaces.lock().expect("interfaces");
            self.sync.turn(&mut *interfaces);
        }
        self.follow_paths();
        let mut report: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let wanted = frames(&self.config, self.backend.router.cpus().len()).unwrap_or(0);
        let present = self.umem.region().frames();
        if wanted > present && ports_changed {
            report.push(format!("router.frames stays {present}; restart to change it to {wanted}"));
        }
        Ok(Report(report))
    }

    /// What the policy may use: the knobs as `new` allows them, if `exchange`; else as it is.
    fn open_machine(&self, new: &Config, exchange: bool) -> Result<Machine> {
        let router = &self.backend.router;
        let levels = match exchange {
            true => self.exchange_knobs(new),
            false => router.levels(),
        };
        let workers = router.cpus().len();
        let limits = limits(workers, levels.len());
        if !exchange {
            return Ok(Machine { levels, limits, points: self.points.clone(), meter: None });
        }
        let model = new.power.model.as_deref();
        let fitted = model.map(|path| Fitted::load(path, workers, &levels)).transpose()?;
        let points = match &fitted {
            Some(fitted) => fitted.points(limits)?,
            None => Points::published(limits),
        };
        let (meter, _) = knobs::meter(new, workers, &levels, fitted.as_ref());
        Ok(Machine { levels, limits, points, meter: Some(meter) })
    }

    /// Puts the knobs back where they were found and opens those that `config` allows.
    pub(super) fn exchange_knobs(&self, config: &Config) -> Vec<Hertz> {
        let mut levels = Vec::new();
        let router = &self.backend.router;
        router.exchange_knobs(|| {
            let (machine, missing) = MachineKnobs::open(config, router.cpus(), &self.journal);
            missing.iter().for_each(|note| info!(code = "EBB-R055", "{note}"));
            levels = machine.levels().to_vec();
            Box::new(machine)
        });
        levels
    }

    /// Opens the ports that `new` adds. Interfaces that are open with other settings are closed
    /// first; when anything fails they are opened again as they were.
    fn open_changed_ports(&mut self, changes: &[Change], new: &Config) -> Result<Vec<Pending>> {
        let added: Vec<(usize, &config::Port)> = changes
            .iter()
            .filter_map(|change| match change {
                Change::PortAdded(slot, port) => Some((*slot, port)),
                _ => None,
            })
            .collect();
        let closing: Vec<usize> = changes
            .iter()
            .filter_map(|change| match change {
                Change::PortRemoved(slot, name) => {
                    added.iter().any(|(_, port)| port.name == *name).then_some(*slot)
                }
                _ => None,
            })
            .collect();
        let mut pending = Vec::new();
        let result = self.open_added(&added, &closing, new, &mut pending);
        let Err(error) = result else { return Ok(pending) };
        drop(pending);
        for slot in closing {
            if let Err(error) = self.open_port(slot) {
                let name = &self.config.ports[slot].name;
                error!(
                    port = name,
                    code = "EBB-R056",
                    "cannot open the port again, trying later: {error:#}"
                );
            }
        }
        Err(error)
    }

    fn open_added(
        &mut self,
        added: &[(usize, &config::Port)],
        closing: &[usize],
        new: &Config,
        pending: &mut Vec<Pending>,
    ) -> Result<()> {
        for slot in closing {
            self.close_port(*slot);
        }
        for (slot, port) in added {
            let workers = u32::from(self.backend.router.limits().cores);
            let also: u64 = pending.iter().map(|(_, live, _)| live.posted()).sum();
            let (posted, frames) = (self.posted_beside(*slot), self.umem.region().frames());
            start::ensure_room(port, workers, posted + also, frames)
                .with_context(|| format!("port {}", port.name))?;
            let opened = self.when_free(|live| {
                open::open(&live.umem, port, &live.opened_by(new), workers, &live.journal)
            });
            match opened {
                Ok((mut live, open)) => {
                    let cpus = self.backend.router.cpus();
                    let active = self.backend.router.cores();
                    live.take_knobs(&new.governor, cpus, active, &self.journal);
                    pending.push((PortId(*slot as u8), live, open));
                }
                Err(error) if open::may_come(&error) => {
                    warn!(
                        port = port.name,
                        code = "EBB-R057",
                        "the port is opened when it appears: {error:#}"
                    );
                }
                Err(error) => return Err(error.context(format!("port {}", port.name))),
            }
        }
        Ok(())
    }

    /// The kernel lets go of a closed socket's queue a moment after the socket is closed.
    pub(super) fn when_free<T>(
        &mut self,
        mut open: impl FnMut(&mut Live) -> Result<T>,
    ) -> Result<T> {
        let begun = monotonic();
        loop {
            let opened = open(self);
            let busy = opened.as_ref().is_err_and(|error| {
                matches!(
                    error.downcast_ref(),
                    Some(AfXdpError::QueueBusy { .. } | AfXdpError::ProgramBusy { .. })
                )
            });
            if !busy || monotonic().since(begun) > CLOSING {
                return opened;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes a port and waits until no worker holds it any more.
    pub(super) fn close_port(&mut self, slot: usize) {
        let id = PortId(slot as u8);
        self.backend.router.detach_for_now(id);
        if !self.backend.router.wait_detached(CLOSING) {
            warn!(slot, code = "EBB-R058", "a worker still uses a closed port");
        }
        self.interfaces.lock().expect("interfaces").take_away(id);
    }
}
