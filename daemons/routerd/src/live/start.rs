//! The start: what is opened and begun, in the order in which each needs the other.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use ebb_apps::route::{FibWriter, Requests};
use ebb_control::policies::{self, Points};
use ebb_graph::{PortId, Reserve};
use ebb_host::journal::Journal;
use ebb_host::signals::{Signal, Signals};
use ebb_host::{Doorbell, clock, process};
use ebb_ports::afxdp::Umem;
use ebb_service::{Doors, Options};
use ebb_units::Time;
use tracing::{info, warn};

use super::backend::LiveBackend;
use super::inject::Injection;
use super::interfaces::Interfaces;
use super::kernel_cpus::KernelCpus;
use super::open;
use super::path_costs::ByCost;
use super::upgrade::Predecessor;
use super::vigil::{Vigil, Watch};
use super::{Live, placement, port_names, upgrade};
use crate::applications::{self, Bells, Made};
use crate::config::{self, Config, FlowVersion};
use crate::conversation::Conversation;
use crate::export::kernel::{self, Gathering};
use crate::export::{self, Export};
use crate::knobs::{self, MachineKnobs};
use crate::power::{Fitted, path_costs};
use crate::record::recorded;
use crate::router::{OpenPort, Parts, Router, limits, smallest_ring};
use crate::shared::PORTS_MAX;
use crate::static_tables::live_route_limits;
use crate::sync::TableSync;

/// Frames beyond those that the rings hold: batches, holds, the kernel's queue.
const FRAMES_SPARE: u32 = 8192;

