//! When frames are handed to the card.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, sync_channel};

use ebb_host::Doorbell;
use ebb_ports::memory::{FarEnd, LinkOptions, link};
use ebb_wire::{Ipv4, Template, checksum};

use super::*;
use crate::addresses::rack_mac;
use crate::sync::{Announced, RACKS_MAX};
use crate::tables::{Facts, Tables};

const RULES: Rules = Rules {
    tokens: Tokens::Pacing,
    rate_bps: 1_000_000_000,
    ahead: 8_000,
    guard_ns: 5_000,
    packet_bps: 100_000_000,
    packets_only: false,
};

/// The switch's address, and its MAC address, towards hosts.
const GATEWAY: &str = "10.77.0.1";
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// The host 10.77.0.5.
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 5];

struct Bench {
    rack: Rack,
    tables: Tables,
    requests: Arc<Requests>,
    kernel: Receiver<ForKernel>,
    pool: Pool,
    host: FarEnd,
    light: FarEnd,
    now: u64,
}

fn bench(queue_bytes: u64, uplink_len: usize) -> Bench {
    let end = |name: &str, queue_len: usize| {
        link(&LinkOptions { name: name.into(), queues: 1, queue_len }).expect("a link")
    };
    let (mut up, mut down) = (end("up", uplink_len), end("down", 256));
    let net = |text: String| text.parse().expect("a prefix");
    let remotes: Vec<_> = (1..4).map(|rack| (net(format!("10.77.{rack}.0/24")), rack)).collect();
    let hosts = vec![vec![net("10.77.0.0/24".to_owned())]];
    let (mut tables, fib) = Tables::new(0, hosts, &remotes).expect("room");
    let facts = |mtu, address: &[&str]| {
        let addresses = address.iter().map(|text| net((*text).to_owned())).collect();
        Facts { mac: OWN, mtu, up: true, addresses }
    };
    tables.set_port(UPLINK, &facts(1200, &[]));
    tables.set_port(FIRST_HOST, &facts(1500, &["10.77.0.1/24"]));
    tables.set_own(&[ip(GATEWAY)].into()).expect("room");
    tables.learn(FIRST_HOST, ip("10.77.0.5"), HOST);
    tables.publish();
    let (queue, kernel) = sync_channel(4);
    let requests = Requests::new(16, Arc::new(|| {}));
    let rack = Rack::new(Parts {
        number: 0,
        uplink: Box::new(up.ports.remove(0)),
        hosts: vec![Box::new(down.ports.remove(0))],
        fib,
        requests: requests.clone(),
        kernel: ToKernel::new(queue, Doorbell::new().expect("an event descriptor")),
        queue_bytes,
        mark_bytes: queue_bytes / 2,
        icmp_seed: 1,
    });
    let pool = Pool::standalone(4096);
    let (host, light) = (down.far, up.far);
    let mut bench = Bench { rack, tables, requests, kernel, pool, host, light, now: 1 };
    // The ports post their free frames.
    bench.rack.take_in(1, &mut bench.pool, 64);
    bench.rack.deliver(1, &mut bench.pool, 64);
    bench
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn frame(to: &str, number: u32, len: usize) -> Vec<u8> {
    let source = "10.77.0.5:1000".parse().expect("an address");
    let template = Template::udp(source, format!("{to}:7").parse().expect("an address"));
    let mut payload = vec![0; len];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let mut frame = template.to_frame(&payload);
    frame[..12].copy_from_slice(&[OWN, HOST].concat());
    frame
}

/// 100 us of light to rack `to`.
fn day(number: u32, to: u8) -> Day {
    let begin_ns = 1_000_000 + u64::from(number) * 110_000;
    let mut outputs = [Announced::DARK; RACKS_MAX];
    outputs[0] = to;
    Day { number, begin_ns, end_ns: begin_ns + 100_000, outputs }
}

impl Bench {
    fn offer(&mut self, to: &str, count: u32, len: usize) {
        for number in 0..count {
            let frame = frame(to, number, len);
            self.host.send([frame.as_slice()]);
            self.rack.take_in(self.now, &mut self.pool, 64);
        }
    }

    /// A frame from a host; what comes back to it.
    fn host_sends(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.host.send([frame]);
        self.rack.take_in(self.now, &mut self.pool, 64);
        self.hosts_get()
    }

    fn hosts_get(&mut self) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        self.host.receive(|frame| seen.push(frame.to_vec()));
        seen
    }

    /// A frame from the light; what hosts get of it.
    fn light_brings(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut frame = frame.to_vec();
        frame[..6].copy_from_slice(&rack_mac(0));
        self.light.send([frame.as_slice()]);
        self.rack.deliver(self.now, &mut self.pool, 64);
        self.hosts_get()
    }

    /// What is on its way to other racks, taken to the light by the packet path.
    fn light_gets(&mut self) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        for _ in 0..200 {
            self.now += 1_000_000;
            self.rack.send(self.now, Phase::Unknown, &RULES, &mut self.pool);
            self.light.receive(|frame| seen.push(frame.to_vec()));
            self.rack.deliver(self.now, &mut self.pool, 64);
        }
        seen
    }

    /// A day, looked at every `step` ns; the numbers of what left and when.
    fn keep(&mut self, day: Day, step: usize, rules: &Rules) -> Vec<(u64, u32)> {
        let mut left = Vec::new();
        for now in (day.begin_ns - 10_000..day.end_ns + 10_000).step_by(step) {
            let phase = match now {
                now if now < day.begin_ns => Phase::Night(day),
                now if now < day.end_ns => Phase::Day(day),
                _ => Phase::Unknown,
            };
            let rules = Rules { packet_bps: 0, ..*rules };
            self.rack.send(now, phase, &rules, &mut self.pool);
            self.light.receive(|frame| {
                assert_eq!(frame[..5], [2, 0xeb, 0, 0, 0]);
                assert_eq!(frame[6..12], source_mac(0, false));
                left.push((now, u32::from_be_bytes(frame[42..46].try_into().expect("four"))));
            });
            // Frames that the far end has read come back.
            self.rack.deliver(self.now, &mut self.pool, 64);
        }
        left
    }
}

