//! What a tunnel costs: one core seals packets in memory, then opens them at the other end, routing included.
//!
//! `cargo run --release -p ebb-apps --example tunnel` prints a table and one JSON line; `--small` is what the test
//! runs. Times are of the processor: other programs disturb them less than the clock on the wall. Its peer is
//! `openssl speed -evp aes-128-gcm -bytes SIZE`, of `--algorithm cbc` the sum of `-evp aes-128-cbc` and `-hmac sha256`: none
//! routes or makes headers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use ebb_apps::Application;
use ebb_apps::esp::{Algorithm, DontFragment, Esp, Key, Start, Tunnel, Used};
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Packet, Pool, PortId, Reserve};
use ebb_units::Time;
use ebb_wire::Template;
use serde_json::{Value as Json, json};

/// Measures sealing and opening, per packet and in bits of IP packets inside.
#[derive(Debug, Parser)]
struct Options {
    /// Bytes of the IP packets inside.
    #[arg(long, value_delimiter = ',', default_value = "64,256,1420")]
    sizes: Vec<usize>,
    /// How packets are sealed.
    #[arg(long, value_enum, default_value = "gcm")]
    algorithm: Cipher,
    /// Packets in a turn.
    #[arg(long, default_value_t = 200_000)]
    packets: usize,
    /// Turns, of which the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Few packets: figures mean nothing.
    #[arg(long)]
    small: bool,
}

/// Ciphers that are measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cipher {
    /// AES-128-GCM.
    Gcm,
    /// AES-128-CBC with HMAC-SHA-256.
    Cbc,
}

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// One end of the tunnel.
struct End {
    worker: WorkerGraph,
    exits: Exits,
    _tables: FibWriter,
}

impl End {
    fn new(is_near: bool, algorithm: Algorithm) -> Result<End> {
        let key = |byte: &str| Key::from_hex(&byte.repeat(algorithm.key_len()), algorithm);
        let (forth, back) = ((256, key("a1")?), (257, key("b2")?));
        let (here, there): (IpAddr, IpAddr) = ("192.0.2.1".parse()?, "198.51.100.1".parse()?);
        let (near, far) = (vec!["10.1.0.0/16".parse()?], vec!["10.2.0.0/16".parse()?]);
        let (local, remote) = if is_near { (here, there) } else { (there, here) };
        let (local_prefixes, remote_prefixes) = if is_near { (near, far) } else { (far, near) };
        let (out, into) = if is_near { (forth, back) } else { (back, forth) };
        let tunnel = Tunnel {
            local,
            remote,
            remote_prefixes,
            local_prefixes,
            clear_prefixes: Vec::new(),
            algorithm,
            out,
            into,
            window: 1024,
            extended_sequence: true,
            udp: false,
            mtu: 1500,
            df: DontFragment::Copy,
        };
        let claim = Used::default().claim(1 << 60, Duration::ZERO).expect("numbers");
        let (starts, bell) = ([Start { claim, seen: 0 }], Arc::new(|| ()) as _);
        let reserve = Reserve::new(Vec::new());
        let esp: Arc<dyn Application> = Arc::new(Esp::new(1, &[tunnel], &starts, &bell, &reserve));
        let (mut tables, fib) = FibWriter::new();
        let (id, gateway) = (InterfaceId(0), "203.0.113.2".parse()?);
        let port = PortId(0);
        let interface =
            Interface { port, vlan: 0, mac: OWN_MAC, mtu: 1500, up: true, addresses: vec![] };
        tables.set_interface(id, interface);
        tables.set_neighbour(id, gateway, OWN_MAC);
        tables.set_route("0.0.0.0/0".parse()?, &Target::via(id, gateway))?;
        tables.publish();
        let requests = Requests::new(16, Arc::new(|| {}));
        let worker = Builder::new(&fib, requests).applications(&[esp]).worker(0);
        Ok(End { worker, exits: Exits::new(1), _tables: tables })
    }

    fn pass(&mut self, batch: &mut Batch) {
        let WorkerGraph { graph, entry, .. } = &mut self.worker;
        graph.run(Time::from_nanos(1), *entry, batch, &mut self.exits);
        batch.append(&mut self.exits.transmit[0]);
    }
}

/// Nanoseconds a packet of sealing and of opening.
fn turn(ends: &mut [End; 2], pool: &mut Pool, frame: &[u8], packets: usize) -> Result<[f64; 2]> {
    let mut spent = [Duration::ZERO; 2];
    let mut batch = Batch::new();
    for _ in 0..packets / Batch::RECEIVE_MAX {
        batch.extend((0..Batch::RECEIVE_MAX).map(|_| pool.get().expect("a frame").fill(frame)));
        for (end, spent) in ends.iter_mut().zip(&mut spent) {
            let begun = ebb_host::clock::thread_cpu();
            end.pass(&mut batch);
            *spent += ebb_host::clock::thread_cpu().since(begun);
            ensure!(batch.len() == Batch::RECEIVE_MAX, "every packet passes");
        }
        let same = |packet: &Packet| packet.len() == frame.len();
        ensure!(batch.iter().all(same), "what comes out is as long as what went in");
        pool.put_batch(&mut batch);
    }
    let count = (packets / Batch::RECEIVE_MAX * Batch::RECEIVE_MAX) as f64;
    Ok(spent.map(|spent| spent.as_nanos() as f64 / count))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn run(options: &Options) -> Result<Json> {
    let packets = if options.small { 256 } else { options.packets };
    ensure!(packets >= Batch::RECEIVE_MAX, "--packets: at least {}", Batch::RECEIVE_MAX);
    let (algorithm, name) = match options.algorithm {
        Cipher::Gcm => (Algorithm::Aes128Gcm, "aes-128-gcm"),
        Cipher::Cbc => (Algorithm::Aes128CbcHmacSha256, "aes-128-cbc-hmac-sha-256"),
    };
    let mut ends = [End::new(true, algorithm)?, End::new(false, algorithm)?];
    let mut pool = Pool::standalone(256);
    let mut rows = Vec::new();
    println!("bytes inside   seal ns   open ns   seal Gb/s   open Gb/s");
    for size in &options.sizes {
        // The most that CBC leaves room for.
        ensure!((28..=1422).contains(size), "--sizes: 28 to 1422");
        let mut template = Template::udp("10.1.0.9:4000".parse()?, "10.2.0.9:7".parse()?);
        template.destination_mac = OWN_MAC;
        let frame = template.to_frame(&vec![0x5a; size - 28]);
        turn(&mut ends, &mut pool, &frame, packets)?;
        let (mut seal, mut open) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds.max(1) {
            let [sealed, opened] = turn(&mut ends, &mut pool, &frame, packets)?;
            seal.push(sealed);
            open.push(opened);
        }
        let (seal, open) = (median(seal), median(open));
        let gbps = |nanos: f64| *size as f64 * 8.0 / nanos;
        println!("{size:12} {seal:9.0} {open:9.0} {:11.2} {:11.2}", gbps(seal), gbps(open));
        rows.push(json!({"bytes": size, "seal_ns": seal, "open_ns": open}));
    }
    Ok(json!({"benchmark": "tunnel", "algorithm": name, "rows": rows}))
}

fn main() -> Result<()> {
    println!("{}", run(&Options::parse())?);
    Ok(())
}

#[test]
fn runs_in_small() {
    for algorithm in ["gcm", "cbc"] {
        let small = ["tunnel", "--small", "--rounds", "1", "--algorithm", algorithm];
        let report = run(&Options::parse_from(small)).expect("every packet passes");
        assert_eq!(report["rows"].as_array().map(Vec::len), Some(3), "{report}");
    }
}