impl Live {
    pub(super) fn start(
        path: &Path,
        config: Config,
        journal: Journal,
        mut inheritance: Option<&mut Predecessor>,
        watch: Watch,
    ) -> Result<Live> {
        let signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        let cpus = placement::workers(&config)?;
        // The workers of the running router have these CPUs, and packets come.
        let workers_cpus = cpus.iter().flatten().copied();
        let gives_way = || process::Politeness::off(workers_cpus, upgrade::NICENESS);
        let polite = inheritance.is_some().then(gives_way);
        let workers = cpus.len();
        let (umem, reserve) = match &mut inheritance {
            Some(inheritance) => (inheritance.memory()?, Reserve::new(Vec::new())),
            None => Umem::allocate(frames(&config, workers)?)
                .context("cannot allocate packet memory")?,
        };
        let interfaces = Arc::new(Mutex::new(Interfaces::guarded(watch.brake)));
        let flows =
            kernel::tables(&config).context("cannot make the kernel path's table of flows")?;
        let places = interfaces.lock().expect("interfaces").places();
        let vigil = Vigil::new(&watch.pulses);
        let (ports, mut notes) = match &mut inheritance {
            Some(inheritance) => {
                let of = (&*interfaces, flows.as_ref());
                (inheritance.ports(&config, &umem, workers, of)?, Vec::new())
            }
            None => {
                let by = open::By { config: &config, cheaper: None, flows: flows.as_ref() };
                open_ports(&by, &umem, &cpus, &journal, &interfaces)?
            }
        };
        let control = Arc::new(Doorbell::new()?);
        let bell = control.clone();
        let requests = Requests::new(1024, Arc::new(move || bell.ring()));
        let (mut writer, fib) = FibWriter::new();
        fib.take_faster_lookup(|| clock::monotonic().since(Time::ZERO));
        let export_bell = Arc::new(Doorbell::new()?);
        let peers_bell = Arc::new(Doorbell::new()?);
        let (exports, peers) = (export_bell.clone(), peers_bell.clone());
        let bells = Bells {
            flows: Arc::new(move || exports.ring()),
            peers: Arc::new(move || peers.ring()),
            control: control.clone(),
        };
        let Made { applications, exporter, gatherer, tunnels, dedup } =
            applications::make(&config, workers, &bells, &reserve, true)?;
        applications::lower_mtus(&applications, PORTS_MAX, &mut writer);
        let mut sync = TableSync::start(&port_names(&config), writer, requests.clone())?;
        sync.reserve(applications::addresses(&applications));
        sync.ignore_policy(&config.kernel.ignore);
        if config.follows_tunnels() {
            sync.leave_out_tunnels();
        }
        sync.turn(&mut *interfaces.lock().expect("interfaces"));
        let (machine, missing) = MachineKnobs::open(&config, &cpus, &journal);
        notes.extend(missing);
        let levels = machine.levels().to_vec();
        let model = config.power.model.as_deref();
        let fitted = model.map(|path| Fitted::load(path, workers, &levels)).transpose()?;
        let costs = config.power.paths.as_deref().map(path_costs).transpose()?;
        let by_cost = costs.map(ByCost::new);
        let (meter, note) = knobs::meter(&config, workers, &levels, fitted.as_ref());
        notes.extend(note);
        notes.iter().for_each(|note| info!(code = "EBB-R055", "{note}"));
        let limits = limits(workers, levels.len());
        let points = match &fitted {
            Some(fitted) => fitted.points(limits)?,
            None => Points::published(limits),
        };
        // Threads are as polite as who starts them.
        drop(polite);
        let router = Arc::new(Router::start(Parts {
            cpus,
            ports,
            reserve: reserve.clone(),
            fib,
            requests,
            route_limits: live_route_limits(&config),
            applications,
            pulses: watch.pulses,
            frames_total: umem.region().frames(),
            mode: config.router.mode.clone(),
            policy: recorded(
                policies::with_points(&config.router.mode, limits, &config.powersave, &points)?,
                config.governor.record.as_deref(),
            )?,
            limits,
            levels,
            batch_max: config.router.batch as usize,
            room: smallest_ring(&config.ports),
            latency_budget: config.powersave.latency_budget(),
            knobs: Box::new(machine),
            meter,
            control: control.clone(),
            held: inheritance.is_some(),
        })?);
        let backend = Arc::new(LiveBackend {
            router,
            interfaces: interfaces.clone(),
            tables: Mutex::new(sync.tables()),
            policy: Mutex::new(sync.policy_objects()),
            warnings: Mutex::new(notes),
            refusals: Mutex::default(),
            stalls: AtomicU64::default(),
            counts_flows: flows.is_some(),
            layer3: Mutex::default(),
            inbox: Mutex::default(),
            control,
        });
        let told = backend.clone();
        let tell = Box::new(move |words| told.replace_warning("flow export", words));
        let is_told = config.ipfix.version == FlowVersion::Sflow5;
        let (counting, ports) =
            (backend.router.clone(), if is_told { config.ports.len() } else { 0 });
        let counted =
            Box::new(move || (0..ports).map(|slot| export::counts(&counting, slot)).collect());
        let gathering = gatherer
            .zip(flows.clone())
            .map(|(gatherer, flows)| Gathering::new(&config.ipfix, flows, gatherer, places));
        let export = exporter
            .map(|exporter| {
                Export::start(&config, (exporter, gathering), export_bell, counted, tell)
            })
            .transpose()?;
        let told = backend.clone();
        let keep = move |words| told.replace_warning("esp:", words);
        let tunnels = tunnels.map(|tunnels| tunnels.keep(keep)).transpose()?;
        let told = backend.clone();
        let tell = Box::new(move |words| told.replace_warning("dedup:", words));
        let conversation =
            dedup.map(|dedup| Conversation::start(&config, dedup, peers_bell, tell)).transpose()?;
        let router = backend.router.clone();
        let injection = Injection::start(router, interfaces.clone(), reserve.clone())?;
        let mut live = Live {
            path: path.to_owned(),
            config,
            umem,
            journal,
            backend,
            interfaces,
            sync,
            injection,
            export,
            flows,
            tunnels,
            conversation,
            reserve,
            upgrade: None,
            program: std::env::current_exe().context("cannot find the program's own file")?,
            queues_looked_at: clock::monotonic(),
            interrupts_for: u16::MAX,
            kernel_cpus: KernelCpus::default(),
            by_cost,
            retried_at: clock::monotonic(),
            signals,
            api: None,
            points,
            vigil,
        };
        let doors = match inheritance {
            Some(inheritance) => live.inherit(inheritance)?,
            None => Doors::default(),
        };
        live.open_doors(doors)?;
        Ok(live)
    }

    fn open_doors(&mut self, doors: Doors) -> Result<()> {
        let (socket, metrics) = (self.config.status.socket.clone(), self.config.metrics.listen);
        let options = Options { socket, metrics };
        self.api = Some(ebb_service::serve_at(options, doors, self.backend.clone())?);
        Ok(())
    }
}

/// Frames that all rings can hold at once, and some to work with.
pub(super) fn frames(config: &Config, workers: usize) -> Result<u32> {
    let queues: Vec<u32> = config.ports.iter().map(|port| queues(port, workers as u32)).collect();
    frames_for(config, workers as u32, &queues)
}

