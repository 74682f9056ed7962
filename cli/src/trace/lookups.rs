//! `ebb trace lookups`: the memory references of the router's own route lookups.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ebb_lpm::{Ipv4Lpm, Ipv4Writer};
use ipnet::Ipv4Net;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::packets::{Frame, Router, frame};

/// Written when what is to be recorded begins, and again when it ends.
static MARK: AtomicU64 = AtomicU64::new(0);
/// Addresses looked up at a time, as the router does.
const BATCH_LEN: usize = 32;
/// Flows of the locality `hot`.
const HOT_FLOWS: usize = 16 * 1024;
/// Routes of the table that is made up.
const MADE_UP: usize = 2_000;

/// Which destinations packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Locality {
    /// Any address
    Uniform,
    /// Addresses of routes, all routes equally
    Routed,
    /// 16,384 such flows
    Hot,
}

/// Look destinations up in the router's table, for `trace record --router`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb trace lookups --routes ipv4.txt.gz --locality routed --packets 100000
  ebb trace lookups --path lookup --locality uniform,hot")]
pub struct Lookups {
    /// Routes, lines of `1.0.0.0/24 13335`, plain or gz [default: 2,000 random routes]
    #[arg(long, value_name = "FILE")]
    pub routes: Option<PathBuf>,
    /// Destinations of the packets; several, separated by commas, run one after another
    #[arg(long, value_delimiter = ',', default_value = "routed")]
    pub locality: Vec<Locality>,
    /// Which part of the data plane
    #[arg(long, default_value = "packets")]
    pub path: Path,
    /// Packets for each locality
    #[arg(long, default_value_t = 100_000)]
    pub packets: usize,
}

/// Which part of the data plane is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Path {
    /// Only the look-up of destinations
    Lookup,
    /// 64-byte packets from frame memory through the whole routing graph, and out
    Packets,
}

impl Lookups {
    /// Names of the localities.
    pub(super) fn names(&self) -> Vec<String> {
        self.locality.iter().map(name).collect()
    }

    /// The same, as arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let (localities, packets) = (self.names().join(","), self.packets.to_string());
        let path = name(&self.path);
        let mut all = ["trace", "lookups", "--locality", &localities, "--path", &path]
            .map(str::to_owned)
            .to_vec();
        all.extend(["--packets".to_owned(), packets]);
        if let Some(routes) = &self.routes {
            all.extend(["--routes".to_owned(), routes.display().to_string()]);
        }
        all
    }

    /// Prints where the mark is, builds the table, and forwards between two writes of the mark.
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "mark {:#x}", &raw const MARK as usize)?;
        out.flush()?;
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let routes = self.table(&mut rng)?;
        let destinations: Vec<Vec<u32>> = self
            .locality
            .iter()
            .map(|locality| self.addresses(*locality, &routes, &mut rng))
            .collect();
        match self.path {
            Path::Lookup => {
                let (mut writer, table) = Ipv4Writer::new();
                for (index, route) in routes.iter().enumerate() {
                    let value = 1 + index as u32 % 250;
                    writer.insert(route.network().into(), route.prefix_len(), value)?;
                }
                between_marks(&destinations, |addresses| look_up(&table, addresses));
            }
            Path::Packets => {
                let (_writer, mut router) = Router::new(&routes)?;
                let frames: Vec<Vec<Frame>> =
                    destinations.iter().map(|all| all.iter().map(frame).collect()).collect();
                between_marks(&frames, |frames| router.forward(frames));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn table(&self, rng: &mut impl RngCore) -> Result<Vec<Ipv4Net>> {
        let Some(path) = &self.routes else {
            let one = |_| Ipv4Net::new(rng.next_u32().into(), 16 + (rng.next_u32() % 9) as u8);
            return Ok((0..MADE_UP).map(one).collect::<Result<_, _>>()?);
        };
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines: Box<dyn BufRead> = if path.extension().is_some_and(|end| end == "gz") {
            Box::new(BufReader::new(flate2::read::MultiGzDecoder::new(file)))
        } else {
            Box::new(BufReader::new(file))
        };
        let mut routes = Vec::new();
        for (index, line) in lines.lines().enumerate() {
            let place = || format!("{}:{}", path.display(), index + 1);
            let line = line.with_context(place)?;
            let Some(prefix) = line.split_whitespace().next() else { continue };
            routes.push(prefix.parse().with_context(place)?);
        }
        if routes.is_empty() {
            bail!("{}: no routes", path.display());
        }
        Ok(routes)
    }

    fn addresses(
        &self,
        locality: Locality,
        routes: &[Ipv4Net],
        rng: &mut impl RngCore,
    ) -> Vec<u32> {
        let routed = |rng: &mut dyn RngCore| {
            let route = routes[rng.next_u64() as usize % routes.len()];
            u32::from(route.network()) | rng.next_u32() & u32::from(route.hostmask())
        };
        let hot: Vec<u32> = match locality {
            Locality::Hot => (0..HOT_FLOWS).map(|_| routed(rng)).collect(),
            _ => Vec::new(),
        };
        (0..self.packets.next_multiple_of(BATCH_LEN))
            .map(|_| match locality {
                // What a router forwards: no loopback, no multicast.
                Locality::Uniform => 0x0100_0000 + rng.next_u32() % 0x7e00_0000,
                Locality::Routed => routed(rng),
                Locality::Hot => hot[rng.next_u32() as usize % HOT_FLOWS],
            })
            .collect()
    }
}

fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("none is skipped");
    value.get_name().to_owned()
}

/// Does each after a write of the mark, and writes it again after the last.
fn between_marks<T>(all: &[Vec<T>], mut act: impl FnMut(&[T]) -> u64) {
    let mut sum = 0_u64;
    for (index, one) in all.iter().enumerate() {
        MARK.store(2 * index as u64 + 1, SeqCst);
        sum = sum.wrapping_add(act(one));
        MARK.store(2 * index as u64 + 2, SeqCst);
    }
    black_box(sum);
}

#[inline(never)]
fn look_up(table: &Ipv4Lpm, addresses: &[u32]) -> u64 {
    let mut values = [0; BATCH_LEN];
    let mut sum = 0;
    for batch in addresses.chunks_exact(BATCH_LEN) {
        table.lookup_batch(batch, &mut values);
        sum += values.iter().map(|value| u64::from(*value)).sum::<u64>();
    }
    sum
}
