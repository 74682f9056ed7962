//! The router's data plane over capture files: no privileges, no kernel, no clock.
//!
//! Packets enter in the order of their capture times, and those times are the router's time:
//! rate limits and neighbour timeouts behave as they would have live. What the live router hands
//! to the kernel is counted, and written to a capture where one is asked for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_apps::route::{Builder, Fib, Requests, RouteCounters, RouteLimits, WorkerGraph};
use ebb_graph::{Batch, DropReason, Exits, Graph, NodeId, Packet, Pool, PortId};
use ebb_ports::Port;
use ebb_ports::capture_file::{self, CapturePort, CaptureWriter, Direction, Interface};
use ebb_units::Time;
use serde::Serialize;

use crate::applications::{self, Made};
use crate::config::Config;
use crate::export::FileExport;
use crate::shared::PORTS_MAX;
use crate::static_tables;

/// Frames of a replay; a batch and what waits for neighbours.
const FRAMES: u32 = 4096;
/// After the last packet, time goes on in steps of this until nothing waits any more.
const AFTERMATH: Duration = Duration::from_millis(100);

/// Packets between two times that flows are written; each may end a few.
const EXPORT_EVERY: u64 = 1000;

/// What to replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Captures to receive, by port name.
    pub inputs: Vec<(String, PathBuf)>,
    /// Captures to write, by port name.
    pub outputs: Vec<(String, PathBuf)>,
    /// Capture of the packets for the kernel.
    pub kernel: Option<PathBuf>,
    /// Takes packets that were for other stations as if they were for the router: each frame's
    /// destination becomes the hardware address of its port.
    pub any_mac: bool,
}

/// What became of the packets. `received` is the sum of `forwarded`, `to_kernel` and all of
/// `dropped`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// Packets in the captures.
    pub received: u64,
    /// Those that left through a port.
    pub forwarded: u64,
    /// Those for the kernel.
    pub to_kernel: u64,
    /// Those dropped, by reason; reasons that did not occur are left out.
    pub dropped: BTreeMap<&'static str, u64>,
    /// ICMP errors that the router sent besides.
    pub originated: u64,
    /// ICMP errors that the router could not send.
    pub originated_dropped: u64,
    /// By port.
    pub ports: BTreeMap<String, PortReport>,
    /// Packets of other links than Ethernet: counted as dropped, named here.
    pub notes: Vec<String>,
    /// Captures that could not be read or written to their end.
    pub incomplete: Vec<String>,
}

/// One port's share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortReport {
    /// Packets in its capture.
    pub received: u64,
    /// Packets it transmitted, ICMP errors included.
    pub transmitted: u64,
}

struct Replay {
    ports: Vec<CapturePort>,
    graph: Graph,
    entry: NodeId,
    route: Arc<RouteCounters>,
    exits: Exits,
    pool: Pool,
    kernel: Option<CaptureWriter>,
    report: ReplayReport,
    macs: Option<Vec<[u8; 6]>>,
    now: Time,
    export: Option<FileExport>,
    steps: u64,
}

/// Runs captures through the router that `config` describes.
///
/// # Errors
/// When a port is not in the configuration, a capture cannot be opened, or a file not written.
pub fn run(config: &Config, options: &ReplayOptions) -> Result<ReplayReport> {
    let (_writer, fib) = static_tables::build(config)?;
    let limits = static_tables::route_limits(config);
    let mut replay = Replay::new(config, options, &fib, &limits)?;
    while replay.step() {
        replay.export()?;
    }
    replay.finish()
}

impl Replay {
    fn new(
        config: &Config,
        options: &ReplayOptions,
        fib: &Arc<Fib>,
        limits: &RouteLimits,
    ) -> Result<Replay> {
        for (name, _) in options.inputs.iter().chain(&options.outputs) {
            if !config.ports.iter().any(|port| port.name == *name) {
                let known: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
                bail!(
                    "there is no port `{name}` in the configuration; known: {}",
                    known.join(", ")
                );
            }
        }
        let mut ports = Vec::new();
        for port in &config.ports {
            let of = |list: &[(String, PathBuf)]| {
                list.iter().find(|(name, _)| *name == port.name).map(|(_, path)| path.clone())
            };
            let reader = of(&options.inputs).map(|path| capture_file::open(&path)).transpose()?;
            let transmitted = Interface {
                name: port.name.clone(),
                direction: Direction::Outbound,
                ..Interface::default()
            };
            let create = |path: PathBuf| capture_file::create(&path, &transmitted);
            let writer = of(&options.outputs).map(create).transpose()?;
            ports.push(CapturePort::new(&port.name, reader, writer));
        }
        let requests = Requests::new(1024, Arc::new(|| {}));
        let (bells, pool) = (applications::silent()?, Pool::standalone(FRAMES));
        let Made { applications, exporter, .. } =
            applications::make(config, 1, &bells, pool.reserve(), false)?;
        let builder = Builder::new(fib, requests).limits(limits).applications(&applications);
        let WorkerGraph { graph, entry, counters: route } = builder.worker(0);
        let to_kernel = Interface {
            comment: "what the kernel would get".to_owned(),
            direction: Direction::Inbound,
            ..Interface::default()
        };
        let create = |path: &PathBuf| capture_file::create(path, &to_kernel);
        let kernel = options.kernel.as_ref().map(create).transpose()?;
        Ok(Replay {
            ports,
            graph,
            entry,
            route,
            exits: Exits::new(PORTS_MAX),
            pool,
            kernel,
            report: ReplayReport::default(),
            macs: options.any_mac.then(|| {
                (0..config.ports.len()).map(|at| static_tables::port_mac(config, at)).collect()
            }),
            now: Time::ZERO,
            export: FileExport::open(config, exporter)?,
            steps: 0,
        })
    }

