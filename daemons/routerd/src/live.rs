//! The live router: AF_XDP ports, tables that follow the kernel, the machine's knobs, the status
//! socket, and one control thread that sleeps until one of them has something to say.

mod backend;
mod interfaces;

use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_apps::route::{FibWriter, Requests};
use ebb_control::policies::{self, Points};
use ebb_graph::{Pool, PortId, Reserve};
use ebb_host::capability::Capability;
use ebb_host::journal::{Guard, Journal};
use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::WaitSet;
use ebb_host::{Doorbell, capability, process, service, topology};
use ebb_ports::afxdp::{KernelInjector, Umem};
use serde_json::{Value, json};
use tracing::{error, info, warn};

use crate::api::{self, ApiHandle, ApiOptions, Command};
use crate::config::{Change, Config};
use crate::knobs::{self, MachineKnobs};
use crate::power::Fitted;
use crate::record::recorded;
use crate::router::{Parts, Router, limits};
use crate::static_tables::route_limits;
use crate::sync::Sync;
use backend::LiveBackend;
use interfaces::Interfaces;

/// Frames beyond those that the rings hold: batches, holds, the kernel's queue.
const FRAMES_SPARE: u32 = 8192;
/// How often the control thread looks at counters that wrap around (energy).
const HOUSEKEEPING: Duration = Duration::from_secs(30);
/// How often numbers of queues are looked at, at most.
const QUEUES_EVERY: Duration = Duration::from_secs(1);
/// Longest that one `capture` answer is collected.
const CAPTURE_TURN: Duration = Duration::from_millis(500);

/// The live router's control thread.
pub struct Live {
    path: PathBuf,
    config: Config,
    umem: Arc<Umem>,
    journal: Journal,
    backend: Arc<LiveBackend>,
    interfaces: Arc<Mutex<Interfaces>>,
    sync: Sync,
    injector: Option<KernelInjector>,
    injected_failed: bool,
    queues_looked_at: Instant,
    pool: Pool,
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
    fn start(path: &Path, config: Config, journal: Journal) -> Result<Live> {
        let signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        let memory_unlimited = process::lift_memory_lock_limit().is_ok();
        // Capabilities belong to threads: before there are others.
        let mut kept = capability::ROUTER.to_vec();
        if !memory_unlimited {
            // An interface that comes back needs its frame memory locked again.
            kept.push(Capability::CAP_IPC_LOCK);
        }
        if let Err(error) = capability::keep_only(&kept) {
            warn!(%error, "privileges stay as they are");
        }
        let cpus = worker_cpus(&config)?;
        let workers = cpus.len();
        let (region, reserve) = Reserve::allocate(frames(&config, workers));
        let umem = Umem::new(region);
        let interfaces = Arc::new(Mutex::new(Interfaces::default()));
        let (ports, mut notes) = open_ports(&config, &umem, workers, &journal, &interfaces)?;
        let control = Arc::new(Doorbell::new()?);
        let bell = control.clone();
        let requests = Requests::new(1024, Arc::new(move || bell.ring()));
        let (writer, fib) = FibWriter::new();
        let mut sync = Sync::start(&port_names(&config), writer, requests.clone())?;
        sync.turn(&mut *interfaces.lock().expect("interfaces"))?;
        let (machine, missing) = MachineKnobs::open(&config, &cpus, &journal);
        notes.extend(missing);
        let levels = machine.levels().to_vec();
        let model = config.power.model.as_deref();
        let fitted = model.map(|path| Fitted::load(path, workers, &levels)).transpose()?;
        let (meter, note) = knobs::meter(&config, workers, &levels, fitted.as_ref());
        notes.extend(note);
        notes.iter().for_each(|note| info!("{note}"));
        let limits = limits(workers, levels.len());
        let points = match &fitted {
            Some(fitted) => fitted.points(limits)?,
            None => Points::published(limits),
        };
        let router = Arc::new(Router::start(Parts {
            cpus,
            ports,
            reserve: reserve.clone(),
            fib,
            requests,
            route_limits: route_limits(&config),
            frames_total: region.frames(),
            mode: config.router.mode.clone(),
            policy: recorded(
                policies::with_points(&config.router.mode, limits, &config.powersave, &points)?,
                config.governor.record.as_deref(),
            )?,
            limits,
            levels: levels.clone(),
            batch_max: config.powersave.batch as usize,
            coalesce: config.governor.coalesce,
            knobs: Box::new(machine),
            meter,
            control: control.clone(),
        })?);
        let backend = Arc::new(LiveBackend {
            router,
            interfaces: interfaces.clone(),
            tables: Mutex::new(sync.tables()),
            warnings: Mutex::new(notes),
            inbox: Mutex::default(),
            control,
        });
        let options =
            ApiOptions { socket: config.status.socket.clone(), metrics: config.metrics.listen };
        let api = api::serve(options, backend.clone())?;
        let injector = KernelInjector::new()
            .map_err(|error| warn!("packets found out late to be the kernel's are lost: {error}"))
            .ok();
        Ok(Live {
            path: path.to_owned(),
            config,
            umem,
            journal,
            backend,
            interfaces,
            sync,
            injector,
            injected_failed: false,
            queues_looked_at: Instant::now(),
            pool: Pool::new(reserve),
            signals,
            api: Some(api),
            levels,
            points,
        })
    }

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
        self.empty_kernel_queue();
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

