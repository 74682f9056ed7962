//! Hash of a payload under a secret key: a polynomial over the field of 2^61 - 1 elements, whose coefficients are the
//! payload and which is taken at the key (Carter and Wegman 1979; Bierbrauer and others 1993).
//!
//! For any two payloads of at most 64 KiB that somebody picks without knowing the key, they hash to the same with a
//! probability of at most 2^-47 (as many roots as blocks, among 2^61 keys), of 1,460 bytes 2^-53. Who sees hashes can find the
//! key: they are for those alone who may know it.

/// 2^61 - 1, a prime: what is above bit 61 counts as below it.
const PRIME: u64 = (1 << 61) - 1;
/// Bytes of a coefficient.
const BLOCK: usize = 7;
const BLOCK_MASK: u64 = (1 << (8 * BLOCK)) - 1;
/// Coefficients that are taken together.
const STEP: usize = 4;

/// The first powers of a key.
#[derive(Clone)]
pub(super) struct Polynomial([u64; STEP + 1]);

/// At most a little above 2^61; for numbers below 2^124.
#[inline(always)]
fn fold(number: u128) -> u64 {
    let once = (number as u64 & PRIME) + (number >> 61) as u64;
    (once & PRIME) + (once >> 61)
}

#[inline(always)]
fn times(one: u64, other: u64) -> u128 {
    u128::from(one) * u128::from(other)
}

#[inline(always)]
fn block(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes) & BLOCK_MASK
}

impl Polynomial {
    /// Of a random key.
    pub(super) fn new(key: u64) -> Polynomial {
        let key = key % PRIME;
        let mut powers = [1; STEP + 1];
        for at in 1..=STEP {
            powers[at] = fold(times(powers[at - 1], key));
        }
        Polynomial(powers)
    }

    /// Less than 2^61.
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        let [_, first, second, third, fourth] = self.0;
        let (mut hash, mut at) = (0, 0);
        // A block is read as eight bytes, of which the last counts for the next.
        while let Some(step) = bytes.get(at..at + STEP * BLOCK + 1) {
            let word = |number: usize| {
                let bytes = step[number * BLOCK..].first_chunk::<8>();
                block(bytes.expect("within the step"))
            };
            let sum = times(hash, fourth)
                + times(word(0), third)
                + times(word(1), second)
                + times(word(2), first)
                + u128::from(word(3));
            hash = fold(sum);
            at += STEP * BLOCK;
        }
        for part in bytes[at..].chunks(BLOCK) {
            let mut last = [0; 8];
            last[..part.len()].copy_from_slice(part);
            hash = fold(times(hash, first) + u128::from(block(&last)));
        }
        // The length tells zeroes at the end apart.
        let hash = fold(times(hash, first) + bytes.len() as u128);
        if hash >= PRIME { hash - PRIME } else { hash }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Horner's scheme, a block at a time.
    fn reference(key: u64, bytes: &[u8]) -> u64 {
        let prime = u128::from(PRIME);
        let step = |hash: u128, more: u128| (hash * u128::from(key % PRIME) + more) % prime;
        let number =
            |part: &[u8]| part.iter().rev().fold(0, |sum, byte| sum << 8 | u128::from(*byte));
        let hash = bytes.chunks(BLOCK).fold(0, |hash, part| step(hash, number(part)));
        step(hash, bytes.len() as u128) as u64
    }

    proptest! {
        #[test]
        fn it_is_the_polynomial(
            key: u64, bytes in prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 0..300),
        ) {
            prop_assert_eq!(Polynomial::new(key).hash(&bytes), reference(key, &bytes));
        }
    }

    #[test]
    fn the_largest_numbers_fit() {
        for key in [PRIME - 1, PRIME, u64::MAX, 1 << 60] {
            let bytes = [0xff; 2000];
            assert_eq!(Polynomial::new(key).hash(&bytes), reference(key, &bytes));
        }
    }

    #[test]
    fn zeroes_at_the_end_count() {
        let polynomial = Polynomial::new(0x1234_5678_9abc_def1);
        let all: std::collections::BTreeSet<u64> =
            (0..100).map(|len| polynomial.hash(&vec![0; len])).collect();
        assert_eq!(all.len(), 100);
    }
}
