//! Whether what another process says was said just now.

use core::time::Duration;

use ebb_units::Time;

/// Names one word of a process: numbers grow within a session, and no session has another's number. The default
/// names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Tells a process from those before it; drawn at random, not 0.
    pub session: u64,
    /// Nanoseconds on its own clock, never twice the same.
    pub number: u64,
}

/// What two processes say to each other under a seal, as one of them hears it, on several links.
///
/// A seal says who said something, not when: somebody on the link can repeat it. So each word names the last one
/// that was heard from the other. A word that answers what was said a moment ago was said since; all that is said
/// thus has an order over all lives of the one who says it, without a clock that both have.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The last word, for the answer.
    heard: Stamp,
    /// The session of what was believed last, and when that was.
    session: u64,
    believed: Option<Time>,
    /// By link, the number of the last word that was believed in that session.
    numbers: Vec<u64>,
    /// The latest of one's own words that was answered.
    answered: u64,
}

impl Conversation {
    /// Nothing has been said yet on any of so many links.
    pub fn new(links: usize) -> Conversation {
        Conversation {
            heard: Stamp::default(),
            session: 0,
            believed: None,
            numbers: vec![0; links],
            answered: 0,
        }
    }

    /// The other says `said` on a link, after it has heard `answer`, of which this one's session is `own`. Whether
    /// that was said within `window`, and is not heard again.
    pub fn hear(
        &mut self,
        link: usize,
        (said, answer): (Stamp, Stamp),
        own: u64,
        (now, window): (Time, Duration),
    ) -> bool {
        let age = now.since(Time::from_nanos(answer.number));
        let answers = answer.session == own && answer.number > 0 && age <= window;
        let same = said.session == self.session;
        let later = match same {
            true => said.number > self.numbers[link],
            false => answer.number > self.answered,
        };
        if answers && later {
            if !same {
                self.numbers.fill(0);
            }
            let goes_on = self.heard.session == said.session;
            let number = if goes_on { self.heard.number.max(said.number) } else { said.number };
            self.heard = Stamp { number, ..said };
            (self.session, self.believed) = (said.session, Some(now));
            self.numbers[link] = said.number;
            self.answered = self.answered.max(answer.number);
            return true;
        }
        // Somebody has to begin. Whoever is believed is not interrupted.
        if self.believed.is_none_or(|at| now.since(at) > window) {
            self.heard = said;
        }
        false
    }