    /// Gives the kernel what workers found out to be its own.
    fn empty_kernel_queue(&mut self) {
        while let Some(parcel) = self.backend.router.kernel_packet() {
            let interfaces = self.interfaces.lock().expect("interfaces");
            let origin = interfaces.get(parcel.input);
            let origin = origin.map(|live| (live.interface.index(), live.interface.mode().native));
            drop(interfaces);
            if let (Some(injector), Some((index, native))) = (&mut self.injector, origin) {
                let result = match native {
                    true => injector.inject(index, parcel.packet.data()),
                    false => injector.inject_through_tun(parcel.packet.data()),
                };
                if let Err(error) = result
                    && !std::mem::replace(&mut self.injected_failed, true)
                {
                    warn!(%error, "a packet could not be handed to the kernel; more may follow");
                }
            }
            self.pool.put(parcel.packet.into_frame());
        }
    }

    /// Ports that workers reported: gone, or just refusing.
    fn look_at_faults(&mut self) {
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
    fn look_at_queues(&mut self) {
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

    fn link_changed(&mut self, port: PortId, up: bool, gone: bool) {
        let slot = usize::from(port.0);
        let Some(name) = self.config.ports.get(slot).map(|port| port.name.clone()) else { return };
        let open = self.interfaces.lock().expect("interfaces").get(port).is_some();
        if gone && open {
            warn!(
                port = name,
                "interface is gone; the others go on, it is reopened when it returns"
            );
            self.backend.router.detach(port);
            self.interfaces.lock().expect("interfaces").open[slot] = None;
        } else if up && !open {
            match self.open_port(slot) {
                Ok(()) => info!(port = name, "interface is back"),
                Err(error) => warn!(port = name, "interface is back but not opened: {error:#}"),
            }
        } else {
            info!(port = name, up, "link changed");
        }
    }

    fn open_port(&mut self, slot: usize) -> Result<()> {
        let workers = self.backend.router.limits().cores;
        let port = &self.config.ports[slot];
        let redirect = self.config.router.redirect;
        let (live, open) =
            interfaces::open(&self.umem, port, redirect, u32::from(workers), &self.journal)?;
        let id = PortId(slot as u8);
        self.interfaces.lock().expect("interfaces").place(id, live);
        self.backend.router.attach(id, open)
    }

    fn command(&mut self, command: Command, answer: &SyncSender<Result<Value, String>>) {
        let result = match command {
            Command::Capture { port, count } => {
                let answer = answer.clone();
                let result = self.start_capture(&port, count);
                if result.is_ok() {
                    let router = self.backend.router.clone();
                    std::thread::spawn(move || _ = answer.send(Ok(collect(&router))));
                    return;
                }
                result.map(|()| Value::Null)
            }
            other => self.answer(other),
        };
        _ = answer.send(result.map_err(|error| format!("{error:#}")));
    }

    fn answer(&mut self, command: Command) -> Result<Value> {
        match command {
            Command::Config => {
                Ok(json!({ "path": self.path, "config": format!("{:#?}", self.config) }))
            }
            Command::Routes { .. } | Command::Neighbours => {
                anyhow::bail!(
                    "the kernel has them: ip route, ip neighbour; for the router's view of one address: lookup"
                )
            }
            Command::Lookup { address } => Ok(self.sync.lookup(address)),
            Command::SetMode(mode) => {
                self.set_mode(&mode)?;
                Ok(json!({ "mode": mode }))
            }
            Command::Reload => self.reload().map(|report| json!({ "reloaded": report })),
            Command::Status | Command::Capture { .. } => unreachable!("answered elsewhere"),
        }
    }

    fn set_mode(&mut self, mode: &str) -> Result<()> {
        let limits = limits(self.backend.router.cpus().len(), self.levels.len());
        let policy = policies::with_points(mode, limits, &self.config.powersave, &self.points)?;
        self.backend.router.set_policy(mode, policy);
        mode.clone_into(&mut self.config.router.mode);
        info!(mode, "policy changed");
        Ok(())
    }

    fn start_capture(&self, name: &str, count: u32) -> Result<()> {
        let slot = self.config.ports.iter().position(|port| port.name == name);
        let slot = slot.with_context(|| format!("there is no port `{name}`"))?;
        self.backend.router.shared().tap.start(slot, count);
        Ok(())
    }

    /// Reads the file again and takes over what differs; returns what was done, a step a line.
    fn reload(&mut self) -> Result<String> {
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

    fn count_tables(&self) {
        *self.backend.tables.lock().expect("tables") = self.sync.tables();
    }
}

/// Collects copies until the tap is done or the turn is over.
fn collect(router: &Router) -> Value {
    let tap = &router.shared().tap;
    let begun = std::time::Instant::now();
    while !tap.is_done() && begun.elapsed() < CAPTURE_TURN {
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = tap.is_done();
    tap.stop();
    let (copies, missed) = tap.fetch();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let packets: Vec<Value> = copies
        .iter()
        .map(|copy| json!({ "time_ns": copy.time.as_nanos(), "frame": hex(&copy.frame) }))
        .collect();
    json!({ "packets": packets, "missed": missed, "done": done })
}

/// The CPU of each worker: as configured, or the online CPUs in order.
fn worker_cpus(config: &Config) -> Result<Vec<Option<usize>>> {
    let sysfs = ebb_host::Sysfs::new("/");
    let online: Vec<usize> = topology::cpus(&sysfs)?.into_iter().map(|cpu| cpu.id).collect();
    let allowed = process::allowed_cpus().unwrap_or_else(|_| online.clone());
    let mut cpus: Vec<usize> = config.router.cpus.iter().map(|cpu| usize::from(*cpu)).collect();
    if cpus.is_empty() {
        cpus = online.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
    }
    for cpu in &cpus {
        anyhow::ensure!(online.contains(cpu), "router.cpus: this machine has no CPU {cpu}");
    }
    let workers = config.router.workers.map_or(cpus.len(), usize::from);
    Ok((0..workers).map(|worker| cpus.get(worker % cpus.len().max(1)).copied()).collect())
}

fn port_names(config: &Config) -> Vec<(PortId, String)> {
    let numbered = (0u8..).zip(&config.ports);
    numbered.map(|(slot, port)| (PortId(slot), port.name.clone())).collect()
}

/// Frames that all rings can hold at once, and some to work with.
fn frames(config: &Config, workers: usize) -> u32 {
    let rings: u32 = config.ports.iter().map(|port| port.ring * 4 * workers as u32).sum();
    config.router.frames.unwrap_or(rings + FRAMES_SPARE * workers as u32)
}

type Opened = (Vec<crate::router::OpenPort>, Vec<String>);

/// Opens every configured port; one that cannot be opened is an error, for a router that starts
/// with less than it was asked for is not what its operator expects.
fn open_ports(
    config: &Config,
    umem: &Arc<Umem>,
    workers: usize,
    journal: &Journal,
    interfaces: &Mutex<Interfaces>,
) -> Result<Opened> {
    let mut ports = Vec::new();
    let mut notes = Vec::new();
    for (slot, port) in config.ports.iter().enumerate() {
        let (live, open) =
            interfaces::open(umem, port, config.router.redirect, workers as u32, journal)
                .with_context(|| format!("port {}", port.name))?;
        if live.interface.unserved_queues() > 0 {
            notes.push(format!(
                "port {}: {} receive queues are not served; their packets stay with the kernel",
                port.name,
                live.interface.unserved_queues()
            ));
        }
        interfaces.lock().expect("interfaces").place(PortId(slot as u8), live);
        ports.push(open);
    }
    Ok((ports, notes))
}
