//! Flows that were counted elsewhere: each packet is in one record or counted as lost, whatever ends its flow.

use std::net::Ipv4Addr;

use ebb_apps::ipfix::{Gatherer, Part};

use super::*;

struct Gathering {
    bench: Bench,
    gatherer: Gatherer,
}

impl Gathering {
    fn new(metering: Metering) -> Gathering {
        let mut bench = Bench::new(metering, format(), 1);
        let gatherer = bench.application.gatherer();
        bench.exporter = bench.application.exporter(format());
        Gathering { bench, gatherer }
    }

    /// All records, in the order of their first packets: packets, bytes, flags, reason.
    fn end(self, ms: u64) -> Vec<[u64; 4]> {
        drop(self.gatherer);
        told(&self.bench.end(ms))
    }
}

fn told(messages: &[Message]) -> Vec<[u64; 4]> {
    let mut told: Vec<_> = records(messages)
        .iter()
        .map(|record| {
            let bytes = &record.1;
            let [started, ended, packets, octets] = [0, 8, 16, 24].map(|at| u64_at(bytes, at));
            assert!(started <= ended);
            let (flags, reason) = (u64::from(u16_at(bytes, 46)), u64::from(reason_of(record)));
            (started, [packets, octets, flags, reason])
        })
        .collect();
    told.sort_unstable();
    told.into_iter().map(|(_, record)| record).collect()
}

fn part(port: u16, packets: u32, seen_ms: (u64, u64), tcp_flags: u8) -> Part {
    Part {
        source: Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped(),
        destination: Ipv4Addr::new(198, 51, 100, 1).to_ipv6_mapped(),
        ports: (port, 80),
        protocol: 6,
        input: (PortId(0), 0),
        output: (PortId(1), 0),
        packets,
        bytes: 100 * u64::from(packets),
        seen: (at(seen_ms.0), at(seen_ms.1)),
        tcp_flags,
        tos: 0,
    }
}

#[test]
fn parts_of_a_flow_are_one_record_until_it_is_silent() {
    let mut of = Gathering::new(metering());
    for second in 1..6 {
        of.gatherer.add(&part(7, 2, (second * 1000, second * 1000 + 900), 0x10));
        of.gatherer.turn(at(second * 1000 + 990));
    }
    of.gatherer.add(&part(8, 1, (5000, 5000), 0x02));
    of.gatherer.turn(at(5900 + 15_000 - 1));
    assert_eq!(told(&of.bench.export(20_900)).len(), 1, "the one that was silent for longer");
    of.gatherer.turn(at(5900 + 15_000 + 15_000 / 4));
    let messages = of.bench.export(25_000);
    assert_eq!(told(&messages), [[10, 1000, 0x10, 1]]);
    let (_, first) = &records(&messages)[0];
    assert_eq!([0, 8].map(|at| u64_at(first, at)), [1_700_000_001_000, 1_700_000_005_900]);
    assert_eq!(of.gatherer.poll_at(), None, "nothing is left to look at");
    assert_eq!(of.bench.counter("metered_packets"), 11);
}

#[test]
fn a_flow_that_goes_on_or_ends_or_begins_anew_is_told_as_workers_tell_it() {
    let mut of = Gathering::new(metering());
    for second in 0..70 {
        of.gatherer.add(&part(7, 1, (second * 1000, second * 1000), 0x10));
        of.gatherer.turn(at(second * 1000));
    }
    // A connection, its end, and another one of the same ports.
    of.gatherer.add(&part(9, 3, (70_000, 70_100), 0x02));
    of.gatherer.add(&part(9, 4, (70_500, 70_600), 0x11));
    of.gatherer.add(&part(9, 5, (70_700, 70_800), 0x12));
    let end = of.end(71_000);
    assert_eq!(
        end,
        [[60, 6000, 0x10, 2], [10, 1000, 0x10, 4], [7, 700, 0x13, 3], [5, 500, 0x12, 4]]
    );
}

#[test]
fn what_passed_uncounted_is_metered_and_lost() {
    let mut of = Gathering::new(metering());
    of.gatherer.add(&part(7, 1, (10, 20), 0));
    of.gatherer.lose(5, 300);
    of.gatherer.turn(at(30));
    let counter = |name| of.bench.counter(name);
    assert_eq!((counter("metered_packets"), counter("metered_bytes")), (6, 400));
    assert_eq!(
        (counter("lost_flows"), counter("lost_packets"), counter("lost_bytes")),
        (0, 5, 300)
    );
}

/// Flow, packets, time that passes before them, whether workers have them.
fn parts() -> impl Strategy<Value = Vec<(u16, u32, u64, bool)>> {
    proptest::collection::vec((1u16..200, 1u32..1_000_000, 0u64..4000, any::<bool>()), 1..200)
}

proptest! {
    #[test]
    fn every_packet_is_in_one_record_or_lost(
        parts in parts(),
        flows in 64usize..256,
        seed in any::<u64>(),
        exports in any::<bool>(),
    ) {
        let mut of = Gathering::new(Metering { flows, seed, ..metering() });
        let (mut now, mut sent, mut messages) = (1, 0, Vec::new());
        for (flow, packets, span, by_worker) in parts {
            let begun = now;
            now += span;
            if by_worker {
                of.bench.show(0, now, &udp(flow), packets as usize % 5 + 1);
                sent += u64::from(packets % 5) + 1;
            } else {
                of.gatherer.add(&part(flow, packets, (begun, now), 0));
                of.gatherer.turn(at(now));
                sent += u64::from(packets);
            }
            if exports && span % 3 == 0 {
                messages.extend(of.bench.export(now));
            }
        }
        prop_assert_eq!(of.bench.counter("metered_packets"), sent);
        let lost = of.bench.counter("lost_packets");
        let Gathering { bench, gatherer } = of;
        drop(gatherer);
        messages.extend(bench.end(now));
        let told = messages.iter().map(|message| message.carries.packets).sum::<u64>();
        prop_assert_eq!(told + lost, sent);
    }
}
