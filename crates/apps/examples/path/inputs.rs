//! What is routed: a table from files or made up, and 64-byte frames in three localities.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};
use ebb_wire::Template;
use flate2::read::GzDecoder;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Options;

const HOT_FLOWS: usize = 16 * 1024;
pub const FRAME_LEN: usize = 64;
/// Gateways that the table leads to, numbered from 1.
pub const GATEWAYS: u32 = 64;

/// In a cache line of its own, as on the other side.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Frame(pub [u8; FRAME_LEN]);

/// Names of the localities, in the order of [`Inputs::v4`].
pub const LOCALITIES: [&str; 3] = ["uniform", "routed", "hot"];

pub struct Inputs {
    /// Routes of both families with the number of their gateway.
    pub routes: Vec<(IpNet, u32)>,
    /// Frames to any address, to any prefix, and of a few thousand flows.
    pub v4: [Vec<Frame>; 3],
    /// Frames to any IPv6 prefix.
    pub v6: Vec<Frame>,
}

impl Inputs {
    pub fn new(options: &Options) -> Result<Inputs> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let (routes, count) = if options.small {
            (make_up(&mut random), 1 << 10)
        } else {
            let mut routes = read(options, "ipv4.txt.gz")?;
            routes.extend(read(options, "ipv6.txt.gz")?);
            (routes, 1 << 18)
        };
        let of_family = |is_v4: bool| {
            let routes = routes.iter().map(|(prefix, _)| *prefix);
            routes.filter(|prefix| prefix.addr().is_ipv4() == is_v4).collect::<Vec<_>>()
        };
        let (v4, v6) = (of_family(true), of_family(false));
        let routed = |prefixes: &[IpNet], random: &mut ChaCha8Rng| {
            frame(within(prefixes[random.random_range(0..prefixes.len())], random))
        };
        let flows: Vec<Frame> = (0..HOT_FLOWS).map(|_| routed(&v4, &mut random)).collect();
        let v4 = [
            (0..count).map(|_| frame(any(&mut random))).collect(),
            (0..count).map(|_| routed(&v4, &mut random)).collect(),
            (0..count).map(|_| flows[random.random_range(0..HOT_FLOWS)]).collect(),
        ];
        let v6 = (0..count).map(|_| routed(&v6, &mut random)).collect();
        Ok(Inputs { routes, v4, v6 })
    }
}

/// Lines of `prefix/length number`; numbers become gateways.
fn read(options: &Options, name: &str) -> Result<Vec<(IpNet, u32)>> {
    let path = options.routes.join(name);
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    let mut routes = Vec::new();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line?;
        let route = line.split_once(' ').and_then(|(prefix, number)| {
            Some((prefix.parse().ok()?, 1 + number.parse::<u32>().ok()? % GATEWAYS))
        });
        routes.push(route.with_context(|| format!("not a route: {line}"))?);
    }
    Ok(routes)
}

fn make_up(random: &mut ChaCha8Rng) -> Vec<(IpNet, u32)> {
    (0..4000)
        .map(|index| {
            let prefix: IpNet = if index % 2 == 0 {
                let bits = random.random_range(0x0100_0000..0x7f00_0000);
                let len = random.random_range(10..=26);
                Ipv4Net::new(Ipv4Addr::from_bits(bits), len).expect("a length").into()
            } else {
                let bits = 1 << 125 | random.random::<u128>() >> 3;
                let len = random.random_range(16..=64);
                Ipv6Net::new(Ipv6Addr::from_bits(bits), len).expect("a length").into()
            };
            (prefix.trunc(), random.random_range(1..=GATEWAYS))
        })
        .collect()
}

/// Any address that a router forwards to.
fn any(random: &mut ChaCha8Rng) -> IpAddr {
    loop {
        let address = Ipv4Addr::from_bits(random.random());
        if matches!(address.octets()[0], 1..=126 | 128..=223) {
            return address.into();
        }
    }
}

fn within(prefix: IpNet, random: &mut ChaCha8Rng) -> IpAddr {
    match prefix {
        IpNet::V4(net) => {
            let host = random.random::<u32>() & net.hostmask().to_bits();
            Ipv4Addr::from_bits(net.network().to_bits() | host).into()
        }
        IpNet::V6(net) => {
            let host = random.random::<u128>() & net.hostmask().to_bits();
            Ipv6Addr::from_bits(net.network().to_bits() | host).into()
        }
    }
}

/// A UDP packet of 64 bytes from port 0's neighbour.
fn frame(destination: IpAddr) -> Frame {
    let source: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 9).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9).into(),
    };
    let mut template = Template::udp((source, 4000).into(), (destination, 7).into());
    template.destination_mac = [2, 0, 0, 0, 0, 1];
    let payload = [0u8; FRAME_LEN];
    let mut frame = Frame([0; FRAME_LEN]);
    template.write(&payload[template.udp_payload_offset()..], &mut frame.0);
    frame
}
