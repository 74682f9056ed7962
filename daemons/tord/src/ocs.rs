//! An emulated optical circuit switch: `ebb ocs run`.
//!
//! A frame's light begins when the kernel saw the frame at the port, or when the light of the
//! frame before it has passed, and lasts as long as the link's rate says. If a circuit from this
//! input to the frame's destination stands all that time, the frame leaves by that output;
//! otherwise it is dropped and counted. So it does not matter when this program gets to look at the
//! frame. Beside the circuits there is a slower packet switch, as hybrids have, for frames whose
//! source address asks for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ebb_des::{Rng, Seed};
use ebb_graph::{Batch, Packet, Pool, Reserve};
use ebb_host::netlink::Requests;
use ebb_host::process;
use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::WaitSet;
use ebb_ports::afxdp::{AfXdpPort, Interface, Umem};
use ebb_ports::{PacketSocket, Port};
use ebb_system_circuit::sim::Nic;
use tracing::info;

use crate::api::{self, Shared};
use crate::clock::{now_ns, since_1970_ns};
use crate::config::{Mode, OcsConfig};
use crate::plan::{Phase, Plan};
use crate::rack::time_ns;
use crate::reopen::{LINKS_EVERY_NS, LONG_PER_PORT, RING, Reopened, open_interface};
use crate::seal::Sealer;
use crate::status::{OcsStatus, PARTS};
use crate::sync::RACKS_MAX;
use crate::timebase::Timebase;
use crate::tor::{exchange, hear, warn_of_strangers};
use crate::voq::wire_len;

const STATUS_EVERY_NS: u64 = 50_000_000;
const CONTROL_EVERY_NS: u64 = 500_000;
/// What an output of the packet switch holds, as time of its link.
const BUFFER_NS: u64 = 20_000_000;

/// Runs until told to stop.
///
/// # Errors
/// When the configuration is wrong, an interface is missing or refuses, or rights are.
pub fn run(path: &Path) -> Result<()> {
    let config = OcsConfig::load(path)?;
    let mut signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    _ = process::lift_memory_lock_limit();
    let shared: Arc<Shared<OcsStatus>> = Arc::new(Shared::new());
    let _socket = api::serve(&config.ocs.socket, config.ocs.metrics, shared.clone())?;
    let mut ocs = Emulator::open(&config)?;
    info!(ports = config.port.len(), code = "EBB-T014", "switching");
    process::name_thread("ebb-ocs");
    crate::tor::place(config.ocs.cpu, config.ocs.realtime);
    while !shared.stopped() {
        let now = now_ns();
        if now >= ocs.status_at_ns {
            ocs.status_at_ns = now + STATUS_EVERY_NS;
            shared.show(ocs.status());
            while let Some(signal) = signals.take()? {
                match signal {
                    Signal::SIGHUP => shared.ask_reload(),
                    _ => shared.stop(),
                }
            }
            shared.reload(|| ocs.reload(path));
        }
        ocs.round(now);
    }
    ocs.close();
    Ok(())
}

/// Opens a port: whatever rack frames are for, they are for it. Of many racks all that comes is: the XDP program
/// knows 16 addresses.
fn open_fibre(umem: &Arc<Umem>, name: &str, long: bool) -> Result<(Interface, AfXdpPort)> {
    let (mut interface, port) = open_interface(umem, name, &[], (true, long))?;
    interface.set_every_mac().with_context(|| name.to_owned())?;
    Ok((interface, port))
}

/// A port with the light that comes in and what goes out.
struct Fibre {
    rack: u8,
    port: Box<dyn Port>,
    /// The network card at the far end and its light.
    light: Nic,
    /// When the packet switch has sent what waits for this port.
    out_free_ns: u64,
    staged: Batch,
}

/// What becomes of a frame's light.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passes,
    /// At night, and so far outside the day.
    Night(u64),
    /// Into another circuit.
    Elsewhere(u64),
    Unknown,
}

