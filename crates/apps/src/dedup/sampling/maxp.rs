//! MAXP: windows that begin where the bytes are a local maximum (Anand and others 2009, section 3).
//!
//! A value of four bytes stands for a place, mixed so that no kind of content has ties or a slope: the paper's are of
//! the bytes as they are. A place is chosen if no place within half a period on either side is above it: chosen places
//! are never close, and none are far apart.

use super::super::fingerprint::WINDOW;

/// Places that are looked at: more than any packet has.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 11;

/// The place of a value: of two that are equal otherwise, the earlier is above.
fn place(value: u32) -> usize {
    PLACES - 1 - (value as usize & (PLACES - 1))
}

pub(super) fn choose(period: usize, payload: &[u8], room: usize, starts: &mut Vec<u16>) {
    let half = (period / 2).max(1);
    let count = (payload.len() - WINDOW + 1).min(PLACES);
    let mut values = [0; PLACES];
    for (at, (value, bytes)) in values.iter_mut().zip(payload.windows(4)).take(count).enumerate() {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mixed = word.wrapping_mul(0x9e37_79b1);
        *value = mixed >> PLACE_BITS << PLACE_BITS | (PLACES - 1 - at) as u32;
    }
    let values = &values[..count];
    let highest = |from: usize, end: usize| -> u32 {
        values[from.min(count)..end.min(count)].iter().copied().fold(0, u32::max)
    };
    // A maximum of both sides is that of its block; of most blocks their neighbours' decide whether it is one.
    let most = starts.len() + room;
    let (mut before, mut here) = (0, highest(0, half));
    for from in (0..count).step_by(half) {
        let (end, best) = (from + half, place(here));
        let behind = highest(end, end + half);
        let is_above = (here > before || here > highest(best.saturating_sub(half), from))
            && (here > behind || here > highest(end, best + half + 1));
        if is_above {
            starts.push(best as u16);
            if starts.len() == most {
                return;
            }
        }
        (before, here) = (here, behind);
    }
}
