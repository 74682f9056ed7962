//! The top-of-rack switch: `ebb tor run`. One thread serves all racks of the process.

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ebb_graph::{Pool, Region, Reserve};
use ebb_host::process;
use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::WaitSet;
use ebb_ports::PacketSocket;
use ebb_ports::afxdp::{AfXdpPort, Form, Interface, InterfaceOptions, Umem};
use tracing::{info, warn};

use crate::api::{self, Shared};
use crate::clock::now_ns;
use crate::config::{Mode, RackConfig, TorConfig};
use crate::neighbours::Neighbours;
use crate::plan::Plan;
use crate::rack::{HostPort, Rack, Rules, rack_mac};
use crate::status::TorStatus;
use crate::sync::{self, ETHERTYPE, Frame, RACKS_MAX, SyncError};

/// Places in each ring.
pub(crate) const RING: u32 = 512;
/// Frames for what waits in a rack's queues.
const FRAMES_PER_RACK: u32 = 8192;
/// Sleep ends this long before something is due; from then on the thread looks again and again.
const SPIN_NS: u64 = 60_000;
/// How often sync frames are read.
const CONTROL_EVERY_NS: u64 = 200_000;
/// How often status is shown and signals are looked at.
const STATUS_EVERY_NS: u64 = 50_000_000;
/// How often the kernel is asked for hosts that have not spoken.
const SEEK_EVERY_NS: u64 = 5_000_000;
/// How often queues are reported.
const REPORT_EVERY_NS: u64 = 5_000_000;
/// A thread that goes before all others must leave 5 % of each second to them, or the kernel stops
/// it for as long at once (`sched_rt_runtime_us`). Ours leaves 7 %, in pieces.
const REST_PERCENT: u64 = 7;
const REST_NS: u64 = 40_000;

/// Runs until told to stop.
///
/// # Errors
/// When the configuration is wrong, an interface is missing or refuses, or rights are.
pub fn run(path: &Path) -> Result<()> {
    let config = TorConfig::load(path)?;
    let mut signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    _ = process::lift_memory_lock_limit();
    let shared: Arc<Shared<TorStatus>> = Arc::new(Shared::new());
    let _socket = api::serve(&config.tor.socket, config.tor.metrics, shared.clone())?;
    let mut tor = Switch::open(&config)?;
    info!(racks = config.rack.len(), "serving");
    process::name_thread("ebb-tor");
    place(config.tor.cpu, config.tor.realtime);
    while !shared.stopped() {
        let now = now_ns();
        if now >= tor.status_at_ns {
            tor.status_at_ns = now + STATUS_EVERY_NS;
            shared.show(tor.status());
            while let Some(signal) = signals.take()? {
                match signal {
                    Signal::SIGHUP => shared.ask_reload(),
                    _ => shared.stop(),
                }
            }
            if shared.take_reload() {
                tor.reload(path);
            }
        }
        tor.round(now);
    }
    tor.close();
    Ok(())
}

/// Puts the calling thread where it was told to be.
pub(crate) fn place(cpu: Option<usize>, realtime: bool) {
    process::precise_timers();
    if let Some(cpu) = cpu
        && let Err(error) = process::pin_to(cpu)
    {
        warn!(cpu, %error, "the thread runs wherever the kernel likes");
    }
    if realtime {
        process::before_others();
    }
}

/// An interface of AF_XDP with its only port.
pub(crate) fn open_interface(
    umem: &Arc<Umem>,
    name: &str,
    macs: &[[u8; 6]],
    stamp: bool,
) -> Result<(Interface, AfXdpPort)> {
    let mut options = InterfaceOptions::new(name, 1, Form::Steer);
    options.ring_len = RING;
    options.stamp_all = stamp;
    let mut interface = Interface::open(umem, &options)?;
    if !macs.is_empty() {
        interface.set_macs(macs).with_context(|| name.to_owned())?;
    }
    info!(name, mode = %interface.mode(), "opened");
    let port = interface.take_ports().pop().context("an interface has a port")?;
    Ok((interface, port))
}

