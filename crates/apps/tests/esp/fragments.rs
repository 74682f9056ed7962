//! What was cut on its way is put together before it is opened; a flood of pieces costs a bounded room and no other peer's packets.

use ebb_apps::esp::{DontFragment, Tunnel};
use ebb_graph::DropReason;
use ebb_wire::checksum;

use crate::harness::Left;
use crate::{End, Kind, PLAIN, carried, inner, tunnel, without_ttl};

/// The pieces of a sealed frame, of at most so many bytes behind the header.
fn cut(frame: &[u8], v6: bool, most: usize, id: u16) -> Vec<Vec<u8>> {
    let at = 14 + if v6 { 40 } else { 20 };
    let (head, payload) = frame.split_at(at);
    let count = payload.len().div_ceil(most);
    let piece = |(number, bytes): (usize, &[u8])| {
        let (mut piece, more) = (head.to_vec(), u16::from(number + 1 < count));
        let offset = (number * most) as u16;
        if v6 {
            piece[14 + 4..14 + 6].copy_from_slice(&(8 + bytes.len() as u16).to_be_bytes());
            let next = std::mem::replace(&mut piece[14 + 6], ebb_wire::protocol::FRAGMENT);
            piece.extend([next, 0]);
            piece.extend((offset | more).to_be_bytes());
            piece.extend(u32::from(id).to_be_bytes());
        } else {
            piece[14 + 2..14 + 4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
            piece[14 + 4..14 + 6].copy_from_slice(&id.to_be_bytes());
            piece[14 + 6..14 + 8].copy_from_slice(&((more << 13) | (offset / 8)).to_be_bytes());
            piece[14 + 10..14 + 12].fill(0);
            let sum = checksum::of(&piece[14..at]);
            piece[14 + 10..14 + 12].copy_from_slice(&sum.to_be_bytes());
        }
        piece.extend(bytes);
        piece
    };
    payload.chunks(most).enumerate().map(piece).collect()
}

fn ends(kind: Kind) -> [End; 2] {
    [true, false].map(|near| End::of(&[Tunnel { df: DontFragment::Clear, ..tunnel(kind, near) }]))
}

#[test]
fn pieces_in_any_order_are_the_packet() {
    for v6 in [false, true] {
        let [mut near, mut far] = ends(Kind { v6, ..PLAIN });
        for (id, order) in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]].into_iter().enumerate() {
            let packet = inner(false, &[id as u8; 1200]);
            let pieces = cut(&carried(&near.pass(&packet)), v6, 400, id as u16);
            assert_eq!(pieces.len(), 4);
            for which in &order[..3] {
                let left = far.router.send(&[pieces[*which].clone()]);
                assert_eq!(left, [Left::Dropped(DropReason::Application)], "it has been copied");
            }
            let whole = far.pass(&pieces[order[3]]);
            assert!(without_ttl(&whole).1 == without_ttl(&packet).1);
        }
        let counted = ["reassembled_packets", "joined_fragments", "dropped_fragments"];
        assert_eq!(counted.map(|name| far.count(name)), [3, 9, 0]);
    }
}

#[test]
fn what_overlaps_or_is_too_long_or_a_strangers_is_refused() {
    for v6 in [false, true] {
        let [mut near, mut far] = ends(Kind { v6, ..PLAIN });
        let sealed = carried(&near.pass(&inner(false, &[1; 1200])));
        let [pieces, others] = [400, 408].map(|most| cut(&sealed, v6, most, 1));
        let dropped = Left::Dropped(DropReason::Application);
        for piece in [&pieces[0], &others[1], &pieces[1], &pieces[2], &pieces[3]] {
            let left = far.router.send(std::slice::from_ref(piece));
            assert_eq!(left, std::slice::from_ref(&dropped));
        }
        assert_eq!(far.count("reassembled_packets"), 0);
        // What comes of a packet that is spoilt is refused, too.
        assert_eq!(far.count("dropped_fragments"), 5);
        let mut beyond = cut(&sealed, v6, 400, 2).swap_remove(1);
        let (at, field) =
            if v6 { (14 + 40 + 2, 2000u16 | 1) } else { (14 + 6, (1 << 13) | (2000 / 8)) };
        beyond[at..at + 2].copy_from_slice(&field.to_be_bytes());
        let mut strange = cut(&sealed, v6, 400, 3).swap_remove(0);
        strange[if v6 { 14 + 23 } else { 14 + 15 }] ^= 1;
        for frame in [&mut beyond, &mut strange] {
            if !v6 {
                frame[24..26].fill(0);
                let sum = checksum::of(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
        }
        far.router.send(&[beyond, strange]);
        assert_eq!(far.count("dropped_fragments"), 7);
    }
}

/// First pieces without end, as if from the peer: each is counted, the last 16 wait, and whole packets pass.
#[test]
fn a_flood_of_pieces_is_bounded() {
    let [mut near, mut far] = ends(PLAIN);
    let pieces = cut(&carried(&near.pass(&inner(false, &[1; 1200]))), false, 400, 0);
    for id in 0..20_000u16 {
        let mut piece = pieces[0].clone();
        piece[18..20].copy_from_slice(&id.to_be_bytes());
        piece[24..26].fill(0);
        let sum = checksum::of(&piece[14..34]);
        piece[24..26].copy_from_slice(&sum.to_be_bytes());
        far.router.send(&[piece]);
    }
    assert_eq!(far.count("dropped_fragments"), 20_000 - 16);
    let whole = inner(false, &[2; 1200]);
    let sealed = carried(&near.pass(&whole));
    assert!(without_ttl(&far.pass(&sealed)).1 == without_ttl(&whole).1);
}
