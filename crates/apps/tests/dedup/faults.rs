//! Loss, doubling, other order, damage and forgery on the link, and reports of nobody.

use ebb_apps::dedup::Sampling;
use ebb_graph::DropReason;
use proptest::prelude::*;

use crate::harness::Left;
use crate::link::{Pair, datagram, noise, segment, without_hops};

/// What the link does to a frame.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    IsLost,
    Comes(usize),
    ComesLater,
    IsCut(usize),
    IsDamaged(usize, u8),
    /// Before it comes, the ends have talked.
    AfterTalk,
    /// Before it comes, the far end is another.
    AfterRestart,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrives),
        2 => Just(Fate::IsLost),
        1 => (2..4usize).prop_map(Fate::Comes),
        2 => Just(Fate::ComesLater),
        1 => any::<usize>().prop_map(Fate::IsCut),
        4 => (any::<usize>(), 1..=255u8).prop_map(|(at, bits)| Fate::IsDamaged(at, bits)),
        3 => Just(Fate::AfterTalk),
        1 => Just(Fate::AfterRestart),
    ]
}

/// A payload: a part of one of a few texts, behind some bytes of its own.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    (0..4u64, 0..60usize, 0..2000usize, 60..1300usize).prop_map(|(text, own, from, len)| {
        let text = noise(4000, text);
        [&noise(own, from as u64), &text[from..(from + len).min(4000)]].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever leaves the far end is a packet that entered the near end; what only went through sound frames, of a far
    /// end that has not changed, is there.
    #[test]
    fn the_far_end_sends_nothing_that_the_near_end_did_not_get(
        steps in prop::collection::vec((payload(), 0..3u16, any::<bool>(), fate()), 1..60),
        sampling in prop_oneof![Just(Sampling::Modp), Just(Sampling::Maxp), Just(Sampling::Samplebyte)],
    ) {
        let mut pair = Pair::new(sampling);
        let (mut late, mut entered) = (None, Vec::new());
        // What was encoded for the far end as it was before, or for that one ever.
        let (mut is_stale, mut was_stale) = (false, false);
        for (at, (payload, source, v6, fate)) in steps.into_iter().enumerate() {
            let frame = match source {
                0 => datagram(&payload, v6),
                _ => segment(source, at as u32 * 1400, &payload, v6),
            };
            entered.push(without_hops(&frame));
            let on_link = pair.encoded(&frame);
            let mut come = Vec::new();
            match fate {
                Fate::Arrives => come.push(on_link),
                Fate::IsLost => {}
                Fate::Comes(times) => come.extend(std::iter::repeat_n(on_link, times)),
                Fate::ComesLater => come.extend(late.replace(on_link)),
                Fate::IsCut(len) => come.push(on_link[..14 + len % (on_link.len() - 14)].to_vec()),
                Fate::IsDamaged(at, bits) => {
                    let mut damaged = on_link.clone();
                    // Headers of routers in between have checks of their own, but for IPv6's, and so has the payload:
                    // of what is sent as it is.
                    let from = if v6 { 54 } else { 34 };
                    let place = from + at % (on_link.len() - from);
                    if is_encoded(&on_link) {
                        damaged[place] ^= bits;
                        come.push(damaged);
                    }
                }
                Fate::AfterTalk => {
                    pair.talk();
                    come.push(on_link);
                }
                Fate::AfterRestart => {
                    pair.restart_far();
                    (is_stale, was_stale) = (true, true);
                    come.push(on_link);
                }
            }
            for frame in come {
                for left in pair.decoded(&frame) {
                    match left {
                        Left::Sent(_, came) => {
                            // Without the mark it is a damaged packet as any other, which its checksum betrays.
                            let is_as_it_came = without_hops(&came) == without_hops(&frame);
                            let lost_its_mark = matches!(fate, Fate::IsDamaged(..)) && is_as_it_came;
                            prop_assert!(
                                lost_its_mark || entered.contains(&without_hops(&came)),
                                "{fate:?}"
                            );
                            prop_assert!(!is_encoded(&came));
                        }
                        Left::Dropped(_) | Left::Kernel(_) => {
                            let is_sound = match fate {
                                Fate::Arrives | Fate::Comes(_) | Fate::AfterTalk => !is_stale,
                                Fate::ComesLater => !was_stale,
                                _ => false,
                            };
                            prop_assert!(!is_sound, "{fate:?} is not there");
                        }
                    }
                }
            }
            // From here on the near end knows the far end.
            is_stale &= !matches!(fate, Fate::AfterTalk);
        }
    }

    /// Any bytes where an encoded packet has its shim and the rest.
    #[test]
    fn no_bytes_of_the_link_are_believed(
        rest in prop::collection::vec(any::<u8>(), 0..1400), v6 in any::<bool>(), tcp in any::<bool>(), right in any::<bool>(),
    ) {
        let mut pair = Pair::new(Sampling::Maxp);
        let text = noise(1000, 1);
        pair.carry(&[datagram(&text, v6)]);
        let from = if v6 { 54 } else { 34 };
        let good = match tcp {
            true => segment(5, 1, &text, v6),
            false => datagram(&text, v6),
        };
        let mut frame = pair.encoded(&good);
        let fixed = from + if tcp { 20 } else { 8 };
        // With the right session and head, so that what is behind is looked at.
        let kept = if right { fixed + 12 } else { fixed };
        frame.truncate(kept);
        frame.extend(&rest);
        let len = frame.len() - from;
        if v6 {
            frame[18..20].copy_from_slice(&(len as u16).to_be_bytes());
        } else {
            frame[16..18].copy_from_slice(&(len as u16 + 20).to_be_bytes());
            crate::link::finish_v4(&mut frame);
        }
        match &pair.decoded(&frame)[..] {
            [Left::Dropped(DropReason::Application)] => {}
            left => prop_assert!(false, "{left:?}"),
        }
    }

    #[test]
    fn no_bytes_are_a_report(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let pair = Pair::new(Sampling::Maxp);
        pair.near.peer().receive(&bytes, pair.now);
        prop_assert_eq!(pair.near.count("reports_refused"), 1);
    }
}

