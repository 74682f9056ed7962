//! Windows of the kernel's against replays: `struct xfrm_replay_state`, and `xfrm_replay_state_esn` where numbers have 64
//! bits (`linux/xfrm.h`).

use std::net::IpAddr;

use super::super::abi::{AF_INET, AF_INET6};

/// The protocol of associations that encrypt.
pub(super) const PROTO_ESP: u8 = 50;
/// `XFRMA_REPLAY_VAL`, `_ESN_VAL`.
pub(super) const REPLAY: u16 = 10;
pub(super) const REPLAY_EXTENDED: u16 = 23;
/// Of `struct xfrm_aevent_id`.
const EVENT_LEN: usize = 48;

/// A window of the kernel's against replays, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    kind: u16,
    bytes: Vec<u8>,
}

impl Window {
    /// As an attribute of a message has it.
    pub fn of(kind: u16, value: &[u8]) -> Window {
        Window { kind, bytes: value.to_vec() }
    }

    /// When all up to `seen` have come.
    pub(super) fn behind(&self, seen: u64) -> Window {
        let mut bytes = self.bytes.clone();
        let mut set = |at: usize, word: u64| {
            if let Some(place) = bytes.get_mut(4 * at..4 * at + 4) {
                place.copy_from_slice(&(word as u32).to_ne_bytes());
            }
        };
        let marks_at = match self.kind {
            REPLAY => {
                set(1, seen);
                8
            }
            _ => {
                set(2, seen);
                set(4, seen >> 32);
                24
            }
        };
        bytes.iter_mut().skip(marks_at).for_each(|byte| *byte = 0xff);
        Window { kind: self.kind, bytes }
    }
}

/// `struct xfrm_aevent_id`, and an attribute: the window of an association to `to`.
pub(super) fn event(to: IpAddr, spi: u32, window: &Window) -> Vec<u8> {
    let mut bytes = vec![0; EVENT_LEN];
    let family = match to {
        IpAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&v4.octets());
            AF_INET
        }
        IpAddr::V6(v6) => {
            bytes[..16].copy_from_slice(&v6.octets());
            AF_INET6
        }
    };
    bytes[16..20].copy_from_slice(&spi.to_be_bytes());
    bytes[20..22].copy_from_slice(&u16::from(family).to_ne_bytes());
    bytes[22] = PROTO_ESP;
    bytes.extend((window.bytes.len() as u16 + 4).to_ne_bytes());
    bytes.extend(window.kind.to_ne_bytes());
    // Words: no padding behind them.
    bytes.extend(&window.bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_have_come_up_to_one() {
        let behind = |kind, words: &[u32]| {
            let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let after = Window { kind, bytes }.behind((7 << 32) + 6).bytes;
            let (after, _) = after.as_chunks::<4>();
            after.iter().map(|word| u32::from_ne_bytes(*word)).collect::<Vec<u32>>()
        };
        assert_eq!(behind(10, &[5, 9, 1]), [5, 6, u32::MAX]);
        assert_eq!(behind(23, &[1, 5, 9, 2, 3, 32, 0xffff]), [1, 5, 6, 2, 7, 32, u32::MAX]);
    }

    #[test]
    fn an_association_is_named() {
        let window = Window { kind: REPLAY, bytes: vec![7; 12] };
        let bytes = event("192.0.2.1".parse().expect("an address"), 0xc001, &window);
        assert_eq!(bytes[..4], [192, 0, 2, 1]);
        assert_eq!(bytes[16..20], [0, 0, 0xc0, 1]);
        assert_eq!((bytes[22], bytes.len()), (PROTO_ESP, EVENT_LEN + 16));
        assert_eq!(bytes[EVENT_LEN..][..4], [16u16.to_ne_bytes(), REPLAY.to_ne_bytes()].concat());
    }
}
