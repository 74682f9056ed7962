//! Address resolution, ARP and neighbour discovery: the cluster answers for its addresses, announces them,
//! and hears where its neighbours are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ebb_cluster::Manner;
use ebb_wire::{Arp, Ipv6, ethertype, is_group, link};

use super::topology::{Mac, Topology};

/// ICMPv6 types of neighbour discovery (RFC 4861).
pub const ROUTER_SOLICITATION: u8 = 133;
/// A router says that it is there.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Somebody asks for an address.
pub const SOLICITATION: u8 = 135;
/// Somebody says where an address is.
pub const ADVERTISEMENT: u8 = 136;
/// Options that carry a link-layer address.
const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
/// Flags of an advertisement: a router's, an answer, to be believed before what was said earlier.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// All nodes of a link, and their Ethernet address.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];
const BROADCAST: Mac = [0xff; 6];
/// Shortest Ethernet frame, without its check sequence.
const FRAME_MIN: usize = 60;

/// What a message says of who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Nothing that concerns anybody, or nothing that may be believed.
    Nothing,
    /// A neighbour is at this Ethernet address.
    At(IpAddr, Mac, Manner),
    /// One of the cluster's own addresses would be somebody else's.
    Claim,
}

/// What a frame of ARP or neighbour discovery that came from the world says of its sender.
pub fn heard(topology: &Topology, at: usize, frame: &[u8]) -> Word {
    let Some(header) = link(frame) else { return Word::Nothing };
    let body = &frame[header.payload..];
    let said = match header.ethertype {
        ethertype::ARP => arp_says(topology, at, frame, body),
        ethertype::IPV6 => discovery_says(topology, at, frame, body),
        _ => None,
    };
    let Some((address, mac, manner)) = said else { return Word::Nothing };
    let ours = topology.is_ours(at, &mac);
    if topology.claims(at, address) {
        // Another balancer announces what this one would, too.
        return if ours { Word::Nothing } else { Word::Claim };
    }
    // Nobody is at a group (RFC 1812, section 3.3.2), and no neighbour where the cluster is.
    if ours || is_group(&mac) { Word::Nothing } else { Word::At(address, mac, manner) }
}

/// Any message of ARP, a request too, says where its sender is (RFC 826, "packet reception").
fn arp_says(
    topology: &Topology,
    at: usize,
    frame: &[u8],
    body: &[u8],
) -> Option<(IpAddr, Mac, Manner)> {
    let message = Arp::new(body)?;
    let sender = message.sender();
    let nobody = sender.is_unspecified()
        || sender.is_multicast()
        || sender.is_broadcast()
        || sender.is_loopback();
    if nobody {
        return None;
    }
    let manner = match message.operation() {
        1 if topology.sides[at].owns(message.target().into()) => Manner::Asks,
        2 if frame[0] & 1 == 0 => Manner::Answer,
        1 | 2 => Manner::Unasked,
        _ => return None,
    };
    Some((sender.into(), message.sender_mac(), manner))
}

/// Solicitations for the cluster (RFC 4861, section 7.2.3) and advertisements (7.2.5), which no router has
/// forwarded (7.1.1, 7.1.2).
fn discovery_says(
    topology: &Topology,
    at: usize,
    frame: &[u8],
    body: &[u8],
) -> Option<(IpAddr, Mac, Manner)> {
    let kind = discovery(body)?;
    let (ip, target) = (Ipv6::new(body)?, target(body)?);
    if body[7] != 255 || body[41] != 0 {
        return None;
    }
    match kind {
        SOLICITATION if topology.sides[at].owns(target.into()) => {
            let source = ip.source();
            let mac = option(body, SOURCE_LINK)?;
            (!source.is_unspecified()).then(|| (source.into(), mac, Manner::Asks))
        }
        ADVERTISEMENT => {
            let from = frame[6..12].try_into().expect("six bytes");
            let mac = option(body, TARGET_LINK).unwrap_or(from);
            let solicited = body[44] & SOLICITED != 0;
            let manner = if solicited { Manner::Answer } else { Manner::Unasked };
            (!target.is_multicast()).then(|| (target.into(), mac, manner))
        }
        _ => None,
    }
}

/// The Ethernet address in an option of a solicitation or an advertisement of a neighbour.
fn option(body: &[u8], wanted: u8) -> Option<Mac> {
    let mut rest = body.get(64..)?;
    while let [kind, length, ..] = *rest {
        let option = rest.get(..8 * usize::from(length)).filter(|option| !option.is_empty())?;
        if kind == wanted && length == 1 {
            return option[2..8].try_into().ok();
        }
        rest = &rest[option.len()..];
    }
    None
}

/// The type of a message of neighbour discovery.
pub fn discovery(body: &[u8]) -> Option<u8> {
    let kind = (body.len() > 40 && body[6] == 58).then(|| body[40])?;
    (133..=137).contains(&kind).then_some(kind)
}

