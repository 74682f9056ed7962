//! What the balancer does with one frame, as a function of its bytes.

use std::net::{IpAddr, Ipv6Addr};

use ebb_wire::{Arp, Ipv4, Ipv6, ethertype, is_group, link};

use super::face::{Face, Mac};
use super::probe::Probe;

/// What is to be done with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By its flow hash to a back-end.
    Balance(u32),
    /// To the back-end that speaks for the cluster.
    Voice,
    /// A copy to every back-end that is on.
    Everybody,
    /// Out to the world; the frame has been changed to come from the cluster.
    Out,
    /// This frame goes back to where it came from.
    Answer(Vec<u8>),
    /// A probe of ours has come back.
    Probe(Probe),
    /// Not for us.
    Ignore,
}

/// ICMPv6 types of neighbour discovery (RFC 4861).
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Options that carry a link-layer address.
const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;

/// The balancers' addresses that a balancer is in charge of: a bit for each.
pub type Charge = u64;

fn in_charge(charge: Charge, balancer: usize) -> bool {
    charge >> balancer & 1 == 1
}

/// A frame that came from the world on `side`, before the balancer in charge of `charge`.
pub fn from_outside(face: &Face, charge: Charge, at: usize, frame: &[u8]) -> Verdict {
    let side = &face.sides[at];
    let Some(header) = link(frame) else { return Verdict::Ignore };
    let to: Mac = frame[..6].try_into().expect("six bytes");
    let body = &frame[header.payload..];
    let addressed = if is_group(&to) {
        meant(face, header.ethertype, body)
    } else {
        side.macs.iter().position(|mac| *mac == to)
    };
    if !addressed.is_some_and(|balancer| in_charge(charge, balancer)) {
        return Verdict::Ignore;
    }
    match header.ethertype {
        ethertype::ARP => arp(face, at, frame, body),
        ethertype::IPV4 => {
            let Some(ip) = Ipv4::new(body) else { return Verdict::Ignore };
            let destination = IpAddr::from(ip.destination());
            inward(face, is_group(&to), destination, body)
        }
        ethertype::IPV6 => {
            let Some(ip) = Ipv6::new(body) else { return Verdict::Ignore };
            match discovery(body) {
                Some(SOLICITATION) => solicitation(face, at, frame, header.payload, body),
                Some(ADVERTISEMENT) => Verdict::Everybody,
                Some(_) => Verdict::Voice,
                None => inward(face, is_group(&to), ip.destination().into(), body),
            }
        }
        _ => Verdict::Ignore,
    }
}

/// Which balancer a frame to a group concerns: who asks is answered by the one that it is told, all else
/// is the first one's.
fn meant(face: &Face, kind: u16, body: &[u8]) -> Option<usize> {
    let asker = match kind {
        ethertype::ARP => {
            Arp::new(body).filter(|message| message.operation() == 1)?.sender().into()
        }
        ethertype::IPV6 if discovery(body) == Some(SOLICITATION) => {
            Ipv6::new(body)?.source().into()
        }
        _ => return Some(0),
    };
    Some(face.told(asker))
}

/// Traffic for the cluster itself and what routing protocols send goes to whoever speaks for it.
fn inward(face: &Face, group: bool, destination: IpAddr, body: &[u8]) -> Verdict {
    let local = match destination {
        IpAddr::V6(address) => address.is_unicast_link_local(),
        IpAddr::V4(address) => address.is_broadcast(),
    };
    let own = face.sides.iter().any(|side| side.owns(destination));
    if own || local || destination.is_multicast() {
        return Verdict::Voice;
    }
    // Unicast that came as a broadcast is not to be forwarded (RFC 1812, section 5.3.4).
    if group { Verdict::Ignore } else { Verdict::Balance(ebb_wire::flow_hash(body)) }
}

fn arp(face: &Face, side: usize, frame: &[u8], body: &[u8]) -> Verdict {
    let side = &face.sides[side];
    let Some(message) = Arp::new(body) else { return Verdict::Ignore };
    match message.operation() {
        1 if side.owns(message.target().into()) => {
            let mac = side.macs[face.told(message.sender().into())];
            Verdict::Answer(arp_reply(&message, mac, frame, body))
        }
        2 => Verdict::Everybody,
        _ => Verdict::Ignore,
    }
}

