//! What redundancy elimination costs: packets of random bytes, and such whose bytes have half come before, through a
//! router that encodes and one that decodes, in memory on one core.
//!
//! `cargo run --release -p ebb-apps --example redundancy` prints a table and one JSON line; `--small` is what the test
//! runs. Times are of the processor, routing included: other programs disturb them less than the clock on the wall.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Parser;
use ebb_apps::Application;
use ebb_apps::dedup::{Dedup, Sampling, Settings};
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Pool, PortId};
use ebb_units::Time;
use ebb_wire::Template;
use rand::{RngCore as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value as Json, json};

/// Measures what redundancy elimination costs a packet.
#[derive(Debug, Parser)]
struct Options {
    /// Packets of each turn.
    #[arg(long, default_value_t = 32_768)]
    packets: usize,
    /// Turns of each kind of payload and way of sampling.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Few packets: figures mean nothing.
    #[arg(long)]
    small: bool,
    /// Has no meaning here; benchmarks are called with it where DPDK is missing.
    #[arg(long, hide = true)]
    no_dpdk: bool,
}

const PAYLOAD_LEN: usize = 1400;
const CACHE_BYTES: usize = 64 << 20;
/// Packets between two exchanges of reports: a millisecond or so at a gigabit a second.
const BURST: usize = 256;

/// A router of one worker, with what it sends.
struct End {
    worker: WorkerGraph,
    exits: Exits,
    pool: Pool,
    dedup: Option<Arc<Dedup>>,
    _writer: FibWriter,
}

impl End {
    /// Packets come in at port 0 and leave by port 1; `peer` is behind one of them.
    fn new(sampling: Sampling, peer: Option<(u8, u128)>) -> Result<End> {
        let settings = Settings { sampling, period: 32, cache_bytes: CACHE_BYTES, seed: 9 };
        let dedup = peer.map(|(port, session)| {
            Arc::new(Dedup::new(1, &settings, &[(PortId(port), session)], &(Arc::new(|| ()) as _)))
        });
        let (mut writer, fib) = FibWriter::new();
        for port in 0..2u8 {
            let port = PortId(port);
            let mac = [2, 0, 0, 0, 0, 1 + port.0];
            let interface =
                Interface { port, vlan: 0, mac, mtu: 1500, up: true, addresses: vec![] };
            writer.set_interface(InterfaceId(u16::from(port.0)), interface);
        }
        let gateway: IpAddr = Ipv4Addr::new(10, 0, 1, 2).into();
        // Port 0 of the next router.
        writer.set_neighbour(InterfaceId(1), gateway, [2, 0, 0, 0, 0, 1]);
        writer.set_route("0.0.0.0/0".parse()?, &Target::via(InterfaceId(1), gateway))?;
        writer.publish();
        let requests = Requests::new(16, Arc::new(|| {}));
        let applications: Vec<Arc<dyn Application>> =
            dedup.iter().map(|dedup| dedup.clone() as _).collect();
        Ok(End {
            worker: Builder::new(&fib, requests).applications(&applications).worker(0),
            exits: Exits::new(2),
            pool: Pool::standalone(1024),
            dedup,
            _writer: writer,
        })
    }

    /// Passes frames; adds what left and the nanoseconds of the processor.
    fn pass(&mut self, now: Time, frames: &[Vec<u8>], out: &mut Vec<Vec<u8>>) -> f64 {
        let mut nanos = 0.0;
        for chunk in frames.chunks(Batch::RECEIVE_MAX) {
            let mut batch = Batch::new();
            let pool = &mut self.pool;
            batch.extend(chunk.iter().map(|bytes| pool.get().expect("a frame").fill(bytes)));
            let WorkerGraph { graph, entry, .. } = &mut self.worker;
            let begun = ebb_host::clock::thread_cpu();
            graph.run(now, *entry, &mut batch, &mut self.exits);
            nanos += ebb_host::clock::thread_cpu().since(begun).as_nanos() as f64;
            for batch in self.exits.transmit.iter_mut().chain([&mut self.exits.dropped]) {
                out.extend(batch.iter().map(|packet| packet.data().to_vec()));
                self.pool.put_batch(batch);
            }
        }
        nanos
    }
}

/// Two routers and the time between them.
struct Pair {
    ends: [End; 2],
    now: u64,
}

/// What a turn took, in nanoseconds, and how many bytes the link carried.
#[derive(Clone, Copy, Default)]
struct Taken {
    encode: f64,
    decode: f64,
    link: usize,
}

impl Pair {
    fn talk(&mut self) {
        self.now += 6_000_000;
        let now = Time::from_nanos(self.now);
        let Some([near, far]) = self.peers() else { return };
        let mut datagram = Vec::new();
        for _ in 0..4 {
            while near.send(now, &mut datagram) {
                far.receive(&datagram, now);
            }
            while far.send(now, &mut datagram) {
                near.receive(&datagram, now);
            }
        }
    }

    fn peers(&self) -> Option<[Arc<ebb_apps::dedup::Peer>; 2]> {
        let of = |end: &End| Some(end.dedup.as_ref()?.peers()[0].clone());
        Some([of(&self.ends[0])?, of(&self.ends[1])?])
    }

