//! Damaged packets into the encoder and the decoder: nothing panics, and every packet is counted once (the harness
//! checks).

use ebb_apps::dedup::Sampling;
use rand::{Rng as _, RngCore as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::link::{Pair, datagram, noise, segment};

/// `EBB_MUTATIONS` asks for more.
fn cases() -> u32 {
    std::env::var("EBB_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(4_000)
}

/// Some bytes changed behind the MAC addresses, mostly in the headers; perhaps cut.
fn damage(random: &mut ChaCha8Rng, frame: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..5) {
        let end = if random.random_bool(0.7) { frame.len().min(90) } else { frame.len() };
        let at = random.random_range(12..end);
        frame[at] ^= random.random_range(1..=255u8);
    }
    if random.random_bool(0.2) {
        frame.truncate(random.random_range(12..=frame.len()));
    }
}

#[test]
fn damaged_packets_are_counted_once_at_both_ends() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut pair = Pair::new(Sampling::Maxp);
    let mut encoded = 0;
    for number in 0..cases() {
        let text = noise(4000, random.random_range(0..4));
        let from = random.random_range(0..2000);
        let payload =
            [&noise(20, u64::from(number)), &text[from..from + random.random_range(60..1300)]];
        let (payload, v6) = (payload.concat(), random.random_bool(0.3));
        let mut frame = match random.random_bool(0.5) {
            true => datagram(&payload, v6),
            false => segment(1, number.wrapping_mul(1400), &payload, v6),
        };
        let mut on_link = pair.encoded(&frame);
        encoded += u32::from(on_link.len() < frame.len());
        if number % 4 == 0 {
            pair.decoded(&on_link);
        } else {
            damage(&mut random, &mut on_link);
            pair.decoded(&on_link);
        }
        damage(&mut random, &mut frame);
        pair.near.routers[0].send(&[frame]);
        if random.next_u32() % 64 == 0 {
            pair.talk();
        }
    }
    assert!(encoded > cases() / 10, "{encoded} were encoded");
}
