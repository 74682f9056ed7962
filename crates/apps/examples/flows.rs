//! What flow export costs a packet: routing in memory with a meter and without, in turns, over many flows.
//!
//! `cargo run --release -p ebb-apps --example flows` prints a table and one JSON line; `--small` is what the test
//! runs. Times are of the processor: other programs disturb them less than the clock on the wall.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use ebb_apps::Application;
use ebb_apps::ipfix::{Bell, Ipfix, Metering, Selection};
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Pool, PortId};
use ebb_units::Time;
use ebb_wire::Template;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value as Json, json};

/// Measures what flow export adds to routing, per packet.
#[derive(Debug, Parser)]
struct Options {
    /// Flows, each met once in a pass, in an order of its own.
    #[arg(long, default_value_t = 1 << 20)]
    flows: usize,
    /// Turns of each side.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Few flows: figures mean nothing.
    #[arg(long)]
    small: bool,
    /// Has no meaning here; benchmarks are called with it where DPDK is missing.
    #[arg(long, hide = true)]
    no_dpdk: bool,
}

const FRAME_LEN: usize = 64;

/// One side: a graph with its exits and frames.
struct Side {
    worker: WorkerGraph,
    exits: Exits,
    batch: Batch,
    pool: Pool,
    now: u64,
}

impl Side {
    fn new(fib: &Arc<ebb_apps::route::Fib>, applications: &[Arc<dyn Application>]) -> Side {
        let requests = Requests::new(16, Arc::new(|| {}));
        Side {
            worker: Builder::new(fib, requests).applications(applications).worker(0),
            exits: Exits::new(2),
            batch: Batch::new(),
            pool: Pool::standalone(1024),
            now: 1_000_000,
        }
    }

    /// Nanoseconds of the processor per packet in one pass.
    fn nanos(&mut self, frames: &[[u8; FRAME_LEN]]) -> f64 {
        let begun = ebb_host::clock::thread_cpu();
        let mut sent = 0;
        for chunk in frames.chunks(Batch::RECEIVE_MAX) {
            let pool = &mut self.pool;
            self.batch.extend(chunk.iter().map(|bytes| pool.get().expect("a frame").fill(bytes)));
            // As many packets a second as a router could have: a million or so.
            self.now += 64_000;
            let now = Time::from_nanos(self.now);
            let WorkerGraph { graph, entry, .. } = &mut self.worker;
            graph.run(now, *entry, &mut self.batch, &mut self.exits);
            if graph.poll_at().is_some_and(|at| at <= now) {
                graph.poll(now, &mut self.exits);
            }
            for batch in &mut self.exits.transmit {
                sent += batch.len();
                self.pool.put_batch(batch);
            }
        }
        let span = ebb_host::clock::thread_cpu().since(begun);
        assert_eq!(sent, frames.len(), "every packet is forwarded");
        span.as_nanos() as f64 / frames.len() as f64
    }
}

/// Everything goes by one gateway: routing is as cheap as it can be, and the difference the meter's.
fn tables() -> Result<(FibWriter, Arc<ebb_apps::route::Fib>)> {
    let (mut writer, fib) = FibWriter::new();
    for port in 0..2u8 {
        let mac = [2, 0, 0, 0, 0, 1 + port];
        let port = PortId(port);
        let interface = Interface { port, vlan: 0, mac, mtu: 1500, up: true, addresses: vec![] };
        writer.set_interface(InterfaceId(u16::from(port.0)), interface);
    }
    let gateway: IpAddr = Ipv4Addr::new(10, 0, 1, 2).into();
    writer.set_neighbour(InterfaceId(1), gateway, [2, 0xaa, 0, 0, 0, 1]);
    writer.set_route("0.0.0.0/0".parse()?, &Target::via(InterfaceId(1), gateway))?;
    writer.publish();
    Ok((writer, fib))
}

/// A frame of each flow, in an order that no cache foresees.
fn frames(flows: usize) -> Vec<[u8; FRAME_LEN]> {
    let frame = |flow: usize| {
        let source = Ipv4Addr::from_bits(0x0a02_0000 + (flow >> 4) as u32);
        let destination = Ipv4Addr::from_bits(0xc633_6400 + (flow & 0xff) as u32);
        let mut template =
            Template::udp((source, 1024 + (flow & 15) as u16).into(), (destination, 53).into());
        template.destination_mac = [2, 0, 0, 0, 0, 1];
        let mut frame = [0; FRAME_LEN];
        let payload = [0u8; FRAME_LEN];
        template.write(&payload[template.udp_payload_offset()..], &mut frame);
        frame
    };
    let mut all: Vec<_> = (0..flows).map(frame).collect();
    all.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    all
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn run(options: &Options) -> Result<Json> {
    let flows = if options.small { 2048 } else { options.flows };
    ensure!(flows >= 64, "--flows: at least 64");
    let (_writer, fib) = tables()?;
    let metering = Metering {
        active: Duration::from_secs(3600),
        idle: Duration::from_secs(600),
        flows: flows * 3 / 2,
        selection: Selection::default(),
        sampling: 1,
        seed: 0x9e37_79b9_7f4a_7c15,
    };
    let bell: Bell = Arc::new(|| ());
    let ipfix: Arc<dyn Application> = Arc::new(Ipfix::new(1, metering, &bell));
    let mut sides = [Side::new(&fib, &[]), Side::new(&fib, std::slice::from_ref(&ipfix))];
    let frames = frames(flows);
    sides.iter_mut().for_each(|side| _ = side.nanos(&frames));
    let (mut plain, mut metered, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let [without, with] = &mut sides;
        let (without, with) = (without.nanos(&frames), with.nanos(&frames));
        plain.push(without);
        metered.push(with);
        added.push(with - without);
    }
    let evicted = ipfix.counters().into_iter().find(|(name, _)| *name == "ended_evicted");
    let report = json!({
        "benchmark": "flows", "flows": flows, "rounds": options.rounds,
        "routing_ns": median(plain), "with_ipfix_ns": median(metered), "added_ns": median(added),
        "evicted": evicted.map_or(0, |(_, count)| count),
    });
    println!("flows        {flows}");
    for (name, key) in
        [("routing", "routing_ns"), ("with ipfix", "with_ipfix_ns"), ("added", "added_ns")]
    {
        if let Some(nanos) = report[key].as_f64() {
            println!("{name:12} {nanos:6.1} ns a packet");
        }
    }
    Ok(report)
}

fn main() -> Result<()> {
    println!("{}", run(&Options::parse())?);
    Ok(())
}

#[test]
fn runs_in_small() {
    let options = Options::parse_from(["flows", "--small", "--rounds", "1"]);
    let report = run(&options).expect("every packet is routed");
    assert!(report["with_ipfix_ns"].as_f64() > Some(0.0), "{report}");
    assert_eq!(report["evicted"], 0);
}
