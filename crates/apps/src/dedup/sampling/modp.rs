//! MODP: windows whose hash is below a bound (Spring and Wetherall 2000, section 4).
//!
//! They take Rabin's fingerprints modulo a power of two; here it is Gear (Xia and others 2014, "Ddelta"), which is as
//! good for the purpose and costs an addition and a shift for a byte: its 32 bits forget a byte after 32 others, so
//! that it is a hash over exactly the window.

use super::super::fingerprint::WINDOW;

const fn gear() -> [u32; 256] {
    let (mut table, mut state, mut at) = ([0; 256], 0u64, 0);
    while at < 256 {
        // SplitMix64 (Steele and others 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[at] = ((word ^ (word >> 31)) >> 32) as u32;
        at += 1;
    }
    table
}

static GEAR: [u32; 256] = gear();

pub(super) fn choose(period: usize, payload: &[u8], room: usize, starts: &mut Vec<u16>) {
    let bound = (u32::MAX as usize / period.max(1)) as u32;
    let most = starts.len() + room;
    let mut hash = 0u32;
    for byte in &payload[..WINDOW - 1] {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
    }
    for (at, byte) in payload[WINDOW - 1..].iter().enumerate() {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
        if hash < bound {
            starts.push(at as u16);
            if starts.len() == most {
                return;
            }
        }
    }
}
