//! What neighbours are told, and what they say.

use std::net::{IpAddr, Ipv4Addr};

use super::super::discovery::announcement;
use super::super::topology::Mac;
use super::*;

const MINE: Mac = [2, 0, 0, 0, 0, 0];
const HOST: Mac = [2, 0, 0, 0, 9, 9];

fn arp(operation: u8, mac: Mac, sender: [u8; 4], target: [u8; 4], to: Mac) -> Vec<u8> {
    let mut frame = [to, mac].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(mac);
    frame.extend(sender);
    frame.extend([0; 6]);
    frame.extend(target);
    frame
}

/// As a back-end would ask for it on side 0.
fn ask(target: [u8; 4]) -> Vec<u8> {
    arp(1, [2, 0, 0, 1, 0, 0], [10, 0, 0, 1], target, [0xff; 6])
}

impl World {
    /// What back-ends get to hear of ARP and neighbour discovery after a frame of the world on side 0.
    fn hear(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.routed.clear();
        self.far[0].send([frame]);
        self.step(false);
        let all = std::mem::take(&mut self.routed);
        let words = all.into_iter().filter(|(side, frame)| *side == 0 && frame[12..14] != [8, 0]);
        words.map(|(_, frame)| frame).collect()
    }
}

/// Any message of ARP says where its sender is, to all back-ends: a request for somebody else, an
/// announcement by request or reply, a question for the cluster itself.
#[test]
fn all_back_ends_hear_of_a_neighbour_that_moves() {
    let (everybody, host) = ([0xff; 6], [10, 0, 0, 9]);
    for (operation, target, to) in [
        (1, host, everybody),
        (2, host, everybody),
        (1, [10, 0, 0, 77], everybody),
        (1, [10, 0, 0, 1], everybody),
        (2, [10, 0, 0, 1], MINE),
    ] {
        let mut world = World::ready([1, 1, 1]);
        world.far[1].send([ask(host).as_slice()]);
        world.step(false);
        let words = world.hear(&arp(operation, HOST, host, target, to));
        // One for all, or one for each that is on.
        let copies = if to == everybody { 1 } else { 2 };
        assert_eq!(words.len(), copies, "{operation} {target:?} {to:?}");
        assert!(words.iter().all(|word| word[22..28] == HOST && word[28..32] == host));
        let again = world.hear(&arp(operation, HOST, host, target, to));
        assert!(again.is_empty(), "the same again makes no work");
    }
}

#[test]
fn who_only_asks_for_the_cluster_gets_into_no_table() {
    let mut world = World::ready([1, 1, 1]);
    let frame = arp(1, HOST, [10, 0, 0, 9], [10, 0, 0, 1], [0xff; 6]);
    assert!(world.hear(&frame).is_empty());
    assert!(world.told[0].iter().any(|answer| answer[..6] == HOST), "but it is answered");
}

/// Nobody takes an address of the cluster, nor one that probes come back to, nor lets the cluster send to
/// itself; and the neighbours are told at once whose the address is, but not as often as somebody lies.
#[test]
fn forged_words_take_nothing_away() {
    let mut world = World::ready([1, 1, 1]);
    (0..5000).for_each(|_| world.step(false));
    world.told[0].clear();
    let group = [0x33, 0x33, 0, 0, 0, 1];
    let own6: IpAddr = "2001:db8:0::1".parse().expect("an address");
    let mut advertisement = announcement(own6, HOST);
    advertisement[..6].copy_from_slice(&group);
    let forged = [
        arp(1, HOST, [10, 0, 0, 1], [10, 0, 0, 1], [0xff; 6]),
        arp(2, HOST, [10, 0, 0, 1], [10, 0, 0, 1], MINE),
        arp(2, HOST, [10, 0, 0, 254], [10, 0, 0, 254], MINE),
        arp(1, HOST, [10, 0, 0, 254], [10, 0, 0, 254], [0xff; 6]),
        advertisement,
    ];
    for frame in &forged {
        assert!(world.hear(frame).is_empty(), "{frame:02x?}");
    }
    let counters = world.plane.counters();
    assert_eq!(counters.claims, forged.len() as u64);
    let announced = world.told[0].iter().filter(|frame| frame[..6] == [0xff; 6]).count();
    assert_eq!(announced, 1, "defended once in ten seconds");
    for ours in [MINE, [2, 0, 0, 1, 1, 0], [2, 0, 0, 0, 2, 0], [3, 0, 0, 0, 0, 9]] {
        let frame = arp(1, ours, [10, 0, 0, 9], [10, 0, 0, 9], [0xff; 6]);
        assert!(world.hear(&frame).is_empty(), "{ours:02x?}");
    }
}

