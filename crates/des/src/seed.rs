//! Random numbers that are the same on every machine.

use rand::SeedableRng;

/// The generator of all simulations: ChaCha with 8 rounds, whose numbers are the same on every
/// machine and in every version.
pub type Rng = rand_chacha::ChaCha8Rng;

/// What decides all randomness of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// The generator called `name`. Generators of different names are independent, so that one
    /// more draw of the arrivals does not change the packet sizes.
    pub fn stream(self, name: &str) -> Rng {
        let mut rng = Rng::seed_from_u64(self.0);
        rng.set_stream(fnv1a(name.as_bytes()));
        rng
    }

    /// The seed of the repetition or sweep point number `index`; not that of any other.
    #[must_use]
    pub fn nth(self, index: u64) -> Seed {
        Seed(mix(self.0 ^ mix(index.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    }
}

/// The 64-bit hash of Fowler, Noll and Vo, which is fixed for ever, unlike the standard library's.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a bijection that mixes all bits.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngCore;
    use std::collections::BTreeSet;

    #[test]
    fn the_same_seed_and_name_give_the_same_numbers_for_ever() {
        assert_eq!(Seed(1).stream("arrivals").next_u64(), 11_735_146_581_543_561_455);
        assert_ne!(Seed(1).stream("sizes").next_u64(), Seed(1).stream("arrivals").next_u64());
        assert_ne!(Seed(2).stream("arrivals").next_u64(), Seed(1).stream("arrivals").next_u64());
    }

    #[test]
    fn no_two_repetitions_share_a_seed() {
        let seeds: BTreeSet<Seed> = (0..10_000).map(|index| Seed(42).nth(index)).collect();
        assert_eq!(seeds.len(), 10_000);
    }
}
