//! Opening a configured port: which form its redirect table has, by what options, what its card is told.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_host::ethtool::RssTable;
use ebb_host::journal::{Journal, Undo};
use ebb_host::netlink::classifier;
use ebb_ports::RedirectTable;
use ebb_ports::afxdp::{
    self, AfXdpError, Form, Handoff, Indirection, Interface, InterfaceOptions, KernelFlows,
    PacketPath, Umem,
};
use tracing::{info, warn};

use super::interfaces::LiveInterface;
use super::kernel_cpus::PortCpus;
use super::tags::Tags;
use crate::config::{self, Config};
use crate::router::OpenPort;

/// How long a packet may take from a NIC's indirection table into a receive queue. Hardware gives
/// no sign of it; the slowest interrupt moderation in use is a few hundred microseconds.
const RSS_SETTLE: Duration = Duration::from_millis(2);

/// An interface's own table, as the `Rss` form wants it.
struct Ethtool(RssTable);

impl Indirection for Ethtool {
    fn read(&mut self) -> io::Result<Vec<u32>> {
        self.0.read()
    }
    fn write(&mut self, table: &[u32]) -> io::Result<()> {
        self.0.write(table)
    }
}

/// What decides how a port is opened beside its own section.
pub struct By<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The path that costs less, where that is known.
    pub cheaper: Option<PacketPath>,
    /// Where the kernel path counts flows, if it is to.
    pub flows: Option<&'a Arc<KernelFlows>>,
}

/// Opens one configured port for `workers` workers.
///
/// # Errors
/// When the interface cannot be had; the message names it and the remedy.
pub fn open(
    umem: &Arc<Umem>,
    port: &config::Port,
    by: &By<'_>,
    workers: u32,
    journal: &Journal,
) -> Result<(LiveInterface, OpenPort)> {
    let path = path_of(port, by.config, by.cheaper);
    let opened = open_on(umem, port, (by, path), workers, journal);
    match opened {
        // Modules that are there, and that this machine does not load.
        Err(error)
            if port.path == config::PacketPath::Auto
                && matches!(error.downcast_ref(), Some(AfXdpError::NoKernelPath { .. })) =>
        {
            warn!(
                port = port.name,
                code = "EBB-R082",
                "packets are forwarded by workers: {error:#}"
            );
            open_on(umem, port, (by, PacketPath::Worker), workers, journal)
        }
        opened => opened,
    }
}

