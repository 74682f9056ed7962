//! How many bytes a queue may hand to the network card during a day (Strong 2013, section 4.4.2,
//! figures 4.12 and 4.13). The simulator and the live switch ask the same rules.

/// A rule for handing bytes over.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    ebb_scenario::Described,
)]
#[serde(rename_all = "lowercase")]
pub enum Tokens {
    /// What the link carries in a whole day, at any time of it.
    Naive,
    /// No more than the link still carries in what is left of the day.
    Aging,
    /// That, and never more ahead of the link than a limit, beyond which cards work in batches.
    Pacing,
}

impl Tokens {
    /// All of them, from the simplest on.
    pub const ALL: [Tokens; 3] = [Tokens::Naive, Tokens::Aging, Tokens::Pacing];

    /// The word in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Tokens::Naive => "naive",
            Tokens::Aging => "aging",
            Tokens::Pacing => "pacing",
        }
    }
}

/// Published limit of [`Tokens::Pacing`]: 80 KB, 64 us of a 10 Gb/s link.
pub const AHEAD_MAX: u64 = 80_000;

/// What a queue has left of a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Purse {
    scheme: Tokens,
    /// Bytes the link carries in the whole day.
    whole: u64,
    day_ns: u64,
    ahead_max: u64,
    left: u64,
    spent: u64,
}

impl Purse {
    /// A day of `day_ns` on a link of `rate_bps`, with `ahead_max` as the limit of pacing.
    pub fn new(scheme: Tokens, day_ns: u64, rate_bps: u64, ahead_max: u64) -> Purse {
        let whole = (u128::from(day_ns) * u128::from(rate_bps) / 8_000_000_000) as u64;
        Purse { scheme, whole, day_ns: day_ns.max(1), ahead_max, left: whole, spent: 0 }
    }

    /// Bytes that may be handed over `into_day_ns` after the day began.
    pub fn left(&mut self, into_day_ns: u64) -> u64 {
        if self.scheme == Tokens::Naive {
            return self.left;
        }
        let remaining = self.day_ns.saturating_sub(into_day_ns);
        let aged =
            (u128::from(self.whole) * u128::from(remaining) / u128::from(self.day_ns)) as u64;
        self.left = self.left.min(aged);
        if self.scheme == Tokens::Aging {
            return self.left;
        }
        // What was handed over ahead of the link: what it has not carried yet.
        let ahead = aged - self.left;
        if ahead > self.ahead_max { 0 } else { self.left.min(self.ahead_max - ahead) }
    }

    /// Takes the bytes of a frame.
    pub fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.spent += bytes;
    }

    /// Gives back what was taken but not sent.
    pub fn refund(&mut self, bytes: u64) {
        self.left = (self.left + bytes).min(self.whole);
        self.spent = self.spent.saturating_sub(bytes);
    }

    /// Bytes taken today.
    pub fn spent(&self) -> u64 {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purse(scheme: Tokens) -> Purse {
        Purse::new(scheme, 100_000, 10_000_000_000, AHEAD_MAX)
    }

    /// The cases of figure 4.12: a rush in the evening, and one in the morning.
    #[test]
    fn aging_stops_the_evening_rush_and_pacing_the_morning_rush() {
        assert_eq!(purse(Tokens::Naive).left(90_000), 125_000);
        assert_eq!(purse(Tokens::Aging).left(90_000), 12_500);
        assert_eq!(purse(Tokens::Pacing).left(90_000), 12_500);
        assert_eq!(purse(Tokens::Aging).left(0), 125_000);
        assert_eq!(purse(Tokens::Pacing).left(0), 80_000);
    }

    #[test]
    fn pacing_follows_the_link() {
        let mut purse = purse(Tokens::Pacing);
        purse.spend(80_000);
        assert_eq!(purse.left(0), 0);
        // In 8 us the link has carried 10,000 bytes.
        assert_eq!(purse.left(8_000), 10_000);
        purse.spend(9_000);
        purse.refund(9_000);
        assert_eq!(purse.left(8_000), 10_000);
        assert_eq!(purse.left(200_000), 0);
    }
}
