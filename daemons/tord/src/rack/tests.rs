//! When frames are handed to the card.

use ebb_ports::memory::{FarEnd, LinkOptions, link};
use ebb_wire::Template;

use super::*;
use crate::sync::{Announced, RACKS_MAX};

const RULES: Rules = Rules {
    tokens: Tokens::Pacing,
    rate_bps: 1_000_000_000,
    ahead: 8_000,
    guard_ns: 5_000,
    packet_bps: 100_000_000,
    packets_only: false,
};

struct Bench {
    rack: Rack,
    pool: Pool,
    host: FarEnd,
    light: FarEnd,
}

fn bench(queue_bytes: u64, uplink_len: usize) -> Bench {
    let end = |name: &str, queue_len: usize| {
        link(&LinkOptions { name: name.into(), queues: 1, queue_len }).expect("a link")
    };
    let (mut up, mut down) = (end("up", uplink_len), end("down", 256));
    let prefixes = vec!["10.77.0.0/24".parse().expect("a prefix")];
    let host = HostPort::new(Box::new(down.ports.remove(0)), [2, 0, 0, 0, 0, 9], prefixes);
    let remotes = (1..4)
        .map(|rack| (format!("10.77.{rack}.0/24").parse().expect("a prefix"), rack))
        .collect();
    let rack = Rack::new(0, Box::new(up.ports.remove(0)), vec![host], remotes, queue_bytes);
    let mut bench = Bench { rack, pool: Pool::standalone(4096), host: down.far, light: up.far };
    // The ports post their free frames.
    bench.rack.take_in(&mut bench.pool, 64);
    bench.rack.deliver(&mut bench.pool, 64);
    bench
}

fn frame(to: &str, number: u32, len: usize) -> Vec<u8> {
    let source = "10.77.0.5:1000".parse().expect("an address");
    let template = Template::udp(source, format!("{to}:7").parse().expect("an address"));
    let mut payload = vec![0; len];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    template.to_frame(&payload)
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
            self.rack.take_in(&mut self.pool, 64);
        }
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
            self.rack.deliver(&mut self.pool, 64);
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
            bench.rack.deliver(&mut bench.pool, 64);
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

#[test]
fn a_full_queue_and_unknown_destinations_are_counted() {
    let mut bench = bench(5_000, 256);
    bench.offer("10.77.2.8", 10, 1000);
    bench.offer("192.0.2.1", 2, 100);
    let status = bench.rack.status();
    assert_eq!((status.dropped_full, status.dropped_unroutable), (6, 2));
    assert_eq!(bench.rack.waiting()[2], 4 * 1066);
}

#[test]
fn frames_from_the_light_reach_hosts_that_have_spoken() {
    let mut bench = bench(1_000_000, 256);
    let mut inward = frame("10.77.0.5", 1, 100);
    inward[..6].copy_from_slice(&rack_mac(0));
    bench.light.send([inward.as_slice()]);
    bench.rack.deliver(&mut bench.pool, 64);
    let sought: Vec<IpAddr> = bench.rack.sought().collect();
    assert_eq!(sought, ["10.77.0.5".parse::<IpAddr>().expect("an address")], "has not spoken yet");
    bench.rack.give_up(&mut bench.pool);
    assert_eq!(bench.rack.status().dropped_unroutable, 1);
    bench.light.send([inward.as_slice()]);
    bench.rack.deliver(&mut bench.pool, 64);
    bench.rack.learn(sought[0], [2, 0, 0, 0, 0, 1], &mut bench.pool);
    bench.rack.deliver(&mut bench.pool, 64);
    let mut seen = 0;
    bench.host.receive(|frame| {
        assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 9]);
        seen += 1;
    });
    assert_eq!(seen, 1);
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
        bench.rack.deliver(&mut bench.pool, 64);
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
            bench.rack.deliver(&mut bench.pool, 64);
        }
        count
    };
    // Eleven frames of 8.53 us and the guard of 5 leave 1.2 us.
    assert_eq!((sent(500), sent(3_000)), (11, 10));
}
