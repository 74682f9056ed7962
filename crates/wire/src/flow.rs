//! Flows and their hash.

use std::net::IpAddr;

use crate::{Ipv4, Ipv6, transport};

/// What identifies a flow: the 5-tuple, ports zero where there are none to see.
///
/// Fragments have none, first ones included, so that all fragments of a packet stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol behind extension headers.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
}

impl Flow {
    /// The flow of the IP packet (without link header) in `bytes`; `None` when it is neither
    /// IPv4 nor IPv6 or shorter than the fixed header.
    pub fn of(bytes: &[u8]) -> Option<Flow> {
        match bytes.first()? >> 4 {
            4 => {
                let header = Ipv4::new(bytes)?;
                let ports = if header.is_fragment() {
                    None
                } else {
                    transport::ports(header.protocol(), header.payload())
                };
                Some(Flow {
                    source: header.source().into(),
                    destination: header.destination().into(),
                    protocol: header.protocol(),
                    ports: ports.unwrap_or_default(),
                })
            }
            6 => {
                let header = Ipv6::new(bytes)?;
                let upper = header.upper();
                let ports = if upper.fragment_offset.is_some() {
                    None
                } else {
                    bytes
                        .get(upper.offset..)
                        .and_then(|rest| transport::ports(upper.protocol, rest))
                };
                Some(Flow {
                    source: header.source().into(),
                    destination: header.destination().into(),
                    protocol: upper.protocol,
                    ports: ports.unwrap_or_default(),
                })
            }
            _ => None,
        }
    }

    /// The flow's hash; the same in every run and on every machine.
    pub fn hash(&self) -> u32 {
        let wide = |address: IpAddr| match address {
            IpAddr::V4(address) => (0, u64::from(u32::from(address))),
            IpAddr::V6(address) => ((address.to_bits() >> 64) as u64, address.to_bits() as u64),
        };
        let (source_high, source_low) = wide(self.source);
        let (destination_high, destination_low) = wide(self.destination);
        let ports = u64::from(self.ports.0) << 16 | u64::from(self.ports.1);
        let mut hash = mix(source_high ^ SEEDS[0], destination_high ^ SEEDS[1]);
        hash = mix(hash ^ source_low, destination_low ^ SEEDS[2]);
        hash = mix(hash ^ ports, u64::from(self.protocol) ^ SEEDS[3]);
        (hash >> 32) as u32 ^ hash as u32
    }
}

/// Arbitrary odd constants: the fractional parts of the square roots of 2, 3, 5 and 7.
const SEEDS: [u64; 4] =
    [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// Folded 128-bit product.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// Hash of the flow of an IP packet, 0 when it has none.
pub fn flow_hash(bytes: &[u8]) -> u32 {
    Flow::of(bytes).map_or(0, |flow| flow.hash())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Template;

    fn packet(source: &str, destination: &str) -> Vec<u8> {
        let parse = |text: &str| text.parse().expect("a socket address");
        Template::udp(parse(source), parse(destination)).to_frame(b"x")[14..].to_vec()
    }

    #[test]
    fn ports_spread_flows_evenly_over_buckets() {
        for (source, destination) in
            [("192.0.2.1", "192.0.2.2"), ("[2001:db8::1]", "[2001:db8::2]")]
        {
            let mut buckets = [0u32; 16];
            for port in 0..16_000 {
                let bytes =
                    packet(&format!("{source}:{}", 1024 + port), &format!("{destination}:80"));
                buckets[flow_hash(&bytes) as usize % 16] += 1;
            }
            let (least, most) = (buckets.iter().min(), buckets.iter().max());
            assert!(least > Some(&850) && most < Some(&1150), "{buckets:?}");
        }
    }

    #[test]
    fn fragments_of_one_packet_hash_alike() {
        let mut first = packet("192.0.2.1:5", "192.0.2.2:7");
        first[6] = 0x20;
        let mut second = first.clone();
        second[6..8].copy_from_slice(&[0, 3]);
        second[20..24].fill(0xaa);
        assert_eq!(flow_hash(&first), flow_hash(&second));
    }
}
