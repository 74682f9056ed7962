//! What an application costs this machine for each packet and byte: a worker's graph with it and without, in memory and
//! in turns.
//!
//! The difference is the application's, without drivers and without waiting for other cores; the twin takes it beside
//! routing's (`application.costs` of its scenarios).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_apps::Application;
use ebb_apps::count::Count;
use ebb_apps::esp::{Algorithm, DontFragment, Esp, Key, Start, Tunnel, Used};
use ebb_apps::ipfix::{Ipfix, Metering, Selection};
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Pool, PortId, Reserve};
use ebb_host::{Sysfs, clock};
use ebb_power::PacketCost;
use ebb_report::{Column, Report, Table};
use ebb_routerd::config;
use ebb_units::{Hertz, Time};
use ebb_wire::Template;

use super::far_end::FarEnd;

/// Which application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum App {
    /// Counts by IP version.
    Count,
    /// Accounts for flows; 10,000 of them.
    Ipfix,
    /// Encrypts with AES-128-GCM.
    Esp,
    /// Eliminates redundancy: encodes, where every second payload has come before.
    Dedup,
}

impl App {
    fn name(self) -> &'static str {
        match self {
            App::Count => "count",
            App::Ipfix => "ipfix",
            App::Esp => "esp",
            App::Dedup => "dedup",
        }
    }
}

/// Bytes of the frames.
const SIZES: [usize; 4] = [64, 256, 768, 1400];
const ROUNDS: usize = 7;
const FLOWS: usize = 10_000;
const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Part of the time of all measurements that one of them takes.
const MEASUREMENTS: u32 = (SIZES.len() * ROUNDS * 2) as u32;

/// What was found.
pub(super) struct Found {
    app: App,
    clock: Option<Hertz>,
    /// Of each size: nanoseconds of a packet with routing alone, and with the application.
    rows: Vec<(usize, f64, f64)>,
    /// Part of the bytes that the link was spared, where that is what it is for.
    saved: Option<f64>,
}

/// Measures for about so long.
pub(super) fn measure(app: App, sysfs: &Sysfs, span: Duration) -> Result<Found> {
    let mut pool = Pool::standalone(1024);
    let mut graphs = [Forwarder::new(&[], PortId(0))?, with(app, &pool)?];
    if app == App::Dedup {
        fill(&mut graphs[1], &mut pool)?;
    }
    let mut rows = Vec::new();
    for size in SIZES {
        let frames = frames(size)?;
        let mut rounds: [Vec<f64>; 2] = Default::default();
        for _ in 0..ROUNDS {
            for (graph, nanos) in graphs.iter_mut().zip(&mut rounds) {
                nanos.push(graph.turn(&mut pool, &frames, span / MEASUREMENTS)?);
            }
        }
        let [alone, with] = rounds.map(median);
        rows.push((size, alone, with));
    }
    let saved = graphs[1].far_end.as_ref().map(|far_end| far_end.saved());
    ensure!(saved.is_none_or(|saved| saved > 0.1), "no redundancy was found");
    Ok(Found { app, clock: super::bench::present_clock(sysfs), rows, saved })
}

fn with(app: App, pool: &Pool) -> Result<Forwarder> {
    if app != App::Dedup {
        return Forwarder::new(&[make(app, pool.reserve())?], PortId(0));
    }
    let mut now = 1_000_000_000;
    let (dedup, far_end) = FarEnd::new(&mut now)?;
    let far_end = Some(Box::new(far_end));
    Ok(Forwarder { far_end, now, ..Forwarder::new(&[dedup], PortId(0))? })
}

/// Until the memory of payloads is full and begins anew, as in a router that has run for a while.
fn fill(graph: &mut Forwarder, pool: &mut Pool) -> Result<()> {
    let size = SIZES[SIZES.len() - 1];
    let (frames, all) = (frames(size)?, config::Dedup::default().settings().cache_bytes);
    // Half of the packets have payloads that are kept already.
    for _ in 0..=2 * all / (FLOWS * size) {
        graph.turn(pool, &frames, Duration::ZERO)?;
    }
    Ok(())
}

