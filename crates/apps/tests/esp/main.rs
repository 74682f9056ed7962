//! Tunnels between two routers in memory: what is sealed by one is opened by the other, to the byte, and nothing else
//! is; nothing that belongs into a tunnel leaves in clear.

mod changing;
mod ends;
mod exchanged;
mod fragments;
#[path = "../route/harness.rs"]
#[allow(dead_code)]
mod harness;
mod mutations;
mod path;

use std::sync::Arc;

use ebb_apps::Application;
use ebb_apps::esp::{Algorithm, Claim, DontFragment, Esp, Key, Start, Tunnel, Used};
use ebb_apps::route::{ReversePath, RouteLimits};
use ebb_graph::DropReason;
use ebb_wire::{Ipv4, Ipv6, Template, checksum, ethertype, link};
use harness::{IN, Left, Router, SENDER_MAC, ip, net, own_mac, template};
use proptest::prelude::*;

/// One end: a router with its tunnel. Both ends have the same interfaces; the peer's address is beyond
/// a gateway, by which the test carries packets from one end to the other.
struct End {
    router: Router,
    esp: Arc<Esp>,
}

const NEAR: &str = "198.51.100.1";
const FAR: &str = "203.0.113.1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    algorithm: Algorithm,
    extended: bool,
    udp: bool,
    v6: bool,
}

const PLAIN: Kind =
    Kind { algorithm: Algorithm::Aes128Gcm, extended: false, udp: false, v6: false };

fn key(algorithm: Algorithm, byte: &str) -> Key {
    Key::from_hex(&byte.repeat(algorithm.key_len()), algorithm).expect("a key")
}

/// The end whose own prefixes are the senders', or the other.
fn tunnel(kind: Kind, is_near: bool) -> Tunnel {
    let (near, far) = if kind.v6 { ("2001:db8:2::1", "2001:db8:100::1") } else { (NEAR, FAR) };
    let prefixes = |texts: [&str; 2]| texts.map(net).to_vec();
    let (near_prefixes, far_prefixes) = (
        prefixes(["192.0.2.0/24", "2001:db8:1::/64"]),
        prefixes(["10.50.0.0/16", "2001:db8:50::/48"]),
    );
    let (forth, back) = ((0x1001, key(kind.algorithm, "a1")), (0x2002, key(kind.algorithm, "b2")));
    let (local, remote) = if is_near { (near, far) } else { (far, near) };
    let (local_prefixes, remote_prefixes) = match is_near {
        true => (near_prefixes, far_prefixes),
        false => (far_prefixes, near_prefixes),
    };
    let (out, into) = if is_near { (forth, back) } else { (back, forth) };
    Tunnel {
        local: ip(local),
        remote: ip(remote),
        remote_prefixes,
        local_prefixes,
        clear_prefixes: Vec::new(),
        algorithm: kind.algorithm,
        out,
        into,
        window: 64,
        extended_sequence: kind.extended,
        udp: kind.udp,
        mtu: 1500,
        df: DontFragment::Copy,
    }
}

impl End {
    fn new(kind: Kind, is_near: bool) -> End {
        End::of(&[tunnel(kind, is_near)])
    }

    fn of(tunnels: &[Tunnel]) -> End {
        End::after(tunnels, 0, 0)
    }

    /// Going on behind `numbers` that were sealed and `seen` ones that came.
    fn after(tunnels: &[Tunnel], numbers: u64, seen: u64) -> End {
        let behind = Used { numbers, ivs: 1_800_000_000 + numbers };
        let start = Start { claim: Claim { behind, count: 1 << 30 }, seen };
        let starts = vec![start; tunnels.len()];
        let bell = Arc::new(|| ()) as _;
        let esp = Arc::new(Esp::new(1, tunnels, &starts, &bell, &harness::reserve()));
        let applications: [Arc<dyn Application>; 1] = [esp.clone()];
        let mut router = Router::around(&RouteLimits::default(), &applications);
        // Where packets go that came out of the tunnel, at the far end.
        let out = &ebb_apps::route::Target::via(harness::OUT, ip("198.51.100.2"));
        harness::set(&mut router.writer, "10.50.0.0/16", out);
        let out = &ebb_apps::route::Target::via(harness::OUT, ip("fe80::22"));
        harness::set(&mut router.writer, "2001:db8:50::/48", out);
        router.writer.publish();
        End { router, esp }
    }