struct Switch {
    rules: Rules,
    realtime: bool,
    plan: Plan,
    racks: Vec<Rack>,
    control: PacketSocket,
    pool: Pool,
    fds: Vec<RawFd>,
    wait: WaitSet,
    /// Kept: while they live their XDP programs are attached.
    interfaces: Vec<Interface>,
    started_ns: u64,
    status_at_ns: u64,
    control_at_ns: u64,
    report_at_ns: u64,
    neighbours: Neighbours,
    seek_at_ns: u64,
    window_ns: u64,
    slept_ns: u64,
    rounds: u64,
    reloads: u64,
}

impl Switch {
    fn open(config: &TorConfig) -> Result<Switch> {
        let ports: u32 = config.rack.iter().map(|rack| 1 + rack.host.len() as u32).sum();
        let frames = ports * 4 * RING + config.rack.len() as u32 * FRAMES_PER_RACK + 4096;
        let (region, reserve): (&'static Region, _) = Reserve::allocate(frames);
        let umem = Umem::new(region);
        let mut interfaces = Vec::new();
        let mut racks = Vec::new();
        for rack in &config.rack {
            racks.push(open_rack(config, rack, &umem, &mut interfaces)?);
        }
        let name = &config.tor.control;
        let control = PacketSocket::open(name).with_context(|| format!("interface {name}"))?;
        let mut fds = vec![control.fd()];
        racks.iter().for_each(|rack| rack.wait_fds(&mut fds));
        let rotation_ns = (config.tor.rotation_ms * 1e6) as u64;
        let now = now_ns();
        Ok(Switch {
            rules: rules(config),
            realtime: config.tor.realtime,
            plan: Plan::new(config.tor.clock, rotation_ns),
            racks,
            control,
            pool: Pool::new(reserve),
            fds,
            wait: WaitSet::new(),
            interfaces,
            started_ns: now,
            status_at_ns: now,
            control_at_ns: now,
            report_at_ns: now,
            neighbours: Neighbours::new(),
            seek_at_ns: now,
            window_ns: now,
            slept_ns: 0,
            rounds: 0,
            reloads: 0,
        })
    }

    fn round(&mut self, now: u64) {
        self.rounds += 1;
        if now >= self.control_at_ns {
            self.control_at_ns = now + CONTROL_EVERY_NS;
            hear(&mut self.control, &mut self.plan, now);
            self.plan.turn(now);
            if now >= self.report_at_ns {
                self.report_at_ns = now + REPORT_EVERY_NS;
                self.report();
            }
        }
        if now >= self.seek_at_ns {
            self.seek_at_ns = now + SEEK_EVERY_NS;
            self.neighbours.seek(now, &mut self.racks, &mut self.pool);
        }
        let mut work = 0;
        for rack in &mut self.racks {
            work += rack.deliver(&mut self.pool) + rack.take_in(&mut self.pool);
        }
        let mut next = self.control_at_ns;
        for rack in &mut self.racks {
            // The clock is read before each rack: the one before took its time.
            let now = now_ns();
            let phase = self.plan.at(now);
            if let Some(at) = rack.send(now, phase, &self.rules, &mut self.pool) {
                next = next.min(at);
            }
            rack.flush_hosts(&mut self.pool);
        }
        if work == 0 {
            self.idle(next);
        }
        if self.realtime {
            self.rest();
        }
    }

    /// Sleeps until shortly before `next`, unless a frame comes first.
    fn idle(&mut self, next: u64) {
        let before = now_ns();
        let Some(span) = next.checked_sub(before + SPIN_NS).filter(|span| *span > 20_000) else {
            return;
        };
        self.wait.clear();
        self.fds.iter().for_each(|fd| self.wait.add(*fd));
        let calm =
            self.racks.iter_mut().filter_map(|r| (!r.prepare_wait()).then_some(())).count() == 0;
        if calm {
            self.wait.wait(Some(Duration::from_nanos(span)));
            self.slept_ns += now_ns() - before;
        }
    }

    fn rest(&mut self) {
        let now = now_ns();
        let owed = (now - self.window_ns) * REST_PERCENT / 100;
        if owed > self.slept_ns + REST_NS {
            std::thread::sleep(Duration::from_nanos(REST_NS));
            self.slept_ns += now_ns() - now;
        }
        if now - self.window_ns > 20_000_000 {
            // What was slept too much does not count for later.
            self.window_ns = now;
            self.slept_ns = 0;
        }
    }

    fn report(&mut self) {
        for rack in &self.racks {
            let mut waiting = [0; RACKS_MAX];
            waiting.copy_from_slice(rack.waiting());
            let frame = Frame::Report { rack: rack.number(), waiting };
            let source = rack_mac(rack.number());
            if self.control.room() > 0 {
                self.control.stage(|buffer| sync::write(&frame, source, buffer));
            }
        }
        // A control network that is down says nothing; the plan falls back by itself.
        _ = self.control.flush();
    }

    fn status(&self) -> TorStatus {
        let now = now_ns();
        TorStatus {
            uptime_seconds: (now - self.started_ns) as f64 * 1e-9,
            source: Some(self.plan.source(now)),
            sync: self.plan.counters(),
            racks: self.racks.iter().map(Rack::status).collect(),
            rounds: self.rounds,
            cpu_seconds: ebb_host::clock::thread_cpu().as_nanos() as f64 * 1e-9,
            reloads: self.reloads,
        }
    }

    /// Takes over what can change while frames pass: rates, tokens, guards, queue lengths.
    fn reload(&mut self, path: &Path) {
        match TorConfig::load(path) {
            Ok(config) => {
                self.rules = rules(&config);
                let bytes = config.tor.queue_kb * 1000;
                self.racks.iter_mut().for_each(|rack| rack.set_queue_bytes(bytes));
                self.reloads += 1;
                info!("configuration taken over; interfaces and racks need a restart");
            }
            Err(error) => warn!("the old configuration stays: {error:#}"),
        }
    }

    fn close(&mut self) {
        self.racks.iter_mut().for_each(|rack| rack.close(&mut self.pool));
        self.interfaces.clear();
    }
}

fn rules(config: &TorConfig) -> Rules {
    let tor = &config.tor;
    Rules {
        tokens: tor.tokens,
        rate_bps: (tor.link_mbps * 1e6) as u64,
        // At least two frames, or nothing could ever be sent on a slow link.
        ahead: ((tor.ahead_us * tor.link_mbps / 8.0) as u64).max(2 * 1_600),
        guard_ns: (tor.guard_us * 1e3) as u64,
        packet_bps: (tor.packet_mbps * 1e6) as u64,
        packets_only: tor.mode == Mode::Packets,
    }
}

fn open_rack(
    config: &TorConfig,
    rack: &RackConfig,
    umem: &Arc<Umem>,
    interfaces: &mut Vec<Interface>,
) -> Result<Rack> {
    let (uplink, port) = open_interface(umem, &rack.uplink, &[rack_mac(rack.number)], false)?;
    interfaces.push(uplink);
    let mut hosts = Vec::new();
    for host in &rack.host {
        let (mut interface, port) = open_interface(umem, &host.name, &[], false)?;
        interface.set_local_addresses(&host.own).with_context(|| host.name.clone())?;
        let prefixes = host.prefixes.clone();
        hosts.push(HostPort::new(Box::new(port), interface.mac(), prefixes));
        interfaces.push(interface);
    }
    let mut remotes = Vec::new();
    for other in config.rack.iter().filter(|other| other.number != rack.number) {
        let prefixes = other.host.iter().flat_map(|host| &host.prefixes);
        remotes.extend(prefixes.map(|prefix| (*prefix, other.number)));
    }
    for other in &config.remote {
        remotes.extend(other.prefixes.iter().map(|prefix| (*prefix, other.rack)));
    }
    let queue = config.tor.queue_kb * 1000;
    Ok(Rack::new(rack.number, Box::new(port), hosts, remotes, queue))
}

/// Reads what has come on the control network into a plan.
pub(crate) fn hear(control: &mut PacketSocket, plan: &mut Plan, now: u64) {
    for _ in 0..4 {
        let heard = control.receive(|bytes| {
            // Others speak there too.
            let ours = bytes.get(12..14).is_some_and(|kind| kind == ETHERTYPE.to_be_bytes());
            match sync::read(bytes) {
                Ok(frame) => plan.hear(now, &frame),
                Err(SyncError::Foreign) => {}
                Err(_) if ours => plan.malformed(),
                Err(_) => {}
            }
        });
        if heard.is_ok_and(|count| count < 64) {
            return;
        }
    }
}
