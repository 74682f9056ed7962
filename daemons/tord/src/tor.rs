//! The top-of-rack switch: `ebb tor run`. A thread serves its racks, all of the process unless there are several
//! (`threads`).

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ebb_apps::route::Requests;
use ebb_graph::{Pool, Region, Reserve};
use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::WaitSet;
use ebb_host::{Doorbell, process};
use ebb_ports::PacketSocket;
use ebb_ports::afxdp::{MTU_LONG, Umem};
use tracing::{info, warn};

use crate::addresses::rack_mac;
use crate::api::{self, Shared};
use crate::clock::{now_ns, since_1970_ns};
use crate::config::{Mode, RackConfig, TorConfig};
use crate::energy::EnergyAccount;
use crate::follow::{Followed, Follower, Following, Kept, Order, open_port};
use crate::plan::{Phase, Plan, Source};
use crate::rack::{Parts, Rack, Rules, ToKernel};
use crate::reopen::{LINKS_EVERY_NS, LONG_PER_PORT, RING};
use crate::seal::{Keys, Sealer};
use crate::status::{Energy, SOURCES_MAX, Times, TorStatus};
use crate::sync::{self, ETHERTYPE, Frame, RACKS_MAX, SyncError};
use crate::tables::{FIRST_HOST, Tables, UPLINK};
use crate::timebase::Timebase;

mod threads;

use threads::Beside;

/// Frames for what waits in a rack's queues.
const FRAMES_PER_RACK: u32 = 8192;
/// The same for what is longer than others.
const LONG_PER_RACK: u32 = 2048;
/// Sleep ends this long before something is due; from then on the thread looks again and again.
const SPIN_NS: u64 = 60_000;
/// What a frame of ordinary links takes of a link, bytes.
const SHORT_LEN: u64 = 1_600;
/// And one of links with jumbo frames: of the longest that there can be, for an interface may come back with a
/// larger MTU.
const LONG_LEN: u64 = MTU_LONG as u64 + 14 + crate::voq::FRAMING;
/// How often sync frames are read.
const CONTROL_EVERY_NS: u64 = 200_000;
/// How often status is shown and signals are looked at.
const STATUS_EVERY_NS: u64 = 50_000_000;
/// Packets for the switch itself that wait to be handed to the kernel.
const FOR_KERNEL_MAX: usize = 256;
/// Hosts that wait to be asked for.
const WANTED_MAX: usize = 1024;
/// How often queues are reported.
const REPORT_EVERY_NS: u64 = 5_000_000;
/// A thread that goes before all others must leave 5 % of each second to them, or the kernel stops
/// it for as long at once (`sched_rt_runtime_us`). Ours leaves 7 %, in pieces.
const REST_PERCENT: u64 = 7;
const REST_NS: u64 = 40_000;
/// A sleep may take this much longer than asked for.
const OVERSLEPT_NS: u64 = 25_000;
/// So much rest may be owed until it is taken whatever is to be sent meanwhile.
const OWED_MAX_NS: u64 = 8 * REST_NS;
/// This long before a day begins nothing else is begun.
const CALM_NS: u64 = 20_000;
/// Frames taken from an interface at a time: few, because days begin meanwhile; and this long before one begins, fewer.
const INTAKE: usize = 8;
const INTAKE_SOON: usize = 2;
const SOON_NS: u64 = 60_000;
/// What is looked at now and then waits for a calm moment, but no longer than this.
const PATIENCE_NS: u64 = 2_000_000;
/// What it takes.
const CHORES_NS: u64 = 30_000;

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
    let mut energy = EnergyAccount::open(&config.tor)?;
    let parts = threads::deal(&config);
    let opened: Vec<Switch> = parts.iter().map(Switch::open).collect::<Result<_>>()?;
    let mut opened = opened.into_iter().zip(&parts);
    let (mut tor, part) = opened.next().context("a switch has racks")?;
    let start = |(number, (tor, part))| Beside::start(number, tor, part, shared.clone());
    let beside: Vec<Beside> = (1..).zip(opened).map(start).collect::<Result<_>>()?;
    info!(racks = config.rack.len(), code = "EBB-T018", "serving");
    process::name_thread("ebb-tor");
    place(part.tor.cpu, part.tor.realtime);
    while !shared.stopped() {
        let now = tor.round();
        if !tor.shows_at(now) {
            continue;
        }
        let mut status = tor.status();
        let get_on = threads::gather(&beside, &mut status)?;
        let lit = if tor.rules.packets_only { 0 } else { status.racks.len() };
        status.energy = energy.read(now, status.cpu_seconds, lit, &status.racks);
        // Without this the service manager ends a program that stands still.
        if get_on {
            shared.show(status);
        }
        while let Some(signal) = signals.take()? {
            match signal {
                Signal::SIGHUP => shared.ask_reload(),
                _ => shared.stop(),
            }
        }
        shared.reload(|| {
            let config = TorConfig::load(path)?;
            let keys = config.keys()?;
            beside.iter().for_each(|one| one.tell(&config, &keys));
            tor.take_over(&config, keys);
            Ok("changes of interfaces, racks and threads need a restart")
        });
    }
    tor.close();
    beside.into_iter().for_each(Beside::end);
    Ok(())
}

