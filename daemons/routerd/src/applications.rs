//! The configured applications, and what the router has to know of them beside their nodes.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ebb_apps::count::Count;
use ebb_apps::dedup::Dedup;
use ebb_apps::ipfix::{Bell, Exporter, Format, Gatherer, Ipfix, Metering, Selection, Version};
use ebb_apps::ports::PortSet;
use ebb_apps::route::FibWriter;
use ebb_apps::{Application, OnPorts};
use ebb_graph::{PortId, Reserve};
use ebb_host::Doorbell;

use crate::config::{App, Config, FlowExport, FlowTransport, FlowVersion, Port};
use crate::energy::NodeReading;
use crate::status;
use crate::tunnel_state::{self, Remembered};

/// Applications in the order in which packets pass them.
pub type Applications = Vec<Arc<dyn Application>>;

/// Longest message over UDP: fits behind IPv6 and UDP headers into every usual MTU (RFC 7011 section 10.3.3).
const DATAGRAM_MAX: usize = 1400;
/// Longest message elsewhere.
const MESSAGE_MAX: usize = 16_384;

/// What [`make`] has made.
pub struct Made {
    /// The applications.
    pub applications: Applications,
    /// What is to send the flows that are exported.
    pub exporter: Option<Exporter>,
    /// What takes the flows in that the kernel path counts, where it does.
    pub gatherer: Option<Gatherer>,
    /// Tunnels, which use up numbers that somebody has to claim.
    pub tunnels: Option<Remembered>,
    /// Whose peers somebody has to tell what came.
    pub dedup: Option<Arc<Dedup>>,
}

/// Makes those of a configuration for so many workers, which share the frames of `reserve`; `bells` wake what sends
/// flows and what speaks with peers. Of tunnels' keys nothing is
/// remembered unless it is `lasting`.
///
/// # Errors
/// When a key cannot be read, or what is remembered of one.
pub fn make(
    config: &Config,
    workers: usize,
    bells: &Bells,
    reserve: &Arc<Reserve>,
    lasting: bool,
) -> Result<Made> {
    let (mut exporter, mut gatherer, mut tunnels, mut dedup) = (None, None, None, None);
    let mut make = |app: &App| -> Result<Arc<dyn Application>> {
        Ok(match app {
            App::Esp if !lasting => {
                tunnel_state::make_passing(workers, &config.esp.tunnels()?, reserve)?
            }
            App::Esp => {
                let esp = &config.esp;
                let tunnels_of = esp.tunnels()?;
                let kernel = esp.kernel.then(|| bells.control.clone());
                let made = tunnel_state::make(
                    &esp.state_directory,
                    workers,
                    &tunnels_of,
                    reserve,
                    kernel,
                )?;
                tunnels.insert(made).esp.clone()
            }
            App::Count => Arc::new(Count::new(workers)),
            App::Ipfix => {
                let (of, bell) = (&config.ipfix, &bells.flows);
                let mut ipfix = match of.agent.filter(|_| of.version == FlowVersion::Sflow5) {
                    Some(agent) => Ipfix::sampled(workers, metering(of), agent, bell),
                    None => Ipfix::new(workers, metering(of), bell),
                };
                gatherer = config.counts_on_the_kernel_path().then(|| ipfix.gatherer());
                exporter = Some(ipfix.exporter(format(&config.ipfix)));
                Arc::new(ipfix)
            }
            App::Dedup => {
                let (of, bell) = (&config.dedup, &bells.peers);
                let made = Dedup::new(workers, &of.settings(), &of.sessions(config), bell);
                dedup.insert(Arc::new(made)).clone()
            }
        })
    };
    let on_ports = |app| Ok(Arc::new(OnPorts::new(make(&app)?)) as Arc<dyn Application>);
    let applications: Applications =
        config.apps().into_iter().map(on_ports).collect::<Result<_>>()?;
    choose_ports(&applications, config);
    Ok(Made { applications, exporter, gatherer, tunnels, dedup })
}

/// Whether packets of a configuration's ports can pass these applications, made by another: its reload may not ask for another
/// order than the running one.
pub fn are_in_order(applications: &[Arc<dyn Application>], config: &Config) -> bool {
    config.ports.iter().all(|port| {
        let mut made = applications.iter();
        config.apps_of(port).iter().all(|app| made.any(|one| one.name() == app.name()))
    })
}

