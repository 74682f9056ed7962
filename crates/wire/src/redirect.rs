//! The flow hash of the routers' redirect tables, the same here and in the XDP program of `ebb-ports`
//! (`bpf/packet.h`): which worker receives a flow.
//!
//! Addresses, protocol and, for TCP, UDP, UDP-Lite, DCCP and SCTP, ports. A fragment is hashed by
//! addresses and protocol alone, the first one too, so that the fragments of a packet stay
//! together (RFC 6438 section 3 asks the same of IPv6 routers). The finalizer is
//! MurmurHash3's, so that the table's seven low bits depend on every input bit.

const K1: u64 = 0x9e37_79b9_7f4a_7c15;
const K2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const K3: u64 = 0xff51_afd7_ed55_8ccd;
const K4: u64 = 0xc4ce_b9fe_1a85_ec53;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Flow hash of an Ethernet frame; 0 for one that is not IP or too short for its headers.
///
/// ```
/// let arp = [0u8; 60];
/// assert_eq!(ebb_wire::redirect_hash(&arp), 0);
/// ```
#[inline]
pub fn redirect_hash(frame: &[u8]) -> u32 {
    let (ethertype, l3) = network_header(frame);
    match ethertype {
        Some(ETHERTYPE_IPV4) => hash_v4(l3).unwrap_or(0),
        Some(ETHERTYPE_IPV6) => hash_v6(l3).unwrap_or(0),
        _ => 0,
    }
}

/// EtherType behind at most two VLAN tags, and the bytes that follow it.
#[inline]
fn network_header(frame: &[u8]) -> (Option<u16>, &[u8]) {
    let mut at = 12;
    for _ in 0..=2 {
        let Some(bytes) = frame.get(at..at + 2) else { return (None, &[]) };
        let ethertype = u16::from_be_bytes([bytes[0], bytes[1]]);
        if ethertype != 0x8100 && ethertype != 0x88a8 {
            return (Some(ethertype), &frame[at + 2..]);
        }
        at += 4;
    }
    (None, &[])
}

#[inline]
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

#[inline]
fn hash_v4(ip: &[u8]) -> Option<u32> {
    let header: &[u8; 20] = ip.get(..20)?.try_into().ok()?;
    let addresses = u64::from_le_bytes(header[12..20].try_into().ok()?);
    let protocol = header[9];
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let offset = usize::from(header[0] & 15) * 4;
    let ports = match has_ports(protocol) && !fragment {
        true => ip.get(offset..offset + 4).map_or(0, le32),
        false => 0,
    };
    Some(finish(addresses.wrapping_mul(K1), ports, protocol))
}

#[inline]
fn hash_v6(ip: &[u8]) -> Option<u32> {
    let header: &[u8; 40] = ip.get(..40)?.try_into().ok()?;
    let mut mixed = 0u64;
    for word in header[8..40].chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().ok()?);
        mixed = (mixed ^ word).wrapping_mul(K1);
        mixed ^= mixed >> 32;
    }
    let ports = match has_ports(header[6]) {
        true => ip.get(40..44).map_or(0, le32),
        false => 0,
    };
    Some(finish(mixed, ports, header[6]))
}

#[inline]
fn le32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[inline]
fn finish(mixed: u64, ports: u32, protocol: u8) -> u32 {
    let transport = (u64::from(ports) << 8 | u64::from(protocol)).wrapping_mul(K2);
    let mut hash = mixed ^ transport;
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(K3);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(K4);
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Template;

    fn frame(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
        let parse = |text: &str| text.parse().expect("a socket address");
        Template::udp(parse(source), parse(destination)).to_frame(payload)
    }

    fn v4(flow: u32, payload: &[u8]) -> Vec<u8> {
        frame(
            &format!("10.0.0.1:{}", 1024 + (flow >> 8)),
            &format!("10.1.0.{}:9", flow & 255),
            payload,
        )
    }

    fn v6(flow: u32, payload: &[u8]) -> Vec<u8> {
        frame("[2001:db8::1]:9", &format!("[2001:db8::{flow:x}]:9"), payload)
    }

    #[test]
    fn flows_spread_evenly_over_the_table() {
        let mut load = [0u32; 128];
        for flow in 0..128 * 100u32 {
            load[redirect_hash(&v4(flow, b"")) as usize & 127] += 1;
        }
        let (low, high) = (*load.iter().min().unwrap(), *load.iter().max().unwrap());
        assert!(low > 55 && high < 150, "100 flows an entry expected, found {low} to {high}");
    }

    #[test]
    fn fragments_of_a_packet_stay_together() {
        let whole = v4(7, b"payload");
        let mut first = whole.clone();
        first[14 + 6] = 0x20;
        let mut last = whole.clone();
        last[14 + 7] = 0xb9;
        last[34] = 0xee;
        assert_eq!(redirect_hash(&first), redirect_hash(&last));
        assert_ne!(redirect_hash(&whole), redirect_hash(&first));
    }

    #[test]
    fn tags_and_payload_do_not_matter() {
        for of in [v4, v6] {
            let mut tagged = of(3, b"1")[..12].to_vec();
            tagged.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
            tagged.extend(&of(3, b"1")[12..]);
            assert_eq!(redirect_hash(&tagged), redirect_hash(&of(3, b"1")));
            assert_eq!(redirect_hash(&of(3, b"1")), redirect_hash(&of(3, b"2")));
        }
    }
}
