//! Security associations: one direction of a tunnel, with its numbers (RFC 4303 sections 3.3 and 3.4).
//!
//! Neighbours: `cipher` seals, `numbers` says with which nonces, `window` knows what has come, `encapsulate` lays packets
//! out. Shared by all workers without a lock.

use super::cipher::{Cipher, IV_LEN, TAG_LEN};
use super::numbers::{Number, Numbers};
use super::window::Window;

/// Bytes of the header: index and sequence number.
const HEADER_LEN: usize = 8;
/// Bytes in front of what is encrypted.
pub(super) const FRONT_LEN: usize = HEADER_LEN + IV_LEN;
/// Bytes behind the padding: its length and the protocol inside.
pub(super) const TRAILER_LEN: usize = 2;
/// Bytes that are not of the packet inside, without padding.
pub(super) const AROUND_LEN: usize = FRONT_LEN + TRAILER_LEN + TAG_LEN;

/// The direction in which packets are sealed.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) spi: u32,
    cipher: Cipher,
    extended: bool,
    pub(super) numbers: Numbers,
}

/// The direction in which packets are opened.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) spi: u32,
    cipher: Cipher,
    extended: bool,
    pub(super) window: Window,
}

/// Why a packet was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its number has come before, or is too old to tell.
    Replayed,
    /// Its tag is wrong.
    Forged,
    /// Too short, or not what the sender's side would make.
    Malformed,
}

/// What the tag covers beside the text: the header, with the high half of an extended number in the middle
/// (RFC 4106 section 5).
fn beside(spi: u32, number: u64, extended: bool) -> ([u8; 12], usize) {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&spi.to_be_bytes());
    if extended {
        bytes[4..].copy_from_slice(&number.to_be_bytes());
        return (bytes, 12);
    }
    bytes[4..8].copy_from_slice(&(number as u32).to_be_bytes());
    (bytes, 8)
}

impl Outbound {
    pub(super) fn new(spi: u32, cipher: Cipher, extended: bool, numbers: Numbers) -> Outbound {
        Outbound { spi, cipher, extended, numbers }
    }

    /// Whether the number is beyond the last: it must not come round (RFC 4303 section 3.3.3).
    pub(super) fn is_spent(&self, number: Number) -> bool {
        !self.extended && number.sequence > u64::from(u32::MAX)
    }

    /// Writes a packet's ESP around `inner_len` bytes that stand behind [`FRONT_LEN`] ones; `esp` ends with the tag,
    /// and its length was rounded up by [`padding`].
    #[inline]
    pub(super) fn seal(&self, esp: &mut [u8], inner_len: usize, protocol: u8, number: Number) {
        let (number, iv) = (number.sequence, number.iv.to_be_bytes());
        esp[..4].copy_from_slice(&self.spi.to_be_bytes());
        esp[4..8].copy_from_slice(&(number as u32).to_be_bytes());
        esp[HEADER_LEN..FRONT_LEN].copy_from_slice(&iv);
        let text_end = esp.len() - TAG_LEN;
        let (text, tag) = esp[FRONT_LEN..].split_at_mut(text_end - FRONT_LEN);
        let pad_len = text.len() - inner_len - TRAILER_LEN;
        for (byte, value) in text[inner_len..].iter_mut().zip(1..=pad_len as u8) {
            *byte = value;
        }
        let trailer_at = text.len() - TRAILER_LEN;
        text[trailer_at..].copy_from_slice(&[pad_len as u8, protocol]);
        let (beside, len) = beside(self.spi, number, self.extended);
        tag.copy_from_slice(&self.cipher.seal(iv, &beside[..len], text));
    }
}

/// Bytes of padding that make the trailer end at a multiple of four (RFC 4303 section 2.4).
pub(super) fn padding(inner_len: usize) -> usize {
    (inner_len + TRAILER_LEN).next_multiple_of(4) - inner_len - TRAILER_LEN
}

impl Inbound {
    pub(super) fn new(spi: u32, cipher: Cipher, extended: bool, window: Window) -> Inbound {
        Inbound { spi, cipher, extended, window }
    }

