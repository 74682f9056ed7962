//! The live router: AF_XDP ports, tables that follow the kernel, the machine's knobs, the status
//! socket, and one control thread that sleeps until one of them has something to say.

mod backend;
mod commands;
mod inject;
mod interfaces;
mod links;
mod reload;
mod start;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_control::policies::Points;
use ebb_graph::PortId;
use ebb_host::journal::{Guard, Journal};
use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::WaitSet;
use ebb_host::{capability, service};
use ebb_ports::afxdp::Umem;
use tracing::{error, info};

use crate::api::ApiHandle;
use crate::config::Config;
use crate::sync::Sync;
use backend::LiveBackend;
use inject::Injection;
use interfaces::Interfaces;

/// How often the control thread looks at counters that wrap around (energy).
const HOUSEKEEPING: Duration = Duration::from_secs(30);

/// The live router's control thread.
pub struct Live {
    path: PathBuf,
    config: Config,
    umem: Arc<Umem>,
    journal: Journal,
    backend: Arc<LiveBackend>,
    interfaces: Arc<Mutex<Interfaces>>,
    sync: Sync,
    /// Ends after the workers.
    _injection: Injection,
    queues_looked_at: Instant,
    signals: Signals,
    api: Option<ApiHandle>,
    levels: Vec<ebb_units::Hertz>,
    points: Points,
}

/// Runs the router that `config` (read from `path`) describes until SIGINT or SIGTERM.
///
/// # Errors
/// When it cannot start; everything it changed is put back.
pub fn run(path: &Path, config: Config) -> Result<()> {
    let missing = capability::missing(&capability::ROUTER);
    anyhow::ensure!(
        missing.is_empty(),
        "missing capabilities {missing:?}: run as root, or with the service unit's capabilities"
    );
    let directory = config.governor.journal.parent().unwrap_or(Path::new("/run/ebb")).to_owned();
    for undone in Journal::recover_stale(&directory) {
        info!(undone = ?undone.undo, failed = ?undone.result.err(), "an earlier run did not clean up");
    }
    let journal = Journal::open(&directory)
        .with_context(|| format!("journal in {}: set [governor] journal", directory.display()))?;
    let guard = Guard::spawn(&journal).context("guard process")?;
    let result = Live::start(path, config, journal.clone()).and_then(Live::control);
    journal.finish();
    drop(guard);
    result
}

impl Live {
    /// Serves signals, the kernel's tables, commands and packets for the kernel until told to end.
    fn control(mut self) -> Result<()> {
        self.count_tables();
        info!(ports = self.config.ports.len(), mode = self.config.router.mode, "forwarding");
        service::ready();
        let mut wait_set = WaitSet::new();
        loop {
            wait_set.clear();
            wait_set.add(self.signals.fd());
            wait_set.add(self.backend.control.fd());
            self.sync.fds().into_iter().for_each(|fd| wait_set.add(fd));
            wait_set.wait(Some(HOUSEKEEPING));
            self.backend.control.drain();
            if self.take_signals() {
                break;
            }
            self.turn()?;
        }
        service::stopping();
        info!("ending");
        self.api = None;
        self.backend.router.stop();
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        let changes = {
            let mut interfaces = self.interfaces.lock().expect("interfaces");
            self.sync.turn(&mut *interfaces)?;
            std::mem::take(&mut interfaces.link_changes)
        };
        for (port, up, gone) in changes {
            self.link_changed(port, up, gone);
        }
        self.look_at_faults();
        self.look_at_queues();
        let commands = std::mem::take(&mut *self.backend.inbox.lock().expect("inbox"));
        for (command, answer) in commands {
            self.command(command, &answer);
        }
        self.backend.router.energy().read();
        self.count_tables();
        Ok(())
    }

    fn take_signals(&mut self) -> bool {
        while let Ok(Some(signal)) = self.signals.take() {
            if signal != Signal::SIGHUP {
                return true;
            }
            service::reloading();
            match self.reload() {
                Ok(report) => info!("reloaded: {report}"),
                Err(error) => error!("not reloaded: {error:#}"),
            }
            service::ready();
        }
        false
    }

    fn count_tables(&self) {
        *self.backend.tables.lock().expect("tables") = self.sync.tables();
        *self.backend.policy.lock().expect("policy") = self.sync.policy_objects();
    }
}

fn port_names(config: &Config) -> Vec<(PortId, String)> {
    let numbered = (0u8..).zip(&config.ports);
    numbered.map(|(slot, port)| (PortId(slot), port.name.clone())).collect()
}
