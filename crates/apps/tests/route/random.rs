//! Whatever comes in: no packet is lost or doubled, and what is forwarded is the packet.

use std::collections::BTreeMap;

use ebb_wire::{Ipv4, link};
use proptest::prelude::*;

use crate::harness::{Left, Router, template};

/// Destinations of every kind that the router knows.
const DESTINATIONS: [&str; 20] = [
    "203.0.113.5",
    "10.100.0.1",
    "10.7.0.2",
    "10.7.0.50",
    "198.51.100.60",
    "192.0.2.1",
    "192.0.2.9",
    "10.66.0.1",
    "10.67.0.1",
    "10.68.0.1",
    "8.8.8.8",
    "224.0.0.5",
    "2001:db8:100::5",
    "2001:db8:107::5",
    "2001:db8:7::50",
    "2001:db8:1::1",
    "2001:db8:67::1",
    "2001:db8:ffff::1",
    "fe80::22",
    "ff02::1",
];

/// A valid frame whose payload ends with its number, so that it is known again.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let destination = proptest::sample::select(&DESTINATIONS[..]);
    let sizes = prop_oneof![4usize..64, 4usize..1480];
    (destination, sizes, any::<u8>(), any::<bool>(), any::<u8>(), any::<u32>()).prop_map(
        |(destination, size, ttl, dont_fragment, tos, number)| {
            let mut template = template(destination);
            template.ttl = ttl;
            template.tos = tos;
            template.dont_fragment = dont_fragment;
            if number % 5 == 0 {
                template.tag = Some(0);
            }
            let mut payload = vec![number as u8; size];
            payload[size - 4..].copy_from_slice(&number.to_be_bytes());
            template.to_frame(&payload)
        },
    )
}

/// A valid frame with bytes changed, cut off or added.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    (valid(), changes, any::<prop::sample::Index>(), 0u8..4).prop_map(
        |(mut frame, changes, cut, how)| {
            for (index, byte) in changes {
                let front = frame.len().min(80);
                frame[index.index(front)] = byte;
            }
            match how {
                0 => frame.truncate(cut.index(frame.len())),
                1 => frame.extend_from_slice(&[0xee; 12]),
                _ => {}
            }
            frame
        },
    )
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![valid(), mutated(), proptest::collection::vec(any::<u8>(), 0..120)]
}

/// The packet in a frame, with what forwarding may change made equal.
fn essence(frame: &[u8]) -> Option<(u8, Vec<u8>)> {
    let link = link(frame)?;
    let mut packet = frame[link.payload..].to_vec();
    if packet.is_empty() {
        return None;
    }
    let is_v4 = packet[0] >> 4 == 4;
    if packet.len() < if is_v4 { 20 } else { 40 } {
        return None;
    }
    let len = if is_v4 {
        usize::from(u16::from_be_bytes([packet[2], packet[3]]))
    } else {
        40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
    };
    if len < if is_v4 { 20 } else { 40 } {
        return None;
    }
    packet.truncate(len);
    let ttl = if is_v4 {
        packet[10..12].fill(0);
        core::mem::take(&mut packet[8])
    } else {
        core::mem::take(&mut packet[7])
    };
    Some((ttl, packet))
}

fn check(sent: &[Vec<u8>], left: &[Left]) -> Result<(), TestCaseError> {
    for left in left {
        let Left::Sent(_, frame) = left else { continue };
        let l3 = link(frame).expect("a link header").payload;
        if frame[l3] >> 4 == 4 {
            prop_assert!(Ipv4::new(&frame[l3..]).expect("a header").checksum_ok());
        }
        let (ttl, packet) = essence(frame).expect("a packet");
        let is_icmp_error = if frame[l3] >> 4 == 4 {
            frame[l3 + 9] == 1 && [3, 11].contains(&frame[l3 + 20])
        } else {
            frame[l3 + 6] == 58 && frame[l3 + 40] < 128
        };
        let original = sent.iter().filter_map(|sent| essence(sent)).find(|(old_ttl, sent)| {
            *sent == packet && *old_ttl == ttl.wrapping_add(1) && *old_ttl > 1
        });
        prop_assert!(original.is_some() || is_icmp_error, "forwarded what never came");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    // The harness itself checks conservation of packets and frames after every step.
    #[test]
    fn every_frame_leaves_once(
        batches in proptest::collection::vec(proptest::collection::vec(any_frame(), 1..40), 1..4),
        pause in 0u64..4_000_000_000,
    ) {
        let mut router = Router::new();
        let mut sent = Vec::new();
        for batch in batches {
            sent.extend_from_slice(&batch);
            let left = router.send(&batch);
            check(&sent, &left)?;
            let left = router.wait(pause);
            check(&sent, &left)?;
        }
        router.wait(4_000_000_000);
        router.wait(4_000_000_000);
        prop_assert_eq!(router.graph.held(), 0, "nothing waits for ever");
    }

    /// Whatever stands beside a packet in its batch: it leaves the way it would alone, and behind those of its
    /// flow that came before it.
    #[test]
    fn a_packet_leaves_as_it_would_alone(
        batch in proptest::collection::vec(prop_oneof![3 => valid(), 1 => any_frame()], 1..64),
    ) {
        let send = |at_once: usize| {
            let mut router = Router::new();
            let left: Vec<Left> = batch.chunks(at_once).flat_map(|frames| router.send(frames)).collect();
            router.wait(4_000_000_000);
            router.wait(4_000_000_000);
            left
        };
        let (left, alone) = (send(batch.len()), send(1));
        let (mut all, mut all_alone) = (left.clone(), alone.clone());
        all.sort();
        all_alone.sort();
        prop_assert_eq!(all, all_alone);
        let by_flow = |left: &[Left]| {
            let mut flows: BTreeMap<Vec<u8>, Vec<Left>> = BTreeMap::new();
            for left in left {
                let Left::Sent(_, frame) = left else { continue };
                let l3 = link(frame).expect("a link header").payload;
                let addresses = if frame[l3] >> 4 == 4 { 12..20 } else { 8..40 };
                flows.entry(frame[l3..][addresses].to_vec()).or_default().push(left.clone());
            }
            flows
        };
        prop_assert_eq!(by_flow(&left), by_flow(&alone));
    }
}
