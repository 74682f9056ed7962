//! Which runs of a sweep belong to one of several parts of it.

use std::fmt;

/// One of several equal parts of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// Reads `3/64`: the third of 64.
    ///
    /// # Errors
    /// What is needed instead.
    pub fn parse(text: &str) -> Result<Shard, String> {
        let parsed = || {
            let (number, of) = text.split_once('/')?;
            let (number, of) = (number.trim().parse().ok()?, of.trim().parse().ok()?);
            (1..=of).contains(&number).then_some(Shard { number, of })
        };
        parsed().ok_or_else(|| "expected NUMBER/COUNT from 1/COUNT on, for example 3/64".to_owned())
    }

    /// Whether the thing of this index belongs to it.
    pub(crate) fn holds(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_number_of_several() {
        let shard = Shard::parse("3/64").expect("a shard");
        assert_eq!(shard.to_string(), "3/64");
        let held: Vec<usize> = (0..200).filter(|index| shard.holds(*index)).collect();
        assert_eq!(held, [2, 66, 130, 194]);
        for wrong in ["", "3", "0/4", "5/4", "a/b", "1/0", "-1/4"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }
}
