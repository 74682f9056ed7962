//! sFlow: each packet that is taken is in one sample with its header, a rate is kept on average, and datagrams keep
//! their bytes.

use std::net::IpAddr;
use std::sync::Arc;

use ebb_apps::Application;
use ebb_apps::ipfix::{Bell, Counts, Exporter, Ipfix, Message, Metering, Reading};
use ebb_graph::{Packet, Pool, PortId};
use proptest::prelude::*;

use crate::{at, format, metering, reading, udp};

const AGENT: &str = "192.0.2.7";

fn sampled(sampling: u32, workers: usize) -> (Ipfix, Exporter) {
    let (bell, agent): (Bell, IpAddr) = (Arc::new(|| ()), AGENT.parse().expect("an address"));
    let ipfix = Ipfix::sampled(workers, Metering { sampling, ..metering() }, agent, &bell);
    let exporter = ipfix.exporter(ebb_apps::ipfix::Format { sampling, ..format() });
    (ipfix, exporter)
}

fn counter(ipfix: &Ipfix, name: &str) -> u64 {
    ipfix.counters().into_iter().find(|(known, _)| *known == name).expect("a counter").1
}

fn show(ipfix: &Ipfix, worker: usize, frame: &[u8], times: usize, vlan: u16) {
    let mut pool = Pool::standalone(16);
    let mut observer = ipfix.observer(worker).expect("a sampler");
    for _ in 0..times {
        let mut packet = pool.get().expect("a frame").fill(frame);
        (packet.output, packet.vlan) = (PortId(1), vlan);
        observer.observe(at(5), std::slice::from_ref(&packet));
        pool.put(packet.into_frame());
    }
}

fn turn(exporter: &mut Exporter, reading: &Reading) -> Vec<Message> {
    let mut all = Vec::new();
    loop {
        let (messages, more) = exporter.turn(reading);
        all.extend(messages);
        if !more {
            return all;
        }
    }
}

fn hex(message: &Message) -> String {
    let lines = message.bytes.chunks(16).map(|line| {
        let words = line.chunks(4).map(|word| word.iter().map(|byte| format!("{byte:02x}")));
        words.map(|word| word.collect::<String>()).collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Fields in order: see the structures of "sFlow Version 5", section 5.
#[test]
fn datagrams_keep_their_bytes() {
    let (ipfix, mut exporter) = sampled(1, 1);
    let counts = Counts { up: [true, false], packets: [3, 4], bytes: [5, 6], dropped: [7, 8] };
    let reading = Reading { counts: vec![counts], ..reading(9) };
    show(&ipfix, 0, &udp(1), 1, 12);
    let messages = turn(&mut exporter, &reading);
    insta::assert_snapshot!(messages.iter().map(hex).collect::<Vec<_>>().join("\n\n"));
}

#[test]
fn one_of_so_many_is_taken_on_average_and_all_are_told_of() {
    let (ipfix, mut exporter) = sampled(50, 2);
    show(&ipfix, 0, &udp(1), 60_000, 0);
    show(&ipfix, 1, &udp(2), 40_000, 0);
    let messages = turn(&mut exporter, &reading(9));
    let taken = messages.iter().map(|message| message.carries.packets).sum::<u64>();
    // The variance of a gap is a third of its mean squared: 26 samples are one standard deviation.
    assert!((1870..=2130).contains(&taken), "{taken} of 100,000");
    assert_eq!(counter(&ipfix, "metered_packets"), taken);
    assert_eq!(counter(&ipfix, "unsampled_packets"), 100_000 - taken);
    let last = messages.iter().rfind(|message| message.carries.packets > 0).expect("samples");
    // Of its first sample: kind, length, sequence, type and number of the source, rate, then the pool.
    let word = |at: usize| u32::from_be_bytes(*last.bytes[at..].first_chunk().expect("four"));
    assert_eq!((word(28), word(44), word(48)), (3, 12, 50));
    assert!(word(52) > 99_000 && word(52) <= 100_000, "a pool of {}", word(52));
}

/// Nobody takes samples: what does not fit is counted, and told of as dropped.
#[test]
fn without_a_collector_every_sample_is_still_accounted_for() {
    let (ipfix, mut exporter) = sampled(1, 1);
    let mut pool = Pool::standalone(16);
    let mut sampler = ipfix.observer(0).expect("a sampler");
    let mut packet: Packet = pool.get().expect("a frame").fill(&udp(1));
    packet.output = PortId(1);
    (0..5000).for_each(|_| sampler.observe(at(1), std::slice::from_ref(&packet)));
    assert_eq!(counter(&ipfix, "lost_packets"), 5000 - 4096);
    let taken = turn(&mut exporter, &reading(1));
    assert_eq!(taken.iter().map(|message| message.carries.packets).sum::<u64>(), 4096);
    sampler.observe(at(2), std::slice::from_ref(&packet));
    let last = turn(&mut exporter, &reading(2));
    let word = |at: usize| u32::from_be_bytes(*last[0].bytes[at..].first_chunk().expect("four"));
    assert_eq!((word(52), word(56)), (5001, 904), "pool and drops");
    pool.put(packet.into_frame());
}

#[test]
fn counters_are_told_at_their_interval() {
    let (_, mut exporter) = sampled(10, 1);
    let told = |exporter: &mut Exporter, ms| {
        let counts = vec![Counts::default(); 20];
        turn(exporter, &Reading { counts, ..reading(ms) }).len()
    };
    // Twenty interfaces of 108 bytes fill a datagram and more.
    assert_eq!(told(&mut exporter, 1), 2);
    assert_eq!(told(&mut exporter, 59_000), 0);
    assert_eq!(told(&mut exporter, 61_000), 2);
}

proptest! {
    #[test]
    fn no_bytes_upset_the_sampler(frame in proptest::collection::vec(any::<u8>(), 1..200), kind in 0usize..3) {
        let mut frame = frame;
        if frame.len() > 14 && kind > 0 {
            frame[12..14].copy_from_slice(&[[0x08, 0x00], [0x86, 0xdd]][kind - 1]);
        }
        let (ipfix, mut exporter) = sampled(1, 1);
        show(&ipfix, 0, &frame, 1, 0);
        let counted = counter(&ipfix, "metered_packets") + counter(&ipfix, "other_packets");
        prop_assert_eq!(counted, 1);
        let messages = turn(&mut exporter, &reading(1));
        prop_assert!(messages.iter().all(|message| message.bytes.len() % 4 == 0));
        let told: u64 = messages.iter().map(|message| message.carries.packets).sum();
        prop_assert_eq!(told, counter(&ipfix, "metered_packets"));
    }
}