/// Whether light from `rack` to `to` meets its circuit all the time.
fn fate(plan: &Plan, rack: u8, to: u8, begin_ns: u64, end_ns: u64) -> Fate {
    match plan.at(begin_ns) {
        Phase::Unknown => Fate::Unknown,
        Phase::Night(day) => {
            let early = day.begin_ns - begin_ns;
            let late = plan.ended_before(begin_ns).map_or(early, |ended| begin_ns - ended);
            Fate::Night(early.min(late))
        }
        Phase::Day(day) if day.outputs[usize::from(rack)] != to => {
            Fate::Elsewhere(begin_ns - day.begin_ns)
        }
        Phase::Day(day) if end_ns > day.end_ns => Fate::Night(end_ns - day.end_ns),
        Phase::Day(_) => Fate::Passes,
    }
}

struct Emulator {
    mode: Mode,
    rate_bps: u64,
    packet_bps: u64,
    plan: Plan,
    timebase: Timebase,
    fibres: Vec<Fibre>,
    /// Where each rack's port is among the fibres.
    at: [Option<usize>; RACKS_MAX],
    control: PacketSocket,
    /// Of which only the keys matter: a switch of light says nothing.
    sealer: Sealer,
    pool: Pool,
    rng: Rng,
    wait: WaitSet,
    umem: Arc<Umem>,
    /// In the order of the fibres.
    interfaces: Vec<Reopened>,
    links: Requests,
    links_at_ns: u64,
    counters: OcsStatus,
    started_ns: u64,
    status_at_ns: u64,
    control_at_ns: u64,
    batch: Batch,
}

impl Emulator {
    fn open(config: &OcsConfig) -> Result<Emulator> {
        let keys = config.keys()?;
        warn_of_strangers(&keys, "ocs");
        let frames = config.port.len() as u32 * 4 * RING + 4096;
        let (region, reserve) = Reserve::allocate(frames);
        let umem = Umem::new(region);
        let (mut interfaces, mut fibres) = (Vec::new(), Vec::new());
        let mut at = [None; RACKS_MAX];
        let mut long = false;
        for port in &config.port {
            let (interface, open) = open_fibre(&umem, &port.name, true)?;
            long |= interface.is_long();
            interfaces.push(Reopened::new(interface));
            at[usize::from(port.rack)] = Some(fibres.len());
            fibres.push(Fibre {
                rack: port.rack,
                port: Box::new(open),
                light: Nic::new(config.ocs.card, config.ocs.link_mbps / 1e3),
                out_free_ns: 0,
                staged: Batch::new(),
            });
        }
        let mut pool = Pool::new(reserve);
        if long {
            pool = pool.with_long(config.port.len() as u32 * LONG_PER_PORT);
        }
        let name = &config.ocs.control;
        let mut control = PacketSocket::open(name).with_context(|| format!("interface {name}"))?;
        let mut timebase = Timebase::open("ocs.ptp", config.ocs.ptp.as_deref())?;
        timebase.stamp(&mut control, name);
        let now = now_ns();
        Ok(Emulator {
            mode: config.ocs.mode,
            rate_bps: (config.ocs.link_mbps * 1e6) as u64,
            packet_bps: (config.ocs.packet_mbps * 1e6) as u64,
            plan: Plan::new(config.ocs.clock, (config.ocs.rotation_ms * 1e6) as u64),
            timebase,
            fibres,
            at,
            control,
            sealer: Sealer::new(keys, since_1970_ns()),
            pool,
            rng: Seed(1).stream("card"),
            wait: WaitSet::new(),
            umem,
            interfaces,
            links: Requests::open().context("cannot open a netlink socket")?,
            links_at_ns: now + LINKS_EVERY_NS,
            counters: OcsStatus { day_picture: vec![0; PARTS], ..OcsStatus::default() },
            started_ns: now,
            status_at_ns: now,
            control_at_ns: now,
            batch: Batch::new(),
        })
    }

