//! Flow export: what leaves is in exactly one record, whatever ends it, and messages hold what was recorded.

mod gathered;
#[path = "../route/harness.rs"]
#[allow(dead_code)]
mod harness;
mod mutations;
mod selected;
mod sflow;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ebb_apps::ipfix::{
    Bell, Exporter, Format, Ipfix, Message, Metering, Reading, Selection, Version,
};
use ebb_apps::{Application, Observer};
use ebb_graph::{Batch, Packet, Pool, PortId};
use ebb_units::Time;
use ebb_wire::Template;
use proptest::prelude::*;

fn metering() -> Metering {
    Metering {
        active: Duration::from_secs(60),
        idle: Duration::from_secs(15),
        flows: 1024,
        selection: Selection::default(),
        sampling: 1,
        seed: 7,
    }
}

fn format() -> Format {
    Format {
        version: Version::Ipfix,
        domain: 1,
        message_len: 1400,
        template_every: Duration::from_secs(60),
        biflow: false,
        sampling: 1,
    }
}

struct Bench {
    application: Ipfix,
    meters: Vec<Box<dyn Observer>>,
    exporter: Exporter,
    pool: Pool,
    batch: Batch,
}

impl Bench {
    fn new(metering: Metering, format: Format, workers: usize) -> Bench {
        let bell: Bell = Arc::new(|| ());
        let application = Ipfix::new(workers, metering, &bell);
        let meters = (0..workers).map(|worker| application.observer(worker).expect("a meter"));
        Bench {
            meters: meters.collect(),
            exporter: application.exporter(format),
            application,
            pool: Pool::standalone(256),
            batch: Batch::new(),
        }
    }

    fn show(&mut self, worker: usize, ms: u64, frame: &[u8], times: usize) {
        self.batch.extend((0..times).map(|_| self.pool.get().expect("a frame").fill(frame)));
        self.batch.iter_mut().for_each(|packet| packet.output = PortId(1));
        self.meters[worker].observe(at(ms), &self.batch);
        self.pool.put_batch(&mut self.batch);
    }

    /// Lets time pass, as a worker does.
    fn pass(&mut self, until_ms: u64) {
        for meter in &mut self.meters {
            while let Some(due) = meter.poll_at().filter(|due| *due <= at(until_ms)) {
                meter.poll(due);
            }
        }
    }

    fn export(&mut self, ms: u64) -> Vec<Message> {
        let (mut all, reading) = (Vec::new(), reading(ms));
        loop {
            let (messages, more) = self.exporter.turn(&reading);
            all.extend(messages);
            if !more {
                return all;
            }
        }
    }

    fn end(mut self, ms: u64) -> Vec<Message> {
        self.meters.clear();
        let mut all = self.export(ms);
        all.extend(self.exporter.finish(&reading(ms)));
        all
    }

    fn counter(&self, name: &str) -> u64 {
        self.application
            .counters()
            .into_iter()
            .find(|(known, _)| *known == name)
            .expect("a counter")
            .1
    }
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn reading(ms: u64) -> Reading {
    let unix = Duration::from_millis(1_700_000_000_000 + ms);
    Reading { now: at(ms), unix, interfaces: vec![11, 12], counts: Vec::new() }
}

fn udp(source_port: u16) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) =
        ("192.0.2.1".parse().unwrap(), "198.51.100.1".parse().unwrap());
    Template::udp((from, source_port).into(), (to, 53).into()).to_frame(b"payload")
}

/// With these TCP flags, in one direction or the other.
fn tcp(flags: u8, answers: bool) -> Vec<u8> {
    let mut ends = ["192.0.2.1:4000", "198.51.100.1:80"];
    if answers {
        ends.reverse();
    }
    let template = Template::udp(ends[0].parse().unwrap(), ends[1].parse().unwrap());
    let mut frame = template.to_frame(&[0; 20]);
    frame[14 + 9] = ebb_wire::protocol::TCP;
    frame[14 + 20 + 13] = flags;
    frame
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(*bytes[at..].first_chunk().expect("eight bytes"))
}

/// Data records of IPFIX messages by their template.
fn records(messages: &[Message]) -> Vec<(u16, Vec<u8>)> {
    let lens = BTreeMap::from([(256, 61), (257, 85), (258, 61 + 35), (259, 85 + 35)]);
    let mut found = Vec::new();
    for message in messages {
        assert!(message.bytes.len() <= 1400, "{}", message.bytes.len());
        assert_eq!(u16_at(&message.bytes, 2) as usize, message.bytes.len());
        let mut rest = &message.bytes[16..];
        while !rest.is_empty() {
            let (id, len) = (u16_at(rest, 0), u16_at(rest, 2) as usize);
            if let Some(record) = lens.get(&id) {
                assert_eq!((len - 4) % record, 0, "set of template {id}");
                found.extend(rest[4..len].chunks(*record).map(|bytes| (id, bytes.to_vec())));
            }
            rest = &rest[len..];
        }
    }
    found
}