    fn count(&self, name: &str) -> u64 {
        self.esp.counters().into_iter().find(|(known, _)| *known == name).expect("a counter").1
    }

    /// The one frame that leaves.
    fn pass(&mut self, frame: &[u8]) -> Vec<u8> {
        let left = self.router.send(&[frame.to_vec()]);
        let [Left::Sent(_, frame)] = &left[..] else { panic!("{left:?}") };
        frame.clone()
    }
}

/// A frame that left one end, as it comes to the other.
fn carried(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&own_mac(IN));
    frame[6..12].copy_from_slice(&SENDER_MAC);
    frame
}

fn inner(v6: bool, payload: &[u8]) -> Vec<u8> {
    template(if v6 { "2001:db8:50::7" } else { "10.50.0.7" }).to_frame(payload)
}

/// What a frame's IP packet is without what forwarding changes.
fn without_ttl(frame: &[u8]) -> (u8, Vec<u8>) {
    let link = link(frame).expect("a link header");
    let mut bytes = frame[link.payload..].to_vec();
    let ttl = if link.ethertype == ethertype::IPV4 {
        bytes[10..12].fill(0);
        std::mem::take(&mut bytes[8])
    } else {
        std::mem::take(&mut bytes[7])
    };
    (ttl, bytes)
}

