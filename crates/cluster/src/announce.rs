//! When addresses are announced to a link's neighbours (RFC 5227, RFC 4861).

use core::time::Duration;

use ebb_units::Time;

/// How often an address is announced after it was taken (RFC 5227, section 1.1: ANNOUNCE_NUM).
const TIMES: u32 = 2;
/// Between two of these (ANNOUNCE_INTERVAL).
const APART: Duration = Duration::from_secs(2);
/// An address that somebody else claims is defended so often at most (DEFEND_INTERVAL).
const DEFEND: Duration = Duration::from_secs(10);

/// When a router says to all neighbours of a link where its addresses are: when it begins to answer for
/// them (RFC 5227, section 2.3; RFC 9568, section 6.4.1), again soon after, since such words get lost, and
/// when somebody else says that they are his (RFC 5227, section 2.4, (b)).
#[derive(Clone, Debug, Default)]
pub struct Announcer {
    serves: bool,
    left: u32,
    due: Time,
    defended: Option<Time>,
    claimed: bool,
}

impl Announcer {
    /// Whether to speak now. `serves`: it answers for the link's addresses, and can forward. `taken`: it
    /// would be the first to, rather than one more who does.
    pub fn speaks(&mut self, serves: bool, taken: bool, now: Time) -> bool {
        let begins = serves && !self.serves;
        self.serves = serves;
        if begins && taken {
            (self.left, self.due) = (TIMES, now);
        }
        if !serves {
            (self.left, self.claimed) = (0, false);
        }
        let defends = core::mem::take(&mut self.claimed)
            && self.defended.is_none_or(|last| now.since(last) >= DEFEND);
        if defends {
            self.defended = Some(now);
        }
        let repeats = self.left > 0 && now >= self.due;
        if repeats {
            self.left -= 1;
            self.due = now + APART;
        }
        defends || repeats
    }

    /// Somebody else has said that one of the addresses is his.
    pub fn claimed(&mut self) {
        self.claimed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds, of `steps` tenths, in which it speaks.
    fn spoken(
        announcer: &mut Announcer,
        from: u64,
        steps: u64,
        serves: bool,
        taken: bool,
    ) -> Vec<u64> {
        let at = |step| Time::from_nanos((from * 10 + step) * 100_000_000);
        let speaks = (0..steps).filter(|step| announcer.speaks(serves, taken, at(*step)));
        speaks.map(|step| from + step / 10).collect()
    }

    #[test]
    fn it_speaks_twice_when_it_begins_and_when_it_begins_anew() {
        let mut announcer = Announcer::default();
        assert!(spoken(&mut announcer, 0, 20, false, true).is_empty());
        assert_eq!(spoken(&mut announcer, 2, 100, true, true), [2, 4]);
        assert!(spoken(&mut announcer, 12, 5, false, true).is_empty());
        assert_eq!(spoken(&mut announcer, 13, 100, true, true), [13, 15], "the link came back");
        assert!(spoken(&mut announcer, 23, 5, false, true).is_empty());
        assert!(spoken(&mut announcer, 24, 50, true, false).is_empty(), "others have them already");
    }

    #[test]
    fn it_defends_what_others_claim_but_not_as_often_as_they_do() {
        let mut announcer = Announcer::default();
        spoken(&mut announcer, 0, 50, true, true);
        let mut said = Vec::new();
        for second in 10..40 {
            announcer.claimed();
            said.extend(spoken(&mut announcer, second, 10, true, true));
        }
        assert_eq!(said, [10, 20, 30]);
        announcer.claimed();
        assert!(spoken(&mut announcer, 60, 20, false, true).is_empty(), "what it does not have");
    }
}