/// Whether packet memory of `frames` holds what a port's queues take in beside the others' `posted`.
///
/// # Errors
/// When it does not: an interface may return with more queues than it had at the start.
pub(super) fn ensure_room(
    port: &config::Port,
    workers: u32,
    posted: u64,
    frames: u32,
) -> Result<()> {
    let queues = queues(port, workers);
    let own = u64::from(port.ring) * u64::from(queues);
    anyhow::ensure!(
        own + posted < u64::from(frames),
        "its {queues} receive queues need {own} frames, but the other ports use {posted} of \
        {frames}: set fewer queues (ethtool -L {} combined N, or `queues`), or restart the router \
        to allocate more packet memory",
        port.name
    );
    Ok(())
}

/// Receive queues that a port will serve, one per worker where the interface doesn't say.
fn queues(port: &config::Port, workers: u32) -> u32 {
    let channels =
        || ebb_host::ethtool::Interface::open(&port.name).and_then(|driver| driver.channels());
    let all = || channels().map_or(workers, |channels| channels.receiving());
    port.queues.map_or_else(all, u32::from).max(1)
}

fn frames_for(config: &Config, workers: u32, queues: &[u32]) -> Result<u32> {
    let ports = || config.ports.iter().zip(queues);
    // Each queue is given frames to receive into; as many wait for each worker or are sent.
    let places = |(port, queues): (&config::Port, u32)| u64::from(port.ring) * u64::from(queues);
    let posted: u64 = ports().map(|(port, queues)| places((port, *queues))).sum();
    let rings: u64 =
        ports().map(|(port, queues)| places((port, (*queues).max(workers) + 3 * workers))).sum();
    let wanted = rings + u64::from(FRAMES_SPARE) * u64::from(workers);
    let Some(frames) = config.router.frames else {
        return Ok(u32::try_from(wanted).unwrap_or(u32::MAX));
    };
    anyhow::ensure!(
        u64::from(frames) > posted,
        "router.frames is {frames}, but the {} receive queues of the ports need {posted}: remove \
        it to use {}, or set fewer queues or shorter rings",
        queues.iter().sum::<u32>(),
        wanted
    );
    Ok(frames)
}

type Opened = (Vec<OpenPort>, Vec<String>);

/// Opens every configured port. One that is absent or down is taken in when it comes; whatever
/// else prevents one is an error, for waiting would not mend it.
fn open_ports(
    by: &open::By<'_>,
    umem: &Arc<Umem>,
    cpus: &[Option<usize>],
    journal: &Journal,
    interfaces: &Mutex<Interfaces>,
) -> Result<Opened> {
    let mut ports = Vec::new();
    let mut notes = Vec::new();
    let config = by.config;
    for (slot, port) in config.ports.iter().enumerate() {
        let opened = open::open(umem, port, by, cpus.len() as u32, journal);
        let (mut live, open) = match opened {
            Ok(opened) => opened,
            Err(error) if open::may_come(&error) => {
                warn!(
                    port = port.name,
                    code = "EBB-R057",
                    "the port is opened when it appears: {error:#}"
                );
                ports.push(OpenPort::absent(&port.name));
                continue;
            }
            Err(error) => return Err(error.context(format!("port {}", port.name))),
        };
        live.take_knobs(&config.governor, cpus, u16::MAX, journal);
        if live.interface.unserved_queues() > 0 {
            notes.push(format!(
                "port {}: {} receive queues have no worker; their packets are left to the kernel",
                port.name,
                live.interface.unserved_queues()
            ));
        }
        interfaces.lock().expect("interfaces").place(PortId(slot as u8), live);
        ports.push(open);
    }
    Ok((ports, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_memory_grows_with_the_queues() {
        let text = "[[port]]\nname = \"a\"\n[[port]]\nname = \"b\"\n";
        let mut config = Config::from_str("router.toml", text).expect("a configuration");
        let ring = config.ports[0].ring;
        let few = frames_for(&config, 2, &[2, 2]).expect("frames");
        assert_eq!(few, 16 * ring + 2 * FRAMES_SPARE);
        let many = frames_for(&config, 2, &[16, 16]).expect("frames");
        // All 32 queues are filled to the brim and both workers still have frames to work with.
        assert!(many >= 32 * ring + 2 * FRAMES_SPARE, "{many}");
        config.router.frames = Some(few);
        let refusal = frames_for(&config, 2, &[16, 16]).expect_err("too few").to_string();
        assert!(refusal.contains("router.frames is") && refusal.contains("32 receive queues"));
    }
}