/// Puts the calling thread where it was told to be.
pub(crate) fn place(cpu: Option<usize>, realtime: bool) {
    process::precise_timers();
    if let Some(cpu) = cpu
        && let Err(error) = process::pin_to(cpu)
    {
        warn!(cpu, %error, code = "EBB-T019", "cannot bind the thread to its CPU");
    }
    if realtime {
        process::before_others(1);
    }
}

/// Some racks, and the thread that serves them.
pub(crate) struct Switch {
    rules: Rules,
    /// There may be jumbo frames.
    long: bool,
    realtime: bool,
    plan: Plan,
    timebase: Timebase,
    racks: Vec<Rack>,
    control: PacketSocket,
    sealer: Sealer,
    pool: Pool,
    fds: Vec<RawFd>,
    wait: WaitSet,
    /// Other ports in the places of those that are gone, or again there.
    orders: Receiver<Order>,
    /// Dropped before the frames are given back: it has the interfaces.
    following: Option<Following>,
    started_ns: u64,
    status_at_ns: u64,
    control_at_ns: u64,
    links_at_ns: u64,
    report_at_ns: u64,
    window_ns: u64,
    slept_ns: u64,
    /// When a rack has something to do next.
    due_ns: u64,
    /// Until when no rack's link needs anybody to look.
    calm_until_ns: u64,
    looked_ns: u64,
    looks: Times,
    woken_late: Times,
    sources: Vec<Source>,
    rounds: u64,
    reloads: u64,
}

