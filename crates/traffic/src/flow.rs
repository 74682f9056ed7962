//! Flows: who talks to whom, and how much of the traffic each is.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::Random;

/// Transport protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// User Datagram Protocol (RFC 768).
    Udp,
    /// Transmission Control Protocol (RFC 9293); test packets only look like its segments.
    Tcp,
}

/// The five-tuple of a flow; both addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Where its packets come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Port of the source, never a reserved one.
    pub source_port: u16,
    /// Port of the destination.
    pub destination_port: u16,
}

/// What flows to draw.
#[derive(Clone, Debug)]
pub struct FlowSpec<'a> {
    /// Its number.
    pub count: u32,
    /// Prefixes their sources lie in.
    pub sources: &'a [IpNet],
    /// Prefixes their destinations lie in.
    pub destinations: &'a [IpNet],
    /// Share of flows over IPv6, 0 to 1; moot for a family that lacks a prefix on either side.
    pub ipv6_share: f64,
    /// Share of flows over TCP, 0 to 1.
    pub tcp_share: f64,
}

/// Destination ports of busy services, so that flows look like traffic.
const SERVICES: [u16; 6] = [443, 80, 53, 123, 8080, 4500];

/// Draws flows; the same specification and seed give the same flows.
///
/// Prefixes are drawn with equal chance, hosts within a prefix too; the network and broadcast
/// addresses of IPv4 prefixes shorter than 31 bits are avoided.
///
/// # Panics
/// When no family has both a source and a destination prefix.
pub fn draw_flows(spec: &FlowSpec<'_>, seed: u64) -> Vec<Flow> {
    let mut random = Random::seed_from_u64(seed);
    let family = |nets: &[IpNet], six: bool| -> Vec<IpNet> {
        nets.iter().copied().filter(|net| net.addr().is_ipv6() == six).collect()
    };
    let sides =
        [false, true].map(|six| (family(spec.sources, six), family(spec.destinations, six)));
    let usable = sides.each_ref().map(|(from, to)| !from.is_empty() && !to.is_empty());
    assert!(usable[0] || usable[1], "no family has both sources and destinations");
    (0..spec.count)
        .map(|_| {
            let wants_six = random.random_bool(spec.ipv6_share.clamp(0.0, 1.0));
            let six = if usable[0] && usable[1] { wants_six } else { usable[1] };
            let (from, to) = &sides[usize::from(six)];
            let protocol = match random.random_bool(spec.tcp_share.clamp(0.0, 1.0)) {
                true => Protocol::Tcp,
                false => Protocol::Udp,
            };
            Flow {
                source: draw_host(&from[random.random_range(0..from.len())], &mut random),
                destination: draw_host(&to[random.random_range(0..to.len())], &mut random),
                protocol,
                source_port: random.random_range(1024..=u16::MAX),
                destination_port: SERVICES[random.random_range(0..SERVICES.len())],
            }
        })
        .collect()
}

fn draw_host(net: &IpNet, random: &mut Random) -> IpAddr {
    match net {
        IpNet::V4(net) => {
            let hosts = u64::from(u32::from(net.hostmask())) + 1;
            let offset = if hosts > 2 {
                random.random_range(1..hosts - 1)
            } else {
                random.random_range(0..hosts)
            };
            IpAddr::V4(Ipv4Addr::from(u32::from(net.network()) + offset as u32))
        }
        IpNet::V6(net) => {
            let mask = u128::from(net.hostmask());
            let mut offset = random.random::<u128>() & mask;
            if offset == 0 && mask != 0 {
                offset = 1;
            }
            IpAddr::V6(Ipv6Addr::from(u128::from(net.network()) | offset))
        }
    }
}

/// How much of the traffic each flow is: the flow of rank r has the weight r^-exponent (Zipf).
#[derive(Clone, Debug)]
pub struct Popularity {
    /// Sum of the weights up to each flow.
    cumulative: Vec<f64>,
}

impl Popularity {
    /// For `count` flows; an exponent of 0 makes all alike, 1 gives the first of 4096 a tenth.
    ///
    /// # Panics
    /// When `count` is zero or the exponent negative.
    pub fn new(count: u32, exponent: f64) -> Popularity {
        assert!(count > 0 && exponent >= 0.0, "flows and an exponent of at least zero");
        let mut total = 0.0;
        let cumulative = (1..=count)
            .map(|rank| {
                total += f64::from(rank).powf(-exponent);
                total
            })
            .collect();
        Popularity { cumulative }
    }

    /// The index of one flow drawn.
    pub fn draw<R: Rng>(&self, random: &mut R) -> u32 {
        let total = *self.cumulative.last().expect("one flow at least");
        let ticket = random.random::<f64>() * total;
        let index = self.cumulative.partition_point(|sum| *sum <= ticket);
        index.min(self.cumulative.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nets(list: &[&str]) -> Vec<IpNet> {
        list.iter().map(|net| net.parse().expect("a prefix")).collect()
    }

    #[test]
    fn shares_hold() {
        let (sources, destinations) =
            (nets(&["10.0.0.0/24", "2001:db8::/64"]), nets(&["192.0.2.0/24", "2001:db8:1::/48"]));
        let spec = FlowSpec {
            count: 10_000,
            sources: &sources,
            destinations: &destinations,
            ipv6_share: 0.25,
            tcp_share: 0.8,
        };
        let flows = draw_flows(&spec, 1);
        let share = |test: fn(&&Flow) -> bool| flows.iter().filter(test).count() as f64 / 1e4;
        assert!((share(|flow| flow.source.is_ipv6()) - 0.25).abs() < 0.02);
        assert!((share(|flow| flow.protocol == Protocol::Tcp) - 0.8).abs() < 0.02);
    }

    #[test]
    fn zipf_weights_fall_with_rank() {
        let popularity = Popularity::new(4096, 1.0);
        let mut random = Random::seed_from_u64(2);
        let first = (0..100_000).filter(|_| popularity.draw(&mut random) == 0).count();
        assert!((11_000..12_000).contains(&first), "{first}");
        let alike = Popularity::new(4, 0.0);
        let last = (0..100_000).filter(|_| alike.draw(&mut random) == 3).count();
        assert!((24_000..26_000).contains(&last), "{last}");
    }

    proptest! {
        #[test]
        fn hosts_lie_in_their_prefixes(
            seed: u64, four: u32, six: u128, four_len in 0u8..=32, six_len in 0u8..=128,
        ) {
            let list = vec![
                IpNet::new(IpAddr::V4(Ipv4Addr::from(four)), four_len).expect("a length").trunc(),
                IpNet::new(IpAddr::V6(Ipv6Addr::from(six)), six_len).expect("a length").trunc(),
            ];
            let spec = FlowSpec {
                count: 20, sources: &list, destinations: &list, ipv6_share: 0.5, tcp_share: 0.5,
            };
            let flows = draw_flows(&spec, seed);
            for flow in &flows {
                prop_assert_eq!(flow.source.is_ipv6(), flow.destination.is_ipv6());
                let net = list[usize::from(flow.source.is_ipv6())];
                prop_assert!(net.contains(&flow.source) && net.contains(&flow.destination));
            }
            prop_assert_eq!(flows, draw_flows(&spec, seed));
        }
    }
}