#[test]
fn frames_leave_by_day_in_order_and_as_many_as_fit() {
    let mut bench = bench(1_000_000, 256);
    bench.offer("10.77.2.8", 40, 1000);
    bench.offer("10.77.1.8", 3, 1000);
    let left = bench.keep(day(0, 2), 1_000, &RULES);
    // 1,042 bytes and the framing take 8.53 us: eleven fit into 95 us.
    let numbers: Vec<u32> = left.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<_>>());
    let again: Vec<u32> = bench.keep(day(1, 2), 1_000, &RULES).iter().map(|l| l.1).collect();
    assert_eq!(again, (11..22).collect::<Vec<_>>());
    assert_eq!(bench.rack.waiting()[1], 3 * 1066);
    let status = bench.rack.status();
    assert_eq!((status.sent, status.days_wanted, status.dropped_full), (22, 2, 0));
}

#[test]
fn naive_tokens_hand_over_more_than_the_evening_holds_and_aging_does_not() {
    for (tokens, most) in [(Tokens::Naive, 12), (Tokens::Aging, 5), (Tokens::Pacing, 5)] {
        let mut bench = bench(1_000_000, 256);
        bench.offer("10.77.2.8", 40, 1000);
        // The rack gets to look at its day only when half of it is over.
        let mut day = day(0, 2);
        day.begin_ns -= 50_000;
        let rules = Rules { tokens, ..RULES };
        let mut count = 0;
        for now in (day.begin_ns + 100_000..day.end_ns).step_by(500) {
            bench.rack.send(now, Phase::Day(day), &rules, &mut bench.pool);
            bench.light.receive(|_| count += 1);
            bench.rack.deliver(bench.now, &mut bench.pool, 64);
        }
        assert!(count <= most + 6 && count >= most - 1, "{tokens:?} sent {count}");
    }
}

#[test]
fn what_the_uplink_does_not_take_goes_back_to_its_place() {
    let mut bench = bench(1_000_000, 4);
    bench.offer("10.77.2.8", 20, 200);
    let left = bench.keep(day(0, 2), 2_000, &RULES);
    let numbers: Vec<u32> = left.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "none lost, none out of order");
    assert!(bench.rack.status().requeued > 0);
}