    /// What the next word answers.
    pub fn answer(&self) -> Stamp {
        self.heard
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: Duration = Duration::from_millis(50);
    const LINKS: usize = 2;

    /// A word on its way, as whoever listens on the link has it.
    #[derive(Clone, Copy, Debug)]
    struct Word {
        from: usize,
        link: usize,
        said: Stamp,
        answer: Stamp,
        at: Time,
        believed: bool,
    }

    struct Process {
        session: u64,
        last: u64,
        alive: bool,
        /// It stands still.
        stopped: bool,
        /// Its clock is so far ahead.
        ahead_ms: u64,
        other: Conversation,
        believed: Time,
    }

    struct World {
        now: Time,
        both: [Process; 2],
        lives: u64,
        /// All that was ever said.
        said: Vec<Word>,
    }

    impl World {
        fn new() -> World {
            let both = [0, 1].map(|me| Process {
                session: 1 + me,
                last: 0,
                alive: true,
                stopped: false,
                ahead_ms: 1000 * me,
                other: Conversation::new(LINKS),
                believed: Time::ZERO,
            });
            World { now: Time::from_nanos(1_000_000_000), both, lives: 2, said: Vec::new() }
        }

        fn clock(&self, who: usize) -> Time {
            self.now + Duration::from_millis(self.both[who].ahead_ms)
        }

        fn restart(&mut self, who: usize, ahead_ms: u64) {
            self.lives += 1;
            let (session, other) = (self.lives, Conversation::new(LINKS));
            let believed = self.both[who].believed;
            self.both[who] = Process {
                session,
                last: 0,
                alive: true,
                stopped: false,
                ahead_ms,
                other,
                believed,
            };
        }

        /// Whether the word of this index is believed where it arrives now.
        fn deliver(&mut self, index: usize) -> bool {
            let word = self.said[index];
            let to = 1 - word.from;
            let (now, here) = (self.clock(to), self.now);
            let process = &mut self.both[to];
            let own = process.session;
            let fresh = process.alive
                && !process.stopped
                && process.other.hear(word.link, (word.said, word.answer), own, (now, WINDOW));
            if fresh {
                process.believed = here;
                self.said[index].believed = true;
            }
            fresh
        }

        /// Five milliseconds, in which all that live say something on each link, which arrives.
        fn step(&mut self) {
            self.now += Duration::from_millis(5);
            for from in 0..2 {
                let speaks = self.both[from].alive && !self.both[from].stopped;
                for link in (0..LINKS).filter(|_| speaks) {
                    let now = self.clock(from).as_nanos();
                    let process = &mut self.both[from];
                    process.last = now.max(process.last + 1);
                    let said = Stamp { session: process.session, number: process.last };
                    let answer = process.other.answer();
                    self.said.push(Word {
                        from,
                        link,
                        said,
                        answer,
                        at: self.now,
                        believed: false,
                    });
                    self.deliver(self.said.len() - 1);
                }
            }
        }
    }

    #[test]
    fn each_is_believed_soon_after_both_have_begun_and_after_either_begins_anew() {
        let mut world = World::new();
        (0..3).for_each(|_| world.step());
        for who in [0, 1, 1, 0] {
            // Its clock may have gone back.
            world.restart(who, 100);
            (0..3).for_each(|_| world.step());
            assert!(world.both.iter().all(|one| one.believed == world.now), "after {who}");
        }
        assert!(!world.deliver(world.said.len() - 1), "it has been heard");
    }

    #[derive(Clone, Copy, Debug)]
    enum Deed {
        Steps(u8),
        Kill(bool),
        Restart(bool, u16),
        Stop(bool),
        Continue(bool),
        /// Repeats one of all words, or one of the last.
        Repeat(u16, bool),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            3 => (1..20u8).prop_map(Deed::Steps),
            1 => any::<bool>().prop_map(Deed::Kill),
            1 => (any::<bool>(), 0..5000u16).prop_map(|(who, ahead)| Deed::Restart(who, ahead)),
            1 => any::<bool>().prop_map(Deed::Stop),
            1 => any::<bool>().prop_map(Deed::Continue),
            6 => (any::<u16>(), any::<bool>()).prop_map(|(which, late)| Deed::Repeat(which, late)),
        ]
    }

    proptest! {
        /// Whoever hears everything and repeats what it likes makes nobody believe that a dead one lives, and keeps
        /// nobody from being believed.
        #[test]
        fn what_is_repeated_is_believed_by_nobody(deeds in proptest::collection::vec(deed(), 1..80)) {
            let mut world = World::new();
            (0..3).for_each(|_| world.step());
            for deed in deeds {
                match deed {
                    Deed::Steps(steps) => (0..steps).for_each(|_| world.step()),
                    Deed::Kill(who) => world.both[usize::from(who)].alive = false,
                    Deed::Restart(who, ahead) => world.restart(usize::from(who), u64::from(ahead)),
                    Deed::Stop(who) => world.both[usize::from(who)].stopped = true,
                    Deed::Continue(who) => world.both[usize::from(who)].stopped = false,
                    Deed::Repeat(which, late) => {
                        let most = if late { world.said.len().min(8) } else { world.said.len() };
                        let index = world.said.len() - 1 - usize::from(which) % most;
                        let word = world.said[index];
                        let fresh = world.deliver(index);
                        prop_assert!(!fresh || !word.believed, "{word:?} was believed twice");
                        prop_assert!(!fresh || world.now.since(word.at) <= WINDOW, "{word:?} was believed late");
                    }
                }
                if world.both.iter().all(|one| one.alive && !one.stopped) {
                    (0..3).for_each(|_| world.step());
                    prop_assert!(world.both.iter().all(|one| one.believed == world.now));
                }
            }
        }
    }
}
