//! What test frames hold behind their probe: bytes of which a share has been sent before.

use rand::{RngCore as _, SeedableRng};

use crate::Random;

/// Bytes that repeat.
const POOL_LEN: usize = 1 << 18;

/// Fills payloads. The share that repeats is taken from 256 KiB of noise, from another place each time; the rest is
/// noise that never comes again.
#[derive(Clone, Debug)]
pub struct Content {
    pool: Vec<u8>,
    redundancy: f64,
    random: Random,
}

impl Content {
    /// `redundancy`, 0 to 1, is the share that repeats.
    pub fn new(redundancy: f64, seed: u64) -> Content {
        let mut random = Random::seed_from_u64(seed ^ 0x636f_6e74_656e_7473);
        let mut pool = vec![0; POOL_LEN];
        random.fill_bytes(&mut pool);
        Content { pool, redundancy: redundancy.clamp(0.0, 1.0), random }
    }

    /// Fills at most 64 KiB: first what repeats, then what does not.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let again = (bytes.len() as f64 * self.redundancy) as usize;
        let (again, fresh) = bytes.split_at_mut(again.min(POOL_LEN / 4));
        let from = self.random.next_u32() as usize % (POOL_LEN - again.len());
        again.copy_from_slice(&self.pool[from..from + again.len()]);
        self.random.fill_bytes(fresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_repeats_is_of_the_pool_and_the_rest_is_not() {
        for redundancy in [0.0, 0.5, 1.0] {
            let mut content = Content::new(redundancy, 1);
            let mut bytes = [0; 1400];
            content.fill(&mut bytes);
            let again = (1400.0 * redundancy) as usize;
            let is_there = |part: &[u8]| content.pool.windows(part.len()).any(|of| of == part);
            assert!(again == 0 || is_there(&bytes[..again]));
            assert!(again == 1400 || !is_there(&bytes[again..again + 16]));
        }
    }
}
