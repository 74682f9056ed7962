//! SAMPLEBYTE: windows that begin with one of a few bytes, and none within half a period of the one before
//! (EndRE, Aggarwal and others 2010, section 4.2): nothing is hashed but what is chosen.
//!
//! The paper learns eight bytes from the traffic of a site. These are eight that texts, programs and compressed data
//! all have; compressed data has each byte alike.

use super::super::fingerprint::WINDOW;

const BYTES: [u8; 8] = [0x00, b' ', b'e', b't', b'0', b'"', 0x8b, 0xff];

const fn table() -> [bool; 256] {
    let (mut table, mut at) = ([false; 256], 0);
    while at < BYTES.len() {
        table[BYTES[at] as usize] = true;
        at += 1;
    }
    table
}

static CHOSEN: [bool; 256] = table();

pub(super) fn choose(period: usize, payload: &[u8], room: usize, starts: &mut Vec<u16>) {
    let (skip, last) = ((period / 2).max(1), payload.len() - WINDOW);
    let most = starts.len() + room;
    let mut at = 0;
    while at <= last && starts.len() < most {
        if CHOSEN[usize::from(payload[at])] {
            starts.push(at as u16);
            at += skip;
        } else {
            at += 1;
        }
    }
}
