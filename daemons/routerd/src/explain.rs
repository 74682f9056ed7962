//! What would become of a packet, in words. The decision is the programs' own ([`Fate`]); this says what it means.

use std::net::IpAddr;

use ebb_ports::afxdp::{Fate, Why};
use ebb_wire::{Ipv4, Ipv6, ethertype, protocol};
use serde::Serialize;

use crate::policy::Mechanism;
use crate::status::{PolicyEffect, PolicyObject};

/// What is known where the packet comes in.
pub struct Place<'a> {
    /// The port's name.
    pub port: &'a str,
    /// Whether workers forward what it receives.
    pub by_workers: bool,
    /// Addresses that frames to the port have.
    pub macs: &'a [[u8; 6]],
    /// The host's own addresses.
    pub local: &'a [IpAddr],
    /// The name of the interface by which it would leave.
    pub exit: Option<String>,
    /// What a worker does with packets to the destination, in words.
    pub worker: Option<String>,
    /// What the kernel's policy consists of.
    pub policy: &'a [PolicyObject],
}

/// The answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// `kernel path`, `worker` or `network stack`.
    pub way: &'static str,
    /// Why, in words.
    pub because: String,
    /// By which interface it leaves, if that is known.
    pub exit: Option<String>,
    /// Objects of the kernel's policy that keep it from being forwarded by Ebb.
    pub policy: Vec<String>,
}

/// Where a frame's packet goes to.
pub fn destination(frame: &[u8]) -> Option<IpAddr> {
    let link = ebb_wire::link(frame)?;
    let packet = frame.get(link.payload..)?;
    match link.ethertype {
        ethertype::IPV4 => Some(Ipv4::new(packet)?.destination().into()),
        ethertype::IPV6 => Some(Ipv6::new(packet)?.destination().into()),
        _ => None,
    }
}

fn runs_out(frame: &[u8]) -> bool {
    let Some(link) = ebb_wire::link(frame) else { return false };
    let packet = frame.get(link.payload..).unwrap_or_default();
    match link.ethertype {
        ethertype::IPV4 => Ipv4::new(packet).is_some_and(|ip| ip.ttl() <= 1),
        ethertype::IPV6 => Ipv6::new(packet).is_some_and(|ip| ip.hop_limit() <= 1),
        _ => false,
    }
}

/// Says what becomes of a frame, and why.
pub fn explain(frame: &[u8], fate: &Fate, place: &Place<'_>) -> Explanation {
    let way = match (fate.why, place.by_workers) {
        (Why::Forwarded, true) => "worker",
        (Why::Forwarded, false) => "kernel path",
        _ => "network stack",
    };
    let mechanism = match fate.why {
        Why::Policy(reason) => Some(Mechanism::of(reason)),
        Why::Connection | Why::OtherExit | Why::Rules => Some(Mechanism::Netfilter),
        Why::Source => Some(Mechanism::RpFilter),
        _ => None,
    };
    let of = |object: &&PolicyObject| {
        let concerns = !matches!(object.effect, PolicyEffect::None | PolicyEffect::Ignored);
        concerns && mechanism.is_some_and(|mechanism| object.mechanism == mechanism.name())
    };
    let line = |object: &PolicyObject| format!("{}; {}", object.object, object.concerns);
    Explanation {
        way,
        because: because(frame, fate, place),
        exit: place.exit.clone(),
        policy: place.policy.iter().filter(of).map(line).collect(),
    }
}

fn because(frame: &[u8], fate: &Fate, place: &Place<'_>) -> String {
    let exit = place.exit.as_deref().unwrap_or("another interface");
    match fate.why {
        Why::Forwarded if place.by_workers && runs_out(frame) => {
            "a worker gets it, and answers that its time to live has run out".to_owned()
        }
        Why::Forwarded if place.by_workers => match &place.worker {
            Some(decision) => format!("a worker gets it; to this destination: {decision}"),
            None => "a worker gets it".to_owned(),
        },
        Why::Forwarded => {
            let to = fate.left.get(..6).map(mac).unwrap_or_default();
            format!("it leaves by {exit} to {to}")
        }
        Why::Tag => "its VLAN is none of the router's".to_owned(),
        Why::NotHere => format!("it is addressed to another station than {}", place.port),
        Why::NotPlain => not_plain(frame, place).to_owned(),
        Why::Length => "its header says another length than the frame has".to_owned(),
        Why::Header => odd_header(frame).to_owned(),
        Why::Back => format!("it would go back out by {exit}"),
        Why::Source => "a reverse-path filter has to judge it: no route leads back to its source by where it came".to_owned(),
        Why::Exit => format!("it leaves by {exit}, which is no open port"),
        Why::Connection => "a packet filter lets packets of established connections pass, and this one belongs to none, or \
            begins or ends one".to_owned(),
        Why::Rules => "the packet filter's rules do not accept it without doing anything else, or ask for more than \
            the packet holds".to_owned(),
        Why::OtherExit => format!("its masqueraded connection leaves by another interface than {exit}"),
        Why::Undriven => {
            format!("it leaves by {exit}, whose driver sends nothing that a program in a driver redirects")
        }
        Why::Translation => "its addresses cannot be translated here".to_owned(),
        Why::Policy(reason) => format!("a policy of the kernel concerns it: {}", Mechanism::of(reason).name()),
        Why::Lookup(answer) => answered(answer).to_owned(),
    }
}

