//! What the balancer does with one frame, as a function of its bytes.

use std::net::IpAddr;

use ebb_wire::{Arp, Ipv4, Ipv6, ethertype, is_group, link};

use super::discovery::{
    ADVERTISEMENT, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION, SOLICITATION, answer, arp_reply,
    asked_for, discovery, disguise, target,
};
use super::topology::{Mac, Topology};

/// What is to be done with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By its flow hash to a back-end.
    Balance(u32),
    /// To the back-end that speaks for the cluster.
    Speaker,
    /// A neighbour says where it is: to every back-end that is on, if it may be believed.
    Everybody,
    /// Out to the world; the frame has been changed to come from the cluster.
    Out,
    /// This frame goes back to where it came from.
    Answer(Vec<u8>),
    /// It came to where probes come back to.
    Probe,
    /// Not for us.
    Ignore,
}

/// The balancers' addresses that a balancer is responsible for: a bit for each.
pub type AddressSet = u64;

fn accepts(accepted: AddressSet, balancer: usize) -> bool {
    accepted >> balancer & 1 == 1
}

/// A frame that came from the world on `side`, before the balancer that accepts `accepted`.
pub fn from_outside(topology: &Topology, accepted: AddressSet, at: usize, frame: &[u8]) -> Verdict {
    let side = &topology.sides[at];
    let Some(header) = link(frame) else { return Verdict::Ignore };
    let to: Mac = frame[..6].try_into().expect("six bytes");
    let body = &frame[header.payload..];
    let addressed = if is_group(&to) {
        meant(topology, header.ethertype, body)
    } else {
        side.macs.iter().position(|mac| *mac == to)
    };
    if !addressed.is_some_and(|balancer| accepts(accepted, balancer)) {
        return Verdict::Ignore;
    }
    match header.ethertype {
        ethertype::ARP => arp(topology, at, frame, body),
        ethertype::IPV4 => {
            let Some(ip) = Ipv4::new(body) else { return Verdict::Ignore };
            let destination = IpAddr::from(ip.destination());
            inward(topology, is_group(&to), destination, body)
        }
        ethertype::IPV6 => {
            let Some(ip) = Ipv6::new(body) else { return Verdict::Ignore };
            match discovery(body) {
                Some(SOLICITATION) => answer(topology, at, frame, header.payload)
                    .map_or(Verdict::Ignore, Verdict::Answer),
                Some(ADVERTISEMENT) => Verdict::Everybody,
                Some(_) => Verdict::Speaker,
                None => inward(topology, is_group(&to), ip.destination().into(), body),
            }
        }
        _ => Verdict::Ignore,
    }
}

/// Which balancer a frame to a group concerns: who asks or says where it is, the one that it is told, all
/// else the first one.
fn meant(topology: &Topology, kind: u16, body: &[u8]) -> Option<usize> {
    let neighbour: IpAddr = match kind {
        ethertype::ARP => Arp::new(body)?.sender().into(),
        ethertype::IPV6 => match discovery(body) {
            Some(SOLICITATION) => Ipv6::new(body)?.source().into(),
            Some(ADVERTISEMENT) => target(body)?.into(),
            _ => return Some(0),
        },
        _ => return Some(0),
    };
    Some(topology.told(neighbour))
}

/// Traffic for the cluster itself and what routing protocols send goes to whoever speaks for it.
fn inward(topology: &Topology, group: bool, destination: IpAddr, body: &[u8]) -> Verdict {
    let broadcast = matches!(destination, IpAddr::V4(address) if address.is_broadcast());
    let own = topology.sides.iter().any(|side| side.owns(destination));
    if own || broadcast || destination.is_multicast() {
        return Verdict::Speaker;
    }
    // A host of the link that is not the cluster: nobody forwards to it (RFC 4291, section 2.5.6).
    if matches!(destination, IpAddr::V6(address) if address.is_unicast_link_local()) {
        return Verdict::Ignore;
    }
    // Unicast that came as a broadcast is not to be forwarded (RFC 1812, section 5.3.4).
    if group { Verdict::Ignore } else { Verdict::Balance(ebb_wire::flow_hash(body)) }
}