fn arp_reply(message: &Arp<'_>, mac: Mac, frame: &[u8], body: &[u8]) -> Vec<u8> {
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

/// The type of a message of neighbour discovery.
fn discovery(body: &[u8]) -> Option<u8> {
    let kind = (body.len() > 40 && body[6] == 58).then(|| body[40])?;
    (133..=137).contains(&kind).then_some(kind)
}

/// Answers who has one of the cluster's IPv6 addresses (RFC 4861, section 7.2.4).
fn solicitation(face: &Face, at: usize, frame: &[u8], payload: usize, body: &[u8]) -> Verdict {
    let side = &face.sides[at];
    let (Some(target), Some(ip)) = (body.get(48..64), Ipv6::new(body)) else {
        return Verdict::Ignore;
    };
    let target = Ipv6Addr::from(<[u8; 16]>::try_from(target).expect("sixteen bytes"));
    if !side.owns(target.into()) {
        return Verdict::Ignore;
    }
    let asker = ip.source();
    let mac = side.macs[face.told(asker.into())];
    // Whoever has no address yet asks whether it may have one: all are told that it is taken.
    let (to, flags) = if asker.is_unspecified() {
        (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0xa0)
    } else {
        (asker, 0xe0)
    };
    let mut message = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    message.extend([TARGET_LINK, 1]);
    message.extend(mac);
    let sum = ebb_wire::checksum::pseudo_header(&target.octets(), &to.octets(), 58, message.len());
    let sum = sum.bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut reply = Vec::with_capacity(payload + 72);
    if asker.is_unspecified() {
        reply.extend([0x33, 0x33, 0, 0, 0, 1]);
    } else {
        reply.extend(&frame[6..12]);
    }
    reply.extend(mac);
    reply.extend(&frame[12..payload]);
    reply.extend([0x60, 0, 0, 0, 0, message.len() as u8, 58, 255]);
    reply.extend(target.octets());
    reply.extend(to.octets());
    reply.extend(message);
    Verdict::Answer(reply)
}

/// A frame that came from the segment of `side`: the row of the back-end that sent it, and what is to be
/// done. What goes out says that it comes from the cluster, inside of ARP and neighbour discovery too.
pub fn from_inside(
    face: &Face,
    charge: Charge,
    at: usize,
    frame: &mut [u8],
) -> (Option<u16>, Verdict) {
    let side = &face.sides[at];
    let Some(header) = link(frame) else { return (None, Verdict::Ignore) };
    let to: Mac = frame[..6].try_into().expect("six bytes");
    let from: Mac = frame[6..12].try_into().expect("six bytes");
    let Some(row) = face.row_of(&from) else { return (None, Verdict::Ignore) };
    let body = &frame[header.payload..];
    if let Some(reply) = asked_for_probe(face, at, header.ethertype, frame, body) {
        return (Some(row), Verdict::Answer(reply));
    }
    if to == face.probe_mac(at) {
        let probe = Probe::read(body);
        return (Some(row), probe.map_or(Verdict::Ignore, Verdict::Probe));
    }
    // What the segment floods reaches all balancers; one of them lets it out.
    let among_us = side.probe_macs.contains(&to) || face.row_of(&to).is_some();
    let asked = asked_for(header.ethertype, body);
    let told = asked.map_or(0, |neighbour| face.told(neighbour));
    let carrier = if is_group(&to) { told } else { face.carrier(&to) };
    if among_us || !in_charge(charge, carrier) {
        return (Some(row), Verdict::Ignore);
    }
    frame[6..12].copy_from_slice(&side.macs[carrier]);
    let body = &mut frame[header.payload..];
    match header.ethertype {
        ethertype::ARP if body.len() >= 28 => {
            // Who answers for the cluster's addresses is the balancer alone.
            if body[7] != 1 {
                return (Some(row), Verdict::Ignore);
            }
            body[8..14].copy_from_slice(&side.macs[told]);
        }
        ethertype::IPV6 if discovery(body).is_some() => {
            if body[40] == SOLICITATION || body[40] == 133 {
                disguise(body, &from, &side.macs[told]);
            } else if body[40] == ADVERTISEMENT {
                return (Some(row), Verdict::Ignore);
            }
        }
        _ => {}
    }
    (Some(row), Verdict::Out)
}

/// The neighbour whose Ethernet address a frame asks for.
fn asked_for(kind: u16, body: &[u8]) -> Option<IpAddr> {
    match kind {
        ethertype::ARP => {
            let message = Arp::new(body).filter(|message| message.operation() == 1)?;
            Some(message.target().into())
        }
        ethertype::IPV6 if discovery(body) == Some(SOLICITATION) => {
            let target: [u8; 16] = body.get(48..64)?.try_into().ok()?;
            Some(Ipv6Addr::from(target).into())
        }
        _ => None,
    }
}

/// The answer to a back-end that asks where its probes are to go.
fn asked_for_probe(
    face: &Face,
    at: usize,
    kind: u16,
    frame: &[u8],
    body: &[u8],
) -> Option<Vec<u8>> {
    if kind != ethertype::ARP || asked_for(kind, body)? != face.sides[at].probe {
        return None;
    }
    Some(arp_reply(&Arp::new(body)?, face.probe_mac(at), frame, body))
}

/// Puts the cluster's address into the option that names the sender's, and mends the checksum.
fn disguise(body: &mut [u8], from: &Mac, to: &Mac) {
    let start = if body[40] == 133 { 48 } else { 64 };
    let mut at = start;
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
