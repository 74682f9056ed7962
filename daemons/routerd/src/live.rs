//! The live router: AF_XDP ports, tables that follow the kernel, the machine's knobs, the status
//! socket, and one control thread that sleeps until one of them has something to say.

mod backend;
mod commands;
mod inject;
mod interfaces;
mod kernel_cpus;
mod kernel_path;
mod links;
mod moves;
mod open;
mod parking;
mod path_costs;
mod placement;
mod preflight;
mod reload;
mod start;
mod tags;
mod tunnels;
mod upgrade;
mod vigil;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_control::policies::Points;
use ebb_graph::{PortId, Reserve};
use ebb_host::capability::Capability;
use ebb_host::journal::{Guard, Journal};
use ebb_host::pulse::Pulses;
use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::WaitSet;
use ebb_host::{capability, process, service};
use ebb_ports::afxdp::{KernelFlows, Umem};
use ebb_service::Serving;
use ebb_units::Time;
use tracing::{error, info, warn};

use crate::applications;
use crate::config::Config;
use crate::conversation::Conversation;
use crate::export::Export;
use crate::sync::TableSync;
use crate::tunnel_state::Keeper;
use backend::LiveBackend;
use inject::Injection;
use interfaces::Interfaces;
use kernel_cpus::KernelCpus;
use path_costs::ByCost;
pub use preflight::{Preflight, preflight};
pub use upgrade::read_word;
use vigil::{Vigil, Watch};

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
    sync: TableSync,
    /// Ends after the workers.
    injection: Injection,
    /// Ends after the workers too.
    export: Option<Export>,
    /// What the kernel path counts, if it does.
    flows: Option<Arc<KernelFlows>>,
    /// And this.
    tunnels: Option<Keeper>,
    /// And what tells peers.
    conversation: Option<Conversation>,
    reserve: Arc<Reserve>,
    /// Another program that is to take over.
    upgrade: Option<upgrade::Successor>,
    program: PathBuf,
    queues_looked_at: Time,
    /// Active cores to whom the ports' interrupts go.
    interrupts_for: u16,
    kernel_cpus: KernelCpus,
    by_cost: Option<ByCost>,
    retried_at: Time,
    signals: Signals,
    api: Option<Serving>,
    points: Points,
    vigil: Vigil,
}

/// Runs the router that `config` (read from `path`) describes until SIGINT or SIGTERM.
///
/// # Errors
/// When it cannot start; everything it changed is put back.
pub fn run(path: &Path, config: Config) -> Result<()> {
    serve(path, config, None)
}

/// Takes over from a running router, which has started this process for that
/// ([`Command::Upgrade`](crate::api::Command::Upgrade)) and speaks to it on standard input, with
/// the configuration that is in force there; then runs like [`run`].
///
/// # Errors
/// When the conversation fails, or as [`run`]. Until it has succeeded the other router goes on.
pub fn take_over(path: &Path) -> Result<()> {
    let mut inheritance = upgrade::Predecessor::meet()?;
    let config = inheritance.config()?;
    let result = serve(path, config, Some(&mut inheritance));
    if let Err(error) = &result {
        inheritance.decline(error);
    }
    result
}

fn serve(
    path: &Path,
    config: Config,
    mut inheritance: Option<&mut upgrade::Predecessor>,
) -> Result<()> {
    let missing = capability::missing(&capability::ROUTER);
    anyhow::ensure!(
        missing.is_empty(),
        "missing capabilities {missing:?}: run as root, or with the service unit's capabilities"
    );
    let verdict = preflight(&config);
    verdict.warnings.iter().for_each(|warning| warn!(code = "EBB-R008", "{warning}"));
    anyhow::ensure!(verdict.problems.is_empty(), "{}", verdict.problems.join("\n"));
    let directory = config.governor.journal_directory.clone();
    for undone in Journal::recover_stale(&directory) {
        info!(undone = ?undone.undo, failed = ?undone.result.err(), code = "EBB-R009", "undid the changes of an earlier run");
    }
    let journal = Journal::open(&directory).with_context(|| {
        format!(
            "cannot write the journal in {}: set [governor] journal_directory",
            directory.display()
        )
    })?;
    // With a privilege that goes next.
    ebb_ports::afxdp::find_modules(None);
    // Before there are threads, whose privileges are their own, and before the guard, which needs no
    // others.
    let kept = kept_privileges();
    match capability::keep_only(&kept) {
        Ok(()) => {
            info!(code = "EBB-R010", "privileges kept: {}", capability::reasons(&kept).join("; "))
        }
        Err(error) => warn!(%error, code = "EBB-R011", "cannot drop privileges"),
    }
    let pulses = Pulses::new().context("cannot allocate the heartbeat memory")?;
    let guard =
        Guard::spawn_watching(&journal, &pulses).context("cannot start the guard process")?;
    let watch = Watch { pulses, brake: guard.brake() };
    ebb_ports::afxdp::prepare();
    let started = Live::start(path, config, journal.clone(), inheritance.as_deref_mut(), watch);
    let result = started.and_then(Live::control);
    match inheritance {
        // What stands in it is the other router's duty, which goes on.
        Some(inheritance) if !inheritance.is_taken() => journal.bequeath()?,
        _ => _ = journal.finish(),
    }
    drop(guard);
    result
}

