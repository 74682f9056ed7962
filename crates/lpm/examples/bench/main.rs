//! Longest-prefix match against DPDK's `rte_fib`: one process each, in turns, medians of the ratios.
//!
//! `cargo run --release -p ebb-lpm --example bench` prints a table and one JSON line. It needs route
//! files of lines like `1.0.0.0/24 13335`; `--small` makes up a table instead and is what the test
//! runs. DPDK's headers and libraries (Debian's `libdpdk-dev`) are needed, or `--no-dpdk`.

mod dpdk;
#[path = "../../../../bench/peer.rs"]
mod peer;
mod tables;

use std::hint::black_box;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rand::seq::SliceRandom;
use serde_json::{Value as Json, json};

use dpdk::Locality;
use ebb_lpm::{Ipv4Lpm, Ipv4Writer, Ipv6Lpm, Ipv6Writer, Value};
use peer::Peer;
use tables::{Family, Inputs, Route};

const BATCH_LEN: usize = 32;

/// Compares longest-prefix match with DPDK's.
#[derive(Debug, Parser)]
struct Options {
    /// Directory with ipv4.txt.gz and ipv6.txt.gz.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/routes"))]
    routes: PathBuf,
    /// Turns that each side gets per locality.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Passes over a million addresses in one turn.
    #[arg(long, default_value_t = 4)]
    passes: usize,
    /// A made-up table of a few thousand prefixes and one turn.
    #[arg(long)]
    small: bool,
    /// Only our own rates.
    #[arg(long)]
    no_dpdk: bool,
    /// Only this family.
    #[arg(long)]
    family: Option<u8>,
    /// Only this locality.
    #[arg(long)]
    locality: Option<Locality>,
    /// Spread values over 24 bits, which takes IPv4 entries of 32 bits.
    #[arg(long)]
    wide: bool,
    /// EAL arguments for DPDK.
    #[arg(
        long,
        allow_hyphen_values = true,
        default_value = "--no-huge -m 2048 --no-pci --no-shconf -l 0 --no-telemetry --force-max-simd-bitwidth=512"
    )]
    eal: String,
}

/// Our side of either family.
trait Table {
    fn lookup_batch(&self, addresses: &[Self::Address], values: &mut [Value]);
    type Address: Copy;

    /// Reads by vectors from now on, or one by one; returns whether by vectors.
    fn use_vector(&self, wanted: bool) -> bool;
}

impl Table for Ipv4Lpm {
    type Address = u32;
    fn use_vector(&self, wanted: bool) -> bool {
        Ipv4Lpm::use_vector(self, wanted)
    }

    fn lookup_batch(&self, addresses: &[u32], values: &mut [Value]) {
        Ipv4Lpm::lookup_batch(self, addresses, values);
    }
}

impl Table for Ipv6Lpm {
    type Address = u128;
    fn use_vector(&self, wanted: bool) -> bool {
        Ipv6Lpm::use_vector(self, wanted)
    }

    fn lookup_batch(&self, addresses: &[u128], values: &mut [Value]) {
        Ipv6Lpm::lookup_batch(self, addresses, values);
    }
}

/// Lookups per second over some passes.
fn rate<T: Table>(table: &T, addresses: &[T::Address], passes: usize) -> f64 {
    let mut values = [0; BATCH_LEN];
    let mut sum = 0u64;
    let start = cpu_seconds();
    for _ in 0..passes {
        for batch in addresses.chunks_exact(BATCH_LEN) {
            table.lookup_batch(batch, &mut values);
            sum += u64::from(values[0]);
        }
    }
    black_box(sum);
    (addresses.len() * passes) as f64 / (cpu_seconds() - start)
}

fn checksum<T: Table>(table: &T, addresses: &[T::Address]) -> u64 {
    let mut values = [0; BATCH_LEN];
    let batches = addresses.chunks_exact(BATCH_LEN);
    batches
        .map(|batch| {
            table.lookup_batch(batch, &mut values);
            values.iter().map(|&value| u64::from(value)).sum::<u64>()
        })
        .sum()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Seconds that this thread has run: what other programs take of the processor does not count.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec, which is ours.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "every Linux thread has this clock");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