fn arp(topology: &Topology, side: usize, frame: &[u8], body: &[u8]) -> Verdict {
    let side = &topology.sides[side];
    let Some(message) = Arp::new(body) else { return Verdict::Ignore };
    match message.operation() {
        1 if side.owns(message.target().into()) => {
            let mac = side.macs[topology.told(message.sender().into())];
            Verdict::Answer(arp_reply(&message, mac, frame, body))
        }
        1 | 2 => Verdict::Everybody,
        _ => Verdict::Ignore,
    }
}

/// What a frame from a segment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromInside {
    /// The row of the back-end that sent it.
    pub row: Option<u16>,
    /// The neighbour that it asks for.
    pub asked: Option<IpAddr>,
    /// What is to be done.
    pub verdict: Verdict,
}

/// A frame that came from the segment of side `at`. What goes out says that it comes from the cluster,
/// inside of ARP and neighbour discovery too.
pub fn from_inside(
    topology: &Topology,
    accepted: AddressSet,
    at: usize,
    frame: &mut [u8],
) -> FromInside {
    let told = |row, asked, verdict| FromInside { row, asked, verdict };
    let side = &topology.sides[at];
    let Some(header) = link(frame) else { return told(None, None, Verdict::Ignore) };
    let to: Mac = frame[..6].try_into().expect("six bytes");
    let from: Mac = frame[6..12].try_into().expect("six bytes");
    let row = topology.row_of(&from);
    if row.is_none() {
        return told(None, None, Verdict::Ignore);
    }
    let body = &frame[header.payload..];
    if let Some(reply) = asked_for_probe(topology, at, header.ethertype, frame, body) {
        return told(row, None, Verdict::Answer(reply));
    }
    if to == topology.probe_mac(at) {
        return told(row, None, Verdict::Probe);
    }
    // What the segment floods reaches all balancers; one of them lets it out.
    let among_us = side.probe_macs.contains(&to) || topology.row_of(&to).is_some();
    let asked = asked_for(header.ethertype, body).filter(|asked| !topology.claims(at, *asked));
    let meant = asked.map_or(0, |neighbour| topology.told(neighbour));
    let carrier = if is_group(&to) { meant } else { topology.carrier(&to) };
    if among_us || !accepts(accepted, carrier) {
        return told(row, asked, Verdict::Ignore);
    }
    frame[6..12].copy_from_slice(&side.macs[carrier]);
    let body = &mut frame[header.payload..];
    match header.ethertype {
        ethertype::ARP if body.len() >= 28 => {
            // Who answers for the cluster's addresses is the balancer alone.
            if body[7] != 1 {
                return told(row, asked, Verdict::Ignore);
            }
            body[8..14].copy_from_slice(&side.macs[meant]);
        }
        ethertype::IPV6 => match discovery(body) {
            Some(SOLICITATION | ROUTER_SOLICITATION) => disguise(body, &from, &side.macs[meant]),
            Some(ROUTER_ADVERTISEMENT) => disguise(body, &from, &side.macs[carrier]),
            Some(ADVERTISEMENT) => return told(row, asked, Verdict::Ignore),
            _ => {}
        },
        _ => {}
    }
    told(row, asked, Verdict::Out)
}

/// The answer to a back-end that asks where its probes are to go.
fn asked_for_probe(
    topology: &Topology,
    at: usize,
    kind: u16,
    frame: &[u8],
    body: &[u8],
) -> Option<Vec<u8>> {
    if kind != ethertype::ARP || asked_for(kind, body)? != topology.probe(at) {
        return None;
    }
    Some(arp_reply(&Arp::new(body)?, topology.probe_mac(at), frame, body))
}