fn packets_of(records: &[(u16, Vec<u8>)]) -> Vec<u64> {
    records.iter().map(|(_, bytes)| u64_at(bytes, 16)).collect()
}

fn reason_of((_, bytes): &(u16, Vec<u8>)) -> u8 {
    bytes[60]
}

#[test]
fn a_silent_flow_is_reported_soon_after_its_timeout() {
    let mut bench = Bench::new(metering(), format(), 1);
    bench.show(0, 1000, &udp(1), 3);
    bench.pass(15_900);
    assert!(records(&bench.export(15_900)).is_empty(), "too early");
    bench.pass(1000 + 15_000 + 15_000 / 4);
    let found = records(&bench.export(20_000));
    assert_eq!((packets_of(&found), reason_of(&found[0])), (vec![3], 1));
    let (start, end) = (u64_at(&found[0].1, 0), u64_at(&found[0].1, 8));
    assert_eq!((start, end), (1_700_000_001_000, 1_700_000_001_000));
    // Nothing to do any more: the worker may sleep for as long as it likes.
    assert_eq!(bench.meters[0].poll_at(), None);
}

#[test]
fn a_flow_that_goes_on_is_reported_in_parts() {
    let mut bench = Bench::new(metering(), format(), 1);
    for second in 0..130 {
        bench.show(0, second * 1000, &udp(1), 1);
        bench.pass(second * 1000 + 999);
    }
    let found = records(&bench.export(130_000));
    assert!(found.len() == 2 && found.iter().all(|record| reason_of(record) == 2), "{found:?}");
    let rest = records(&bench.end(130_000));
    assert_eq!(reason_of(&rest[0]), 4);
    assert_eq!(packets_of(&found).iter().chain(&packets_of(&rest)).sum::<u64>(), 130);
}

#[test]
fn the_end_of_a_connection_ends_its_flow_and_a_new_one_is_another() {
    let mut bench = Bench::new(metering(), format(), 1);
    bench.show(0, 0, &tcp(0x02, false), 1);
    bench.show(0, 10, &tcp(0x11, false), 1);
    bench.show(0, 20, &tcp(0x02, false), 1);
    let found = records(&bench.export(20));
    assert_eq!((packets_of(&found), reason_of(&found[0])), (vec![2], 3));
    // FIN, ACK and SYN were seen.
    assert_eq!(u16_at(&found[0].1, 46), 0x13);
    bench.show(0, 30, &tcp(0x04, false), 1);
    bench.pass(30 + 1000 + 1000);
    let found = records(&bench.export(3000));
    assert_eq!((packets_of(&found), reason_of(&found[0])), (vec![2], 3));
}

#[test]
fn both_directions_are_joined_whichever_workers_they_took() {
    let mut bench = Bench::new(metering(), Format { biflow: true, ..format() }, 2);
    bench.show(0, 5, &tcp(0x02, false), 1);
    bench.show(1, 8, &tcp(0x12, true), 2);
    bench.show(0, 9, &udp(9), 1);
    let found = records(&bench.end(100));
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [258, 256], "{found:?}");
    let both = &found[0].1;
    assert_eq!(&both[32..36], &[192, 0, 2, 1], "the initiator's address is the source");
    assert_eq!((u64_at(both, 16), u64_at(both, 61 + 16)), (1, 2));
    assert_eq!((both[both.len() - 2], both[both.len() - 1]), (0x12, 1));
}

#[test]
fn at_its_bound_the_cache_reports_the_flow_silent_for_longest() {
    let mut bench = Bench::new(Metering { flows: 64, ..metering() }, format(), 1);
    for flow in 0..1000 {
        bench.show(0, u64::from(flow), &udp(1 + flow), 1);
    }
    assert!(bench.counter("ended_evicted") > 900);
    assert_eq!(bench.counter("lost_packets"), 0);
    let found = records(&bench.end(1000));
    assert_eq!(packets_of(&found).len(), 1000, "each was reported once");
}

#[test]
fn who_retires_tells_what_it_has_once() {
    let mut bench = Bench::new(metering(), format(), 1);
    bench.show(0, 1, &udp(1), 3);
    bench.show(0, 2, &udp(2), 4);
    bench.meters[0].retire();
    assert_eq!((bench.counter("ended_forced"), bench.meters[0].poll_at()), (2, None));
    let mut found = packets_of(&records(&bench.export(3)));
    found.sort_unstable();
    assert_eq!(found, [3, 4]);
    bench.meters[0].retire();
    assert!(packets_of(&records(&bench.end(4))).is_empty(), "it had been told");
}