macro_rules! writing {
    ($name:ident, $writer:ty, $lpm:ty, $address:ty) => {
        /// Loads the routes in order and at random, flaps some, and tells what it took.
        fn $name(routes: &[Route<$address>]) -> Result<(std::sync::Arc<$lpm>, $writer, Json)> {
            let load = |routes: &[Route<$address>]| -> Result<_> {
                let start = cpu_seconds();
                let (mut writer, table) = <$writer>::new();
                for route in routes {
                    writer.insert(route.prefix, route.len, route.value)?;
                }
                Ok((table, writer, cpu_seconds() - start))
            };
            let mut shuffled = routes.to_vec();
            shuffled.shuffle(&mut tables::random());
            let (_, _, random_s) = load(&shuffled)?;
            let (table, mut writer, sorted_s) = load(routes)?;

            let flapped = &shuffled[..shuffled.len().min(50_000)];
            let start = cpu_seconds();
            for route in flapped {
                ensure!(writer.remove(route.prefix, route.len) == Some(route.value));
                writer.insert(route.prefix, route.len, route.value)?;
            }
            let update_ns = (cpu_seconds() - start) / (2 * flapped.len()) as f64 * 1e9;
            let report = json!({
                "prefixes": writer.len(), "load_sorted_s": sorted_s, "load_random_s": random_s,
                "update_ns": update_ns, "table_mb": table.memory_bytes() as f64 / 1e6,
                "writer_mb": writer.memory_bytes() as f64 / 1e6,
            });
            Ok((table, writer, report))
        }
    };
}

writing!(write_ipv4, Ipv4Writer, Ipv4Lpm, u32);
writing!(write_ipv6, Ipv6Writer, Ipv6Lpm, u128);

/// Lookups per second in one locality, a number for each turn.
struct Rates {
    ours: Vec<f64>,
    /// Ours by vectors, where the processor has them.
    vector: Vec<f64>,
    /// Theirs by variant; empty where it cannot run.
    theirs: Vec<Vec<f64>>,
    /// Ours through the best scalar one of theirs.
    ratio: Vec<f64>,
    /// Both by vectors.
    vector_ratio: Vec<f64>,
}

/// One locality, ours and theirs in turns.
fn contest<F: Family, T: Table<Address = F>>(
    table: &T,
    addresses: &[F],
    locality: Locality,
    peer: &mut Option<Peer>,
    options: &Options,
) -> Result<Rates> {
    let variants = dpdk::variants(F::NUMBER);
    let theirs = vec![Vec::new(); variants.len()];
    let (ours, vector, ratio, vector_ratio) = (vec![], vec![], vec![], vec![]);
    let mut rates = Rates { ours, vector, theirs, ratio, vector_ratio };
    table.use_vector(false);
    rate(table, addresses, 1);
    let plain = checksum(table, addresses);
    for _ in 0..options.rounds {
        let our_rate = rate(table, addresses, options.passes);
        rates.ours.push(our_rate);
        if table.use_vector(true) {
            rates.vector.push(rate(table, addresses, options.passes));
            ensure!(checksum(table, addresses) == plain, "vectors find other values");
            table.use_vector(false);
        }
        let Some(peer) = peer else { continue };
        let (mut scalar, mut vector) = (0f64, 0f64);
        for (variant, rates) in variants.iter().zip(&mut rates.theirs) {
            let question = dpdk::question(F::NUMBER, variant, locality, options.passes);
            let Some(run) = peer.ask(&question)? else { continue };
            let same = run.digest == plain;
            ensure!(same, "DPDK finds other values in {locality:?} by {variant}");
            rates.push(run.rate);
            let best = if variant.contains("avx512") { &mut vector } else { &mut scalar };
            *best = best.max(run.rate);
        }
        rates.ratio.push(our_rate / scalar);
        if let Some(ours) = rates.vector.last().filter(|_| vector > 0.0) {
            rates.vector_ratio.push(ours / vector);
        }
    }
    Ok(rates)
}

