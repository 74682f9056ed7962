//! Routing in memory: 64-byte frames copied into pool frames, through the whole graph with a full
//! table, and back into the pool; beside a loop around DPDK's `rte_fib` that does the same.
//!
//! `cargo run --release -p ebb-apps --example path` prints a table and one JSON line. It needs
//! route files of lines like `1.0.0.0/24 13335`; `--small` makes up a table instead and is what the
//! test runs. DPDK's headers and libraries (Debian's `libdpdk-dev`) are needed, or `--no-dpdk`.

mod dpdk;
mod inputs;
#[path = "../../../../bench/peer.rs"]
mod peer;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Graph, NodeId, Pool, PortId};
use ebb_units::Time;
use ipnet::IpNet;
use serde_json::{Value as Json, json};

use inputs::{Frame, GATEWAYS, Inputs, LOCALITIES};
use peer::Peer;

/// Routes 64-byte packets in memory and compares with a loop around DPDK's rte_fib.
#[derive(Debug, Parser)]
struct Options {
    /// Directory with ipv4.txt.gz and ipv6.txt.gz.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/routes"))]
    routes: PathBuf,
    /// Turns that each side gets per locality.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Passes over 262,144 packets in one turn.
    #[arg(long, default_value_t = 8)]
    passes: usize,
    /// A made-up table of a few thousand prefixes and few packets.
    #[arg(long)]
    small: bool,
    /// Only our own rates.
    #[arg(long)]
    no_dpdk: bool,
    /// Only this locality, such as for a profile: uniform, routed, hot or "ipv6 routed".
    #[arg(long)]
    only: Option<String>,
    /// EAL arguments for DPDK.
    #[arg(
        long,
        allow_hyphen_values = true,
        default_value = "--no-huge -m 1024 --no-pci --no-shconf -l 0 --no-telemetry"
    )]
    eal: String,
}

/// Our side.
struct Router {
    graph: Graph,
    entry: NodeId,
    pool: Pool,
    exits: Exits,
    batch: Batch,
}

impl Router {
    fn run(&mut self, frames: &[Frame], mut each: impl FnMut(&Batch)) {
        for chunk in frames.chunks_exact(Batch::RECEIVE_MAX) {
            let pool = &mut self.pool;
            let received =
                chunk.iter().map(|bytes| pool.get().expect("a free frame").fill(&bytes.0));
            self.batch.extend(received);
            self.graph.run(Time::from_nanos(1), self.entry, &mut self.batch, &mut self.exits);
            for batch in &mut self.exits.transmit {
                each(batch);
                self.pool.put_batch(batch);
            }
            self.pool.put_batch(&mut self.exits.kernel);
            self.pool.put_batch(&mut self.exits.dropped);
        }
    }

    /// Million packets per second of the processor over some passes: other programs on the machine
    /// disturb it less than by the clock on the wall.
    fn mpps(&mut self, frames: &[Frame], passes: usize) -> f64 {
        let start = cpu_seconds();
        let mut sent = 0;
        for _ in 0..passes {
            self.run(frames, |batch| sent += batch.len());
        }
        let seconds = cpu_seconds() - start;
        assert_eq!(sent, frames.len() * passes, "every packet is forwarded");
        sent as f64 / seconds / 1e6
    }

    /// Sum of all 64-bit words sent in one pass.
    fn digest(&mut self, frames: &[Frame]) -> u64 {
        let mut sum = 0u64;
        self.run(frames, |batch| {
            for packet in batch.iter() {
                for word in packet.data().as_chunks::<8>().0 {
                    sum = sum.wrapping_add(u64::from_ne_bytes(*word));
                }
            }
        });
        sum
    }
}

/// Seconds this thread has run.
fn cpu_seconds() -> f64 {
    ebb_host::clock::thread_cpu().as_nanos() as f64 * 1e-9
}

