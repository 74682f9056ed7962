//! MAXP: windows that begin where the bytes are a local maximum (Anand and others 2009, section 3).
//!
//! A value of four bytes stands for a place, mixed so that no kind of content has ties or a slope: the paper's are of
//! the bytes as they are. A place is chosen if its value is above those of half a period before it, and not below
//! those of half a period behind it: chosen places are never close, and none are far apart.

use super::super::fingerprint::WINDOW;

#[inline(always)]
fn value(payload: &[u8], at: usize) -> u32 {
    let word = payload.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
    u32::from_le_bytes(*word.expect("within the window")).wrapping_mul(0x9e37_79b1)
}

pub(super) fn choose(period: usize, payload: &[u8], room: usize, starts: &mut Vec<u16>) {
    let (half, last) = ((period / 2).max(1), payload.len() - WINDOW);
    let most = starts.len() + room;
    let (mut best, mut highest, mut at) = (0, value(payload, 0), 0);
    loop {
        at += 1;
        if at > last || at > best + half {
            let before = best.saturating_sub(half)..best;
            if before.into_iter().all(|other| value(payload, other) < highest) {
                starts.push(best as u16);
            }
            if at > last || starts.len() == most {
                return;
            }
            (best, highest) = (at, value(payload, at));
            continue;
        }
        let here = value(payload, at);
        if here > highest {
            (best, highest) = (at, here);
        }
    }
}