    /// Opens a packet from its ESP header to its tag, in place: what stands behind [`FRONT_LEN`] bytes is then what
    /// was inside. Returns its length and protocol.
    #[inline]
    pub(super) fn open(&self, esp: &mut [u8]) -> Result<(usize, u8), Refusal> {
        if esp.len() < AROUND_LEN || !esp.len().is_multiple_of(4) {
            return Err(Refusal::Malformed);
        }
        let low = u32::from_be_bytes([esp[4], esp[5], esp[6], esp[7]]);
        let number = if self.extended { self.window.whole(low) } else { u64::from(low) };
        if !self.window.may_come(number) {
            return Err(Refusal::Replayed);
        }
        let iv = *esp[HEADER_LEN..].first_chunk().expect("long enough");
        let (beside, len) = beside(self.spi, number, self.extended);
        let sealed = &mut esp[FRONT_LEN..];
        let len = self.cipher.open(iv, &beside[..len], sealed).ok_or(Refusal::Forged)?;
        if !self.window.accept(number) {
            return Err(Refusal::Replayed);
        }
        inside(&sealed[..len]).ok_or(Refusal::Malformed)
    }
}

/// Length and protocol of what is in a text, whose padding must be as the standard has it (RFC 4303 section 2.4).
fn inside(text: &[u8]) -> Option<(usize, u8)> {
    let (rest, &[pad_len, protocol]) = text.split_last_chunk::<TRAILER_LEN>()?;
    let inner_len = rest.len().checked_sub(usize::from(pad_len))?;
    let padding_is_right =
        rest[inner_len..].iter().zip(1..=pad_len).all(|(byte, value)| *byte == value);
    padding_is_right.then_some((inner_len, protocol))
}

#[cfg(test)]
mod tests {
    use super::super::cipher::{Algorithm, Key};
    use super::super::numbers::{Claim, Used};
    use super::*;

    fn cipher() -> Cipher {
        let algorithm = Algorithm::Aes128Gcm;
        Cipher::new(algorithm, &Key::from_hex(&"5a".repeat(20), algorithm).expect("a key"))
    }

    fn out(spi: u32, extended: bool) -> Outbound {
        let all = Claim { behind: Used { numbers: 0, ivs: 1 }, count: 1000 };
        Outbound::new(spi, cipher(), extended, Numbers::new(all, std::sync::Arc::new(|| ())))
    }

    fn number(sequence: u64) -> Number {
        Number { sequence, iv: sequence + 1 }
    }

    fn sealed(out: &Outbound, inner: &[u8], number: Number) -> Vec<u8> {
        let mut esp = vec![0; AROUND_LEN + inner.len() + padding(inner.len())];
        esp[FRONT_LEN..FRONT_LEN + inner.len()].copy_from_slice(inner);
        out.seal(&mut esp, inner.len(), 4, number);
        esp
    }

    #[test]
    fn every_length_comes_back_and_no_changed_byte_does() {
        let (out, into) = (out(7, false), Inbound::new(7, cipher(), false, Window::new(64, 0)));
        for len in 0..70 {
            let inner: Vec<u8> = (0..len).map(|byte| byte as u8 ^ 0x5a).collect();
            let esp = sealed(&out, &inner, out.numbers.take(1).next().expect("a number"));
            assert_eq!(esp.len() % 4, 0);
            // The index is what the association is found by.
            for at in 4..esp.len() {
                let mut wrong = esp.clone();
                wrong[at] ^= 0x10;
                assert!(into.open(&mut wrong).is_err(), "byte {at} of {len}");
            }
            let mut opened = esp.clone();
            assert_eq!(into.open(&mut opened), Ok((len, 4)));
            assert_eq!(opened[FRONT_LEN..FRONT_LEN + len], inner);
            assert_eq!(into.open(&mut esp.clone()), Err(Refusal::Replayed));
        }
    }

    #[test]
    fn extended_numbers_pass_the_half_and_others_end_there() {
        let (out, into) = (out(9, true), Inbound::new(9, cipher(), true, Window::new(1024, 0)));
        for number in [1, 0xffff_fffe, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001].map(number) {
            assert!(!out.is_spent(number));
            assert_eq!(into.open(&mut sealed(&out, b"inside", number)), Ok((6, 4)), "{number:?}");
        }
        let late = sealed(&out, b"inside", number(0xffff_fffe));
        assert_eq!(into.open(&mut late.clone()), Err(Refusal::Replayed));
        let short = super::tests::out(9, false);
        assert!(!short.is_spent(number(0xffff_ffff)) && short.is_spent(number(0x1_0000_0000)));
    }
}