fn is_encoded(frame: &[u8]) -> bool {
    let (from, proto) = if frame[14] >> 4 == 4 { (34, frame[23]) } else { (54, frame[20]) };
    match proto {
        17 => frame[from + 4..from + 6] == [0, 4],
        _ => frame[from + 12] >> 4 == 0,
    }
}

#[test]
fn what_was_lost_is_not_referred_to() {
    let mut pair = Pair::new(Sampling::Maxp);
    let text = noise(1400, 1);
    let lost = pair.encoded(&segment(1, 1, &text, false));
    pair.talk();
    let again = pair.encoded(&segment(2, 1, &text, false));
    assert_eq!(again.len(), lost.len(), "it has not come");
    assert!(matches!(pair.decoded(&again)[..], [Left::Sent(..)]));
    pair.talk();
    let third = pair.encoded(&segment(3, 1, &text, false));
    assert!(third.len() < 150, "{}", third.len());
}

/// TCP's repair does not depend on the decoder.
#[test]
fn what_tcp_sends_again_goes_as_it_is() {
    let mut pair = Pair::new(Sampling::Maxp);
    let text = noise(1400, 1);
    pair.carry(&[segment(3, 1, &text, false)]);
    let first = pair.encoded(&segment(2, 1000, &text, false));
    assert!(first.len() < 150);
    let again = pair.encoded(&segment(2, 1000, &text, false));
    assert!(again.len() > 1400);
    assert_eq!(pair.near.count("plain_sent_again"), 1);
}

/// A decoder that says nothing is not relied on, from a quarter of a second on.
#[test]
fn a_silent_peer_is_not_relied_on() {
    let mut pair = Pair::new(Sampling::Maxp);
    let text = noise(1400, 1);
    pair.carry(&[segment(1, 1, &text, false)]);
    pair.pass(200);
    assert!(pair.encoded(&segment(2, 1000, &text, false)).len() < 150);
    pair.pass(100);
    assert!(pair.encoded(&segment(3, 1000, &text, false)).len() > 1400);
    pair.talk();
    pair.near.peer().lost();
    assert!(pair.encoded(&segment(4, 1000, &text, false)).len() > 1400, "its port is closed");
}

/// A small memory at the far end, which forgets what the near end remembers.
#[test]
fn what_is_missing_is_asked_for_and_not_referred_to_again() {
    let mut pair = Pair::new(Sampling::Maxp);
    let text = noise(1400, 1);
    pair.carry(&[segment(1, 1, &text, false)]);
    let encoded = pair.encoded(&segment(2, 1000, &text, false));
    // Others fill the far end's memory, which the near end does not see.
    for number in 0..800 {
        let mut other = pair.encoded(&segment(3, 1, &noise(100, 2), false));
        let from = other.len() - 100;
        other.truncate(from);
        other.extend(noise(1400, 1000 + number));
        other[16..18].copy_from_slice(&1452u16.to_be_bytes());
        crate::link::finish_v4(&mut other);
        assert!(matches!(pair.decoded(&other)[..], [Left::Sent(..)]));
    }
    assert_eq!(pair.decoded(&encoded), [Left::Dropped(DropReason::Application)]);
    assert_eq!(pair.far.count("dropped_missing"), 1);
    pair.talk();
    assert!(pair.encoded(&segment(4, 1000, &text, false)).len() > 1400);
}