fn open_on(
    umem: &Arc<Umem>,
    port: &config::Port,
    (by, path): (&By<'_>, PacketPath),
    workers: u32,
    journal: &Journal,
) -> Result<(LiveInterface, OpenPort)> {
    let redirect = by.config.router.redirect;
    let in_kernel = path == PacketPath::Kernel;
    let rss = match redirect {
        // No packet comes to a worker, so none has to be spread.
        _ if in_kernel => None,
        config::Redirect::Steer => None,
        config::Redirect::Rss => Some(rss(&port.name, workers)?),
        config::Redirect::Auto => rss(&port.name, workers).ok(),
    };
    let form = if rss.is_some() { Form::Rss } else { Form::Steer };
    let flows = flows_of(port, by.config, by.flows);
    let options = InterfaceOptions { flows, ..options(port, path, workers, form) };
    if !in_kernel || afxdp::forwards_in_driver(&port.name, options.mode) {
        leave_vlan_tags_in(&port.name, journal);
    }
    if port.path != config::PacketPath::Worker && afxdp::outlives_us(&port.name) {
        see_to_the_filter(&port.name, journal)?;
    }
    let interface = Interface::open(umem, &options)?;
    let redirect = match rss {
        Some((table, original)) => {
            let undo = Undo::Rss { interface: port.name.clone(), table: original };
            journal
                .record(undo)
                .context("cannot record the interface's own table in the journal")?;
            Some(interface.rss_table(Box::new(Ethtool(table)), RSS_SETTLE))
        }
        None => interface.steer_table(),
    };
    info!(
        port = port.name,
        path = ?options.path,
        mode = %interface.mode(),
        redirect = redirect.as_deref().map_or("none", RedirectTable::form),
        queues = interface.queues(),
        checksums = checksums(&interface),
        code = "EBB-R050", "port opened"
    );
    if let Some(served) = interface.mtu_served().filter(|_| !in_kernel) {
        warn!(
            port = port.name,
            code = "EBB-R051",
            "the MTU is larger than the router's frames: packets longer than {served} bytes are \
            left to the kernel"
        );
    }
    Ok(ready(&port.name, form, interface, redirect))
}

/// Who is to forward what the port receives. Where the configuration leaves it open, and nothing needs the
/// workers, it is whoever costs the machine less (docs/paths.md): `cheaper`, where that was measured.
pub(super) fn path_of(
    port: &config::Port,
    config: &Config,
    cheaper: Option<PacketPath>,
) -> PacketPath {
    let possible = || afxdp::has_kernel_path(&port.name, mode_of(port));
    match port.path {
        config::PacketPath::Worker => PacketPath::Worker,
        config::PacketPath::Kernel => PacketPath::Kernel,
        config::PacketPath::Auto if port.needs_workers(config).is_some() => PacketPath::Worker,
        config::PacketPath::Auto => match cheaper {
            Some(PacketPath::Kernel) if !possible() => PacketPath::Worker,
            Some(path) => path,
            None => afxdp::cheaper_path(&port.name),
        },
    }
}

/// Where a port's flows are counted on the kernel path, if they are.
pub(super) fn flows_of(
    port: &config::Port,
    config: &Config,
    flows: Option<&Arc<KernelFlows>>,
) -> Option<Arc<KernelFlows>> {
    flows.filter(|_| config.counts_flows_of(port)).cloned()
}

/// Takes a configured port over that another process has opened in this form. What that one changed
/// of the interface stays changed, and is in the journal that comes with it.
///
/// # Errors
/// When the interface is another one by now, or the kernel refuses.
pub fn take(
    umem: &Arc<Umem>,
    port: &config::Port,
    (form, flows): (Form, Option<Arc<KernelFlows>>),
    workers: u32,
    handoff: Handoff,
) -> Result<(LiveInterface, OpenPort)> {
    let path = match port.path {
        config::PacketPath::Kernel => PacketPath::Kernel,
        config::PacketPath::Auto | config::PacketPath::Worker => PacketPath::Worker,
    };
    let options = InterfaceOptions { flows, ..options(port, path, workers, form) };
    let interface = Interface::take(umem, &options, handoff)?;
    let redirect = match form {
        Form::Rss => {
            let name = afxdp::name_of(interface.index())?;
            let table = RssTable::open(&name)?;
            Some(interface.rss_table(Box::new(Ethtool(table)), RSS_SETTLE))
        }
        Form::Steer => interface.steer_table(),
    };
    Ok(ready(&port.name, form, interface, redirect))
}

fn ready(
    name: &str,
    form: Form,
    mut interface: Interface,
    redirect: Option<Box<dyn RedirectTable>>,
) -> (LiveInterface, OpenPort) {
    let ports = interface.take_ports().into_iter().map(|port| Box::new(port) as _).collect();
    let open = OpenPort { name: name.to_owned(), workers: ports, redirect };
    let tags = Tags::of(&interface);
    let live = LiveInterface {
        interface,
        form,
        up: true,
        interrupts: Vec::new(),
        by_receive_queue: None,
        moderation: None,
        gathers: Duration::ZERO,
        queues_changed: false,
        tags,
        cpus: PortCpus::default(),
    };
    (live, open)
}

/// Where XDP programs are to run.
pub(super) fn mode_of(port: &config::Port) -> afxdp::Mode {
    match port.xdp {
        config::Xdp::Auto => afxdp::Mode::Auto,
        config::Xdp::Native => afxdp::Mode::Native,
        config::Xdp::Generic => afxdp::Mode::Generic,
    }
}

fn options(port: &config::Port, path: PacketPath, workers: u32, form: Form) -> InterfaceOptions {
    InterfaceOptions {
        path,
        mode: mode_of(port),
        zero_copy: match port.zero_copy {
            config::ZeroCopy::Auto => afxdp::ZeroCopy::Auto,
            config::ZeroCopy::Yes => afxdp::ZeroCopy::Yes,
            config::ZeroCopy::No => afxdp::ZeroCopy::No,
        },
        checksums: match port.checksums {
            config::Checksums::Auto => afxdp::Checksums::Auto,
            config::Checksums::Complete => afxdp::Checksums::Complete,
            config::Checksums::Trust => afxdp::Checksums::Trust,
        },
        queues: port.queues.map(u32::from),
        ring_len: port.ring,
        fill_min: port.fill.unwrap_or(u32::MAX),
        ..InterfaceOptions::new(&port.name, workers, form)
    }
}

/// Whether opening failed for want of the interface, or because it is down: then it may succeed
/// later without anybody's doing.
pub fn may_come(error: &anyhow::Error) -> bool {
    let absent = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV));
    matches!(error.downcast_ref(), Some(AfXdpError::NoInterface { .. } | AfXdpError::Down { .. }))
        || error.chain().any(|cause| cause.downcast_ref().is_some_and(absent))
}

