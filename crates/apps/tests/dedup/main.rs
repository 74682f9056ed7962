//! Two routers in memory with a link between them: what one encodes the other decodes to the byte, whatever the link
//! does to it.

mod captures;
mod faults;
#[path = "../route/harness.rs"]
#[allow(dead_code)]
mod harness;
mod link;
mod mutations;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use ebb_apps::dedup::Sampling;
use ebb_graph::DropReason;
use ebb_units::Time;
use ebb_wire::{Ipv4, ethertype};
use harness::Left;
use link::{Pair, datagram, noise, segment};

const ALL: [Sampling; 3] = [Sampling::Modp, Sampling::Maxp, Sampling::Samplebyte];

/// A file in segments, as a flow from port `source`.
fn file(bytes: &[u8], source: u16, v6: bool) -> Vec<Vec<u8>> {
    let parts = bytes.chunks(1400).enumerate();
    parts.map(|(at, part)| segment(source, 7 + at as u32 * 1400, part, v6)).collect()
}

#[test]
fn a_file_that_comes_twice_costs_the_link_little() {
    for sampling in ALL {
        for v6 in [false, true] {
            let mut pair = Pair::new(sampling);
            let bytes = noise(100_000, 1);
            let first = pair.carry(&file(&bytes, 4000, v6));
            let second = pair.carry(&file(&bytes, 4001, v6));
            assert!(first > 100_000, "{sampling:?}: nothing to find in noise: {first}");
            assert!(second < 12_000, "{sampling:?}, IPv6 {v6}: {second} bytes");
            assert_eq!(pair.near.count("encoded_packets"), 72);
            assert_eq!(pair.far.count("decoded_packets"), 72);
            assert_eq!(pair.near.count("saved_bytes"), pair.far.count("restored_bytes"));
        }
    }
}

/// A part of a file, not where segments begin, among other bytes; and datagrams.
#[test]
fn what_is_the_same_is_found_anywhere_in_a_packet() {
    for sampling in ALL {
        let mut pair = Pair::new(sampling);
        let bytes = noise(50_000, 2);
        pair.carry(&file(&bytes, 4000, false));
        let moved = [&noise(333, 3), &bytes[5_000..45_000]].concat();
        let link = pair.carry(&file(&moved, 4001, false));
        assert!(link < 15_000, "{sampling:?}: {link} bytes for 40,000");
        let parts: Vec<_> =
            bytes[7..40_007].chunks(1000).map(|part| datagram(part, true)).collect();
        let link = pair.carry(&parts);
        assert!(link < 15_000, "{sampling:?}: {link} bytes for 40,000 in datagrams");
    }
}

#[test]
fn encoded_packets_keep_what_others_read_of_them() {
    let mut pair = Pair::new(Sampling::Maxp);
    let bytes = noise(1400, 4);
    pair.carry(&file(&bytes, 4000, false));
    let mut frame = segment(4001, 9, &bytes, false);
    // DSCP and ECN; the checksum with them.
    frame[15] = 0xb9;
    link::finish_v4(&mut frame);
    let encoded = pair.encoded(&frame);
    let header = Ipv4::new(&encoded[14..]).expect("a header");
    assert!(
        header.checksum_ok() && header.total_len() == encoded.len() - 14 && encoded.len() < 150
    );
    assert_eq!((header.tos(), header.protocol(), header.ttl()), (0xb9, 6, 63));
    assert_eq!(encoded[34..38], frame[34..38], "ports");
    assert_eq!(encoded[46] >> 4, 0, "no host takes it");
    // Congestion on the link reaches the receiver.
    let mut marked = encoded.clone();
    marked[15] |= 3;
    link::finish_v4(&mut marked);
    let [Left::Sent(_, decoded)] = &pair.decoded(&marked)[..] else { panic!("dropped") };
    assert_eq!(decoded[15], 0xbb);
    assert_eq!(decoded[34..], frame[34..]);
    // Twice on the link is twice at the receiver, as without.
    assert!(matches!(pair.decoded(&marked)[..], [Left::Sent(..)]));
}