/// What the kernel's look-up says (`BPF_FIB_LKUP_RET_...` in linux/bpf.h).
fn answered(answer: u8) -> &'static str {
    match answer {
        1 => "its route is a blackhole",
        2 => "its destination is unreachable by its route",
        3 => "its route prohibits it",
        4 => "there is no route, or its destination is this host's",
        5 => "forwarding is off where it comes in",
        6 => "its route has an encapsulation",
        7 => "the next hop's MAC address is not resolved yet: the network stack asks for it",
        8 => "it is longer than the way out allows",
        9 => "no source address is known for the way out",
        _ => "the kernel's look-up does not know what to do with it",
    }
}

/// Why workers and the kernel path never take it, by the order in which the programs look.
fn not_plain(frame: &[u8], place: &Place<'_>) -> &'static str {
    let Some((header, packet)) = frame.split_at_checked(14) else {
        return "the frame is cut short";
    };
    let to: [u8; 6] = header[..6].try_into().expect("six bytes");
    if !place.macs.contains(&to) {
        return match to[0] & 1 {
            1 => "it is addressed to a group of stations",
            _ => "it is addressed to another station",
        };
    }
    let own = |address: IpAddr| place.local.contains(&address);
    match u16::from_be_bytes([header[12], header[13]]) {
        ethertype::IPV4 => match Ipv4::new(packet) {
            None => "its header is cut short",
            Some(ip) if ip.header_len() != 20 => "it has IP options",
            Some(ip) if ip.destination().is_multicast() || ip.destination().is_broadcast() => {
                "its destination is a group"
            }
            Some(ip) if own(ip.destination().into()) => {
                "its destination is an address of this host"
            }
            Some(ip) if own(ip.source().into()) => "its source is an address of this host",
            Some(ip) if ip.destination().is_loopback() || ip.source().is_loopback() => {
                "it is from or to a loopback address"
            }
            Some(_) => "the kernel has a route of its own for it",
        },
        ethertype::IPV6 => match Ipv6::new(packet) {
            None => "its header is cut short",
            Some(ip) if ip.next_header() == protocol::HOP_BY_HOP => "it has hop-by-hop options",
            Some(ip) if ip.destination().is_multicast() => "its destination is a group",
            Some(ip)
                if [ip.source(), ip.destination()]
                    .iter()
                    .any(|one| one.segments()[0] & 0xffc0 == 0xfe80) =>
            {
                "it is from or to a link-local address"
            }
            Some(ip) if own(ip.destination().into()) => {
                "its destination is an address of this host"
            }
            Some(ip) if ip.next_header() == protocol::ICMPV6 => {
                "it is a message of neighbour discovery, or has a route of the kernel's own"
            }
            Some(_) => "the kernel has a route of its own for it",
        },
        ethertype::VLAN | ethertype::SERVICE_VLAN => "its VLAN is none of the router's",
        _ => "it is no IP packet",
    }
}

/// What of an IP header the kernel path leaves to the network stack, by the order in which it looks.
fn odd_header(frame: &[u8]) -> &'static str {
    let packet = frame.get(14..).unwrap_or_default();
    let (first, length) = (packet.first().map_or(0, |byte| byte >> 4), packet.len());
    if first == 6 {
        let Some(ip) = Ipv6::new(packet) else { return "its header is cut short" };
        return match () {
            () if ip.hop_limit() <= 1 => RUNS_OUT,
            () if ip.payload_len() + 40 > length => CUT_SHORT,
            () if ip.next_header() == protocol::ICMPV6 => IS_ERROR,
            () => ODD_SOURCE,
        };
    }
    let Some(ip) = Ipv4::new(packet) else { return "its header is cut short" };
    match () {
        () if ip.ttl() <= 1 => RUNS_OUT,
        () if ip.source().is_multicast()
            || ip.source().octets()[0] == 0
            || ip.source().octets()[0] >= 240 =>
        {
            ODD_SOURCE
        }
        () if ip.total_len() > length => CUT_SHORT,
        () if !ip.checksum_ok() => "the checksum of its header is wrong",
        () if ip.protocol() == protocol::ICMP => IS_ERROR,
        () => "it is longer than the least MTU that a route has",
    }
}