    fn round(&mut self, now: u64) {
        // Days are announced milliseconds ahead: what is judged now was known long before.
        if now >= self.control_at_ns {
            self.control_at_ns = now + CONTROL_EVERY_NS;
            hear(&mut self.control, (&mut self.plan, &mut self.timebase), self.sealer.keys(), now);
            self.plan.turn(now);
        }
        if now >= self.links_at_ns {
            self.links_at_ns = now + LINKS_EVERY_NS;
            self.look_at_links();
        }
        let mut batch = std::mem::take(&mut self.batch);
        let mut work = 0;
        for input in 0..self.fibres.len() {
            work += self.fibres[input].port.receive(&mut self.pool, &mut batch, 64);
            for packet in batch.drain(..) {
                self.light(input, packet, now);
            }
        }
        self.batch = batch;
        for fibre in &mut self.fibres {
            if !fibre.staged.is_empty() {
                fibre.port.transmit(&mut self.pool, &mut fibre.staged);
                self.counters.dropped_transmit += fibre.staged.len() as u64;
                self.pool.put_batch(&mut fibre.staged);
                _ = fibre.port.flush();
            }
        }
        if work == 0 {
            self.idle();
        }
    }

    /// Goes on with interfaces that were made again, and without those that are gone.
    fn look_at_links(&mut self) {
        if let Ok(Some(socket)) = self.control.renewed() {
            self.control = socket;
        }
        let Ok(links) = self.links.links() else { return };
        for (fibre, interface) in self.fibres.iter_mut().zip(&mut self.interfaces) {
            let open = |name: &str| open_fibre(&self.umem, name, self.pool.has_long());
            let Some(port) = interface.look(links.iter(), open) else { continue };
            std::mem::replace(&mut fibre.port, port).close(&mut self.pool);
        }
    }

    /// Decides about one frame.
    fn light(&mut self, input: usize, packet: Packet, now: u64) {
        let to = packet.data()[5];
        let by_packets = packet.data()[8] == 1;
        let output = self.at.get(usize::from(to)).copied().flatten();
        let Some(output) = output else {
            self.counters.unknown += 1;
            self.counters.frames += 1;
            return self.pool.put(packet.into_frame());
        };
        let stamp = packet.rx_time.as_nanos();
        let arrived = if stamp == 0 { now } else { stamp };
        if by_packets || self.mode == Mode::Packets {
            return self.by_packets(output, packet, arrived, by_packets);
        }
        self.counters.frames += 1;
        let len = wire_len(&packet);
        let (begin, end) = self.fibres[input].light.send(arrived as f64, len, &mut self.rng);
        let (begin, end) = (begin as u64, end as u64);
        self.draw(begin);
        let outside = match fate(&self.plan, self.fibres[input].rack, to, begin, end) {
            Fate::Passes => {
                self.counters.passed += 1;
                self.counters.passed_bytes += len;
                self.fibres[output].staged.push(packet);
                return;
            }
            Fate::Night(outside) => {
                self.counters.at_night += 1;
                Some(outside)
            }
            Fate::Elsewhere(outside) => {
                self.counters.wrong_circuit += 1;
                Some(outside)
            }
            Fate::Unknown => {
                self.counters.unknown += 1;
                None
            }
        };
        if let Some(outside) = outside {
            self.counters.outside.add(outside);
        }
        self.pool.put(packet.into_frame());
    }

    /// Notes when in a night and its day light began.
    fn draw(&mut self, begin_ns: u64) {
        let (Phase::Day(day) | Phase::Night(day)) = self.plan.at(begin_ns) else { return };
        let night = self.plan.ended_before(begin_ns).map_or(0, |ended| day.begin_ns - ended);
        let since = (begin_ns + night).saturating_sub(day.begin_ns);
        let whole = night + day.end_ns - day.begin_ns;
        let part = (since * PARTS as u64 / whole.max(1)) as usize;
        self.counters.day_picture[part.min(PARTS - 1)] += 1;
    }