    fn turn(&mut self, frames: &[Vec<u8>]) -> Result<Taken> {
        let mut taken = Taken::default();
        let (mut link, mut came) = (Vec::new(), Vec::new());
        for burst in frames.chunks(BURST) {
            link.clear();
            came.clear();
            let now = Time::from_nanos(self.now);
            taken.encode += self.ends[0].pass(now, burst, &mut link);
            taken.link += link.iter().map(Vec::len).sum::<usize>();
            taken.decode += self.ends[1].pass(now, &link, &mut came);
            ensure!(came.len() == burst.len(), "every packet arrives");
            let same = |(sent, came): (&Vec<u8>, &Vec<u8>)| sent[34..] == came[34..];
            ensure!(burst.iter().zip(&came).all(same), "as it was");
            self.talk();
        }
        Ok(taken)
    }
}

/// Frames of random bytes; `redundancy` of each are bytes of one of the frames before.
fn frames(count: usize, redundancy: f64, seed: u64) -> Vec<Vec<u8>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let address = |last, port| (Ipv4Addr::new(198, 51, 100, last), port).into();
    let mut template = Template::udp(address(1, 4000), address(2, 9));
    template.destination_mac = [2, 0, 0, 0, 0, 1];
    let again = (PAYLOAD_LEN as f64 * redundancy) as usize;
    let mut payloads: Vec<[u8; PAYLOAD_LEN]> = Vec::with_capacity(count);
    for at in 0..count {
        let mut payload = [0; PAYLOAD_LEN];
        random.fill_bytes(&mut payload);
        // From long before, and not at the same place.
        if let Some(old) = at.checked_sub(2 * BURST) {
            let from = random.next_u32() as usize % (PAYLOAD_LEN - again + 1);
            payload[..again].copy_from_slice(&payloads[old][from..from + again]);
        }
        payloads.push(payload);
    }
    payloads.iter().map(|payload| template.to_frame(payload)).collect()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn run(options: &Options) -> Result<Json> {
    let packets = if options.small { 1024 } else { options.packets };
    ensure!(packets >= 1024, "--packets: at least 1024");
    let mut rows = Vec::new();
    for sampling in [Sampling::Maxp, Sampling::Modp, Sampling::Samplebyte] {
        for redundancy in [0.0, 0.5] {
            let (near, far) =
                (End::new(sampling, Some((1, 5)))?, End::new(sampling, Some((0, 6)))?);
            let mut pair = Pair { ends: [near, far], now: 1_000_000_000 };
            let plain = || End::new(sampling, None);
            let mut without = Pair { ends: [plain()?, plain()?], now: 1_000_000_000 };
            pair.talk();
            // Until the memory is full and begins anew, as in a router that has run for a while.
            let filled = if options.small { 1024 } else { CACHE_BYTES / PAYLOAD_LEN + BURST };
            pair.turn(&frames(filled, redundancy, 1))?;
            let (mut encode, mut decode, mut route, mut link) = (vec![], vec![], vec![], 0);
            for round in 0..options.rounds {
                let frames = frames(packets, redundancy, 2 + round as u64);
                let taken = pair.turn(&frames)?;
                let alone = without.turn(&frames)?;
                let per = |nanos: f64| nanos / packets as f64;
                encode.push(per(taken.encode));
                decode.push(per(taken.decode));
                route.push(per(alone.encode));
                link += taken.link;
            }
            let frame_len = PAYLOAD_LEN + 42;
            let all = packets * options.rounds * frame_len;
            let (encode, decode) = (median(encode), median(decode));
            // Bits a nanosecond are gigabits a second; of IP packets.
            let gbps = |nanos: f64| (frame_len - 14) as f64 * 8.0 / nanos;
            rows.push(json!({
                "sampling": format!("{sampling:?}").to_lowercase(), "redundancy": redundancy,
                "routing_ns": median(route), "encode_ns": encode, "decode_ns": decode,
                "encode_gbps": gbps(encode), "decode_gbps": gbps(decode),
                "saved": 1.0 - link as f64 / all as f64,
            }));
        }
    }
    println!(
        "sampling    redundant  routing   encode   decode  a packet   encode   decode  Gbit/s  saved"
    );
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:11} {:8.0} % {:5.0} ns {:5.0} ns {:5.0} ns {:18.1} {:8.1} {:13.1} %",
            row["sampling"].as_str().unwrap_or_default(),
            number("redundancy") * 100.0,
            number("routing_ns"),
            number("encode_ns"),
            number("decode_ns"),
            number("encode_gbps"),
            number("decode_gbps"),
            number("saved") * 100.0
        );
    }
    Ok(json!({
        "benchmark": "redundancy", "packets": packets, "payload_bytes": PAYLOAD_LEN,
        "cache_mib": CACHE_BYTES >> 20, "rounds": options.rounds, "rows": rows,
    }))
}

fn main() -> Result<()> {
    println!("{}", run(&Options::parse())?);
    Ok(())
}

#[test]
fn runs_in_small() {
    let options = Options::parse_from(["redundancy", "--small", "--rounds", "1"]);
    let report = run(&options).expect("every packet arrives as it was");
    for row in report["rows"].as_array().expect("rows") {
        let saved = row["saved"].as_f64().expect("a share");
        let wanted = if row["redundancy"] == 0.5 { 0.15..0.5 } else { -0.01..0.01 };
        assert!(wanted.contains(&saved), "{row}");
    }
}
