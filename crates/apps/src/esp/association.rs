//! Security associations: one direction of a tunnel, with its numbers (RFC 4303 sections 3.3 and 3.4).
//!
//! Neighbours: `cipher` seals, `numbers` says with which nonces, `window` knows what has come, `encapsulate` lays packets
//! out. Shared by all workers without a lock.

use super::cipher::{Cipher, HEADER_LEN, Shape, TAG_LEN, TRAILER_LEN};
use super::numbers::{Claim, Number, Numbers};
use super::window::Window;
use super::{Bell, Keyed};

/// The direction in which packets are sealed.
#[derive(Debug)]
pub struct Outbound {
    name: String,
    pub(super) spi: u32,
    cipher: Cipher,
    extended: bool,
    pub(super) numbers: Numbers,
}

/// The direction in which packets are opened.
#[derive(Debug)]
pub struct Inbound {
    name: String,
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

impl Outbound {
    pub(super) fn new(keyed: &Keyed, claim: Claim, bell: &Bell) -> Outbound {
        Outbound {
            name: keyed.key.name(),
            spi: keyed.spi,
            cipher: Cipher::new(keyed.algorithm, &keyed.key),
            extended: keyed.extended,
            numbers: Numbers::new(claim, bell.clone()),
        }
    }

    /// The name of its key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds of numbers, and how many of them are taken.
    pub fn numbers(&self) -> (Claim, u64) {
        self.numbers.standing()
    }

    /// Gives it numbers, which are on record as used.
    pub fn hold(&self, claim: Claim) {
        self.numbers.hold(claim);
    }

    /// Whether the number is beyond the last: it must not come round (RFC 4303 section 3.3.3).
    pub(super) fn is_spent(&self, number: Number) -> bool {
        !self.extended && number.sequence > u64::from(u32::MAX)
    }

    pub(super) fn shape(&self) -> Shape {
        self.cipher.shape()
    }

    /// Writes a packet's ESP around `inner_len` bytes that stand behind its front; `esp` ends with the tag, and its
    /// length has room for the padding ([`Shape::padding`]).
    #[inline]
    pub(super) fn seal(&self, esp: &mut [u8], inner_len: usize, protocol: u8, number: Number) {
        let sequence = number.sequence;
        esp[..4].copy_from_slice(&self.spi.to_be_bytes());
        esp[4..HEADER_LEN].copy_from_slice(&(sequence as u32).to_be_bytes());
        let text_end = esp.len() - TAG_LEN;
        let text = &mut esp[self.shape().front_len..text_end];
        let pad_len = text.len() - inner_len - TRAILER_LEN;
        for (byte, value) in text[inner_len..].iter_mut().zip(1..=pad_len as u8) {
            *byte = value;
        }
        let trailer_at = text.len() - TRAILER_LEN;
        text[trailer_at..].copy_from_slice(&[pad_len as u8, protocol]);
        let high = self.extended.then_some((sequence >> 32) as u32);
        self.cipher.seal(esp, number, high);
    }
}

impl Inbound {
    pub(super) fn new(keyed: &Keyed, window: u32, seen: u64) -> Inbound {
        Inbound {
            name: keyed.key.name(),
            spi: keyed.spi,
            cipher: Cipher::new(keyed.algorithm, &keyed.key),
            extended: keyed.extended,
            window: Window::new(window, seen),
        }
    }

    /// The name of its key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The highest number that has come.
    pub fn seen(&self) -> u64 {
        self.window.top()
    }

    /// Numbers up to `top` have come; before any worker has begun.
    pub fn saw(&self, top: u64) {
        self.window.begin(top);
    }

    pub(super) fn shape(&self) -> Shape {
        self.cipher.shape()
    }

    /// Opens a packet from its ESP header to its tag, in place: what stands behind its front is then what was
    /// inside. Returns its length and protocol.
    #[inline]
    pub(super) fn open(&self, esp: &mut [u8]) -> Result<(usize, u8), Refusal> {
        if !self.shape().may_be(esp.len()) {
            return Err(Refusal::Malformed);
        }
        let low = u32::from_be_bytes([esp[4], esp[5], esp[6], esp[7]]);
        let number = if self.extended { self.window.whole(low) } else { u64::from(low) };
        if !self.window.may_come(number) {
            return Err(Refusal::Replayed);
        }
        let high = self.extended.then_some((number >> 32) as u32);
        let len = self.cipher.open(esp, high).ok_or(Refusal::Forged)?;
        if !self.window.accept(number) {
            return Err(Refusal::Replayed);
        }
        inside(&esp[self.shape().front_len..][..len]).ok_or(Refusal::Malformed)
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
    use super::super::numbers::Used;
    use super::*;

    const KINDS: [Algorithm; 2] = [Algorithm::Aes128Gcm, Algorithm::Aes128CbcHmacSha256];

    fn keyed(algorithm: Algorithm, spi: u32, extended: bool) -> Keyed {
        let key = Key::from_hex(&"5a".repeat(algorithm.key_len()), algorithm).expect("a key");
        Keyed { spi, algorithm, key, extended, used: 0 }
    }

    fn out(algorithm: Algorithm, spi: u32, extended: bool) -> Outbound {
        let all = Claim { behind: Used { numbers: 0, ivs: 1 }, count: 1000 };
        Outbound::new(&keyed(algorithm, spi, extended), all, &(std::sync::Arc::new(|| ()) as _))
    }

    fn number(sequence: u64) -> Number {
        Number { sequence, iv: sequence + 1 }
    }

    fn sealed(out: &Outbound, inner: &[u8], number: Number) -> Vec<u8> {
        let shape = out.shape();
        let mut esp = vec![0; shape.around_len() + inner.len() + shape.padding(inner.len())];
        esp[shape.front_len..][..inner.len()].copy_from_slice(inner);
        out.seal(&mut esp, inner.len(), 4, number);
        esp
    }

    #[test]
    fn every_length_comes_back_and_no_changed_byte_does() {
        for (algorithm, extended) in KINDS.into_iter().flat_map(|one| [(one, false), (one, true)]) {
            every_length(algorithm, extended);
        }
    }

    fn every_length(algorithm: Algorithm, extended: bool) {
        let out = out(algorithm, 7, extended);
        let into = Inbound::new(&keyed(algorithm, 7, extended), 64, 0);
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
            assert_eq!(opened[out.shape().front_len..][..len], inner);
            assert_eq!(into.open(&mut esp.clone()), Err(Refusal::Replayed));
        }
    }

    #[test]
    fn extended_numbers_pass_the_half_and_others_end_there() {
        KINDS.into_iter().for_each(extended_numbers);
    }

    fn extended_numbers(algorithm: Algorithm) {
        let out = out(algorithm, 9, true);
        let into = Inbound::new(&keyed(algorithm, 9, true), 1024, 0);
        for number in [1, 0xffff_fffe, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001].map(number) {
            assert!(!out.is_spent(number));
            assert_eq!(into.open(&mut sealed(&out, b"inside", number)), Ok((6, 4)), "{number:?}");
        }
        let late = sealed(&out, b"inside", number(0xffff_fffe));
        assert_eq!(into.open(&mut late.clone()), Err(Refusal::Replayed));
        let short = super::tests::out(algorithm, 9, false);
        assert!(!short.is_spent(number(0xffff_ffff)) && short.is_spent(number(0x1_0000_0000)));
    }
}