    /// The packet switch: an output sends one frame after the other and holds what waits.
    fn by_packets(&mut self, output: usize, packet: Packet, arrived: u64, path: bool) {
        let rate = if path { self.packet_bps } else { self.rate_bps };
        let fibre = &mut self.fibres[output];
        let begin = fibre.out_free_ns.max(arrived);
        if rate == 0 || begin > arrived + BUFFER_NS {
            self.counters.packets_full += 1;
            return self.pool.put(packet.into_frame());
        }
        fibre.out_free_ns = begin + time_ns(wire_len(&packet), rate);
        self.counters.by_packets += 1;
        fibre.staged.push(packet);
    }

    fn idle(&mut self) {
        let mut fds = Vec::new();
        self.fibres.iter().for_each(|fibre| fibre.port.wait_fds(&mut fds));
        self.wait.clear();
        fds.into_iter().chain([self.control.fd()]).for_each(|fd| self.wait.add(fd));
        let calm =
            self.fibres.iter_mut().filter_map(|f| (!f.port.prepare_wait()).then_some(())).count()
                == 0;
        if calm {
            self.wait.wait(Some(Duration::from_micros(500)));
        }
    }

    fn status(&self) -> OcsStatus {
        let now = now_ns();
        let lost = self.fibres.iter().map(|fibre| fibre.port.counters().receive_dropped);
        OcsStatus {
            uptime_seconds: (now - self.started_ns) as f64 * 1e-9,
            source: Some(self.plan.source(now)),
            sealed: self.sealer.keys().exist(),
            clock: self.timebase.status(),
            sync: self.plan.counters(),
            cpu_seconds: ebb_host::clock::thread_cpu().as_nanos() as f64 * 1e-9,
            dropped_receive: lost.sum(),
            ..self.counters.clone()
        }
    }

    /// Takes over what can change while frames pass: circuits or packets, the packet switch's rate,
    /// keys.
    ///
    /// # Errors
    /// When the configuration is refused; nothing changes then.
    fn reload(&mut self, path: &Path) -> Result<&'static str> {
        let config = OcsConfig::load(path)?;
        exchange(config.keys()?, &mut self.sealer, &mut self.plan, "ocs");
        self.mode = config.ocs.mode;
        self.packet_bps = (config.ocs.packet_mbps * 1e6) as u64;
        self.counters.reloads += 1;
        Ok("changes of ports, light and cards need a restart")
    }

    fn close(&mut self) {
        self.fibres.iter_mut().for_each(|fibre| fibre.port.close(&mut self.pool));
        self.interfaces.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Clock;
    use crate::sync::{Announced, Circuits, Frame, Heard};

    #[test]
    fn light_must_meet_its_circuit_from_begin_to_end() {
        let mut plan = Plan::new(Clock::Shared, 0);
        let day = |number: u32, shift: u8| Announced {
            number,
            duration_ns: 300_000,
            begin_ns: 1_000_000 + u64::from(number) * 311_500,
            outputs: std::array::from_fn(|input| match input as u8 {
                input @ 0..3 => (input + shift) % 3,
                _ => Announced::DARK,
            }),
        };
        let days = vec![day(0, 1), day(1, 2)];
        let frame =
            Frame::Sync { epoch: 1, sent_ns: 900_000, circuits: Circuits::Down, racks: 3, days };
        plan.hear(900_000, &Heard { frame, source: [2; 6], sequence: 1, sealed: false });
        let fate = |to, begin, end| fate(&plan, 0, to, begin, end);
        assert_eq!(fate(1, 1_000_000, 1_012_000), Fate::Passes);
        assert_eq!(fate(1, 999_000, 1_011_000), Fate::Night(1_000));
        assert_eq!(fate(1, 1_295_000, 1_301_000), Fate::Night(1_000));
        assert_eq!(fate(1, 1_302_000, 1_314_000), Fate::Night(2_000));
        assert_eq!(fate(2, 1_000_500, 1_012_500), Fate::Elsewhere(500));
        assert_eq!(fate(2, 1_311_500, 1_323_500), Fate::Passes);
        assert_eq!(fate(2, 9_000_000, 9_012_000), Fate::Unknown);
    }
}