/// Beyond half of a queue packets of senders that know ECN are marked, with a sound checksum, and others are not.
#[test]
fn a_long_queue_marks_what_can_be_marked() {
    let mut bench = bench(20_000, 256);
    let sent: Vec<u8> = (0..16).map(|number| [2, 0, 1, 3][number % 4]).collect();
    for (number, ecn) in sent.iter().enumerate() {
        let mut frame = frame("10.77.2.8", number as u32, 1000);
        frame[15] |= ecn;
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        bench.host_sends(&frame);
    }
    let seen = bench.light_gets();
    assert!(seen.iter().all(|frame| checksum::ok(&frame[14..34])));
    let seen: Vec<u8> = seen.iter().map(|frame| frame[15] & 3).collect();
    // 1,066 bytes each: the tenth finds more than 10,000.
    assert_eq!(seen, [2, 0, 1, 3, 2, 0, 1, 3, 2, 0, 3, 3, 3, 0, 3, 3]);
    assert_eq!(bench.rack.status().marked, 3);
}

#[test]
fn a_full_queue_and_unknown_destinations_are_counted() {
    let mut bench = bench(5_000, 256);
    bench.offer("10.77.2.8", 10, 1000);
    bench.offer("192.0.2.1", 2, 100);
    let status = bench.rack.status();
    assert_eq!((status.dropped_full, status.dropped_unroutable), (6, 2));
    assert_eq!(bench.rack.waiting()[2], 4 * 1066);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    /// Whatever hosts and racks send, each frame has one fate, and the next one is routed.
    #[test]
    fn any_bytes_are_routed_or_dropped(
        spoilt in proptest::collection::vec((0usize..90, proptest::prelude::any::<u8>()), 0..6),
        len in 0usize..140,
        v6 in proptest::prelude::any::<bool>(),
    ) {
        let mut bench = bench(1_000_000, 256);
        let mut bytes = frame("10.77.0.5", 0, 98);
        if v6 {
            let source = "[fd77::5]:1000".parse().expect("an address");
            let template = Template::udp(source, "[fd77:0:0:1::5]:7".parse().expect("an address"));
            bytes = template.to_frame(&[0; 78]);
            bytes[..12].copy_from_slice(&[OWN, HOST].concat());
        }
        for (at, byte) in spoilt {
            bytes[at] = byte;
        }
        bytes.truncate(len);
        bench.host_sends(&bytes);
        if bytes.len() >= 14 {
            bench.light_brings(&bytes);
        }
        let status = bench.rack.status();
        let own = status.icmp_sent.min(status.to_hosts);
        let waits = status.waiting_bytes.iter().filter(|bytes| **bytes > 0).count() as u64;
        let fates = status.to_hosts - own + status.to_kernel + status.dropped_unroutable + waits;
        let held = bench.rack.routing.graph.held() as u64;
        proptest::prop_assert!(fates + held >= 1, "{status:?}");
        proptest::prop_assert_eq!(bench.light_brings(&frame("10.77.0.5", 1, 100)).len(), 1);
    }
}

/// Type and code of the ICMP error in a frame, and the address that it comes from.
fn icmp(frame: &[u8]) -> (u8, u8, IpAddr) {
    let header = Ipv4::new(&frame[14..]).expect("a header");
    assert!(header.protocol() == 1 && header.checksum_ok() && checksum::ok(header.payload()));
    (header.payload()[0], header.payload()[1], header.source().into())
}

#[test]
fn frames_from_the_light_wait_for_hosts_that_are_asked_for() {
    let mut bench = bench(1_000_000, 256);
    let inward = |host: &str, number| frame(host, number, 100);
    let seen = bench.light_brings(&inward("10.77.0.5", 0));
    assert_eq!((&seen[0][..6], &seen[0][6..12]), (&HOST[..], &OWN[..]));
    assert_eq!(bench.light_brings(&inward("10.77.0.7", 1)).len(), 0);
    assert_eq!(bench.requests.pop().map(|wanted| wanted.1), Some(ip("10.77.0.7")));
    bench.tables.learn(FIRST_HOST, ip("10.77.0.7"), [2, 0, 0, 0, 0, 7]);
    bench.tables.publish();
    bench.rack.tend(bench.now + 2_000_000, &mut bench.pool);
    assert_eq!(bench.hosts_get()[0][..6], [2, 0, 0, 0, 0, 7]);
    // It moves to another card.
    bench.tables.learn(FIRST_HOST, ip("10.77.0.7"), [2, 0, 0, 0, 0, 8]);
    assert_eq!(bench.light_brings(&inward("10.77.0.7", 2))[0][..6], [2, 0, 0, 0, 0, 8]);
}

