//! What becomes of every kind of packet, clause by clause.

use ebb_wire::{Template, checksum, protocol};

use crate::harness::{Left, Router, outcome, template};

struct Table {
    router: Router,
    text: String,
}

impl Table {
    fn new() -> Table {
        Table { router: Router::new(), text: String::new() }
    }

    fn row(&mut self, clause: &str, what: &str, frame: Vec<u8>) {
        let sent = frame.clone();
        let left = self.router.send(&[frame]);
        let outcome: Vec<String> = left.iter().map(outcome).collect();
        if let [Left::Kernel(bytes)] = &left[..] {
            assert_eq!(bytes, &sent, "the kernel gets frames as they came");
        }
        let outcome = if outcome.is_empty() { "held".to_owned() } else { outcome.join("; ") };
        self.text += &format!("{clause:<18} | {what:<44} | {outcome}\n");
    }
}

/// The frame with its IPv4 header changed and, unless the change is about it, a right checksum.
fn v4(template: &Template, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = template.to_frame(b"data");
    let header_len = {
        let ip = &mut frame[14..];
        change(ip);
        usize::from(ip[0] & 0xf) * 4
    };
    let header = &mut frame[14..14 + header_len.clamp(20, 32)];
    header[10..12].fill(0);
    let sum = checksum::of(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn from_v4(source: [u8; 4]) -> Vec<u8> {
    v4(&template("203.0.113.5"), |ip| ip[12..16].copy_from_slice(&source))
}

fn to_v4(destination: &str) -> Vec<u8> {
    template(destination).to_frame(b"data")
}

#[test]
fn link_layer() {
    let mut table = Table::new();
    let plain = template("203.0.113.5");
    table.row("802.3", "untagged, for the router", plain.to_frame(b"data"));
    let with = |change: fn(&mut Template)| {
        let mut template = template("203.0.113.5");
        change(&mut template);
        template.to_frame(b"data")
    };
    table.row("802.1Q 9.6", "priority tag", with(|t| t.tag = Some(0xa000)));
    table.row("802.1Q", "unknown VLAN", with(|t| t.tag = Some(9)));
    table.row("802.1Q", "VLAN of another port", with(|t| t.tag = Some(7)));
    table.row("802.3", "another station's address", with(|t| t.destination_mac[5] = 0x55));
    table.row("1812 5.3.4", "unicast in a broadcast", with(|t| t.destination_mac = [0xff; 6]));
    table.row("1112 6.4", "multicast MAC", with(|t| t.destination_mac = [1, 0, 0x5e, 0, 0, 1]));
    let mut arp = plain.to_frame(b"data");
    arp[12..14].copy_from_slice(&[8, 6]);
    table.row("826", "ARP", arp.clone());
    arp[12..14].copy_from_slice(&[0x88, 0xa8]);
    table.row("802.1ad", "service tag", arp.clone());
    table.row("802.3", "13 bytes", arp[..13].to_vec());
    let mut tagged = with(|t| t.tag = Some(0));
    tagged.truncate(17);
    table.row("802.1Q", "cut tag", tagged);
    let mut padded = plain.to_frame(b"data");
    padded.resize(60, 0xee);
    table.row("1812 5.2.2", "link padding", padded);
    insta::assert_snapshot!(table.text);
}

#[test]
fn ipv4_validation() {
    let mut table = Table::new();
    let plain = template("203.0.113.5");
    table.row("1812 5.2.2 (1)", "19 bytes", plain.to_frame(b"")[..33].to_vec());
    let mut frame = plain.to_frame(b"data");
    frame[24] ^= 1;
    table.row("1812 5.2.2 (2)", "wrong checksum", frame);
    table.row("1812 5.2.2 (3)", "version 6", v4(&plain, |ip| ip[0] = 0x65));
    table.row("1812 5.2.2 (4)", "header length 16", v4(&plain, |ip| ip[0] = 0x44));
    table.row("1812 5.2.2 (4)", "header beyond the frame", v4(&plain, |ip| ip[0] = 0x4f));
    table.row("1812 5.2.2 (5)", "total length below header", v4(&plain, |ip| ip[3] = 19));
    table.row("1812 5.2.2 (5)", "total length beyond frame", v4(&plain, |ip| ip[3] = 33));
    table.row("1812 5.2.2", "total length 20", v4(&plain, |ip| ip[3] = 20));
    let options = |ip: &mut [u8]| {
        ip[0] = 0x48;
        ip[20..32].fill(1);
    };
    table.row("1812 5.2.4", "options", v4(&plain, options));
    let mut frame = v4(&plain, options);
    frame[40] ^= 1;
    table.row("1812 5.2.2 (2)", "wrong checksum over options", frame);
    insta::assert_snapshot!(table.text);
}

#[test]
fn ipv4_addresses() {
    let mut table = Table::new();
    table.row("1812 5.3.7", "source 0.0.0.0", from_v4([0, 0, 0, 0]));
    table.row("1812 5.3.7", "source 0.1.2.3", from_v4([0, 1, 2, 3]));
    table.row("1812 5.3.7", "source 127.0.0.1", from_v4([127, 0, 0, 1]));
    table.row("1812 5.3.7", "source 224.0.0.1", from_v4([224, 0, 0, 1]));
    table.row("1812 5.3.7", "source 255.255.255.255", from_v4([255; 4]));
    table.row("Linux", "source 240.0.0.1, class E", from_v4([240, 0, 0, 1]));
    table.row("Linux", "source equal to destination", from_v4([203, 0, 113, 5]));
    table.row("3927 2.7", "source 169.254.0.1", from_v4([169, 254, 0, 1]));
    table.row("1812 5.3.7", "destination 0.0.0.0", to_v4("0.0.0.0"));
    table.row("1812 5.3.7", "destination 0.1.2.3", to_v4("0.1.2.3"));
    table.row("1812 5.3.7", "destination 127.0.0.1", to_v4("127.0.0.1"));
    table.row("1812 5.3.7", "destination 240.0.0.1", to_v4("240.0.0.1"));
    table.row("1812 5.2.1", "destination 224.0.0.5", to_v4("224.0.0.5"));
    table.row("1812 5.3.5.1", "destination 255.255.255.255", to_v4("255.255.255.255"));
    let mut dhcp = template("255.255.255.255");
    dhcp.source = "0.0.0.0:68".parse().expect("an address");
    table.row("1812 5.3.7", "0.0.0.0 to 255.255.255.255", dhcp.to_frame(b""));
    table.row("1812 5.3.5.2", "directed broadcast", to_v4("198.51.100.255"));
    table.row("1812 5.2.3", "the router's address", to_v4("192.0.2.1"));
    table.row("1812 5.2.3", "the router's other address", to_v4("198.51.100.1"));
    insta::assert_snapshot!(table.text);
}

#[test]
fn ipv4_forwarding() {
    let mut table = Table::new();
    let ttl = |destination: &str, ttl: u8| {
        let mut template = template(destination);
        template.ttl = ttl;
        template.to_frame(b"data")
    };
    table.row("1812 5.3.1", "TTL 2", ttl("203.0.113.5", 2));
    table.row("1812 5.3.1", "TTL 1", ttl("203.0.113.5", 1));
    table.row("1812 5.3.1", "TTL 0", ttl("203.0.113.5", 0));
    table.row("1812 5.3.1", "TTL 1 for the router", ttl("192.0.2.1", 1));
    table.row("1812 5.2.7.1", "TTL 1 without route", ttl("8.8.8.8", 1));
    table.row("1812 4.3.3.1", "no route", to_v4("8.8.8.8"));
    table.row("1812 5.2.7.1", "unreachable route", to_v4("10.67.0.1"));
    table.row("1812 5.3.9", "prohibit route", to_v4("10.68.0.1"));
    table.row("ip-route(8)", "blackhole route", to_v4("10.66.0.1"));
    table.row("802.1Q", "out with a tag", to_v4("10.100.0.1"));
    table.row("1812 5.2.4", "known neighbour", to_v4("10.7.0.2"));
    table.row("1812 3.3.2", "unknown neighbour", to_v4("10.7.0.99"));
    let sized = |payload: usize, dont_fragment: bool| {
        let mut template = template("10.100.0.1");
        template.dont_fragment = dont_fragment;
        template.to_frame(&vec![0; payload - 28])
    };
    table.row("1191", "1400 bytes, MTU 1400, DF", sized(1400, true));
    table.row("1191", "1401 bytes, MTU 1400, DF", sized(1401, true));
    table.row("1812 5.2.6", "1401 bytes, MTU 1400", sized(1401, false));
    table.row("1812 5.2.7.2", "out where it came in", to_v4("192.0.2.9"));
    insta::assert_snapshot!(table.text);
}

#[test]
fn ipv6_validation_and_addresses() {
    let mut table = Table::new();
    let plain = template("2001:db8:100::5");
    let with = |change: &dyn Fn(&mut [u8])| {
        let mut frame = plain.to_frame(b"data");
        change(&mut frame[14..]);
        frame
    };
    table.row("8200 3", "plain", plain.to_frame(b"data"));
    table.row("8200 3", "39 bytes", plain.to_frame(b"")[..53].to_vec());
    table.row("8200 3", "version 4", with(&|ip| ip[0] = 0x40));
    table.row("8200 3", "payload beyond the frame", with(&|ip| ip[5] = 13));
    table.row("8200 3", "link padding", with(&|ip| ip[5] = 11));
    let source = |text: &str| {
        let octets = text.parse::<std::net::Ipv6Addr>().expect("an address").octets();
        with(&|ip| ip[8..24].copy_from_slice(&octets))
    };
    table.row("4291 2.5.2", "source ::", source("::"));
    table.row("4291 2.5.3", "source ::1", source("::1"));
    table.row("4291 2.7", "source ff02::1", source("ff02::1"));
    table.row("4291 2.5.5.2", "source ::ffff:1.2.3.4", source("::ffff:1.2.3.4"));
    table.row("4291 2.5.6", "source fe80::9", source("fe80::9"));
    table.row("4193", "source fd00::1", source("fd00::1"));
    table.row("Linux", "source equal to destination", source("2001:db8:100::5"));
    let to = |text: &str| template(text).to_frame(b"data");
    table.row("4291 2.5.2", "destination ::", to("::"));
    table.row("4291 2.5.3", "destination ::1", to("::1"));
    table.row("4291 2.7", "destination ff02::1", to("ff02::1"));
    table.row("4291 2.5.6", "destination fe80::1", to("fe80::1"));
    table.row("8200 4.3", "hop-by-hop options", with(&|ip| ip[6] = protocol::HOP_BY_HOP));
    table.row("8200 4.4", "routing header", with(&|ip| ip[6] = protocol::ROUTING));
    table.row("8200 3", "the router's address", to("2001:db8:1::1"));
    insta::assert_snapshot!(table.text);
}

#[test]
fn ipv6_forwarding() {
    let mut table = Table::new();
    let ttl = |destination: &str, ttl: u8| {
        let mut template = template(destination);
        template.ttl = ttl;
        template.to_frame(b"data")
    };
    table.row("8200 3", "hop limit 2", ttl("2001:db8:100::5", 2));
    table.row("4443 3.3", "hop limit 1", ttl("2001:db8:100::5", 1));
    table.row("4443 3.3", "hop limit 0", ttl("2001:db8:100::5", 0));
    table.row("8200 3", "hop limit 1 for the router", ttl("2001:db8:1::1", 1));
    let to = |text: &str| template(text).to_frame(b"data");
    table.row("4443 3.1 (0)", "no route", to("2001:db8:ffff::1"));
    table.row("4443 3.1 (0)", "unreachable route", to("2001:db8:67::1"));
    table.row("4443 3.1 (1)", "prohibit route", to("2001:db8:68::1"));
    table.row("ip-route(8)", "blackhole route", to("2001:db8:66::1"));
    table.row("802.1Q", "out with a tag", to("2001:db8:107::1"));
    table.row("4861 7.2", "known neighbour", to("2001:db8:7::2"));
    table.row("4861 7.2", "unknown neighbour", to("2001:db8:7::99"));
    let sized = |len: usize| template("2001:db8:107::1").to_frame(&vec![0; len - 48]);
    table.row("8200 5", "1400 bytes, MTU 1400", sized(1400));
    table.row("4443 3.2", "1401 bytes, MTU 1400", sized(1401));
    insta::assert_snapshot!(table.text);
}

/// What a kernel would do goes on by itself where there is none behind the router, RFC 1812 sections 5.2.6 and
/// 5.3.13.
#[test]
fn a_router_that_is_alone_forwards_what_others_leave_to_the_kernel() {
    let with_options = |options: [u8; 4]| {
        let plain = template("203.0.113.5").to_frame(b"data");
        let mut frame = [&plain[..34], &options, &plain[34..]].concat();
        frame[14] = 0x46;
        frame[16..18].copy_from_slice(&(plain.len() as u16 - 14 + 4).to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..38]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let mut long = template("203.0.113.5").to_frame(&[7; 1600]);
    long[20] = 0;
    long[24..26].fill(0);
    let sum = checksum::of(&long[14..34]);
    long[24..26].copy_from_slice(&sum.to_be_bytes());
    let source_route = with_options([131, 4, 4, 0]);
    for frame in [with_options([1, 1, 1, 1]), long] {
        assert!(matches!(&Router::new().send(std::slice::from_ref(&frame))[..], [Left::Kernel(_)]));
        match &Router::alone().send(std::slice::from_ref(&frame))[..] {
            [Left::Sent(1, sent)] => {
                assert_eq!(sent[26..], frame[26..], "whole, behind the checksum")
            }
            other => panic!("{other:?}"),
        }
    }
    let left = Router::alone().send(&[source_route]);
    assert_eq!(left, [Left::Dropped(ebb_graph::DropReason::Prohibited)]);
}