fn build(inputs: &Inputs) -> Result<(FibWriter, Router, Json)> {
    let (mut writer, fib) = FibWriter::new();
    let begun = std::time::Instant::now();
    fib.take_faster_lookup(|| begun.elapsed());
    for port in 0..2u8 {
        let interface = Interface {
            port: PortId(port),
            vlan: 0,
            mac: [2, 0, 0, 0, 0, 1 + port],
            mtu: 1500,
            up: true,
            addresses: vec![],
        };
        writer.set_interface(InterfaceId(u16::from(port)), interface);
    }
    let gateway = |number: u32| -> (InterfaceId, IpAddr) {
        let address = Ipv4Addr::new(10, 0, (number & 1) as u8, number as u8);
        (InterfaceId((number & 1) as u16), address.into())
    };
    for number in 1..=GATEWAYS {
        let (interface, address) = gateway(number);
        writer.set_neighbour(interface, address, [2, 0xaa, 0, 0, 0, number as u8]);
    }
    writer.publish();
    let start = cpu_seconds();
    for (prefix, number) in &inputs.routes {
        let (interface, address) = gateway(*number);
        writer.set_route(*prefix, &Target::via(interface, address))?;
    }
    let load_s = cpu_seconds() - start;
    let routes = writer.routes();
    for prefix in ["0.0.0.0/0", "::/0"] {
        let (interface, address) = gateway(1);
        writer.set_route(prefix.parse::<IpNet>()?, &Target::via(interface, address))?;
    }
    let requests = Requests::new(16, Arc::new(|| {}));
    let WorkerGraph { graph, entry, .. } = Builder::new(&fib, requests).worker(0);
    let router = Router {
        graph,
        entry,
        pool: Pool::standalone(1024),
        exits: Exits::new(2),
        batch: Batch::new(),
    };
    let report = json!({
        "routes": routes, "load_cpu_s": load_s, "table_mb": fib.memory_bytes() as f64 / 1e6,
    });
    Ok((writer, router, report))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Rates of one locality, ours and theirs in turns.
fn compare(
    router: &mut Router,
    frames: &[Frame],
    locality: &str,
    peer: &mut Option<Peer>,
    options: &Options,
) -> Result<Json> {
    let digest = router.digest(frames);
    let (mut ours, mut ratios) = (Vec::new(), Vec::new());
    let mut theirs = [("inline", Vec::new()), ("avx512", Vec::new())];
    for _ in 0..options.rounds {
        let mpps = router.mpps(frames, options.passes);
        ours.push(mpps);
        let Some(peer) = peer else { continue };
        for (lookup, rates) in &mut theirs {
            let question = format!("{lookup} {locality} {}", options.passes);
            let Some(turn) = peer.ask(&question)? else { continue };
            let rate = turn.rate / 1e6;
            ensure!(turn.digest == digest, "DPDK's side sends other packets in {locality}");
            rates.push(rate);
            if *lookup == "inline" {
                ratios.push(mpps / rate);
            }
        }
    }
    let ours = median(ours);
    let mut row = json!({ "locality": locality, "ours_mpps": ours });
    let mut line = format!("{locality:12} {ours:6.1} Mpps");
    for (lookup, rates) in theirs {
        if !rates.is_empty() {
            let rate = median(rates);
            line += &format!("   rte_fib {lookup} {rate:6.1}");
            row[format!("rte_fib_{lookup}_mpps")] = json!(rate);
        }
    }
    if !ratios.is_empty() {
        let ratio = median(ratios);
        line += &format!("   ratio {ratio:.2}");
        row["ratio"] = json!(ratio);
    }
    println!("{line}");
    Ok(row)
}

fn run(options: &Options) -> Result<Json> {
    let inputs = Inputs::new(options)?;
    let (_writer, mut router, table) = build(&inputs)?;
    println!("{table}");
    let mut peer = match options.no_dpdk {
        true => None,
        false => Some(dpdk::start(&inputs, &options.eal).context("starting DPDK's side")?),
    };
    let mut rows = Vec::new();
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    for (locality, frames) in LOCALITIES.iter().zip(&inputs.v4) {
        if wanted(locality) {
            rows.push(compare(&mut router, frames, locality, &mut peer, options)?);
        }
    }
    if wanted("ipv6 routed") {
        rows.push(compare(&mut router, &inputs.v6, "ipv6 routed", &mut None, options)?);
    }
    ensure!(!rows.is_empty(), "no locality of that name");
    Ok(json!({
        "benchmark": "path", "frame_len": inputs::FRAME_LEN, "rounds": options.rounds,
        "eal": options.eal, "table": table, "rates": rows,
    }))
}

fn main() -> Result<()> {
    println!("{}", run(&Options::parse())?);
    Ok(())
}

#[test]
fn runs_in_small() {
    let mut options = Options::parse_from(["path", "--small", "--rounds", "1", "--passes", "1"]);
    options.no_dpdk = !peer::installed();
    if options.no_dpdk {
        eprintln!("without the peer: libdpdk is not installed");
    }
    let report = run(&options).expect("a made-up table routes every packet");
    assert_eq!(report["rates"].as_array().map(Vec::len), Some(4));
}