#[test]
fn who_waits_for_a_dead_host_keeps_nobody_from_others_and_is_told() {
    let mut bench = bench(1_000_000, 256);
    for number in 0..500 {
        bench.light_brings(&frame("10.77.0.200", number, 100));
    }
    bench.light_brings(&frame("10.77.0.7", 0, 100));
    let wanted: Vec<IpAddr> = std::iter::from_fn(|| bench.requests.pop()).map(|w| w.1).collect();
    assert_eq!(wanted, [ip("10.77.0.200"), ip("10.77.0.7")], "each once");
    bench.tables.learn(FIRST_HOST, ip("10.77.0.7"), [2, 0, 0, 0, 0, 7]);
    bench.tables.publish();
    bench.now += 2_000_000;
    bench.rack.tend(bench.now, &mut bench.pool);
    assert_eq!(bench.hosts_get().len(), 1);
    // The sender, here a host of this rack, is told after a while: no more often than Linux would.
    bench.now += 4_000_000_000;
    bench.rack.tend(bench.now, &mut bench.pool);
    let told = bench.hosts_get();
    assert!((1..=6).contains(&told.len()), "{}", told.len());
    assert_eq!(icmp(&told[0]), (3, 1, ip(GATEWAY)));
    assert_eq!(bench.rack.status().icmp_sent, told.len() as u64);
}

#[test]
fn packets_at_their_end_and_to_nobody_bring_an_error() {
    let mut bench = bench(1_000_000, 256);
    let mut last = frame("10.77.1.8", 0, 100);
    last[22] = 1;
    last[24..26].fill(0);
    let sum = checksum::of(&last[14..34]);
    last[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(icmp(&bench.host_sends(&last)[0]), (11, 0, ip(GATEWAY)));
    assert_eq!(icmp(&bench.host_sends(&frame("192.0.2.1", 0, 100))[0]), (3, 0, ip(GATEWAY)));
    assert_eq!(bench.light_gets().len(), 0);
}

#[test]
fn packets_longer_than_the_light_takes_are_cut_or_their_sender_is_told() {
    let mut bench = bench(1_000_000, 256);
    let mut long = frame("10.77.1.8", 7, 1400);
    assert_eq!(bench.host_sends(&long).len(), 0);
    let pieces = bench.light_gets();
    let lens: Vec<usize> = pieces.iter().map(|piece| piece.len() - 14).collect();
    assert_eq!(lens, [1196, 252]);
    let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece[34..].to_vec()).collect();
    assert_eq!(whole, long[34..]);
    long[20] = 0x40;
    long[24..26].fill(0);
    let sum = checksum::of(&long[14..34]);
    long[24..26].copy_from_slice(&sum.to_be_bytes());
    let told = bench.host_sends(&long);
    assert_eq!(icmp(&told[0]), (3, 4, ip(GATEWAY)));
    assert_eq!(told[0][40..42], 1200u16.to_be_bytes(), "the next hop's MTU");
}

#[test]
fn packets_with_options_pass() {
    let mut bench = bench(1_000_000, 256);
    let plain = frame("10.77.1.8", 7, 100);
    let mut with = [&plain[..34], &[1, 1, 1, 1], &plain[34..]].concat();
    with[14] = 0x46;
    with[16..18].copy_from_slice(&(plain.len() as u16 - 14 + 4).to_be_bytes());
    with[24..26].fill(0);
    let sum = checksum::of(&with[14..38]);
    with[24..26].copy_from_slice(&sum.to_be_bytes());
    bench.host_sends(&with);
    let seen = bench.light_gets();
    assert_eq!((seen.len(), &seen[0][34..]), (1, &with[34..]));
}

