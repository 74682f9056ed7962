//! What waits for a rack: order, turns, and who loses where a queue is full.

use ebb_graph::{Pool, PortId};
use proptest::prelude::*;

use super::*;

/// A frame that came by an interface, of an IPv4 source's only flow; its first byte is a number.
fn frame(pool: &mut Pool, input: u8, source: u8, number: u8, len: usize) -> Packet {
    frame_of(pool, input, (source, 0), number, len)
}

/// The same of one of the source's flows.
fn frame_of(
    pool: &mut Pool,
    input: u8,
    (source, flow): (u8, u8),
    number: u8,
    len: usize,
) -> Packet {
    let len = len.max(LINK + 28);
    let mut bytes = vec![0; len];
    bytes[0] = number;
    bytes[LINK - 2..LINK + 1].copy_from_slice(&[8, 0, 0x45]);
    bytes[LINK + 2..LINK + 4].copy_from_slice(&((len - LINK) as u16).to_be_bytes());
    bytes[LINK + 9] = 17;
    bytes[LINK + 12..LINK + 16].copy_from_slice(&[10, 0, input, source]);
    bytes[LINK + 20..LINK + 22].copy_from_slice(&[1, flow]);
    let mut packet = pool.fill(&bytes).expect("a frame");
    packet.input = PortId(input);
    packet
}

fn numbers(voqs: &mut Voqs, to: usize) -> Vec<u8> {
    std::iter::from_fn(|| voqs.pop(to)).map(|packet| packet.data()[0]).collect()
}

#[test]
fn frames_keep_their_order_when_some_come_back() {
    let mut pool = Pool::standalone(16);
    let mut voqs = Voqs::new(3, 1000, 500, 1);
    let mut dropped = Batch::new();
    for number in 0..5 {
        voqs.push(1, frame(&mut pool, 1, 1, number, 60), &mut dropped);
    }
    let first = voqs.pop(1).expect("five");
    let second = voqs.pop(1).expect("four");
    voqs.put_back(1, second);
    voqs.put_back(1, first);
    assert_eq!(numbers(&mut voqs, 1), [0, 1, 2, 3, 4]);
    assert!(voqs.is_empty() && dropped.is_empty());
    voqs.push(2, frame(&mut pool, 1, 1, 0, 980), &mut dropped);
    assert_eq!(
        (dropped.len(), voqs.waits(2)),
        (1, false),
        "980 and the framing are more than 1,000"
    );
}

/// Who floods a queue loses what does not fit, and others wait for their turn among interfaces, not behind the flood.
#[test]
fn a_flood_of_one_interface_takes_no_place_and_little_time_of_another() {
    let mut pool = Pool::standalone(4096);
    let mut voqs = Voqs::new(3, 100_000, 50_000, 1);
    let mut dropped = Batch::new();
    for turn in 0..20 {
        for source in 0..100 {
            voqs.push(1, frame(&mut pool, 1, source, 0, 1000), &mut dropped);
        }
        voqs.push(1, frame(&mut pool, 2, 1, 1, 1000), &mut dropped);
        assert!(dropped.iter().all(|packet| packet.data()[0] == 0), "turn {turn}");
        pool.put_batch(&mut dropped);
        let waits = frame(&mut pool, 2, 1, 1, 60);
        assert!(!voqs.is_long(1, &waits), "it has {turn} of the places");
        let floods = frame(&mut pool, 1, 1, 1, 60);
        assert!(turn == 0 || voqs.is_long(1, &floods));
        pool.put(waits.into_frame());
        pool.put(floods.into_frame());
    }
    let order = numbers(&mut voqs, 1);
    assert_eq!(order.len(), 97);
    let last = order.iter().rposition(|from| *from == 1).expect("they are there");
    assert_eq!(order.iter().filter(|from| **from == 1).count(), 20);
    assert!(last <= 41, "the twentieth goes as number {last}");
}

#[test]
fn sources_of_one_interface_take_turns() {
    let mut pool = Pool::standalone(4096);
    let mut voqs = Voqs::new(3, 100_000, 50_000, 1);
    let mut dropped = Batch::new();
    for _ in 0..200 {
        voqs.push(1, frame(&mut pool, 1, 1, 0, 1000), &mut dropped);
    }
    // Of fifteen others the most share no line with it.
    for source in 2..17 {
        voqs.push(1, frame(&mut pool, 1, source, source, 1000), &mut dropped);
    }
    let first: Vec<u8> = numbers(&mut voqs, 1)[..30].iter().copied().filter(|of| *of > 0).collect();
    assert!(first.len() >= 10, "{first:?}");
}

/// What a host answers does not wait behind all that it sends itself.
#[test]
fn flows_of_one_source_take_turns() {
    let mut pool = Pool::standalone(4096);
    let mut voqs = Voqs::new(3, 100_000, 50_000, 1);
    let mut dropped = Batch::new();
    for _ in 0..60 {
        voqs.push(1, frame_of(&mut pool, 1, (1, 0), 0, 1000), &mut dropped);
    }
    // Of seven others the most share no line with it.
    for flow in 1..8 {
        voqs.push(1, frame_of(&mut pool, 1, (1, flow), flow, 60), &mut dropped);
    }
    let first: Vec<u8> = numbers(&mut voqs, 1)[..14].iter().copied().filter(|of| *of > 0).collect();
    assert!(first.len() >= 4, "{first:?}");
}

proptest! {
    /// Nothing comes twice or is forgotten, the bytes are those of what waits, and each flow's frames keep their order.
    #[test]
    fn what_is_pushed_is_taken_or_dropped_in_order(
        steps in prop::collection::vec((0_u8..3, (0_u8..3, 0_u8..3), 60_usize..1500, any::<bool>()), 1..200),
    ) {
        let mut pool = Pool::standalone(1024);
        let mut voqs = Voqs::new(2, 20_000, 10_000, 7);
        let mut dropped = Batch::new();
        let (mut taken, mut pushed) = (Vec::new(), 0);
        for (number, (input, source, len, takes)) in steps.into_iter().enumerate() {
            if takes {
                let first = voqs.first(1);
                let packet = voqs.pop(1);
                prop_assert_eq!(packet.as_ref().map(wire_len), first);
                // Every third goes back at first.
                match packet {
                    Some(packet) if number % 3 == 0 => voqs.put_back(1, packet),
                    packet => taken.extend(packet),
                }
            } else {
                pushed += 1;
                voqs.push(1, frame_of(&mut pool, input, source, number as u8, len), &mut dropped);
            }
            prop_assert!(voqs.bytes()[1] <= 20_000 + 1538);
            let sources = voqs.queues[1].of.iter().flat_map(|input| &input.of);
            let lines = sources.flat_map(|source| &source.of);
            let sum: u64 = lines.flat_map(|line| &line.frames).map(wire_len).sum();
            prop_assert_eq!((sum, voqs.waits(1)), (voqs.bytes()[1], voqs.frames() > 0));
        }
        taken.extend(std::iter::from_fn(|| voqs.pop(1)));
        prop_assert_eq!(taken.len() + dropped.len(), pushed);
        let mut last = std::collections::BTreeMap::new();
        for packet in &taken {
            let of = (packet.input.0, packet.data()[LINK + 15], packet.data()[LINK + 21]);
            let number = packet.data()[0];
            prop_assert!(last.insert(of, number).is_none_or(|before| before < number));
        }
    }
}
