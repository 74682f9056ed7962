//! What is looked up: routes from files or made up, and addresses in three localities.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Options;
use crate::dpdk::Locality;

const HOT_FLOWS: usize = 16 * 1024;

/// Next hops that DPDK's entries of 2 bytes can hold.
const VALUES_NARROW: u32 = 30_000;
const VALUES_WIDE: u32 = (1 << 24) - 2;

pub fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(1)
}

#[derive(Clone, Copy, Debug)]
pub struct Route<A> {
    pub prefix: A,
    pub len: u8,
    pub value: u32,
}

/// One IP family.
pub trait Family: Copy + Ord + Sized {
    const NUMBER: u8;
    const FILE: &'static str;
    fn parse(address: IpAddr) -> Option<Self>;
    fn network(self, len: u8) -> Self;
    /// An address of this prefix with the other bits drawn.
    fn within(self, len: u8, random: &mut ChaCha8Rng) -> Self;
    /// Any address; of IPv6, any in 2000::/3.
    fn any(random: &mut ChaCha8Rng) -> Self;
    /// A length as the made-up table wants it.
    fn any_len(random: &mut ChaCha8Rng) -> u8;
    /// The form the C side reads.
    fn put(self, bytes: &mut Vec<u8>);
}

macro_rules! bits {
    ($integer:ty) => {
        fn network(self, len: u8) -> Self {
            self & !<$integer>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
        }
        fn within(self, len: u8, random: &mut ChaCha8Rng) -> Self {
            let host: $integer = random.random();
            self | host & <$integer>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
        }
    };
}

impl Family for u32 {
    const NUMBER: u8 = 4;
    const FILE: &'static str = "ipv4.txt.gz";
    bits!(u32);

    fn parse(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address.into()),
            IpAddr::V6(_) => None,
        }
    }
    fn any(random: &mut ChaCha8Rng) -> Self {
        random.random()
    }
    fn any_len(random: &mut ChaCha8Rng) -> u8 {
        random.random_range(10..=26)
    }
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_ne_bytes());
    }
}

impl Family for u128 {
    const NUMBER: u8 = 6;
    const FILE: &'static str = "ipv6.txt.gz";
    bits!(u128);

    fn parse(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V6(address) => Some(address.into()),
            IpAddr::V4(_) => None,
        }
    }
    fn any(random: &mut ChaCha8Rng) -> Self {
        (1 << 125) | (random.random::<u128>() >> 3)
    }
    fn any_len(random: &mut ChaCha8Rng) -> u8 {
        random.random_range(16..=64)
    }
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_be_bytes());
    }
}

/// The routes of one family and the addresses to look up.
pub struct Inputs<F> {
    pub routes: Vec<Route<F>>,
    addresses: [Vec<F>; 3],
}

impl<F: Family> Inputs<F> {
    pub fn new(options: &Options) -> Result<Self> {
        let values = if options.wide { VALUES_WIDE } else { VALUES_NARROW };
        let mut random = random();
        let routes = if options.small { make_up(&mut random) } else { read(options, values)? };
        let count = if options.small { 1 << 12 } else { 1 << 20 };
        let routed = |random: &mut ChaCha8Rng| {
            let route: Route<F> = routes[random.random_range(0..routes.len())];
            route.prefix.within(route.len, random)
        };
        let flows: Vec<F> = (0..HOT_FLOWS).map(|_| routed(&mut random)).collect();
        let addresses = [
            (0..count).map(|_| F::any(&mut random)).collect(),
            (0..count).map(|_| routed(&mut random)).collect(),
            (0..count).map(|_| flows[random.random_range(0..HOT_FLOWS)]).collect(),
        ];
        Ok(Self { routes, addresses })
    }

    pub fn addresses(&self, locality: Locality) -> &[F] {
        &self.addresses[locality as usize]
    }
}

/// Lines of `prefix/length number`, in prefix order; numbers become values 1 to `values`.
fn read<F: Family>(options: &Options, values: u32) -> Result<Vec<Route<F>>> {
    let path = options.routes.join(F::FILE);
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    let mut numbers = BTreeMap::new();
    let mut routes = Vec::new();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line?;
        let route = (|| {
            let (prefix, number) = line.split_once(' ')?;
            let (address, len) = prefix.split_once('/')?;
            let number: u32 = number.parse().ok()?;
            Some((F::parse(address.parse().ok()?)?, len.parse().ok()?, number))
        })();
        let (prefix, len, number) = route.with_context(|| format!("not a route: {line}"))?;
        let next = numbers.len() as u32;
        let index = *numbers.entry(number).or_insert(next);
        let spread = values / VALUES_NARROW;
        routes.push(Route { prefix, len, value: index % VALUES_NARROW * spread + 1 });
    }
    routes.sort_by_key(|route| (route.prefix, route.len));
    Ok(routes)
}

fn make_up<F: Family>(random: &mut ChaCha8Rng) -> Vec<Route<F>> {
    let mut routes = BTreeMap::new();
    for value in 1..=5000 {
        let len = F::any_len(random);
        routes.insert((F::any(random).network(len), len), value);
    }
    routes.into_iter().map(|((prefix, len), value)| Route { prefix, len, value }).collect()
}
