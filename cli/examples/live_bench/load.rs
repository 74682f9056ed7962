//! Loads two interfaces with numbered, time-stamped 64-byte packets, receives them on the other
//! one, and watches what the router uses meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use ebb_graph::{Batch, HEADROOM, Pool, Reserve};
use ebb_host::{clock, process};
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpPort, Form, Interface, InterfaceOptions, Umem};
use ebb_routerd::status::Status;
use ebb_service::client;
use ebb_traffic::{FlowSpec, FrameTemplate, Latency, Start, Tracker, draw_flows, read_probe};
use ebb_units::Time;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::pause::{Canary, Schedule, stolen};
use super::table::read;

/// Packets of one turn and port.
const TURN: usize = 64;
/// Packets taken at once.
const RECEIVE: usize = 256;
const RING_LEN: u32 = 2048;
/// How long stragglers are waited for.
const SETTLE: Duration = Duration::from_millis(300);
/// Time of the router's run before anything is measured, and in which losses do count.
const WARM_UP: f64 = 0.25;

/// Load two interfaces with 64-byte packets and count what comes back
#[derive(Debug, Args)]
pub struct Load {
    /// The two interfaces
    #[arg(num_args = 2)]
    ports: Vec<String>,
    /// MAC address of the router behind each
    #[arg(long, num_args = 2, required = true)]
    to: Vec<String>,
    /// MAC address to send from and receive at, besides the interface's own
    #[arg(long, default_value = "02:00:00:00:00:02")]
    from: String,
    /// Lines of `PREFIX SIDE`: where sources and destinations lie
    #[arg(long)]
    prefixes: PathBuf,
    /// Flows of each direction
    #[arg(long, default_value_t = 1024)]
    flows: u32,
    /// Packets per second, both directions together; left out: as many as fit
    #[arg(long)]
    rate: Option<f64>,
    /// Measured time; a quarter more goes before it
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Queues to send and receive on
    #[arg(long, default_value_t = 1)]
    queues: u32,
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// A CPU to watch for pauses of the machine, the worker's
    #[arg(long)]
    canary: Option<usize>,
    /// The router's status socket
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The router's process
    #[arg(long)]
    pid: Option<u32>,
    /// Write the flows' destinations here, as lines `ADDRESS/32 SIDE`, and end
    #[arg(long)]
    destinations: Option<PathBuf>,
}

/// One interface's queues and what is sent there.
struct Direction {
    interface: Interface,
    queues: Vec<AfXdpPort>,
    templates: Vec<FrameTemplate>,
    first_flow: u32,
    sequences: Vec<u32>,
    sent: u64,
}

/// Both sides and the accounts.
struct Run {
    directions: Vec<Direction>,
    pool: Pool,
    batch: Batch,
    tracker: Tracker,
    flows: u32,
    misrouted: u64,
    refused: u64,
}

/// The accounts at an instant.
struct Reading {
    at: Time,
    sent: u64,
    received: u64,
    cpu: Option<Duration>,
    status: Option<Status>,
}

impl Load {
    pub fn run(self) -> Result<Value> {
        if let Some(path) = &self.destinations {
            return self.write_destinations(path);
        }
        process::pin_to(self.cpu).context("--cpu")?;
        _ = process::lift_memory_lock_limit();
        let mut run = self.open()?;
        // A port is there from the first time that something is asked of it: all of them before the
        // first packet, which may be fast.
        for side in 0..run.directions.len() {
            run.receive(side)?;
        }
        let begun = clock::monotonic();
        let watch_from = begun + Duration::from_secs_f64(self.seconds * WARM_UP);
        let end = watch_from + Duration::from_secs_f64(self.seconds);
        let mut first = None;
        let mut schedule = self.rate.map(|rate| Schedule::new(rate, begun));
        let mut steal = stolen();
        let canary = self.canary.map(Canary::watch);
        let mut now = begun;
        while now < end {
            now = clock::monotonic();
            if first.is_none() && now >= watch_from {
                run.tracker.take_recent();
                first = Some(self.reading(&run)?);
                steal = stolen();
                canary.as_ref().inspect(|canary| canary.reset());
                // The reading's own time is no pause.
                now = clock::monotonic();
                schedule.iter_mut().for_each(|schedule| schedule.excuse(now));
            }
            let due = schedule.as_mut().map_or(u64::MAX, |schedule| schedule.due(now));
            let moved = run.turn(now, due)?;
            if moved == 0 {
                std::thread::yield_now();
            }
        }
        let last = self.reading(&run)?;
        let latency = run.tracker.take_recent();
        let taken = stolen();
        let late = canary.as_ref().map(|canary| canary.late().as_secs_f64() * 1e6);
        drop(canary);
        run.settle()?;
        let mut answer = self.answer(&run, &first.context("too short")?, &last, latency);
        answer["machine"] = json!({
            "steal_percent": 100.0 * (taken.0 - steal.0) as f64 / (taken.1 - steal.1).max(1) as f64,
            "canary_late_us": late,
            "generator_pauses": schedule.as_ref().map(|schedule| schedule.pauses),
            "never_sent": schedule.as_ref().map(Schedule::dropped),
        });
        Ok(answer)
    }