/// Whom a solicitation or an advertisement of a neighbour is about.
pub fn target(body: &[u8]) -> Option<Ipv6Addr> {
    let target: [u8; 16] = body.get(48..64)?.try_into().ok()?;
    Some(target.into())
}

/// The neighbour whose Ethernet address a frame asks for.
pub fn asked_for(kind: u16, body: &[u8]) -> Option<IpAddr> {
    match kind {
        ethertype::ARP => {
            let message = Arp::new(body).filter(|message| message.operation() == 1)?;
            Some(message.target().into())
        }
        ethertype::IPV6 if discovery(body) == Some(SOLICITATION) => Some(target(body)?.into()),
        _ => None,
    }
}

/// The answer to a request: its target is at `mac`.
pub fn arp_reply(message: &Arp<'_>, mac: Mac, frame: &[u8], body: &[u8]) -> Vec<u8> {
    let mut reply = Vec::with_capacity(frame.len());
    reply.extend(message.sender_mac());
    reply.extend(mac);
    reply.extend(&frame[12..frame.len() - body.len()]);
    reply.extend([0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend(mac);
    reply.extend(message.target().octets());
    reply.extend(message.sender_mac());
    reply.extend(message.sender().octets());
    reply
}

/// Answers who asks for one of the cluster's IPv6 addresses (RFC 4861, section 7.2.4).
pub fn answer(topology: &Topology, at: usize, frame: &[u8], payload: usize) -> Option<Vec<u8>> {
    let (side, body) = (&topology.sides[at], &frame[payload..]);
    let (target, asker) = (target(body)?, Ipv6::new(body)?.source());
    if !side.owns(target.into()) {
        return None;
    }
    let mac = side.macs[topology.told(asker.into())];
    // Whoever has no address yet asks whether it may have one: all are told that it is taken.
    let (to, to_mac, flags) = if asker.is_unspecified() {
        (ALL_NODES, ALL_NODES_MAC, ROUTER | OVERRIDE)
    } else {
        (asker, frame[6..12].try_into().expect("six bytes"), ROUTER | SOLICITED | OVERRIDE)
    };
    let mut reply = Vec::with_capacity(payload + 72);
    reply.extend(to_mac);
    reply.extend(mac);
    reply.extend(&frame[12..payload]);
    reply.extend(advertisement(target, to, flags, mac));
    Some(reply)
}

/// The IPv6 packet that says where an address is.
fn advertisement(target: Ipv6Addr, to: Ipv6Addr, flags: u8, mac: Mac) -> Vec<u8> {
    let mut message = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    message.extend([TARGET_LINK, 1]);
    message.extend(mac);
    let sum = ebb_wire::checksum::pseudo_header(&target.octets(), &to.octets(), 58, message.len());
    let sum = sum.bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0, 0, message.len() as u8, 58, 255];
    packet.extend(target.octets());
    packet.extend(to.octets());
    packet.extend(message);
    packet
}

/// Says to all neighbours that an address is at `mac`: an announcement of ARP (RFC 5227, section 2.3) or
/// an unsolicited advertisement (RFC 4861, section 7.2.6).
pub fn announcement(address: IpAddr, mac: Mac) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp_announcement(address, mac),
        IpAddr::V6(address) => {
            let mut frame = [ALL_NODES_MAC, mac].concat();
            frame.extend(ethertype::IPV6.to_be_bytes());
            frame.extend(advertisement(address, ALL_NODES, ROUTER | OVERRIDE, mac));
            frame
        }
    }
}

fn arp_announcement(address: Ipv4Addr, mac: Mac) -> Vec<u8> {
    let mut frame = [BROADCAST, mac].concat();
    frame.extend(ethertype::ARP.to_be_bytes());
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(mac);
    frame.extend(address.octets());
    frame.extend([0; 6]);
    frame.extend(address.octets());
    frame.resize(FRAME_MIN, 0);
    frame
}

/// Puts the cluster's address into the option that names the sender's, and mends the checksum.
pub fn disguise(body: &mut [u8], from: &Mac, to: &Mac) {
    // Where options begin (RFC 4861, sections 4.1, 4.2 and 4.3).
    let mut at = match body[40] {
        ROUTER_SOLICITATION => 48,
        ROUTER_ADVERTISEMENT => 56,
        _ => 64,
    };
    while at + 8 <= body.len() && body[at + 1] > 0 {
        if body[at] == SOURCE_LINK && body[at + 2..at + 8] == *from {
            let mut sum = u16::from_be_bytes([body[42], body[43]]);
            for word in 0..3 {
                let place = at + 2 + 2 * word;
                let old = u16::from_be_bytes([body[place], body[place + 1]]);
                let new = u16::from_be_bytes([to[2 * word], to[2 * word + 1]]);
                sum = ebb_wire::checksum::update(sum, old, new);
            }
            body[42..44].copy_from_slice(&sum.to_be_bytes());
            body[at + 2..at + 8].copy_from_slice(to);
        }
        at += 8 * usize::from(body[at + 1]);
    }
}