/// Routed advertisements are nobody's neighbour's (RFC 4861, section 7.1.2).
#[test]
fn unasked_advertisements_are_heard_if_they_come_from_the_link() {
    for workers in 1..=8 {
        let mut world = World::several([1, 1, 1], workers);
        let host: IpAddr = "2001:db8:0::9".parse().expect("an address");
        let mut frame = announcement(host, HOST);
        frame[21] = 64;
        assert!(world.hear(&frame).is_empty());
        frame[21] = 255;
        let words = world.hear(&frame);
        assert_eq!(
            (words.len(), &words[0][80..86]),
            (1, &HOST[..]),
            "whichever worker it comes to"
        );
    }
}

/// Twice for each address of each side, once somebody forwards.
#[test]
fn the_cluster_announces_itself() {
    let mut world = World::new([1, 1, 1], 1);
    (0..3000).for_each(|_| world.step(false));
    assert!(world.told.iter().all(Vec::is_empty), "nobody could forward");
    world.plan([On, On, Off]);
    (0..5000).for_each(|_| world.step(false));
    for side in 0..2u8 {
        let (mac, told) = ([2, 0, 0, 0, 0, side], &world.told[usize::from(side)]);
        let four = announcement(Ipv4Addr::new(10, 0, side, 1).into(), mac);
        assert_eq!(four[..12], [[0xff; 6], mac].concat());
        assert_eq!(four[20..42], arp(1, mac, [10, 0, side, 1], [10, 0, side, 1], MINE)[20..42]);
        let six: IpAddr = format!("2001:db8:{side}::1").parse().expect("an address");
        let six = announcement(six, mac);
        assert_eq!((six[54], six[58], &six[80..86]), (136, 0xa0, &mac[..]), "router, override");
        let sum = ebb_wire::checksum::pseudo_header(&six[22..38], &six[38..54], 58, 32);
        assert_eq!(sum.bytes(&six[54..86]).finish(), 0);
        assert_eq!(*told, [four.clone(), six.clone(), four, six]);
    }
}

/// Hosts send to what an advertisement of a router names: the cluster, not the back-end that speaks.
#[test]
fn advertised_routers_are_the_cluster() {
    let topology = topology();
    let mut frame = group(
        "333300000001 020000010100 86dd 60000000 0018 3a ff \
         fe800000000000000000000000000001 ff020000000000000000000000000001 \
         8600 0000 40 00 0708 00000000 00000000 0101 020000010100",
    );
    let sum = |frame: &[u8]| {
        let sum = ebb_wire::checksum::pseudo_header(&frame[22..38], &frame[38..54], 58, 24);
        sum.bytes(&frame[54..78]).finish()
    };
    let own = sum(&frame);
    frame[56..58].copy_from_slice(&own.to_be_bytes());
    assert_eq!(from_inside(&topology, 1, 0, &mut frame).verdict, Verdict::Out);
    assert_eq!((&frame[6..12], &frame[72..78]), (&MINE[..], &MINE[..]));
    assert_eq!(sum(&frame), 0, "the checksum follows");
}