/// Nobody takes records: flows stay where they are, and what does not fit is counted.
#[test]
fn without_a_collector_every_packet_is_still_accounted_for() {
    let mut bench = Bench::new(Metering { flows: 4096, ..metering() }, format(), 1);
    let mut sent = 0;
    for round in 0..40u64 {
        for flow in 0..1000u16 {
            bench.show(0, round * 20_000, &udp(1 + flow + 1000 * (round % 30) as u16), 1);
            sent += 1;
        }
        bench.pass(round * 20_000 + 19_999);
    }
    let lost = bench.counter("lost_packets");
    assert!(lost > 0, "the test is too small");
    assert_eq!(bench.counter("metered_packets"), sent);
    let reported = packets_of(&records(&bench.end(800_000))).iter().sum::<u64>();
    assert_eq!(reported + lost, sent);
}

#[test]
fn sampling_counts_every_so_manieth_packet_and_says_so() {
    let metering = Metering { sampling: 10, ..metering() };
    let mut bench = Bench::new(metering, Format { sampling: 10, ..format() }, 1);
    for _ in 0..100 {
        bench.show(0, 1, &udp(1), 7);
    }
    assert_eq!((bench.counter("metered_packets"), bench.counter("unsampled_packets")), (70, 630));
    let messages = bench.end(2);
    // The options record: selector 1, systematic, 1 packet, then 9 not (RFC 5476, RFC 5477).
    let wanted = [&1u64.to_be_bytes()[..], &[0, 1, 0, 0, 0, 1, 0, 0, 0, 9]].concat();
    assert!(messages[0].bytes.windows(wanted.len()).any(|bytes| bytes == wanted));
}

/// What leaves: worker, flow, packets, time that passes before it.
fn traffic() -> impl Strategy<Value = Vec<(usize, u16, usize, u64)>> {
    proptest::collection::vec((0usize..3, 1u16..200, 1usize..6, 0u64..4000), 1..200)
}

proptest! {
    #[test]
    fn every_packet_is_in_one_record(
        traffic in traffic(),
        flows in 64usize..256,
        biflow in any::<bool>(),
        netflow in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let version = if netflow { Version::Netflow9 } else { Version::Ipfix };
        let format = Format { version, biflow: biflow && !netflow, ..format() };
        let mut bench = Bench::new(Metering { flows, seed, ..metering() }, format, 3);
        let (mut now, mut sent) = (0, 0);
        let mut messages = Vec::new();
        for (worker, flow, packets, span) in traffic {
            now += span;
            bench.pass(now);
            bench.show(worker, now, &udp(flow), packets);
            sent += packets as u64;
            if span % 3 == 0 {
                messages.extend(bench.export(now));
            }
        }
        messages.extend(bench.end(now));
        let bytes = udp(1).len() as u64 - 14;
        prop_assert_eq!(messages.iter().map(|m| m.carries.packets).sum::<u64>(), sent);
        prop_assert_eq!(messages.iter().map(|m| m.carries.bytes).sum::<u64>(), sent * bytes);
        if !netflow {
            let found = records(&messages);
            let forward = packets_of(&found).iter().sum::<u64>();
            prop_assert_eq!(forward, sent, "UDP in one direction has no answers");
        }
    }

    #[test]
    fn no_bytes_upset_the_meter(frame in proptest::collection::vec(any::<u8>(), 1..200), kind in 0usize..3) {
        let mut frame = frame;
        if frame.len() > 14 && kind > 0 {
            frame[12..14].copy_from_slice(&[[0x08, 0x00], [0x86, 0xdd]][kind - 1]);
        }
        let mut bench = Bench::new(metering(), format(), 1);
        bench.show(0, 1, &frame, 1);
        let counted = bench.counter("metered_packets") + bench.counter("other_packets");
        prop_assert_eq!(counted, 1);
    }
}

#[test]
fn the_routers_own_messages_come_from_no_interface() {
    let mut bench = Bench::new(metering(), format(), 1);
    let mut packet = bench.pool.get().expect("a frame").fill(&udp(1));
    packet.flags |= Packet::ORIGINATED;
    packet.output = PortId(1);
    bench.meters[0].observe(at(1), std::slice::from_ref(&packet));
    bench.pool.put(packet.into_frame());
    let found = records(&bench.end(2));
    assert_eq!(&found[0].1[48..56], [0, 0, 0, 0, 0, 0, 0, 12], "ingress and egress");
}