#[test]
fn packets_for_the_switch_itself_are_its_kernels() {
    let mut bench = bench(1_000_000, 256);
    let own = frame(GATEWAY, 3, 100);
    assert_eq!(bench.light_brings(&own).len(), 0);
    let handed = bench.kernel.try_recv().expect("for the kernel");
    assert_eq!((handed.rack, handed.port, &handed.frame[14..]), (0, UPLINK, &own[14..]));
    for number in 0..9 {
        bench.light_brings(&frame(GATEWAY, number, 100));
    }
    let status = bench.rack.status();
    assert_eq!((status.to_kernel, status.dropped_full), (5, 5), "what has no room is dropped");
}

/// Of a long packet for the switch itself its kernel would get nothing.
#[test]
fn what_is_too_long_for_the_switchs_kernel_is_counted() {
    let mut bench = bench(1_000_000, 256);
    bench.pool = Pool::standalone(64).with_long(2);
    for len in [3_328, 3_329] {
        let mut own = frame(GATEWAY, 3, len - 42);
        own[..6].copy_from_slice(&rack_mac(0));
        let mut batch = Batch::new();
        batch.push(bench.pool.fill(&own).expect("a frame"));
        bench.rack.route(bench.now, UPLINK, batch, &mut bench.pool);
    }
    let status = bench.rack.status();
    assert_eq!((status.to_kernel, status.dropped_unroutable), (1, 1));
}

#[test]
fn a_port_that_is_gone_loses_what_it_gets_and_another_goes_on() {
    let mut bench = bench(1_000_000, 256);
    let gone = Box::new(crate::absent::Absent("up".to_owned()));
    bench.rack.replace(UPLINK, gone, &mut bench.pool);
    bench.offer("10.77.1.8", 3, 100);
    bench.light_gets();
    assert_eq!(bench.rack.status().waiting_bytes[1], 3 * 166, "it waits");
    let options = LinkOptions { name: "up".into(), queues: 1, queue_len: 64 };
    let mut again = link(&options).expect("a link");
    bench.rack.replace(UPLINK, Box::new(again.ports.remove(0)), &mut bench.pool);
    bench.light = again.far;
    assert_eq!(bench.light_gets().len(), 3);
    assert_eq!(bench.rack.status().sent_by_packets, 3);
}

/// Days until a frame is judged.
const FEW: u32 = DAYS as u32;

/// A day to rack 2 that is as long as it is told.
fn day_of(number: u32, len_ns: u64) -> Day {
    let day = day(number, 2);
    Day { end_ns: day.begin_ns + len_ns, ..day }
}

/// 1,066 bytes take 8.53 us, with the guard 13.53: of these days only the last is long enough.
#[test]
fn a_frame_that_is_too_long_for_most_days_waits_for_one_that_is_not() {
    let mut bench = bench(1_000_000, 256);
    bench.offer("10.77.2.8", 3, 1000);
    for number in 0..FEW {
        assert_eq!(bench.keep(day_of(number, 12_000), 500, &RULES), []);
    }
    assert_eq!(bench.keep(day_of(FEW, 100_000), 500, &RULES).len(), 3);
    for number in FEW + 1..50 {
        bench.offer("10.77.2.8", 1, 1000);
        let long = number % 10 == 0;
        bench.keep(day_of(number, if long { 100_000 } else { 12_000 }), 500, &RULES);
    }
    assert_eq!(bench.rack.status().dropped_full, 0);
}

#[test]
fn a_frame_that_no_day_carries_is_dropped_and_what_is_behind_it_goes() {
    // The second of these days is long enough for whoever looks at once, the switch never does.
    for len_ns in [12_000, 14_000] {
        let mut bench = bench(1_000_000, 256);
        bench.offer("10.77.2.8", 2, 1000);
        bench.offer("10.77.2.8", 3, 60);
        let looks = |bench: &mut Bench, number: u32| {
            let day = day_of(number, len_ns);
            let mut count = 0;
            for now in (day.begin_ns + 1_000..day.end_ns).step_by(500) {
                bench.rack.send(now, Phase::Day(day), &RULES, &mut bench.pool);
                bench.light.receive(|_| count += 1);
                bench.rack.deliver(now, &mut bench.pool, 64);
            }
            count
        };
        for number in 0..FEW {
            assert_eq!((looks(&mut bench, number), bench.rack.status().dropped_full), (0, 0));
        }
        assert_eq!(looks(&mut bench, FEW), 3);
        assert_eq!(bench.rack.status().dropped_full, 2);
        // From then on it keeps nobody waiting.
        bench.offer("10.77.2.8", 1, 1000);
        bench.offer("10.77.2.8", 1, 60);
        assert_eq!((looks(&mut bench, FEW + 1), bench.rack.status().dropped_full), (1, 3));
    }
}

