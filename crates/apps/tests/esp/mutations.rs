//! Damaged and made-up packets: nothing panics, every packet is counted once (the harness checks), none that was
//! changed is opened, and nothing for the tunnel leaves in clear.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use proptest::prelude::*;

use crate::harness::Left;
use crate::{End, Kind, PLAIN, carried, inner};

/// `EBB_MUTATIONS` asks for more.
fn cases() -> u32 {
    std::env::var("EBB_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

thread_local! {
    /// Both ends of each kind: they are costly to make, and go on as they are. Those of a failure are lost, and none
    /// is dropped at the thread's end, when the harness has no place left for their memory.
    static ENDS: RefCell<ManuallyDrop<Kept>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

type Kept = Vec<(Kind, (End, End))>;

fn ends(kind: Kind) -> (End, End) {
    let at = |ends: &Kept| ends.iter().position(|(known, _)| *known == kind);
    let kept = ENDS.with_borrow_mut(|ends| at(ends).map(|at| ends.swap_remove(at).1));
    kept.unwrap_or_else(|| (End::new(kind, true), End::new(kind, false)))
}

fn give_back(kind: Kind, both: (End, End)) {
    ENDS.with_borrow_mut(|ends| ends.push((kind, both)));
}

fn in_clear(left: &[Left]) -> bool {
    let of_tunnel = |frame: &[u8]| {
        let Some(link) = ebb_wire::link(frame) else { return false };
        let v4 = ebb_wire::Ipv4::new(&frame[link.payload..]);
        link.ethertype == ebb_wire::ethertype::IPV4
            && v4.is_some_and(|v4| {
                v4.destination().octets()[..2] == [10, 50]
                    && v4.source().octets()[..3] == [192, 0, 2]
            })
    };
    left.iter()
        .any(|left| matches!(left, Left::Sent(_, frame) | Left::Kernel(frame) if of_tunnel(frame)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn no_damage_is_opened_and_none_leaves_in_clear(
        seed in prop::collection::vec(any::<u8>(), 0..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
        (udp, v6, extended) in any::<(bool, bool, bool)>(),
    ) {
        let kind = Kind { udp: udp && !v6, v6, extended, ..PLAIN };
        let (mut near, mut far) = ends(kind);
        let opened = far.count("opened_packets");
        let damage = |mut frame: Vec<u8>| {
            // The link header stays, or it is another station's or a broadcast.
            for (index, change) in &changes {
                let at = 12 + index.index(frame.len() - 12);
                frame[at] ^= change;
            }
            if let Some(cut) = cut {
                frame.truncate(14 + cut.index(frame.len() - 14));
            }
            frame
        };
        let clear = inner(false, &seed);
        let sealed = carried(&near.pass(&clear));
        let changed = damage(sealed.clone());
        far.router.send(std::slice::from_ref(&changed));
        // What the tag does not cover may have changed: the way there, not what is inside.
        let header = 14 + if v6 { 40 } else { 20 } + if kind.udp { 8 } else { 0 };
        if changed.len() < sealed.len() || changed[header..] != sealed[header..] {
            prop_assert_eq!(far.count("opened_packets"), opened);
        }
        let damaged = damage(clear);
        let left = near.router.send(std::slice::from_ref(&damaged));
        // In frames of IPv4 or as something that nobody takes for it.
        prop_assert!(!in_clear(&left), "{left:?}");
        give_back(kind, (near, far));
    }

    #[test]
    fn whatever_comes_to_the_tunnels_end_is_counted(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        spi_is_known in any::<bool>(),
    ) {
        let (mut near, mut far) = ends(PLAIN);
        let sum_of = |far: &End| -> u64 {
            let why = ["malformed", "unknown_spi", "forged", "replayed"];
            why.map(|why| far.count(&format!("dropped_{why}"))).iter().sum()
        };
        let before = sum_of(&far);
        let mut frame = carried(&near.pass(&inner(false, &[])));
        frame.truncate(34);
        frame.extend(if spi_is_known { vec![0, 0, 0x10, 1] } else { vec![] });
        frame.extend(bytes);
        let len = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        frame[24..26].fill(0);
        let sum = ebb_wire::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        far.router.send(&[frame]);
        prop_assert_eq!(sum_of(&far), before + 1);
        give_back(PLAIN, (near, far));
    }
}
