//! What a balancer's workers carry in memory: 64-byte packets of a million flows in random order, each copied into a frame
//! as a card does, sent to one of four back-ends or let out, and taken away; every worker a thread on a core of its own.
//! Rates are of the workers' processor time, summed: what others take from a core meanwhile does not count, what workers
//! take from each other does. Rounds of one and of more workers take turns. Prints a table and a JSON line; `--workers N`
//! (2) and `--rounds N` (7).

use std::sync::Arc;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ebb_cluster::{ClusterPlan, Entry, Power};
use ebb_clusterd::balancer::{
    BackEnd, Link, PeerAuthentication, Plane, Probing, Seal, Side, Topology, Worker,
};
use ebb_graph::{Batch, Pool, Reserve, prefetch};
use ebb_host::clock::{monotonic, thread_cpu};
use ebb_host::process;
use ebb_ports::Port;
use ebb_units::Time;
use ebb_wire::Template;

const BACK_ENDS: u8 = 4;
const HOST: [u8; 6] = [2, 9, 9, 9, 9, 9];

fn cluster_mac(side: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, side as u8]
}

fn back_end_mac(row: u8, side: usize) -> [u8; 6] {
    [2, 0, 0, 1, row, side as u8]
}

fn topology() -> Topology {
    let side = |side: usize| Side {
        outside: format!("out{side}"),
        inside: format!("in{side}"),
        macs: vec![cluster_mac(side)],
        addresses: vec![format!("10.0.{side}.1/24").parse().expect("a subnet")],
        probes: vec![format!("10.0.{side}.254").parse().expect("an address")],
        probe_macs: vec![[2, 0, 0, 0, 2, side as u8]],
    };
    let back_end = |row: u8| BackEnd {
        name: format!("r{row}"),
        macs: vec![back_end_mac(row, 0), back_end_mac(row, 1)],
        weight: 1,
        capacity_pps: 1e12,
    };
    Topology::new(vec![side(0), side(1)], (0..BACK_ENDS).map(back_end).collect(), 0)
}

/// A card that is never empty: flow after flow in an order that no cache foresees. What is sent is taken away.
struct Card {
    frames: Arc<Vec<[u8; 60]>>,
    next: u64,
    wanted: Vec<usize>,
}

impl Port for Card {
    fn name(&self) -> &str {
        "card"
    }

    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, max: usize) -> usize {
        if self.frames.is_empty() {
            return 0;
        }
        let flows = self.frames.len() as u128;
        self.wanted.clear();
        for _ in 0..max {
            // A full period modulo 2^64 (Knuth, volume 2, section 3.3.4); its high bits are the random ones.
            self.next = self
                .next
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = ((u128::from(self.next) * flows) >> 64) as usize;
            // A card writes into the cache: what is measured waits for no memory of the generator's.
            prefetch(&self.frames[at]);
            self.wanted.push(at);
        }
        for at in &self.wanted {
            batch.push(pool.get().expect("frames").fill(&self.frames[*at]));
        }
        max
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        pool.put_batch(batch);
        count
    }
}

/// Packets of so many flows that come to the cluster, or from its back-ends.
fn frames(flows: u32, inward: bool) -> Arc<Vec<[u8; 60]>> {
    let frame = |flow: u32| {
        let [_, a, b, c] = flow.to_be_bytes();
        let source = format!("198.18.{a}.{b}:{}", 1024 + u16::from(c)).parse().expect("an address");
        let destination = "198.19.0.1:9".parse().expect("an address");
        let mut frame = Template::udp(source, destination).to_frame(&[0; 18]);
        let (to, from) = match inward {
            true => (cluster_mac(0), HOST),
            false => (HOST, back_end_mac(c % BACK_ENDS, 0)),
        };
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&from);
        frame.try_into().expect("60 bytes and a checksum that no program sees")
    };
    Arc::new((0..flows).map(frame).collect())
}