fn make(app: App, reserve: &Arc<Reserve>) -> Result<Arc<dyn Application>> {
    let bell = Arc::new(|| ());
    Ok(match app {
        App::Count => Arc::new(Count::new(1)),
        App::Ipfix => {
            let seconds = Duration::from_secs;
            let metering = Metering {
                active: seconds(60),
                idle: seconds(15),
                flows: 262_144,
                selection: Selection::default(),
                sampling: 1,
                seed: 1,
            };
            Arc::new(Ipfix::new(1, metering, &(bell as _)))
        }
        App::Esp => {
            let algorithm = Algorithm::Aes128Gcm;
            let key = |byte: &str| Key::from_hex(&byte.repeat(algorithm.key_len()), algorithm);
            let tunnel = Tunnel {
                local: "192.0.2.1".parse()?,
                remote: "198.51.100.1".parse()?,
                remote_prefixes: vec!["10.2.0.0/16".parse()?],
                local_prefixes: Vec::new(),
                clear_prefixes: Vec::new(),
                algorithm,
                out: (256, key("a1")?),
                into: (257, key("b2")?),
                window: 1024,
                extended_sequence: true,
                udp: false,
                mtu: 1500,
                df: DontFragment::Copy,
            };
            let claim = Used::default().claim(1 << 60, Duration::ZERO).context("numbers")?;
            let start = [Start { claim, seen: 0 }];
            Arc::new(Esp::new(1, &[tunnel], &start, &(bell as _), reserve))
        }
        App::Dedup => unreachable!("it has a peer"),
    })
}

/// Frames of many flows with a payload that does not repeat.
fn frames(size: usize) -> Result<Vec<Vec<u8>>> {
    let frame = |flow: usize| {
        let source: IpAddr = [10, 1, (flow >> 8) as u8, flow as u8].into();
        let mut template = Template::udp((source, 4000).into(), "10.2.0.9:7".parse()?);
        template.destination_mac = OWN_MAC;
        let payload = noise(flow, size - 42);
        Ok(template.to_frame(&payload))
    };
    (0..FLOWS).map(frame).collect()
}

/// Bytes that look random.
fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A worker's graph.
pub(super) struct Forwarder {
    worker: WorkerGraph,
    exits: Exits,
    out: PortId,
    now: u64,
    far_end: Option<Box<FarEnd>>,
    _tables: FibWriter,
}

impl Forwarder {
    /// By which all packets leave by one port.
    pub(super) fn new(applications: &[Arc<dyn Application>], out: PortId) -> Result<Forwarder> {
        let (mut tables, fib) = FibWriter::new();
        let (id, gateway) = (InterfaceId(u16::from(out.0)), "203.0.113.2".parse()?);
        for port in 0..=out.0 {
            let interface = Interface {
                port: PortId(port),
                vlan: 0,
                mac: OWN_MAC,
                mtu: 1500,
                up: true,
                addresses: Vec::new(),
            };
            tables.set_interface(InterfaceId(u16::from(port)), interface);
        }
        tables.set_neighbour(id, gateway, OWN_MAC);
        tables.set_route("0.0.0.0/0".parse()?, &Target::via(id, gateway))?;
        tables.publish();
        let requests = Requests::new(16, Arc::new(|| {}));
        let worker = Builder::new(&fib, requests).applications(applications).worker(0);
        let exits = Exits::new(usize::from(out.0) + 1);
        Ok(Forwarder { worker, exits, out, now: 1, far_end: None, _tables: tables })
    }

    /// What leaves of a batch; the caller takes it out.
    pub(super) fn forward(&mut self, batch: &mut Batch, now: Time) -> &mut Batch {
        let WorkerGraph { graph, entry, .. } = &mut self.worker;
        graph.run(now, *entry, batch, &mut self.exits);
        &mut self.exits.transmit[usize::from(self.out.0)]
    }

