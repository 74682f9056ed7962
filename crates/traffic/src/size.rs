//! Packet-size mixes.

use rand::Rng;

/// Frame lengths and how often each occurs.
///
/// Lengths are those on the wire with the frame check sequence of 4 bytes, as benchmarks state
/// them (RFC 2544, section 9); memory holds 4 bytes less.
///
/// ```
/// use ebb_traffic::SizeMix;
/// assert_eq!(SizeMix::imix().mean().round(), 362.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SizeMix {
    name: String,
    parts: Vec<(u16, u32)>,
    total: u32,
}

impl SizeMix {
    /// Shortest frame on the wire.
    pub const FRAME_MIN: u16 = 64;
    /// Longest frame on the wire without VLAN tag at an MTU of 1500.
    pub const FRAME_MAX: u16 = 1518;

    /// The simple Internet mix: 64, 594 and 1518 bytes in the proportion 7:4:1.
    pub fn imix() -> SizeMix {
        SizeMix::new("imix", vec![(64, 7), (594, 4), (1518, 1)])
    }

    /// Frames of one length.
    ///
    /// # Panics
    /// When `len` is outside [`SizeMix::FRAME_MIN`] to [`SizeMix::FRAME_MAX`].
    pub fn fixed(len: u16) -> SizeMix {
        SizeMix::new(&len.to_string(), vec![(len, 1)])
    }

    /// The mix called `text`: `imix`, or a length in bytes.
    pub fn by_name(text: &str) -> Option<SizeMix> {
        if text == "imix" {
            return Some(SizeMix::imix());
        }
        let len = text.parse().ok()?;
        (Self::FRAME_MIN..=Self::FRAME_MAX).contains(&len).then(|| SizeMix::fixed(len))
    }

    fn new(name: &str, parts: Vec<(u16, u32)>) -> SizeMix {
        let valid = Self::FRAME_MIN..=Self::FRAME_MAX;
        assert!(parts.iter().all(|(len, _)| valid.contains(len)), "frame length out of range");
        let total = parts.iter().map(|(_, weight)| weight).sum();
        assert!(total > 0, "a mix needs a part");
        SizeMix { name: name.to_owned(), parts, total }
    }

    /// The name it is asked for by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lengths with their weights.
    pub fn parts(&self) -> &[(u16, u32)] {
        &self.parts
    }

    /// Mean frame length in bytes.
    pub fn mean(&self) -> f64 {
        let bytes: f64 =
            self.parts.iter().map(|(len, weight)| f64::from(*len) * f64::from(*weight)).sum();
        bytes / f64::from(self.total)
    }

    /// One length drawn.
    pub fn draw<R: Rng>(&self, random: &mut R) -> u16 {
        let mut ticket = random.random_range(0..self.total);
        for (len, weight) in &self.parts {
            if ticket < *weight {
                return *len;
            }
            ticket -= weight;
        }
        unreachable!("a ticket beyond the total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn drawn_lengths_follow_the_weights() {
        let mix = SizeMix::imix();
        let mut random = crate::Random::seed_from_u64(1);
        let draws = 120_000;
        let small = (0..draws).filter(|_| mix.draw(&mut random) == 64).count();
        let share = small as f64 / f64::from(draws);
        assert!((share - 7.0 / 12.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn names_lead_to_mixes_and_nonsense_to_none() {
        assert_eq!(SizeMix::by_name("imix"), Some(SizeMix::imix()));
        assert_eq!(SizeMix::by_name("64"), Some(SizeMix::fixed(64)));
        assert_eq!(SizeMix::by_name("63"), None);
        assert_eq!(SizeMix::by_name("1519"), None);
        assert_eq!(SizeMix::by_name("large"), None);
    }
}