/// Packets per second of processor time that so many workers carry together.
fn carried(
    workers: usize,
    frames: &Arc<Vec<[u8; 60]>>,
    inward: bool,
    span: Duration,
) -> Result<f64> {
    let topology = topology();
    let (_, reserve) = Reserve::allocate(8192 * workers as u32);
    let seal = Seal::random()?;
    let barrier = Arc::new(Barrier::new(workers));
    let cpus = process::allowed_cpus()?;
    let mut running = Vec::new();
    for (number, worker) in Worker::several(workers, &topology).into_iter().enumerate() {
        let how = (Probing::none(), &PeerAuthentication::default());
        let pool = Pool::new(reserve.clone());
        let mut plane = Plane::new(topology.clone(), worker, pool, how, seal.clone(), monotonic());
        for link in 0..4 {
            let from = if inward { 0 } else { 1 };
            let frames = if link == from { frames.clone() } else { Arc::default() };
            let port = Box::new(Card { frames, next: number as u64, wanted: Vec::new() });
            plane.attach(link, Link { port, rest: None });
        }
        let cpu = *cpus.get(number).context("as many CPUs as workers are needed")?;
        let barrier = barrier.clone();
        running.push(thread::spawn(move || work(plane, cpu, &barrier, span)));
    }
    let join = |thread: thread::JoinHandle<Result<f64>>| thread.join().expect("no panic");
    running.into_iter().map(join).sum()
}

/// What one worker carries of it.
fn work(mut plane: Plane, cpu: usize, barrier: &Barrier, span: Duration) -> Result<f64> {
    process::pin_to(cpu)?;
    let on = Entry { power: Power::On, since: 1 };
    let entries = (0..BACK_ENDS).map(|row| (format!("r{row}"), on)).collect();
    let mut now = Time::from_nanos(1_000_000_000);
    plane.follow(&ClusterPlan { version: 1, entries, speaker: None }, now);
    // The first one finds the back-ends, the others hear of it, and the flows move to them one after the other.
    for _ in 0..4 * BACK_ENDS {
        now += Duration::from_secs(1);
        plane.tick(now);
        barrier.wait();
    }
    let shares = plane.logic().table().shares();
    ensure!(shares.iter().all(|share| *share > 0), "a back-end gets no flows: {shares:?}");
    let count = |plane: &Plane| plane.counters().balanced + plane.counters().returned;
    let warm = monotonic();
    while monotonic().since(warm) < span / 4 {
        plane.turn(monotonic());
    }
    barrier.wait();
    let (before, begun, used) = (count(&plane), monotonic(), thread_cpu());
    let mut ticked = begun;
    while monotonic().since(begun) < span {
        for _ in 0..16 {
            plane.turn(monotonic());
        }
        let now = monotonic();
        if now.since(ticked) >= Duration::from_millis(1) {
            ticked = now;
            plane.tick(now);
        }
    }
    let rate = (count(&plane) - before) as f64 / thread_cpu().since(used).as_secs_f64();
    let counters = plane.counters();
    let lost = counters.homeless + counters.overrun + counters.ignored;
    ensure!(lost == 0, "packets went astray: {counters:?}");
    Ok(rate)
}

fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let value = |flag: &str, or: usize| -> Result<usize> {
        let at = words.iter().position(|word| word == flag);
        at.map_or(Ok(or), |at| {
            words.get(at + 1).context("a number is missing")?.parse().context("a number")
        })
    };
    let small = words.iter().any(|word| word == "--small");
    let (workers, rounds) = (value("--workers", 2)?, value("--rounds", if small { 1 } else { 7 })?);
    let (flows, span) = if small { (10_000, 0.05) } else { (1_000_000, 1.0) };
    let span = Duration::from_secs_f64(span);
    println!("{:44}{:>8} {:>8} {:>8}", "million packets/s, 64 bytes", "median", "least", "most");
    let mut found = serde_json::json!({ "flows": flows, "workers": workers, "rounds": rounds });
    for (name, inward) in [("inward", true), ("outward", false)] {
        let frames = frames(flows, inward);
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let rate = carried([1, workers][which], &frames, inward, span)?;
                rates[which].push(rate / 1e6);
            }
        }
        let ratio: Vec<f64> =
            rates[1].iter().zip(&rates[0]).map(|(more, one)| more / one).collect();
        let [one, more] = rates.map(spread);
        let ratio = spread(ratio);
        for (what, [median, least, most]) in [
            (format!("{name}, one worker"), one),
            (format!("{name}, {workers} workers"), more),
            (format!("{name}, ratio of a round's"), ratio),
        ] {
            println!("{what:44}{median:8.2} {least:8.2} {most:8.2}");
        }
        found[name] = serde_json::json!({ "one_mpps": one, "mpps": more, "ratio": ratio });
    }
    println!("{found}");
    Ok(())
}