fn kinds() -> Vec<Kind> {
    use Algorithm::{Aes128CbcHmacSha256, Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
    let mut kinds = Vec::new();
    for algorithm in [Aes128Gcm, Aes256Gcm, Chacha20Poly1305, Aes128CbcHmacSha256] {
        for extended in [false, true] {
            for (udp, v6) in [(false, false), (true, false), (false, true)] {
                kinds.push(Kind { algorithm, extended, udp, v6 });
            }
        }
    }
    kinds
}

#[test]
fn what_is_sealed_at_one_end_is_opened_at_the_other() {
    for kind in kinds() {
        let (mut near, mut far) = (End::new(kind, true), End::new(kind, false));
        for (number, v6) in [(0, false), (1, true), (77, false), (1400, true), (1380, false)] {
            let payload: Vec<u8> = (0..number.min(1300)).map(|byte| byte as u8).collect();
            let frame = inner(v6, &payload);
            let sealed = near.pass(&frame);
            assert!(!payload.is_empty() || sealed.len() > frame.len());
            assert!(
                payload.len() < 8 || !sealed.windows(8).any(|part| part == &payload[..8]),
                "in clear"
            );
            let opened = far.pass(&carried(&sealed));
            let ((sent_ttl, sent), (ttl, came)) = (without_ttl(&frame), without_ttl(&opened));
            assert_eq!((sent, sent_ttl - 2), (came, ttl), "{kind:?}: two routers");
            let replayed = far.router.send(&[carried(&sealed)]);
            assert_eq!(replayed, [Left::Dropped(DropReason::Application)]);
        }
        assert_eq!((near.count("sealed_packets"), far.count("opened_packets")), (5, 5));
        assert_eq!(far.count("dropped_replayed"), 5);
        assert_eq!(near.count("sealed_bytes"), far.count("opened_bytes"));
    }
}

#[test]
fn the_outer_header_is_as_the_standards_have_it() {
    let mut template = template("10.50.0.7");
    template.tos = 0xb9;
    let mut near = End::new(Kind { udp: true, ..PLAIN }, true);
    let sealed = near.pass(&template.to_frame(&[7; 100]));
    let outer = Ipv4::new(&sealed[14..]).expect("a header");
    assert!(outer.checksum_ok() && outer.dont_fragment() == template.dont_fragment);
    assert_eq!(
        (outer.source(), outer.destination()),
        (NEAR.parse().unwrap(), FAR.parse().unwrap())
    );
    assert_eq!((outer.tos(), outer.ttl(), outer.protocol()), (0xb9, 63, 17));
    assert_eq!(outer.total_len(), sealed.len() - 14);
    let udp = outer.payload();
    assert_eq!(udp[..4], [4500u16.to_be_bytes(), 4500u16.to_be_bytes()].concat());
    assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
    assert_eq!(udp[6..8], [0, 0]);
    assert_eq!(udp[8..16], [0, 0, 0x10, 1, 0, 0, 0, 1], "index and the first number");
    let mut near = End::new(Kind { v6: true, ..PLAIN }, true);
    let sealed = near.pass(&template.to_frame(&[7; 100]));
    let outer = Ipv6::new(&sealed[14..]).expect("a header");
    assert_eq!((outer.traffic_class(), outer.next_header(), outer.hop_limit()), (0xb9, 50, 63));
    assert_eq!(outer.payload_len(), sealed.len() - 54);
}

#[test]
fn congestion_on_the_way_is_told() {
    let (mut near, mut far) = (End::new(PLAIN, true), End::new(PLAIN, false));
    for (own, opened) in [(1, Some(3)), (2, Some(3)), (3, Some(3)), (0, None)] {
        let mut template = template("10.50.0.7");
        template.tos = own;
        let mut sealed = carried(&near.pass(&template.to_frame(&[1])));
        sealed[15] |= 3;
        sealed[24..26].fill(0);
        let sum = checksum::of(&sealed[14..34]);
        sealed[24..26].copy_from_slice(&sum.to_be_bytes());
        match (&far.router.send(&[sealed])[..], opened) {
            ([Left::Sent(1, frame)], Some(ecn)) => {
                let header = Ipv4::new(&frame[14..]).expect("a header");
                assert!(header.checksum_ok());
                assert_eq!(header.tos(), ecn);
            }
            ([Left::Dropped(DropReason::Application)], None) => {}
            (left, _) => panic!("{own}: {left:?}"),
        }
    }
    assert_eq!(far.count("dropped_congested"), 1);
}

#[test]
fn what_is_too_long_is_answered_and_does_not_leave() {
    for v6 in [false, true] {
        let mut near = End::new(PLAIN, true);
        let frame = if v6 { inner(v6, &[1; 1440]) } else { sized(true, 1460) };
        let left = near.router.send(&[frame]);
        let [Left::Sent(0, error)] = &left[..] else { panic!("{left:?}") };
        let told = harness::describe(error);
        assert!(told.starts_with("0001 > aa01"), "{told}");
        assert!(
            told.contains("code 4 parameter 1446") || told.contains("type 2 code 0 parameter 1446"),
            "{told}"
        );
        assert_eq!((near.count("too_big_packets"), near.count("sealed_packets")), (1, 0));
        // What was asked for passes.
        let header = if v6 { 48 } else { 28 };
        let sealed = near.pass(&inner(v6, &vec![1; 1446 - header]));
        assert!(sealed.len() <= 1514 && sealed.len() > 1506, "{}", sealed.len());
    }
}

/// Of IPv4 that may be cut, or not.
fn sized(dont_fragment: bool, len: usize) -> Vec<u8> {
    Template { dont_fragment, ..template("10.50.0.7") }.to_frame(&vec![1; len])
}

#[test]
fn nothing_is_sealed_beyond_the_last_number() {
    let mut near = End::after(&[tunnel(PLAIN, true)], u64::from(u32::MAX) - 1, 0);
    let frame = inner(false, &[1]);
    let last = near.pass(&frame);
    assert_eq!(last[38..42], [0xff; 4]);
    let left = near.router.send(&[frame.clone(), frame.clone()]);
    assert_eq!(
        left,
        [Left::Dropped(DropReason::Application), Left::Dropped(DropReason::Application)]
    );
    assert_eq!(near.count("dropped_sequence_spent"), 2);
    let extended = Kind { extended: true, ..PLAIN };
    let mut near = End::after(&[tunnel(extended, true)], u64::from(u32::MAX), 0);
    assert_eq!(near.pass(&frame)[38..42], [0; 4], "the half runs over");
}

/// Numbers go on where they were, with the high half that no packet holds, and what was recorded is known.
#[test]
fn a_restart_goes_on_where_it_was() {
    for extended in [false, true] {
        let kind = Kind { extended, ..PLAIN };
        let (mut near, mut far) = (End::new(kind, true), End::new(kind, false));
        let recorded = carried(&near.pass(&inner(false, &[1])));
        assert!(matches!(far.router.send(std::slice::from_ref(&recorded))[..], [Left::Sent(..)]));
        assert_eq!(far.esp.opening()[0].seen(), 1);
        let numbers = if extended { 5 << 32 } else { 1000 };
        let mut near = End::after(&[tunnel(kind, true)], numbers, 0);
        let mut far = End::after(&[tunnel(kind, false)], 0, numbers);
        let left = far.router.send(&[recorded]);
        assert_eq!(left, [Left::Dropped(DropReason::Application)], "it came before the restart");
        let sealed = carried(&near.pass(&inner(false, &[2])));
        assert!(matches!(far.router.send(&[sealed])[..], [Left::Sent(..)]));
        assert_eq!(far.esp.opening()[0].seen(), numbers + 1);
    }
}

#[test]
fn without_numbers_on_record_nothing_is_sealed() {
    let mut near = End::new(PLAIN, true);
    let (claim, _) = near.esp.sealing()[0].numbers();
    let spent = Claim { behind: Used { numbers: 7, ..claim.behind }, count: 1 };
    near.esp.sealing()[0].hold(spent);
    let frame = inner(false, &[1]);
    let left = near.router.send(&[frame.clone(), frame.clone()]);
    assert!(
        matches!(&left[..], [Left::Sent(_, sealed), Left::Dropped(DropReason::Application)]
            if sealed[38..42] == [0, 0, 0, 8]),
        "{left:?}"
    );
    assert_eq!(near.count("dropped_no_number"), 1);
    near.esp.sealing()[0].hold(Claim { count: 2, ..spent });
    assert_eq!(near.pass(&frame)[38..42], [0, 0, 0, 9]);
}

#[test]
fn nothing_leaves_or_comes_in_clear_that_belongs_into_the_tunnel() {
    let (mut near, mut far) = (End::new(PLAIN, true), End::new(PLAIN, false));
    let in_clear = Left::Dropped(DropReason::Application);
    // As if it had come out of the tunnel.
    assert_eq!(far.router.send(&[inner(false, &[1])]), std::slice::from_ref(&in_clear));
    assert_eq!(far.count("dropped_clear_in"), 1);
    // Damaged: dropped, not sent on as something that nobody knows.
    let mut damaged = inner(false, &[1; 40]);
    damaged[16..18].copy_from_slice(&200u16.to_be_bytes());
    assert_eq!(near.router.send(&[damaged]), std::slice::from_ref(&in_clear));
    // With options, for which the kernel would forward it.
    let mut options = inner(false, &[1; 40]);
    options[14] = 0x46;
    options.splice(34..34, [1, 1, 1, 1]);
    let total_len = (options.len() - 14) as u16;
    options[16..18].copy_from_slice(&total_len.to_be_bytes());
    options[24..26].fill(0);
    let sum = checksum::of(&options[14..38]);
    options[24..26].copy_from_slice(&sum.to_be_bytes());
    let sealed = near.pass(&options);
    assert_eq!(Ipv4::new(&sealed[14..]).expect("a header").protocol(), 50);
    // At the end of its life: its sender is told, it does not leave.
    let mut template = template("10.50.0.7");
    template.ttl = 1;
    let left = near.router.send(&[template.to_frame(&[1])]);
    assert!(
        matches!(&left[..], [Left::Sent(0, error)] if harness::describe(error).contains("type 11")),
        "{left:?}"
    );
    // An error about what came out of the tunnel would quote it in clear on its way back.
    template.ttl = 2;
    let sealed = near.pass(&template.to_frame(b"a secret"));
    let left = far.router.send(&[carried(&sealed)]);
    assert_eq!(left, [in_clear]);
    assert_eq!(far.count("dropped_clear_out"), 1);
    // What is none of its business passes.
    let other = harness::template("203.0.113.7").to_frame(&[1]);
    assert_eq!(without_ttl(&near.pass(&other)).1, without_ttl(&other).1);
}

/// What claims to come from behind one peer is not sealed for another, which would believe it.
#[test]
fn a_source_behind_one_peer_gives_no_way_into_another_tunnel() {
    let one = tunnel(PLAIN, true);
    let other = Tunnel {
        remote: ip("203.0.113.2"),
        remote_prefixes: vec![net("10.60.0.0/16")],
        out: (0x3003, key(PLAIN.algorithm, "c3")),
        into: (0x4004, key(PLAIN.algorithm, "d4")),
        ..tunnel(PLAIN, true)
    };
    let open = |tunnel| Tunnel { local_prefixes: Vec::new(), ..tunnel };
    let mut hub = End::of(&[open(one), open(other)]);
    let mut spoofed = template("10.60.0.7");
    spoofed.source.set_ip(ip("10.50.0.7"));
    let left = hub.router.send(&[spoofed.to_frame(&[1])]);
    assert_eq!(left, [Left::Dropped(DropReason::Application)]);
    assert_eq!((hub.count("dropped_clear_in"), hub.count("sealed_packets")), (1, 0));
    hub.pass(&template("10.60.0.7").to_frame(&[1]));
}

/// A tunnel for all that is not here: the router's neighbours, its own networks and the peer itself stay outside.
#[test]
fn a_tunnel_for_everything_takes_what_is_elsewhere() {
    let all = Tunnel {
        remote_prefixes: vec![net("0.0.0.0/0"), net("::/0")],
        clear_prefixes: vec![net("203.0.113.0/28")],
        ..tunnel(PLAIN, true)
    };
    let mut near = End::of(&[all]);
    for (destination, sealed) in [
        ("10.50.0.7", true),
        ("203.0.113.77", true),
        ("2001:db8:50::7", true),
        ("203.0.113.7", false),
        (FAR, false),
    ] {
        let frame = template(destination).to_frame(&[1; 40]);
        let left = near.pass(&frame);
        assert_eq!(left.len() > frame.len(), sealed, "{destination}");
    }
    let neighbour = template("192.0.2.77").to_frame(&[1]);
    near.router.send(&[neighbour]);
    assert_eq!(near.count("sealed_packets"), 3);
    let mut clear = template("192.0.2.9");
    clear.source.set_ip(ip("10.99.0.1"));
    let left = near.router.send(&[clear.to_frame(&[1])]);
    assert_eq!(left, [Left::Dropped(DropReason::Application)], "it did not come by the tunnel");
    // An error of the router's own to a sender that is here.
    let expired = Template { ttl: 1, ..template("10.50.0.7") };
    let left = near.router.send(&[expired.to_frame(&[1])]);
    assert!(matches!(&left[..], [Left::Sent(0, _)]), "{left:?}");
}

/// The kernel is to have no way to the peer's prefixes, and filters ask for a way back: not of what came in the tunnel.
#[test]
fn reverse_path_filters_let_pass_what_came_in_a_tunnel() {
    let (mut near, mut far) = (End::new(PLAIN, true), End::new(PLAIN, false));
    far.router.writer.set_reverse_paths([(IN, ReversePath::Strict)].into());
    harness::set(&mut far.router.writer, "192.0.2.9/32", &ebb_apps::route::Target::Blackhole);
    far.router.writer.publish();
    let sealed = near.pass(&inner(false, &[1]));
    assert!(matches!(far.router.send(&[carried(&sealed)])[..], [Left::Sent(1, _)]));
    let mut clear = harness::template("203.0.113.7");
    clear.source.set_ip(ip("192.0.2.9"));
    let left = far.router.send(&[clear.to_frame(&[1])]);
    assert_eq!(left, [Left::Dropped(DropReason::ReversePath)], "others are asked");
}

#[test]
fn the_peer_speaks_for_its_own_prefixes_only() {
    let (mut near, mut far) = (
        End::new(PLAIN, true),
        End::of(&[Tunnel { remote_prefixes: vec![net("192.0.2.128/25")], ..tunnel(PLAIN, false) }]),
    );
    let sealed = near.pass(&inner(false, &[1]));
    assert_eq!(far.router.send(&[carried(&sealed)]), [Left::Dropped(DropReason::Application)]);
    assert_eq!(far.count("dropped_other_inside"), 1);
}

#[test]
fn what_else_comes_to_the_tunnels_address_is_the_kernels() {
    let mut near = End::new(Kind { udp: true, ..PLAIN }, true);
    let udp = |port: u16, payload: &[u8]| {
        let mut template =
            Template::udp("203.0.113.1:4500".parse().unwrap(), (ip(NEAR), port).into());
        (template.source_mac, template.destination_mac) = (SENDER_MAC, own_mac(IN));
        template.to_frame(payload)
    };
    let (keys, other) = (udp(4500, &[0, 0, 0, 0, 1, 2, 3]), udp(53, &[1; 40]));
    let left = near.router.send(&[keys.clone(), other.clone()]);
    assert_eq!(left, [Left::Kernel(keys), Left::Kernel(other)]);
    let dropped = Left::Dropped(DropReason::Application);
    assert_eq!(
        near.router.send(&[udp(4500, &[0xff]), udp(4500, &[9; 60])]),
        [dropped.clone(), dropped.clone()]
    );
    assert_eq!((near.count("keepalive_packets"), near.count("dropped_unknown_spi")), (1, 1));
    let mut fragment = udp(4500, &[9; 60]);
    fragment[20] = 0x20;
    fragment[24..26].fill(0);
    let sum = checksum::of(&fragment[14..34]);
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(near.router.send(std::slice::from_ref(&fragment)), [dropped]);
    assert_eq!(near.count("dropped_fragments"), 1);
    // Messages that exchange keys may be cut, too: all their pieces are the kernel's.
    fragment[42..46].fill(0);
    let mut second = fragment.clone();
    second[20..22].copy_from_slice(&[0, 9]);
    for piece in [&mut fragment, &mut second] {
        piece[24..26].fill(0);
        let sum = checksum::of(&piece[14..34]);
        piece[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let left = near.router.send(&[fragment.clone(), second.clone()]);
    assert_eq!(left, [Left::Kernel(fragment), Left::Kernel(second)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// In any order, with losses and repetitions: each arrives at most once, and each that is not too late does.
    #[test]
    fn whatever_the_way_does_each_packet_arrives_once(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..60),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
        which in 0usize..24,
    ) {
        let kind = kinds()[which];
        let (mut near, mut far) = (End::new(kind, true), End::new(kind, false));
        let sealed: Vec<Vec<u8>> =
            payloads.iter().map(|payload| carried(&near.pass(&inner(payload.len() % 2 == 0, payload)))).collect();
        let mut arrived = std::collections::BTreeSet::new();
        for index in order {
            let at = index.index(sealed.len());
            let left = far.router.send(std::slice::from_ref(&sealed[at]));
            // Fewer than the window holds: none is too late.
            let fresh = arrived.insert(at);
            prop_assert_eq!(matches!(&left[..], [Left::Sent(..)]), fresh);
        }
        prop_assert_eq!(far.count("opened_packets"), arrived.len() as u64);
    }
}