#[test]
fn what_is_no_payload_of_tcp_or_udp_passes_as_it_is() {
    let mut pair = Pair::new(Sampling::Maxp);
    let bytes = noise(1400, 5);
    pair.carry(&file(&bytes, 4000, false));
    let whole = segment(4001, 9, &bytes, false);
    let mut fragment = whole.clone();
    fragment[20] = 0x20;
    let mut other = whole.clone();
    other[23] = 47;
    let mut wrong = whole.clone();
    wrong[46] = 0x40;
    let short = segment(4001, 9, &bytes[..60], false);
    for mut frame in [fragment, other, wrong, short] {
        if frame[12..14] == ethertype::IPV4.to_be_bytes() {
            link::finish_v4(&mut frame);
        }
        let sent = pair.encoded(&frame);
        assert_eq!(sent[34..], frame[34..]);
    }
    assert_eq!(pair.near.count("encoded_packets"), 0);
}

/// The memory is shared: it does not matter which worker has the flow, or gets it.
#[test]
fn workers_share_what_they_know() {
    let mut pair = Pair::with(Sampling::Maxp, 2);
    let bytes = noise(30_000, 6);
    pair.worker = 0;
    pair.carry(&file(&bytes, 4000, false));
    pair.worker = 1;
    let link = pair.carry(&file(&bytes, 4001, false));
    assert!(link < 4_000, "{link} bytes for 30,000");
}

#[test]
fn without_a_peer_packets_pass_as_they_are() {
    let mut pair = Pair::strangers(Sampling::Maxp);
    let bytes = noise(10_000, 7);
    for source in [4000, 4001] {
        assert!(pair.carry(&file(&bytes, source, false)) > 10_000);
    }
    assert_eq!((pair.near.count("out_packets"), pair.far.count("cached_packets")), (0, 0));
}

/// A peer of another time refuses, and is understood again after one exchange.
#[test]
fn a_decoder_that_starts_again_is_known_after_a_round_trip() {
    let mut pair = Pair::new(Sampling::Maxp);
    let bytes = noise(20_000, 8);
    pair.carry(&file(&bytes, 4000, false));
    let encoded = pair.encoded(&segment(4001, 9, &bytes[..1400], false));
    pair.restart_far();
    assert_eq!(pair.decoded(&encoded), [Left::Dropped(DropReason::Application)]);
    assert_eq!(pair.far.count("dropped_session"), 1);
    pair.talk();
    let before = pair.near.count("encoded_packets");
    assert!(pair.carry(&file(&bytes, 4002, false)) > 20_000, "it knows nothing");
    assert_eq!(pair.near.count("encoded_packets"), before);
    pair.introduce(4003);
    assert!(pair.carry(&file(&bytes, 4003, false)) < 4_000, "and has learnt");
}

/// Two workers at either end and who speaks with the peers, all at once.
#[test]
fn workers_do_not_get_into_each_others_way() {
    let pair = Pair::new(Sampling::Maxp);
    let (near, far) = (pair.near.dedup.clone(), pair.far.dedup.clone());
    drop(pair);
    let (near, far) = (&near, &far);
    let (stop, clock) = (&AtomicBool::new(false), &AtomicU64::new(3_000_000_000));
    std::thread::scope(|scope| {
        let talk = scope.spawn(move || {
            let mut datagram = Vec::new();
            while !stop.load(Relaxed) {
                let now = Time::from_nanos(clock.fetch_add(6_000_000, Relaxed));
                for (from, to) in [(near, far), (far, near)] {
                    while from.peers()[0].send(now, &mut datagram) {
                        to.peers()[0].receive(&datagram, now);
                    }
                }
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
        let workers = [5000, 6000].map(|source| {
            scope.spawn(move || {
                let mut pair = Pair::over(near.clone(), far.clone());
                let bytes = noise(60_000, 11);
                let carried =
                    (0..8).map(|turn| pair.carry_alone(&file(&bytes, source + turn, false), clock));
                carried.min()
            })
        });
        let least: Vec<_> =
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
        stop.store(true, Relaxed);
        talk.join().expect("no panic");
        assert!(least.iter().all(|carried| *carried < Some(60_000)), "{least:?}");
    });
    assert!(near.peers().len() == 1 && far.peers().len() == 1);
}