/// What the router may do from its start on. Packet memory may be locked again without a privilege
/// once the limit is lifted; where it cannot be, interfaces that come back need one.
fn kept_privileges() -> Vec<Capability> {
    let mut kept = capability::ROUTER.to_vec();
    kept.extend([Capability::CAP_PERFMON].into_iter().filter(|one| capability::has(*one)));
    if process::lift_memory_lock_limit().is_err() {
        kept.push(Capability::CAP_IPC_LOCK);
    }
    kept
}

impl Live {
    /// Serves signals, the kernel's tables, commands and packets for the kernel until told to end.
    fn control(mut self) -> Result<()> {
        self.turn()?;
        info!(
            ports = self.config.ports.len(),
            mode = self.config.router.mode,
            code = "EBB-R012",
            "forwarding"
        );
        service::ready();
        self.vigil.begin();
        let mut wait_set = WaitSet::new();
        loop {
            wait_set.clear();
            wait_set.add(self.signals.fd());
            wait_set.add(self.backend.control.fd());
            self.upgrade.iter().for_each(|successor| wait_set.add(successor.fd()));
            self.wait_for_kernel(&mut wait_set);
            let patience = self.vigil.patience(self.patience());
            self.vigil.sleep(|| wait_set.wait(Some(patience)));
            self.backend.control.drain();
            if self.take_signals() {
                break;
            }
            self.turn()?;
            if let Some(warning) = self.vigil.turn() {
                warn!(code = "EBB-R079", "{warning}");
                self.backend.stalls.store(self.vigil.stalls(), Relaxed);
                self.backend.replace_warning(vigil::STOOD_STILL, warning);
            }
        }
        self.vigil.end();
        service::stopping();
        info!(code = "EBB-R013", "ending");
        self.api = None;
        self.backend.router.stop();
        if self.flows.is_some() {
            // So that what is told last is all that there was.
            self.interfaces.lock().expect("interfaces").leave_the_kernel_path();
        }
        self.export = None;
        self.tunnels = None;
        self.conversation = None;
        Ok(())
    }

    /// Has `wait_set` end when the kernel has something to say.
    fn wait_for_kernel(&self, wait_set: &mut WaitSet) {
        self.sync.fds().into_iter().for_each(|fd| wait_set.add(fd));
        self.interfaces.lock().expect("interfaces").fds().for_each(|fd| wait_set.add(fd));
    }

    /// Follows the kernel's tables and policy.
    fn follow_kernel(&mut self) {
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        interfaces.look_at_tags();
        if self.config.follows_tunnels() {
            let applications = self.backend.router.applications();
            self.sync.reserve(applications::addresses(applications));
        }
        self.sync.turn(&mut *interfaces);
        self.sync.rebase(|number| self.backend.router.next_hop_volume(number));
    }

    fn carry_out_commands(&mut self) {
        let commands = std::mem::take(&mut *self.backend.inbox.lock().expect("inbox"));
        for (command, answer) in commands {
            self.command(command, &answer);
        }
    }

    fn turn(&mut self) -> Result<()> {
        self.follow_kernel();
        // What another program shares must stay open until it has taken over or given up.
        let changes = match self.upgrade {
            Some(_) => Vec::new(),
            None => {
                let mut interfaces = self.interfaces.lock().expect("interfaces");
                std::mem::take(&mut interfaces.link_changes)
            }
        };
        for (port, up, gone) in changes {
            self.link_changed(port, up, gone);
        }
        if self.upgrade.is_none() {
            self.look_at_faults();
            self.retry_ports();
        }
        self.look_at_queues();
        self.follow_parking();
        self.follow_kernel_cpus();
        self.follow_costs();
        if self.upgrade.is_none() {
            self.follow_wishes();
        }
        self.converse_with_successor();
        self.carry_out_commands();
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
                Ok(report) => info!(code = "EBB-R014", "reloaded: {}", report.text()),
                Err(error) => error!(code = "EBB-R015", "not reloaded: {error:#}"),
            }
            service::ready();
        }
        false
    }

    fn count_tables(&self) {
        *self.backend.tables.lock().expect("tables") = self.sync.tables();
        let interfaces = self.interfaces.lock().expect("interfaces");
        let carried = crate::policy::as_carried(
            self.sync.policy_objects(),
            interfaces.any_on_the_kernel_path(),
            interfaces.knows_connections(),
        );
        drop(interfaces);
        *self.backend.policy.lock().expect("policy") = carried;
        *self.backend.layer3.lock().expect("interfaces") = self.sync.interfaces();
    }
}

fn port_names(config: &Config) -> Vec<(PortId, String)> {
    let numbered = (0u8..).zip(&config.ports);
    numbered.map(|(slot, port)| (PortId(slot), port.name.clone())).collect()
}