/// Rates of one family in every locality.
fn compare<F: Family, T: Table<Address = F>>(
    table: &T,
    inputs: &Inputs<F>,
    peer: &mut Option<Peer>,
    options: &Options,
) -> Result<Vec<Json>> {
    let mut rows = Vec::new();
    if options.family.is_some_and(|family| family != F::NUMBER) {
        return Ok(rows);
    }
    let wanted = |locality: &Locality| options.locality.is_none_or(|only| only == *locality);
    for locality in Locality::ALL.into_iter().filter(wanted) {
        let rates = contest(table, inputs.addresses(locality), locality, peer, options)?;
        rows.push(row(F::NUMBER, locality, rates));
    }
    Ok(rows)
}

/// Prints the medians of one locality and returns them, in millions a second.
fn row(family: u8, locality: Locality, rates: Rates) -> Json {
    let median_of = |rates: Vec<f64>| (!rates.is_empty()).then(|| median(rates));
    let millions = |rates| median_of(rates).map(|rate| rate / 1e6);
    let theirs = dpdk::variants(family).iter().zip(rates.theirs);
    let theirs: Vec<(_, f64)> =
        theirs.filter_map(|(name, rates)| Some((*name, millions(rates)?))).collect();
    let (ours, vector) = (millions(rates.ours), millions(rates.vector));
    let (ratio, vector_ratio) = (median_of(rates.ratio), median_of(rates.vector_ratio));
    println!("IPv{family} {:8} {:7.1} M/s", locality.name(), ours.unwrap_or(f64::NAN));
    if let Some(vector) = vector {
        println!("{:13}{vector:7.1} M/s by AVX-512", "");
    }
    for (name, rate) in &theirs {
        println!("{:22}{rate:7.1} M/s {name}", "");
    }
    if let Some(ratio) = ratio {
        println!("{:22}{ratio:7.2} times the best scalar one of each turn", "");
    }
    if let Some(ratio) = vector_ratio {
        println!("{:22}{ratio:7.2} times theirs, both by AVX-512", "");
    }
    let theirs: serde_json::Map<_, _> =
        theirs.into_iter().map(|(name, rate)| (name.to_owned(), json!(rate))).collect();
    json!({
        "family": family, "locality": locality.name(), "ours_mps": ours, "ours_avx512_mps": vector,
        "rte_fib_mps": theirs, "ratio": ratio, "ratio_avx512": vector_ratio,
    })
}

fn run(options: &Options) -> Result<Json> {
    let ipv4 = Inputs::<u32>::new(options)?;
    let ipv6 = Inputs::<u128>::new(options)?;
    let (table4, _writer4, mut written4) = write_ipv4(&ipv4.routes)?;
    let (table6, _writer6, mut written6) = write_ipv6(&ipv6.routes)?;
    written4["family"] = json!(4);
    written6["family"] = json!(6);
    println!("{written4}\n{written6}");

    let mut peer = match options.no_dpdk {
        true => None,
        false => Some(dpdk::start(&ipv4, &ipv6, &options.eal).context("starting DPDK's side")?),
    };
    let mut lookups = compare(&*table4, &ipv4, &mut peer, options)?;
    lookups.extend(compare(&*table6, &ipv6, &mut peer, options)?);
    Ok(json!({
        "benchmark": "lpm", "batch": BATCH_LEN, "rounds": options.rounds, "eal": options.eal,
        "tables": [written4, written6], "lookups": lookups,
    }))
}

fn main() -> Result<()> {
    println!("{}", run(&Options::parse())?);
    Ok(())
}

#[test]
fn runs_in_small() {
    let mut options = Options::parse_from(["bench", "--small", "--rounds", "1", "--passes", "1"]);
    options.no_dpdk = !peer::installed();
    if options.no_dpdk {
        eprintln!("without the peer: libdpdk is not installed");
    }
    let report = run(&options).expect("a made-up table loads and compares");
    assert_eq!(report["lookups"].as_array().map(Vec::len), Some(6));
}