/// Has packets of those ports pass applications that the configuration says.
pub fn choose_ports(applications: &[Arc<dyn Application>], config: &Config) {
    for application in applications {
        let Some(ports) = application.ports() else { continue };
        let has =
            |port: &Port| config.apps_of(port).iter().any(|app| app.name() == application.name());
        if config.ports.iter().all(has) {
            ports.set_all();
        } else {
            let chosen = config.ports.iter().enumerate().filter(|(_, port)| has(port));
            ports.set(chosen.map(|(slot, _)| PortId(slot as u8)));
        }
    }
}

/// Whom workers wake.
pub struct Bells {
    /// What sends flows.
    pub flows: Bell,
    /// What speaks with peers.
    pub peers: Bell,
    /// What follows addresses that applications have for themselves.
    pub control: Arc<Doorbell>,
}

/// Of a router whose flows nobody exports, and which has no peers.
///
/// # Errors
/// When the kernel gives no descriptor.
pub fn silent() -> Result<Bells> {
    let control = Arc::new(Doorbell::new()?);
    Ok(Bells { flows: Arc::new(|| ()), peers: Arc::new(|| ()), control })
}

fn metering(of: &FlowExport) -> Metering {
    let seconds = |count: u32| Duration::from_secs(u64::from(count));
    Metering {
        active: seconds(of.active_timeout_s),
        idle: seconds(of.idle_timeout_s),
        flows: of.flows as usize,
        selection: Selection::of(&of.prefixes),
        sampling: of.sampling,
        seed: std::hash::RandomState::new().hash_one(0),
    }
}

fn format(of: &FlowExport) -> Format {
    let datagrams = of.file.is_none() && of.transport == FlowTransport::Udp;
    Format {
        version: match of.version {
            FlowVersion::Ipfix | FlowVersion::Sflow5 => Version::Ipfix,
            FlowVersion::Netflow9 => Version::Netflow9,
        },
        domain: of.domain,
        message_len: if datagrams { DATAGRAM_MAX } else { MESSAGE_MAX },
        template_every: Duration::from_secs(u64::from(of.template_interval_s)),
        biflow: of.biflow,
        sampling: of.sampling,
    }
}

/// Takes what they add to packets from the MTUs of the ports, of which there are so many.
pub fn lower_mtus(applications: &[Arc<dyn Application>], ports: usize, fib: &mut FibWriter) {
    for port in (0..ports).map(|index| PortId(index as u8)) {
        let added = applications.iter().map(|application| application.overhead(port));
        fib.set_overhead(port, added.fold(0, u16::saturating_add));
    }
}

/// The host's addresses whose packets the workers get first.
pub fn addresses(applications: &[Arc<dyn Application>]) -> BTreeSet<IpAddr> {
    applications.iter().flat_map(|application| application.addresses()).collect()
}

/// Where the kernel path's program counts flows, in what is shown.
pub const IN_KERNEL: &str = "kernel path";

/// Adds the packets and bytes that the kernel path's program has looked at for flow export.
pub fn counted_in_the_kernel(status: &mut status::Status, [packets, bytes]: [u64; 2]) {
    if packets == 0 && status.ports.iter().all(|port| port.path != "kernel") {
        return;
    }
    let place = IN_KERNEL.to_owned();
    let node =
        status::ApplicationNode { place, packets, bytes, ..status::ApplicationNode::default() };
    if let Some(ipfix) = status.applications.iter_mut().find(|one| one.name == "ipfix") {
        ipfix.nodes.push(node);
    }
}

/// What they have counted, and what their nodes carry and take; ports have these names.
pub fn status(
    applications: &[Arc<dyn Application>],
    readings: &[NodeReading],
    names: &[Option<String>],
) -> Vec<status::Application> {
    let node = |one: &NodeReading| status::ApplicationNode {
        place: one.place.name().to_owned(),
        packets: one.reading.packets,
        bytes: one.reading.bytes,
        dropped: one.reading.dropped,
        cpu_seconds: one.reading.time.as_secs_f64(),
        joules_modelled: one.joules.map(|joules| joules.0),
    };
    let nodes = |of: &str| readings.iter().filter(|one| one.application == of).map(node).collect();
    let named = |ports: &Arc<PortSet>| {
        let has = |(slot, name): (usize, &Option<String>)| {
            name.clone().filter(|_| ports.has(PortId(slot as u8)))
        };
        (!ports.is_all()).then(|| names.iter().enumerate().filter_map(has).collect())
    };
    let of = |application: &Arc<dyn Application>| status::Application {
        name: application.name().to_owned(),
        ports: application.ports().and_then(named),
        nodes: nodes(application.name()),
        counters: application
            .counters()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    };
    applications.iter().map(of).collect()
}