/// What is done about checksums that senders may have left to hardware.
pub(super) fn checksums(interface: &Interface) -> &'static str {
    if interface.unfinished() { "complete" } else { "trust" }
}

/// XDP programs see only tags inside the frame: an interface that strips them would make tagged
/// packets look untagged.
pub(super) fn leave_vlan_tags_in(name: &str, journal: &Journal) {
    let switch = || -> io::Result<()> {
        let interface = ebb_host::ethtool::Interface::open(name)?;
        if interface.strips_vlan_tags().unwrap_or(false) {
            journal.record(Undo::VlanStripping { interface: name.to_owned() })?;
            interface.strip_vlan_tags(false)?;
        }
        Ok(())
    };
    if let Err(error) = switch() {
        warn!(port = name, %error, code = "EBB-R052", "the interface removes VLAN tags: the router cannot forward \
            tagged packets; try ethtool -K {name} rxvlan off");
    }
}

/// Before a program becomes a filter of the interface: that it goes however the router ends.
fn see_to_the_filter(name: &str, journal: &Journal) -> Result<()> {
    let Some(link) = ebb_host::link::number(name) else { return Ok(()) };
    let record = |place: bool| {
        let undo = Undo::Classifier { interface: name.to_owned(), place };
        journal.record(undo).context("cannot record the kernel path's filter in the journal")
    };
    let entry = record(true)?;
    // Where there can be no place for filters, opening says so.
    if !classifier::make_place(link).unwrap_or(true) {
        // Somebody else's.
        record(false)?;
        journal.forget(entry);
    }
    Ok(())
}

/// The interface's own indirection table and its present content, if it can feed every worker.
pub fn rss(name: &str, workers: u32) -> Result<(RssTable, Vec<u32>)> {
    let table = RssTable::open(name)
        .with_context(|| format!("{name}: cannot read the indirection table"))?;
    let content =
        table.read().with_context(|| format!("{name}: cannot read the indirection table"))?;
    let driver = ebb_host::ethtool::Interface::open(name)?;
    let queues = driver.channels()?.receiving();
    anyhow::ensure!(
        queues >= workers && !content.is_empty(),
        "{name}: {queues} receive queues for {workers} workers; set more queues (ethtool -L \
        {name} combined {workers}) or set redirect = \"steer\""
    );
    Ok((table, content))
}