#[test]
fn guards_longer_than_days_drop_nothing() {
    let mut bench = bench(1_000_000, 256);
    bench.offer("10.77.2.8", 3, 1000);
    for number in 0..2 * FEW {
        let rules = Rules { guard_ns: 100_000, ..RULES };
        bench.keep(day(number, 2), 5_000, &rules);
    }
    assert_eq!((bench.rack.status().dropped_full, bench.rack.waiting()[2]), (0, 3 * 1066));
    assert_eq!(bench.keep(day(99, 2), 500, &RULES).len(), 3, "once they are not");
}

/// Long packets leave in several frames: where none is free they make way for those whose frames will be.
#[test]
fn a_long_packet_holds_up_nobody_while_no_frame_is_free() {
    let mut bench = bench(1_000_000, 256);
    let gone = Box::new(crate::absent::Absent("up".to_owned()));
    bench.rack.replace(UPLINK, gone, &mut bench.pool);
    bench.pool = Pool::standalone(4).with_long(2);
    for bytes in [&[7; 9000][..], &[7; 100]] {
        let packet = bench.pool.fill(bytes).expect("a frame");
        bench.rack.voqs.push(2, packet, &mut bench.rack.full);
    }
    let rules = Rules { ahead: 20_000, ..RULES };
    let looks = |bench: &mut Bench, number: u32| {
        let day = day(number, 2);
        bench.rack.send(day.begin_ns, Phase::Day(day), &rules, &mut bench.pool);
        let status = bench.rack.status();
        (status.dropped_full, bench.rack.voqs.frames())
    };
    assert_eq!(looks(&mut bench, 0), (1, 1), "three are free, and six are needed");
    assert_eq!(looks(&mut bench, 1), (1, 1), "who needs no other frame waits");
    assert!(bench.pool.fill(&[7; 9000]).is_some() && bench.pool.fill(&[7; 9000]).is_some());
}

#[test]
fn without_circuits_frames_take_the_packet_path_slowly() {
    let mut bench = bench(1_000_000, 256);
    bench.offer("10.77.1.8", 30, 1000);
    let mut count = 0;
    for now in (1_000_000..2_000_000).step_by(5_000) {
        bench.rack.send(now, Phase::Unknown, &RULES, &mut bench.pool);
        bench.light.receive(|frame| {
            assert_eq!(frame[6..12], source_mac(0, true));
            count += 1;
        });
        bench.rack.deliver(bench.now, &mut bench.pool, 64);
    }
    // 100 Mb/s carry 11.7 such frames in a millisecond.
    assert!((11..=16).contains(&count), "{count}");
    assert_eq!(bench.rack.status().sent_by_packets, count);
}

/// The kernel takes its time for the first frame: the last one of the day that would otherwise fit
/// stays for the next.
#[test]
fn what_handing_over_took_is_reckoned_with() {
    let sent = |took: u64| {
        let mut bench = bench(1_000_000, 256);
        bench.offer("10.77.2.8", 40, 1000);
        let day = day(0, 2);
        let mut count = 0;
        for now in (day.begin_ns..day.end_ns).step_by(500) {
            bench.rack.send(now, Phase::Day(day), &RULES, &mut bench.pool);
            bench.rack.handed_over(now + took);
            bench.light.receive(|_| count += 1);
            bench.rack.deliver(bench.now, &mut bench.pool, 64);
        }
        count
    };
    // Eleven frames of 8.53 us and the guard of 5 leave 1.2 us.
    assert_eq!((sent(500), sent(3_000)), (11, 10));
}
