//! A network card that sends frames in order.

use ebb_des::Rng;
use rand::Rng as _;

use super::Card;

/// A network card that sends frames in order, each some time after it was handed over.
#[derive(Clone, Debug)]
pub struct Nic {
    card: Card,
    /// Of one byte on the link, in ns.
    byte_ns: f64,
    /// When the link is free again.
    free_ns: f64,
    batches: bool,
}

impl Nic {
    /// A card on a link of `rate_gbps`, with nothing to do.
    pub fn new(card: Card, rate_gbps: f64) -> Nic {
        Nic { card, byte_ns: 8.0 / rate_gbps, free_ns: 0.0, batches: false }
    }

    /// Hands over a frame and returns when its light begins and ends.
    pub fn send(&mut self, now_ns: f64, bytes: u64, rng: &mut Rng) -> (f64, f64) {
        let ready = now_ns + 1e3 * self.card.delay_us;
        let waiting = ((self.free_ns - ready) / self.byte_ns).max(0.0);
        let many = waiting > self.card.batch_over_bytes as f64;
        if !many {
            self.batches = false;
        } else if !self.batches {
            self.batches = true;
            if rng.random_bool(self.card.batch_share) {
                let [low, high] = self.card.batch_delay_us;
                self.free_ns += 1e3 * rng.random_range(low..high);
            }
        }
        let begin = ready.max(self.free_ns);
        self.free_ns = begin + bytes as f64 * self.byte_ns;
        (begin, self.free_ns)
    }

    /// When everything handed over so far has left.
    pub fn free_ns(&self) -> f64 {
        self.free_ns
    }
}