    fn write_destinations(&self, path: &std::path::Path) -> Result<Value> {
        let mut text = String::new();
        for side in 0..2 {
            for flow in self.draw(side)? {
                text += &format!("{}/32 {}\n", flow.destination, 1 - side);
            }
        }
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
        Ok(json!({ "flows": self.flows * 2 }))
    }

    /// Flows from hosts behind `side` to hosts behind the other.
    fn draw(&self, side: usize) -> Result<Vec<ebb_traffic::Flow>> {
        let prefixes = read(&self.prefixes)?;
        let of = |wanted: usize| -> Vec<IpNet> {
            prefixes.iter().filter(|(_, side)| *side == wanted).map(|(net, _)| *net).collect()
        };
        let spec = FlowSpec {
            count: self.flows,
            sources: &of(side),
            destinations: &of(1 - side),
            ipv6_share: 0.0,
            tcp_share: 0.0,
        };
        Ok(draw_flows(&spec, 1 + side as u64))
    }

    fn open(&self) -> Result<Run> {
        let frames = 2 * self.queues * RING_LEN * 4 + 2048;
        let (region, reserve) = Reserve::allocate(frames);
        let umem = Umem::new(region);
        let from = parse_mac(&self.from)?;
        let mut directions = Vec::new();
        for (side, name) in self.ports.iter().enumerate() {
            let form = if self.queues > 1 { Form::Rss } else { Form::Steer };
            let options = InterfaceOptions {
                ring_len: RING_LEN,
                ..InterfaceOptions::new(name, self.queues, form)
            };
            let mut interface = Interface::open(&umem, &options)?;
            interface.set_macs(&[interface.mac(), from])?;
            let first_flow = side as u32 * self.flows;
            let to = parse_mac(&self.to[side])?;
            let template =
                |(flow, id): (&ebb_traffic::Flow, u32)| FrameTemplate::new(flow, id, from, to);
            directions.push(Direction {
                queues: interface.take_ports(),
                interface,
                templates: self.draw(side)?.iter().zip(first_flow..).map(template).collect(),
                first_flow,
                sequences: vec![0; self.flows as usize],
                sent: 0,
            });
        }
        Ok(Run {
            directions,
            pool: Pool::new(reserve),
            batch: Batch::new(),
            tracker: Tracker::new(2 * self.flows, Start::Zero),
            flows: self.flows,
            misrouted: 0,
            refused: 0,
        })
    }

    fn reading(&self, run: &Run) -> Result<Reading> {
        let status = match &self.socket {
            Some(socket) => Some(client(socket)?.status()?),
            None => None,
        };
        let cpu = self.pid.map(process::cpu_time_of).transpose()?;
        let (sent, received) = (run.sent(), run.tracker.received());
        Ok(Reading { at: clock::monotonic(), sent, received, cpu, status })
    }