const RUNS_OUT: &str = "its time to live runs out here: the network stack answers";
const CUT_SHORT: &str = "the frame is shorter than its header says";
const IS_ERROR: &str =
    "ICMP errors are the network stack's, which sends them the way of what they are about";
const ODD_SOURCE: &str = "its source is nobody's address";

fn mac(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn place(policy: &[PolicyObject]) -> Place<'_> {
        Place {
            port: "p0",
            by_workers: false,
            macs: &[MAC],
            local: &[],
            exit: Some("p1".to_owned()),
            worker: Some("to 10.0.1.2 on p1".to_owned()),
            policy,
        }
    }

    fn fate(why: Why) -> Fate {
        Fate { why, exit: Some(3), left: vec![2, 0, 0, 0, 1, 1] }
    }

    fn frame(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut frame = vec![0; 14 + 28];
        frame[..6].copy_from_slice(&MAC);
        frame[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
        let ip = &mut frame[14..];
        (ip[0], ip[3], ip[8], ip[9]) = (0x45, 28, 64, 17);
        ip[12..20].copy_from_slice(&[198, 18, 0, 1, 198, 51, 100, 1]);
        let sum = ebb_wire::checksum::of(&ip[..20]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        change(&mut frame);
        frame
    }

    #[test]
    fn each_way_is_said_with_its_reason() {
        let plain = frame(|_| {});
        let said = |why, frame: &[u8]| explain(frame, &fate(why), &place(&[]));
        let forwarded = said(Why::Forwarded, &plain);
        assert_eq!(
            (forwarded.way, forwarded.because.as_str()),
            ("kernel path", "it leaves by p1 to 02:00:00:00:01:01")
        );
        let by_workers = Place { by_workers: true, ..place(&[]) };
        assert_eq!(explain(&plain, &fate(Why::Forwarded), &by_workers).way, "worker");
        for (why, frame, words) in [
            (Why::NotPlain, frame(|bytes| bytes[5] = 9), "another station"),
            (Why::NotPlain, frame(|bytes| bytes[0] = 3), "group of stations"),
            (Why::NotPlain, frame(|bytes| bytes[13] = 6), "no IP packet"),
            (Why::NotPlain, frame(|bytes| bytes[14] = 0x46), "IP options"),
            (Why::NotPlain, frame(|bytes| bytes[30] = 224), "is a group"),
            (Why::NotPlain, vec![0; 9], "cut short"),
            (Why::Header, frame(|bytes| bytes[22] = 1), "time to live"),
            (Why::Header, frame(|bytes| bytes[24] ^= 1), "checksum"),
            (Why::Header, frame(|bytes| bytes[26] = 240), "nobody's"),
            (Why::Lookup(7), plain.clone(), "not resolved"),
            (Why::Exit, plain.clone(), "no open port"),
            (Why::Undriven, plain.clone(), "whose driver sends nothing"),
        ] {
            let said = said(why, &frame);
            assert_eq!(said.way, "network stack");
            assert!(said.because.contains(words), "{why:?}: {}", said.because);
        }
    }

    #[test]
    fn objects_of_the_policy_are_named() {
        let object = |mechanism: &str, effect| PolicyObject {
            mechanism: mechanism.to_owned(),
            object: format!("{mechanism} object"),
            concerns: "all packets".to_owned(),
            effect,
        };
        let objects = [
            object("netfilter", PolicyEffect::Carried),
            object("netfilter", PolicyEffect::None),
            object("tc", PolicyEffect::Kernel),
        ];
        let said = explain(&frame(|_| {}), &fate(Why::Connection), &place(&objects));
        assert_eq!(said.policy, ["netfilter object; all packets"]);
        let said =
            explain(&frame(|_| {}), &fate(Why::Policy(Mechanism::Tc as u8)), &place(&objects));
        assert_eq!((said.policy.len(), said.way), (1, "network stack"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_explained(frame in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            for why in [Why::NotPlain, Why::Header] {
                assert!(!explain(&frame, &fate(why), &place(&[])).because.is_empty());
            }
        }
    }
}