    /// Takes the earliest packet through the graph; false when none is left and none waits.
    fn step(&mut self) -> bool {
        let next =
            |(index, port): (usize, &CapturePort)| port.next_time().map(|time| (time, index));
        let Some((time, index)) = self.ports.iter().enumerate().filter_map(next).min() else {
            if self.graph.held() == 0 {
                return false;
            }
            self.advance(self.now + AFTERMATH);
            return true;
        };
        self.advance(time.max(self.now));
        let mut batch = Batch::new();
        let port = &mut self.ports[index];
        port.receive(&mut self.pool, &mut batch, 1);
        for packet in batch.iter_mut() {
            packet.input = PortId(index as u8);
            // Group addresses stay: they are no other station's.
            if let (Some(macs), Some(to)) = (&self.macs, packet.data_mut().get_mut(..6))
                && to[0] & 1 == 0
            {
                to.copy_from_slice(&macs[index]);
            }
        }
        self.report.received += batch.len() as u64;
        self.graph.run(self.now, self.entry, &mut batch, &mut self.exits);
        self.empty_exits();
        true
    }

    /// Moves time on to `now`, letting nodes act in between.
    fn advance(&mut self, now: Time) {
        while let Some(due) = self.graph.poll_at().filter(|due| *due <= now) {
            self.now = self.now.max(due);
            self.graph.poll(self.now, &mut self.exits);
            self.empty_exits();
        }
        self.now = now;
        self.ports.iter_mut().for_each(|port| port.set_time(now));
    }

    /// Writes flows now and then: often enough that none waits in vain.
    fn export(&mut self) -> Result<()> {
        self.steps += 1;
        match &mut self.export {
            Some(export) if self.steps.is_multiple_of(EXPORT_EVERY) => export.turn(self.now),
            _ => Ok(()),
        }
    }

    fn empty_exits(&mut self) {
        let originated = |packet: &Packet| packet.flags & Packet::ORIGINATED != 0;
        for (index, port) in self.ports.iter_mut().enumerate() {
            let batch = &mut self.exits.transmit[index];
            let own = batch.iter().filter(|packet| originated(packet)).count() as u64;
            self.report.originated += own;
            self.report.forwarded += batch.len() as u64 - own;
            port.transmit(&mut self.pool, batch);
        }
        for packet in self.exits.kernel.drain(..) {
            if originated(&packet) {
                self.report.originated += 1;
            } else {
                self.report.to_kernel += 1;
            }
            let written =
                self.kernel.as_mut().map_or(Ok(()), |file| file.write(self.now, packet.data()));
            if let Err(error) = written {
                self.report.incomplete.push(error.to_string());
                self.kernel = None;
            }
            self.pool.put(packet.into_frame());
        }
        for packet in self.exits.dropped.drain(..) {
            if originated(&packet) {
                self.report.originated_dropped += 1;
            } else {
                *self.report.dropped.entry(packet.reason.name()).or_default() += 1;
            }
            self.pool.put(packet.into_frame());
        }
    }

    fn finish(mut self) -> Result<ReplayReport> {
        drop(self.graph);
        if let Some(export) = self.export {
            export.finish(self.now)?;
        }
        let report = &mut self.report;
        for (reason, count) in DropReason::ALL.iter().zip(self.route.dropped_in_place()) {
            if count > 0 {
                *report.dropped.entry(reason.name()).or_default() += count;
            }
        }
        for port in self.ports {
            let left_out =
                [(DropReason::Oversized, port.oversized()), (DropReason::LinkType, port.foreign())];
            let mut received = port.counters().received;
            for (reason, count) in left_out.into_iter().filter(|(_, count)| *count > 0) {
                *report.dropped.entry(reason.name()).or_default() += count;
                report.received += count;
                received += count;
            }
            report.notes.extend(port.first_foreign().map(ToString::to_string));
            let share = PortReport { received, transmitted: port.counters().transmitted };
            report.ports.insert(port.name().to_owned(), share);
            if let Err(error) = port.finish() {
                report.incomplete.push(error.to_string());
            }
        }
        if let Some(kernel) = self.kernel {
            kernel.finish().context("cannot write the packets for the kernel")?;
        }
        let dropped: u64 = report.dropped.values().sum();
        let others = report.dropped.get(DropReason::OtherStation.name()).copied().unwrap_or(0);
        if others > 0 && others * 2 >= report.received {
            report.notes.push(format!(
                "{others} of {} packets have another destination MAC address: set `mac` of the \
                ports to that of the captured machine, or use --any-mac",
                report.received
            ));
        }
        assert_eq!(
            report.received,
            report.forwarded + report.to_kernel + dropped,
            "counters add up"
        );
        Ok(self.report)
    }
}