impl Switch {
    fn open(config: &TorConfig) -> Result<Switch> {
        let keys = config.keys()?;
        warn_of_strangers(&keys, "tor");
        let ports: u32 = config.rack.iter().map(|rack| 1 + rack.host.len() as u32).sum();
        let frames = ports * 4 * RING + config.rack.len() as u32 * FRAMES_PER_RACK + 4096;
        let (region, reserve): (&'static Region, _) = Reserve::allocate(frames);
        let umem = Umem::new(region);
        let bell = Doorbell::new().context("cannot make an event descriptor")?;
        let (queue, for_kernel) = sync_channel(FOR_KERNEL_MAX);
        let to_kernel = ToKernel::new(queue, bell.clone());
        let (mut racks, mut followed) = (Vec::new(), Vec::new());
        for rack in &config.rack {
            let (rack, follows) = open_rack(config, rack, &umem, &to_kernel, &bell)?;
            racks.push(rack);
            followed.push(follows);
        }
        // Their memory is much, and there is none to be had later.
        let long = followed.iter().flat_map(|rack| &rack.ports).any(Kept::is_long);
        let mut pool = Pool::new(reserve);
        if long {
            pool = pool.with_long(ports * LONG_PER_PORT + racks.len() as u32 * LONG_PER_RACK);
        }
        let (sender, orders) = channel();
        let following =
            Follower::new(followed, (&umem, long), sender, (for_kernel, bell))?.start()?;
        let name = &config.tor.control;
        let mut control = PacketSocket::open(name).with_context(|| format!("interface {name}"))?;
        let mut timebase = Timebase::open("tor.ptp", config.tor.ptp.as_deref())?;
        timebase.stamp(&mut control, name);
        let mut fds = vec![control.fd()];
        racks.iter().for_each(|rack| rack.wait_fds(&mut fds));
        let rotation_ns = (config.tor.rotation_ms * 1e6) as u64;
        let now = now_ns();
        Ok(Switch {
            rules: rules(config, long),
            long,
            realtime: config.tor.realtime,
            plan: Plan::new(config.tor.clock, rotation_ns),
            timebase,
            racks,
            control,
            sealer: Sealer::new(keys, since_1970_ns()),
            pool,
            fds,
            wait: WaitSet::new(),
            orders,
            following: Some(following),
            started_ns: now,
            status_at_ns: now,
            control_at_ns: now,
            links_at_ns: now,
            report_at_ns: now,
            window_ns: now,
            slept_ns: 0,
            due_ns: now,
            calm_until_ns: now,
            looked_ns: now,
            looks: Times::default(),
            woken_late: Times::default(),
            sources: Vec::new(),
            rounds: 0,
            reloads: 0,
        })
    }

    /// Whether it is time to show something, which is so again some time later.
    pub(crate) fn shows_at(&mut self, now: u64) -> bool {
        let shows = now >= self.status_at_ns && self.is_calm(now, self.status_at_ns);
        if shows {
            self.status_at_ns = now + STATUS_EVERY_NS;
        }
        shows
    }

    /// Looks once at everything and returns when that was.
    pub(crate) fn round(&mut self) -> u64 {
        self.rounds += 1;
        self.await_dawn();
        self.send();
        let now = self.look();
        if now >= self.control_at_ns && self.is_calm(now, self.control_at_ns) {
            self.chores(now);
        }
        let mut work = 0;
        for at in 0..self.racks.len() {
            let most = self.intake();
            work += self.racks[at].deliver(now, &mut self.pool, most);
            self.await_dawn();
            self.send();
            let most = self.intake();
            work += self.racks[at].take_in(now, &mut self.pool, most);
            self.await_dawn();
            self.send();
        }
        if work == 0 {
            self.idle();
        }
        if self.realtime {
            self.rest();
        }
        now
    }

    /// Looks at the clock and notes how long it has been.
    fn look(&mut self) -> u64 {
        let now = now_ns();
        self.looks.add(now - self.looked_ns);
        self.looked_ns = now;
        now
    }

    /// How many frames may be taken from an interface now.
    fn intake(&self) -> usize {
        let now = now_ns();
        let soon = self.plan.next_begin(now).is_some_and(|begin| begin - now < SOON_NS);
        if soon { INTAKE_SOON } else { INTAKE }
    }

    /// Begins nothing else shortly before a day on which something is to be sent.
    fn await_dawn(&mut self) {
        let now = self.look();
        let Phase::Night(day) = self.plan.at(now) else { return };
        if day.begin_ns - now < CALM_NS && self.racks.iter().any(|rack| rack.wants(&day)) {
            while self.look() < day.begin_ns {
                std::hint::spin_loop();
            }
        }
    }

    /// Sends what may be sent, a rack after the other, another one first on each day.
    fn send(&mut self) {
        let count = self.racks.len();
        let now = self.look();
        let first = match self.plan.at(now) {
            Phase::Day(day) => day.number as usize % count,
            _ => 0,
        };
        (self.due_ns, self.calm_until_ns) = (u64::MAX, u64::MAX);
        for step in 0..count {
            // The clock is read before each rack: the one before took its time.
            let now = self.look();
            let phase = self.plan.at(now);
            let rack = &mut self.racks[(first + step) % count];
            if let Some(at) = rack.send(now, phase, &self.rules, &mut self.pool) {
                self.due_ns = self.due_ns.min(at);
            }
            self.calm_until_ns = self.calm_until_ns.min(rack.calm_until());
            rack.handed_over(now_ns());
        }
    }

    /// Whether there is time now for what has been due since `due_ns` and is not urgent.
    fn is_calm(&self, now: u64, due_ns: u64) -> bool {
        self.calm_until_ns > now + CHORES_NS || now > due_ns + PATIENCE_NS
    }

    fn chores(&mut self, now: u64) {
        self.control_at_ns = now + CONTROL_EVERY_NS;
        hear(&mut self.control, (&mut self.plan, &mut self.timebase), self.sealer.keys(), now);
        self.plan.turn(now);
        let source = self.plan.source(now);
        if self.sources.last() != Some(&source) {
            if self.sources.len() == SOURCES_MAX {
                self.sources.remove(0);
            }
            self.sources.push(source);
        }
        if now >= self.report_at_ns {
            self.report_at_ns = now + REPORT_EVERY_NS;
            self.report();
        }
        self.racks.iter_mut().for_each(|rack| rack.tend(now, &mut self.pool));
        self.exchange_ports(now);
    }

    /// Goes on with interfaces that were made again, and without those that are gone.
    fn exchange_ports(&mut self, now: u64) {
        let mut changed = false;
        if now >= self.links_at_ns {
            self.links_at_ns = now + LINKS_EVERY_NS;
            if let Ok(Some(socket)) = self.control.renewed() {
                (self.control, changed) = (socket, true);
            }
        }
        while let Ok(Order { rack, port, to }) = self.orders.try_recv() {
            self.racks[rack].replace(port, to, &mut self.pool);
            changed = true;
        }
        if changed {
            self.fds = vec![self.control.fd()];
            self.racks.iter().for_each(|rack| rack.wait_fds(&mut self.fds));
        }
    }

    /// Sleeps until shortly before something is due, unless a frame comes first.
    fn idle(&mut self) {
        let before = now_ns();
        let next = self.due_ns.min(self.control_at_ns);
        let Some(span) = next.checked_sub(before + SPIN_NS).filter(|span| *span > 20_000) else {
            return;
        };
        self.wait.clear();
        self.fds.iter().for_each(|fd| self.wait.add(*fd));
        let calm =
            self.racks.iter_mut().filter_map(|r| (!r.prepare_wait()).then_some(())).count() == 0;
        if calm {
            self.wait.wait(Some(Duration::from_nanos(span)));
            self.woken(before, span);
        }
    }

    /// Notes a sleep that was to take `span` ns.
    fn woken(&mut self, before: u64, span: u64) {
        let now = now_ns();
        self.slept_ns += now - before;
        self.looked_ns = now;
        // A frame may have ended it before.
        if let Some(late) = now.checked_sub(before + span) {
            self.woken_late.add(late);
        }
    }

    /// Leaves the processor to others for a little while the links have enough to carry.
    fn rest(&mut self) {
        let now = now_ns();
        let owed = (now - self.window_ns) * REST_PERCENT / 100;
        let calm = self.calm_until_ns > now + REST_NS + OVERSLEPT_NS;
        if owed > self.slept_ns + REST_NS && (calm || owed > self.slept_ns + OWED_MAX_NS) {
            std::thread::sleep(Duration::from_nanos(REST_NS));
            self.woken(now, REST_NS);
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
            let frame = Frame::Report { rack: rack.number(), heard: self.plan.heard(), waiting };
            let source = rack_mac(rack.number());
            if self.control.room() > 0 {
                let sealer = &mut self.sealer;
                self.control.stage(|buffer| sync::write(&frame, source, sealer, buffer));
            }
        }
        // A control network that is down says nothing; the plan falls back by itself.
        _ = self.control.flush();
    }

    /// What it does; without what that takes.
    pub(crate) fn status(&mut self) -> TorStatus {
        let now = now_ns();
        TorStatus {
            uptime_seconds: (now - self.started_ns) as f64 * 1e-9,
            // As noted at the last look: after a pause of the machine the days known may all be
            // over although the next look goes on with them.
            source: self.sources.last().copied(),
            sealed: self.sealer.keys().exist(),
            clock: self.timebase.status(),
            sync: self.plan.counters(),
            racks: self.racks.iter().map(Rack::status).collect(),
            energy: Energy::default(),
            rounds: self.rounds,
            cpu_seconds: ebb_host::clock::thread_cpu().as_nanos() as f64 * 1e-9,
            waited_seconds: process::waited().as_secs_f64(),
            looks: self.looks.clone(),
            woken_late: self.woken_late.clone(),
            sources: self.sources.clone(),
            reloads: self.reloads,
        }
    }

    /// Takes over what can change while frames pass: rates, tokens, guards, queue lengths, keys.
    pub(crate) fn take_over(&mut self, config: &TorConfig, keys: Keys) {
        exchange(keys, &mut self.sealer, &mut self.plan, "tor");
        self.rules = rules(config, self.long);
        let (bytes, mark) = config.tor.queue_bytes();
        self.racks.iter_mut().for_each(|rack| rack.set_queue_bytes(bytes, mark));
        self.reloads += 1;
    }

    /// Gives all frames back.
    pub(crate) fn close(&mut self) {
        self.racks.iter_mut().for_each(|rack| rack.close(&mut self.pool));
        self.following = None;
    }
}

/// `long`: there may be jumbo frames.
fn rules(config: &TorConfig, long: bool) -> Rules {
    let tor = &config.tor;
    let longest = if long { LONG_LEN } else { SHORT_LEN };
    Rules {
        tokens: tor.tokens,
        rate_bps: (tor.link_mbps * 1e6) as u64,
        // At least two frames, or nothing could ever be sent on a slow link.
        ahead: ((tor.ahead_us * tor.link_mbps / 8.0) as u64).max(2 * longest),
        guard_ns: (tor.guard_us * 1e3) as u64,
        packet_bps: (tor.packet_mbps * 1e6) as u64,
        packets_only: tor.mode == Mode::Packets,
    }
}

/// Opens a rack's interfaces: what its packets go through, and what another thread follows the kernel with.
fn open_rack(
    config: &TorConfig,
    rack: &RackConfig,
    umem: &Arc<Umem>,
    kernel: &ToKernel,
    bell: &Doorbell,
) -> Result<(Rack, Followed)> {
    let number = rack.number;
    let (interface, uplink) = open_port(umem, &rack.uplink, (number, UPLINK), true)?;
    let mut ports = vec![Kept::new(interface, &[], &[])];
    let mut hosts: Vec<Box<dyn ebb_ports::Port>> = Vec::new();
    for (at, host) in rack.host.iter().enumerate() {
        let (interface, port) = open_port(umem, &host.name, (number, FIRST_HOST + at), true)?;
        ports.push(Kept::new(interface, &host.own, &host.prefixes));
        hosts.push(Box::new(port));
    }
    let mut remotes = Vec::new();
    for other in config.rack.iter().filter(|other| other.number != number) {
        let prefixes = other.host.iter().flat_map(|host| &host.prefixes);
        remotes.extend(prefixes.map(|prefix| (*prefix, other.number)));
    }
    for other in &config.remote {
        remotes.extend(other.prefixes.iter().map(|prefix| (*prefix, other.rack)));
    }
    let prefixes = rack.host.iter().map(|host| host.prefixes.clone()).collect();
    let (tables, fib) = Tables::new(number, prefixes, &remotes)?;
    let rings = bell.clone();
    let requests = Requests::new(WANTED_MAX, Arc::new(move || rings.ring()));
    let parts = Parts {
        number,
        uplink: Box::new(uplink),
        hosts,
        fib,
        requests: requests.clone(),
        kernel: kernel.clone(),
        queue_bytes: config.tor.queue_bytes().0,
        mark_bytes: config.tor.queue_bytes().1,
        icmp_seed: RandomState::new().hash_one(number),
    };
    Ok((Rack::new(parts), Followed { number, tables, wanted: requests, ports }))
}

/// Says at the start, and whenever that begins, that nobody vouches for sync frames.
pub(crate) fn warn_of_strangers(keys: &Keys, table: &str) {
    if !keys.exist() {
        warn!(
            code = "EBB-T020",
            "field `{table}.token_file` is not set: sync frames are not sealed, and any host on \
            the control network can stop the fabric; use this in laboratories only"
        );
    }
}

/// Believes other keys from now on.
pub(crate) fn exchange(keys: Keys, sealer: &mut Sealer, plan: &mut Plan, table: &str) {
    if keys.exist() && !sealer.keys().exist() {
        // Whom it followed so far nobody vouched for.
        plan.follow_anew();
    }
    if keys != *sealer.keys() {
        warn_of_strangers(&keys, table);
        sealer.set_keys(keys);
    }
}

/// Reads what has come on the control network into a plan.
pub(crate) fn hear(
    control: &mut PacketSocket,
    (plan, timebase): (&mut Plan, &mut Timebase),
    keys: &Keys,
    now: u64,
) {
    for _ in 0..4 {
        let heard = control.receive_stamped(|bytes, arrived| {
            // Others speak there too.
            let ours = bytes.get(12..14).is_some_and(|kind| kind == ETHERTYPE.to_be_bytes());
            match sync::read(bytes, keys) {
                Ok(mut heard) => {
                    timebase.heard(&mut heard.frame);
                    let came = timebase.came(now_ns(), arrived);
                    plan.hear_late(now, came.min(now), &heard);
                }
                Err(SyncError::Foreign) => {}
                Err(SyncError::Seal) => plan.forged(),
                Err(_) if ours => plan.malformed(),
                Err(_) => {}
            }
        });
        if heard.is_ok_and(|count| count < 64) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TOR_EXAMPLE;

    /// What may be handed over ahead of the light bounds the longest frame that is ever handed over.
    #[test]
    fn the_longest_frame_may_go_whatever_the_link_is_told() {
        let mut config = TorConfig::parse("tor.toml", TOR_EXAMPLE).expect("an example");
        (config.tor.ahead_us, config.tor.link_mbps) = (0.1, 100.0);
        assert_eq!(rules(&config, false).ahead, 3_200);
        assert!(rules(&config, true).ahead >= 2 * (9_216 + 14 + 24));
    }
}