/// Neither reports nor packets of strangers make an end say more than it was told.
#[test]
fn nobody_is_answered_with_more_than_was_sent() {
    let mut pair = Pair::new(Sampling::Maxp);
    pair.talk();
    // As a stranger has them: whole, of another pair, with other sessions.
    let mut other = Pair::strangers(Sampling::Maxp);
    other.restart_far();
    let (mut datagram, mut sent, mut answered) = (Vec::new(), 0, 0);
    for turn in 0..1000 {
        other.pass(1001);
        assert!(other.near.peer().send(other.now, &mut datagram));
        if turn > 0 {
            pair.pass(1);
        }
        pair.far.peer().receive(&datagram, pair.now);
        sent += datagram.len();
        while pair.far.peer().send(pair.now, &mut datagram) {
            answered += datagram.len();
        }
    }
    assert!(answered * 20 < sent, "{answered} of {sent}");
}

/// The far end forgets sooner, by bytes or by payloads; what has gone there is not referred to.
#[test]
fn a_smaller_memory_at_the_far_end_is_not_asked_for_what_it_has_forgotten() {
    for len in [100, 600] {
        let mut pair = Pair::unequal(Sampling::Maxp, 1 << 16);
        let text = |number: u64| noise(len, 500 + number);
        let mut frames = Vec::new();
        for number in 0..600u64 {
            frames.push(text(number));
            let back = [10, 30, 50, 90, 110, 130, 200, 400][number as usize % 8];
            frames.extend(number.checked_sub(back).map(text));
        }
        let at = |(at, text): (usize, &Vec<u8>)| segment(4, (at * len) as u32, text, false);
        pair.carry(&frames.iter().enumerate().map(at).collect::<Vec<_>>());
        assert_eq!(pair.far.count("dropped_missing"), 0);
        assert!(pair.near.count("encoded_packets") > 100, "{len}");
    }
}

/// What others bring to the far end, of which the near end knows nothing but what it is told.
#[test]
fn what_others_have_driven_out_is_not_referred_to() {
    let mut pair = Pair::unequal(Sampling::Maxp, 1 << 16);
    let text = noise(1400, 1);
    pair.carry(&[segment(1, 1, &text, false)]);
    for number in 0..130 {
        let mut other = pair.encoded(&segment(3, 1, &noise(50, 2), false));
        let from = other.len() - 50;
        other.truncate(from);
        other.extend(noise(100, 1000 + number));
        other[16..18].copy_from_slice(&152u16.to_be_bytes());
        crate::link::finish_v4(&mut other);
        assert!(matches!(pair.decoded(&other)[..], [Left::Sent(..)]));
    }
    pair.talk();
    pair.carry(&[segment(2, 1000, &text, false)]);
    assert_eq!(pair.near.count("encoded_packets"), 0);
    // Once the peer is known by what could be put together, others' payloads are not kept.
    pair.carry(&[segment(2, 2400, &text, false)]);
    assert_eq!(pair.far.count("decoded_packets"), 1);
    let frame = pair.encoded(&segment(3, 9000, &noise(1400, 3), false));
    let kept = pair.far.count("cached_packets");
    assert!(matches!(pair.decoded_from([2, 9, 9, 9, 9, 9], &frame)[..], [Left::Sent(..)]));
    assert_eq!(pair.far.count("cached_packets"), kept);
    pair.decoded(&frame);
    assert_eq!(pair.far.count("cached_packets"), kept + 1);
}

/// Two flows with the same payloads, of which only the one arrives.
#[test]
fn what_comes_of_one_flow_says_nothing_of_another() {
    let mut pair = Pair::new(Sampling::Maxp);
    pair.carry(&[segment(1, 1, &noise(1400, 50), false)]);
    pair.encoded(&segment(700, 1, &noise(1400, 49), false));
    for number in 0..20u32 {
        let text = noise(1400, 60 + u64::from(number));
        let come = pair.encoded(&segment(1, 2000 + number * 1400, &text, false));
        let lost = pair.encoded(&segment(700, 2000 + number * 1400, &text, false));
        assert!(lost.len() > 1400, "{number}: nothing of it has come");
        assert!(matches!(pair.decoded(&come)[..], [Left::Sent(..)]));
        pair.talk();
        let seen = pair.encoded(&segment(700, 40_000 + number * 1400, &text, false));
        assert!(seen.len() > 1400, "{number}: nothing of it has come");
    }
    assert!(pair.encoded(&segment(1, 90_000, &noise(1400, 50), false)).len() < 150);
}
