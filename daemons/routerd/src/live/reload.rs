//! The configuration file read again while the router runs.

use anyhow::{Context, Result};
use ebb_graph::PortId;
use tracing::info;

use super::{Live, port_names};
use crate::config::{Change, Config};

impl Live {
    /// Reads the file again and takes over what differs; returns what was done, a step a line.
    pub(super) fn reload(&mut self) -> Result<String> {
        let new = Config::load(&self.path)?;
        let changes = Config::diff(&self.config, &new);
        let mut report = Vec::new();
        for change in &changes {
            report.push(change.to_string());
            self.take_over(change, &new).with_context(|| change.to_string())?;
        }
        let old = std::mem::replace(&mut self.config, new);
        if changes
            .iter()
            .any(|change| matches!(change, Change::PortAdded(..) | Change::PortRemoved(..)))
        {
            self.sync.set_ports(&port_names(&self.config))?;
        }
        self.keep_what_needs_a_restart(&old, &changes);
        Ok(if report.is_empty() { "nothing differs".into() } else { report.join("; ") })
    }

    fn take_over(&mut self, change: &Change, new: &Config) -> Result<()> {
        match change {
            Change::Mode(mode) => self.set_mode(mode),
            Change::Powersave(settings) => {
                self.config.powersave = *settings;
                let mode = self.config.router.mode.clone();
                self.set_mode(&mode)
            }
            Change::PortRemoved(slot, name) => {
                info!(port = name, "port closes");
                self.backend.router.detach(PortId(*slot as u8));
                if let Some(open) = self.interfaces.lock().expect("interfaces").open.get_mut(*slot)
                {
                    *open = None;
                }
                Ok(())
            }
            Change::PortAdded(slot, port) => {
                self.config.ports = new.ports.clone();
                self.open_port(*slot).with_context(|| format!("port {}", port.name))
            }
            Change::Metrics(metrics) => {
                let api = self.api.as_ref().context("no serving thread")?;
                Ok(api.set_metrics(metrics.listen)?)
            }
            Change::Kernel(kernel) => {
                self.sync.ignore_policy(&kernel.ignore);
                let mut interfaces = self.interfaces.lock().expect("interfaces");
                self.sync.turn(&mut *interfaces)
            }
            Change::Limits(_) | Change::Knobs { .. } | Change::Statics | Change::Restart { .. } => {
                Ok(())
            }
        }
    }

    /// Fields that only a restart changes keep their present value, so that the next reload
    /// compares with the truth.
    fn keep_what_needs_a_restart(&mut self, old: &Config, changes: &[Change]) {
        if changes.iter().any(Change::needs_restart) {
            let (mode, file) =
                (self.config.router.mode.clone(), self.config.router.routes_file.clone());
            self.config.router = old.router.clone();
            self.config.router.mode = mode;
            self.config.router.routes_file = file;
        }
    }
}