    fn answer(&self, run: &Run, first: &Reading, last: &Reading, latency: Latency) -> Value {
        let seconds = (last.at - first.at).as_secs_f64();
        let summary = run.tracker.summary(Some(run.sent()));
        let cpu = last.cpu.zip(first.cpu).map(|(last, first)| (last - first).as_secs_f64());
        let statuses = first.status.as_ref().zip(last.status.as_ref());
        let router = statuses.map(|(first, last)| {
            let took = last.uptime_seconds - first.uptime_seconds;
            let before = first.packets();
            let after = last.packets();
            json!({
                "watts": (last.energy.joules - first.energy.joules) / took,
                "basis": last.energy.basis.name(),
                "joules": last.energy.joules - first.energy.joules,
                "cores": last.point.cores,
                "point_changes": last.governor.changes - first.governor.changes,
                "wakeups": last.workers.iter().map(|w| w.wakeups).sum::<u64>()
                    - first.workers.iter().map(|w| w.wakeups).sum::<u64>(),
                "received": after.received - before.received,
                "forwarded": after.forwarded - before.forwarded,
                "dropped": last.packets().dropped,
                "latency_us": last.latency,
                "table_changes": last.tables.changes - first.tables.changes,
                "resyncs": last.tables.resyncs,
            })
        });
        json!({
            "seconds": seconds,
            "sent_mpps": (last.sent - first.sent) as f64 / seconds / 1e6,
            "received_mpps": (last.received - first.received) as f64 / seconds / 1e6,
            "sent": summary.sent,
            "received": summary.received,
            "lost": summary.lost,
            "misrouted": run.misrouted,
            "reordered": summary.reordered,
            "duplicated": summary.duplicated,
            "refused_by_own_ring": run.refused,
            "latency_us": latency,
            "router_cpu_seconds": cpu,
            "router_cpu_share": cpu.map(|cpu| cpu / seconds),
            "router": router,
        })
    }
}

impl Run {
    fn sent(&self) -> u64 {
        self.directions.iter().map(|direction| direction.sent).sum()
    }

    /// Sends what is due by now, at most a turn on each queue, and receives.
    fn turn(&mut self, now: Time, due: u64) -> Result<usize> {
        let mut moved = 0;
        for side in 0..self.directions.len() {
            moved += self.send(side, now, due / 2)?;
            moved += self.receive(side)?;
        }
        Ok(moved)
    }

    fn send(&mut self, side: usize, now: Time, due: u64) -> Result<usize> {
        let direction = &mut self.directions[side];
        let flows = direction.templates.len() as u64;
        let mut moved = 0;
        for queue in 0..direction.queues.len() {
            let room = (RING_LEN - direction.queues[queue].transmit_pending()) as usize;
            let count = due.saturating_sub(direction.sent).min(TURN.min(room) as u64) as usize;
            for number in direction.sent..direction.sent + count as u64 {
                let Some(frame) = self.pool.get() else { break };
                let flow = (number % flows) as usize;
                let mut packet = frame.into_packet(HEADROOM, 60);
                let sequence = direction.sequences[flow];
                direction.templates[flow].write(64, sequence, now, packet.data_mut());
                direction.sequences[flow] = sequence.wrapping_add(1);
                self.batch.push(packet);
            }
            direction.sent += self.batch.len() as u64;
            let port = &mut direction.queues[queue];
            if !self.batch.is_empty() {
                moved += port.transmit(&mut self.pool, &mut self.batch);
                self.refused += self.batch.len() as u64;
                self.pool.put_batch(&mut self.batch);
            }
            port.flush()?;
        }
        Ok(moved)
    }

    fn receive(&mut self, side: usize) -> Result<usize> {
        let mut moved = 0;
        for queue in 0..self.directions[side].queues.len() {
            let port = &mut self.directions[side].queues[queue];
            let count = port.receive(&mut self.pool, &mut self.batch, RECEIVE);
            if count == 0 {
                continue;
            }
            moved += count;
            let now = clock::monotonic();
            let strangers = self.directions[side].first_flow;
            for packet in self.batch.iter() {
                let Some(probe) = read_probe(packet.data()) else { continue };
                self.misrouted += u64::from(probe.flow / self.flows * self.flows == strangers);
                self.tracker.record(&probe, now);
            }
            self.pool.put_batch(&mut self.batch);
        }
        Ok(moved)
    }

    fn settle(&mut self) -> Result<()> {
        let mut quiet_since = clock::monotonic();
        while clock::monotonic() - quiet_since < SETTLE {
            for direction in &mut self.directions {
                direction.queues.iter_mut().try_for_each(Port::flush)?;
            }
            if (0..self.directions.len()).map(|side| self.receive(side)).sum::<Result<usize>>()? > 0
            {
                quiet_since = clock::monotonic();
            }
        }
        Ok(())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for direction in &mut self.directions {
            direction.queues.iter_mut().for_each(|port| port.close(&mut self.pool));
            _ = direction.interface.name();
        }
    }
}

pub(super) fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let bytes =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<Vec<_>, _>>();
    bytes.ok().and_then(|bytes| bytes.try_into().ok()).with_context(|| format!("not a MAC: {text}"))
}