    /// Nanoseconds of processor time a packet, over about so long.
    fn turn(&mut self, pool: &mut Pool, frames: &[Vec<u8>], span: Duration) -> Result<f64> {
        let (mut spent, mut packets) = (Duration::ZERO, 0);
        let mut batch = Batch::new();
        let mut all = frames.iter().cycle();
        while spent < span || packets < frames.len() {
            let next = all.by_ref().take(Batch::RECEIVE_MAX);
            batch.extend(next.map(|frame| pool.get().expect("a frame").fill(frame)));
            packets += batch.len();
            self.now += 1000;
            let (now, mut far_end) = (Time::from_nanos(self.now), self.far_end.take());
            far_end.iter_mut().for_each(|far_end| far_end.renew(&mut batch));
            let begun = clock::thread_cpu();
            let sent = self.forward(&mut batch, now);
            spent += clock::thread_cpu().since(begun);
            ensure!(sent.len() == Batch::RECEIVE_MAX, "a packet was not forwarded");
            let mut nanos = now.as_nanos();
            let taken = far_end.iter_mut().try_for_each(|far_end| far_end.take(sent, &mut nanos));
            pool.put_batch(sent);
            (self.now, self.far_end) = (nanos, far_end);
            taken?;
        }
        Ok(spent.as_nanos() as f64 / packets as f64)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Found {
    /// Nanoseconds a packet and a byte that the application adds, neither below 0: the line of least squares.
    fn added(&self) -> (f64, f64) {
        line(self.rows.iter().map(|(size, alone, with)| (*size as f64, with - alone)))
    }

    /// The application with routing, as the twin takes it.
    fn costs(&self) -> Option<PacketCost> {
        let ghz = self.clock?.as_ghz();
        let (packet, byte) = line(self.rows.iter().map(|(size, _, with)| (*size as f64, *with)));
        Some(PacketCost {
            name: format!("{}-measured", self.app.name()),
            cycles_per_packet: packet.max(1.0) * ghz,
            cycles_per_byte: byte * ghz,
            stall_ns: 0.0,
            contention_ns: 0.0,
        })
    }

    /// The part of a scenario that has the twin run it.
    pub(super) fn to_toml(&self) -> Result<String> {
        let costs = self.costs().context(
            "the clock of the processors is not known (/proc/cpuinfo), so that times are no cycles",
        )?;
        let name = &costs.name;
        Ok(format!(
            "# Measured by ebb calibrate --app {}: routing and the application, in memory, on one core.\n\
             [application]\nname = \"{name}\"\n\n[application.costs]\n{}",
            self.app.name(),
            toml::to_string(&costs)?
        ))
    }

    pub(super) fn report(&self, out: &std::path::Path) -> Report {
        let columns = [
            Column::number("frame", "bytes", 0),
            Column::number("routing", "ns", 1),
            Column::number(self.app.name(), "ns", 1),
            Column::number("more", "ns", 1),
        ];
        let mut table = Table::new("Processor time of a packet", columns);
        for (size, alone, with) in &self.rows {
            table.row([
                (*size as u64).into(),
                (*alone).into(),
                (*with).into(),
                (with - alone).into(),
            ]);
        }
        let (packet, byte) = self.added();
        let mut report = Report::new(format!("Cost of {}", self.app.name())).table(table);
        if let Some(saved) = self.saved {
            let percent = saved * 100.0;
            report = report.text(format!(
                "It spared the link {percent:.0} % of the bytes of payloads that it looked at."
            ));
        }
        report
            .text(format!(
                "It adds {packet:.1} ns a packet and {byte:.3} ns a byte to routing, without drivers, on one core."
            ))
            .text(format!("Written to {}, for scenarios of ebb sim router.", out.display()))
            .figure("packet_ns", packet)
            .figure("byte_ns", byte)
            .figure("out", out.display().to_string())
    }
}

fn line(points: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let points: Vec<(f64, f64)> = points.collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (x / count, y / count);
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let byte = (common / spread).max(0.0);
    ((y - byte * x).max(0.0), byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_application_is_measured_and_read_by_the_twin() {
        for app in [App::Count, App::Ipfix, App::Esp] {
            let found = measure(app, &Sysfs::new("/"), Duration::from_millis(1)).expect("figures");
            assert_eq!(found.rows.len(), SIZES.len());
            let clock = Some(Hertz(2_000_000_000));
            let text = Found { clock, ..found }.to_toml().expect("a section");
            let table: toml::Table = toml::from_str(&text).expect("TOML");
            let costs = table["application"]["costs"].clone();
            let costs: PacketCost = costs.try_into().expect("costs");
            assert_eq!(costs.fault(), None, "{text}");
        }
    }

    #[test]
    fn costs_lie_on_a_line_and_are_never_negative() {
        let (packet, byte) = line([(64.0, 128.0), (128.0, 192.0), (256.0, 320.0)].into_iter());
        assert!((packet - 64.0).abs() < 1e-9 && (byte - 1.0).abs() < 1e-9, "{packet} {byte}");
        assert_eq!(line([(64.0, 9.0), (128.0, 3.0)].into_iter()).1, 0.0);
    }
}
