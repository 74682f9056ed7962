//! What neighbours say of their addresses, passed on to the back-ends.

use std::collections::BTreeMap;
use std::net::IpAddr;

use core::time::Duration;

use ebb_units::Time;

use crate::quota::Quota;

/// Neighbours remembered on a link; those that were of interest longest ago go first.
const KNOWN_MAX: usize = 4096;
/// The same words again are passed on so often at most: back-ends may have held the first ones for a
/// mistake (Linux' lock time is a second).
const AGAIN: Duration = Duration::from_secs(1);
/// Other words of the same neighbour, in a second: who has just answered may move the moment after.
const CHANGES_MAX: u32 = 10;
/// Words of those that no back-end has asked for, in a second.
const STRANGERS_MAX: u32 = 100;

/// How a neighbour came to say where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It was asked, and answers.
    Answer,
    /// It says so to all, or asks for somebody else.
    Unasked,
    /// It asks for the cluster. That makes a router remember it, so that only what is known anyway is
    /// passed on: nobody fills the tables of all back-ends by asking.
    Asks,
}

#[derive(Default)]
struct Known {
    /// When a back-end last asked for it.
    asked: Option<Time>,
    /// What was passed on last, and when.
    told: Option<([u8; 6], Time)>,
    changes: Quota,
}

impl Known {
    fn touched(&self) -> Time {
        let told = self.told.map_or(Time::ZERO, |(_, at)| at);
        self.asked.unwrap_or(Time::ZERO).max(told)
    }
}

/// What the neighbours of a link are to the back-ends, of which each has a table of its own: words of a
/// neighbour concern all of them (RFC 826, "packet reception"; RFC 4861, section 7.2.5), but who says much
/// must not make work for all. Whether an entry exists, and may change, is decided by each back-end's own
/// rules.
#[derive(Default)]
pub struct Neighbours {
    known: BTreeMap<IpAddr, Known>,
    strangers: Quota,
}

impl Neighbours {
    /// A back-end has asked for a neighbour.
    pub fn asked(&mut self, address: IpAddr, now: Time) {
        self.make_room(address);
        self.known.entry(address).or_default().asked = Some(now);
    }

    /// A neighbour says what its Ethernet address is. Whether the back-ends are to hear that.
    pub fn says(&mut self, address: IpAddr, mac: [u8; 6], manner: Manner, now: Time) -> bool {
        let known = self.known.get_mut(&address);
        let asked = known.as_ref().and_then(|known| known.asked);
        let fresh = known.is_none_or(|known| match known.told {
            None => true,
            Some((_, at)) if asked.is_some_and(|asked| asked >= at) => true,
            Some((before, at)) if before == mac => now.since(at) >= AGAIN,
            Some(_) => known.changes.take(CHANGES_MAX, now),
        });
        let heard = fresh
            && match (asked, manner) {
                (Some(_), _) => true,
                (None, Manner::Asks) => false,
                (None, _) => self.strangers.take(STRANGERS_MAX, now),
            };
        if heard {
            self.make_room(address);
            self.known.entry(address).or_default().told = Some((mac, now));
        }
        heard
    }

    /// Strangers go first, then those that were asked for and never answered: whoever tries all addresses of
    /// a subnet pushes nobody out.
    fn make_room(&mut self, address: IpAddr) {
        if self.known.len() < KNOWN_MAX || self.known.contains_key(&address) {
            return;
        }
        let rank = |known: &Known| {
            let (asked, told) = (known.asked.is_some(), known.told.is_some());
            (asked, asked && told, known.touched())
        };
        let mut all: Vec<_> =
            self.known.iter().map(|(address, known)| (rank(known), *address)).collect();
        all.sort_unstable();
        // Many at a time: each new one then costs little.
        for (_, address) in &all[..KNOWN_MAX / 8] {
            self.known.remove(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use Manner::{Answer, Asks, Unasked};

    fn ms(time: u64) -> Time {
        Time::from_nanos(5_000_000_000 + time * 1_000_000)
    }

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
    const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

    #[test]
    fn whoever_moves_is_heard_at_once_and_again_a_second_later() {
        let mut neighbours = Neighbours::default();
        neighbours.asked(host(1), ms(0));
        assert!(neighbours.says(host(1), A, Answer, ms(1)));
        assert!(!neighbours.says(host(1), A, Asks, ms(200)), "nothing new");
        assert!(neighbours.says(host(1), B, Asks, ms(300)), "it has moved");
        assert!(!neighbours.says(host(1), B, Unasked, ms(600)));
        assert!(neighbours.says(host(1), B, Unasked, ms(1300)), "locked tables hear it now");
        neighbours.asked(host(1), ms(1310));
        assert!(neighbours.says(host(1), B, Answer, ms(1311)), "an answer to a question");
        assert!(neighbours.says(host(1), A, Unasked, ms(1312)), "it moves right after its answer");
        let more = (0..50u8).filter(|step| {
            let mac = [2, 0, 0, 0, 1, *step];
            neighbours.says(host(1), mac, Unasked, ms(1313 + u64::from(*step)))
        });
        assert!(more.count() < 10, "but not on and on");
        assert!(neighbours.says(host(2), A, Unasked, ms(1400)), "of before a restart, perhaps");
        assert!(!neighbours.says(host(3), A, Asks, ms(1400)), "who asks gets into no table");
    }

    /// A flood of strangers neither makes work for back-ends without bound nor pushes those out that are
    /// used.
    #[test]
    fn strangers_cost_no_more_than_their_share() {
        let mut neighbours = Neighbours::default();
        for number in 0..100 {
            neighbours.asked(host(number), ms(0));
            assert!(neighbours.says(host(number), A, Answer, ms(1)));
        }
        let heard = (1000..51_000).filter(|number| {
            neighbours.says(host(*number), A, Unasked, ms(u64::from(*number) / 10))
        });
        assert!(heard.count() <= 100 * 6);
        let more = 100_000..100_000 + 2 * KNOWN_MAX as u32;
        for number in more {
            neighbours.says(host(number), A, Unasked, ms(u64::from(number) * 10));
        }
        (200_000..210_000).for_each(|number| neighbours.asked(host(number), ms(9_999_000)));
        assert!(neighbours.known.len() <= KNOWN_MAX);
        let late = ms(10_000_000);
        assert!((0..100).all(|number| neighbours.says(host(number), B, Asks, late)));
    }
}
