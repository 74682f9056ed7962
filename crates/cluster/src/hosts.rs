//! The hosts of a link: which of them others are told of, and when.

use core::ops::Bound::{Excluded, Unbounded};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use ebb_units::Time;

use crate::quota::Quota;

/// Hosts remembered at most; those that were heard longest ago go first.
const KNOWN_MAX: usize = 4096;
/// New ones in a second: whoever sends from many addresses pushes nobody out who is heard from now and then.
const NEW_MAX: u32 = 256;
/// Who is heard all the time is noted so often.
const NOTED: Duration = Duration::from_secs(1);
/// Switches forget addresses; they are told of all hosts again over so long.
const ROUND: Duration = Duration::from_secs(2);

type Mac = [u8; 6];

/// The hosts of one link, as a balancer hears them itself and from the others. A new host is told at once, all of
/// them at a steady pace: what a new one costs does not depend on how many are known.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Heard by this one, and when.
    heard: BTreeMap<Mac, Time>,
    /// Heard by anybody.
    known: BTreeMap<Mac, Time>,
    quota: Quota,
    last: Option<(Mac, Time)>,
    /// That the other balancers have not been told of, and that the segment has not.
    unsaid: VecDeque<Mac>,
    untold: VecDeque<Mac>,
    /// Behind whom the turn is.
    said: Mac,
    told: Mac,
    /// Until when the segment has been told at the steady pace.
    paced: Option<Time>,
}

impl Hosts {
    /// A frame came from a host.
    pub fn saw(&mut self, host: Mac, now: Time) {
        let noted = |(last, at): (Mac, Time)| last == host && now.since(at) < NOTED;
        if self.last.is_some_and(noted) || host[0] & 1 == 1 {
            return;
        }
        if !self.heard.contains_key(&host) {
            if !self.quota.take(NEW_MAX, now) {
                return;
            }
            make_room(&mut self.heard);
            self.unsaid.push_back(host);
        }
        self.last = Some((host, now));
        self.heard.insert(host, now);
        self.learn(host, now);
    }

    /// Another balancer has heard a host.
    pub fn learn(&mut self, host: Mac, now: Time) {
        if !self.known.contains_key(&host) {
            make_room(&mut self.known);
            // One that is pushed out again before its turn comes is not waited for.
            if self.untold.len() < KNOWN_MAX {
                self.untold.push_back(host);
            }
        }
        self.known.insert(host, now);
    }

    /// Some of those that this one has heard, for the other balancers: new ones, then the next.
    pub fn say(&mut self, most: usize) -> Vec<Mac> {
        let new = self.unsaid.len().min(most);
        let mut hosts: Vec<Mac> = self.unsaid.drain(..new).collect();
        hosts.extend(next(&self.heard, &mut self.said, most - new));
        hosts
    }

    /// Those that the segment is to be told of now: new ones, and of the others what is due.
    pub fn tell(&mut self, now: Time) -> Vec<Mac> {
        let mut hosts: Vec<Mac> = self.untold.drain(..).collect();
        let paced = *self.paced.get_or_insert(now);
        let (count, round) = (self.known.len() as u128, ROUND.as_nanos());
        let due = (count * now.since(paced).min(ROUND).as_nanos() / round) as usize;
        if due > 0 || count == 0 {
            self.paced = Some(now);
            hosts.extend(next(&self.known, &mut self.told, due));
        }
        hosts
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Mac> {
        self.known.keys()
    }
}

/// The next ones after `last`, in a circle.
fn next(hosts: &BTreeMap<Mac, Time>, last: &mut Mac, most: usize) -> Vec<Mac> {
    let (behind, before) = (hosts.range((Excluded(*last), Unbounded)), hosts.range(..=*last));
    let some: Vec<Mac> = behind.chain(before).map(|(host, _)| *host).take(most).collect();
    if let Some(host) = some.last() {
        *last = *host;
    }
    some
}

/// Many at a time: each new one then costs little.
fn make_room(hosts: &mut BTreeMap<Mac, Time>) {
    if hosts.len() < KNOWN_MAX {
        return;
    }
    let mut all: Vec<(Time, Mac)> = hosts.iter().map(|(host, at)| (*at, *host)).collect();
    all.sort_unstable();
    for (_, host) in &all[..KNOWN_MAX / 8] {
        hosts.remove(host);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ms(time: u64) -> Time {
        Time::from_nanos(5_000_000_000 + time * 1_000_000)
    }

    fn host(number: u32) -> Mac {
        let [a, b, c, d] = number.to_be_bytes();
        [2, 9, a, b, c, d]
    }

    #[test]
    fn a_new_host_is_told_at_once_and_all_of_them_in_a_round() {
        let mut hosts = Hosts::default();
        (0..100).for_each(|number| hosts.saw(host(number), ms(0)));
        assert_eq!(hosts.tell(ms(0)).len(), 100);
        assert!(hosts.tell(ms(1)).is_empty());
        let mut told = Vec::new();
        (2..=2000).for_each(|time| told.extend(hosts.tell(ms(time))));
        assert_eq!(told.len(), 100);
        assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), 100, "each once in a round");
        hosts.saw(host(1000), ms(2001));
        assert_eq!(hosts.tell(ms(2001)).first(), Some(&host(1000)));
        // After a long sleep not more than all.
        assert_eq!(hosts.tell(ms(900_000)).len(), 101);
    }

    #[test]
    fn others_hear_of_new_hosts_first_and_of_all_in_turn() {
        let mut hosts = Hosts::default();
        (0..200).for_each(|number| hosts.saw(host(number), ms(0)));
        assert_eq!(hosts.say(128).len(), 128);
        hosts.saw(host(500), ms(1));
        assert!(hosts.say(128).contains(&host(500)));
        let said: BTreeSet<Mac> = (0..2).flat_map(|_| hosts.say(128)).collect();
        assert_eq!(said.len(), 201);
        hosts.saw([1, 0, 0, 0, 0, 1], ms(2));
        assert_eq!(hosts.all().count(), 201, "groups are no hosts");
    }

    /// One host that sends from very many addresses costs in proportion to what it sends, less than that when it is
    /// fast, and whoever is heard from every few seconds stays known.
    #[test]
    fn many_addresses_of_one_host_cost_little_and_push_nobody_out() {
        let mut hosts = Hosts::default();
        let (mut told, mut said, mut late) = (0, 0, 0);
        for time in 0..60_000_u64 {
            if time % 5000 < 100 {
                hosts.saw(host(time as u32 % 100), ms(time));
            }
            let flood = if time < 1000 { 0..0 } else { 0..10 };
            flood.for_each(|each| hosts.saw(host(1000 + time as u32 * 10 + each), ms(time)));
            told += hosts.tell(ms(time)).len();
            if time % 5 == 0 {
                said += hosts.say(128).len();
            }
            late += usize::from(time > 100 && !hosts.known.contains_key(&host(50)));
        }
        assert!(hosts.known.len() <= KNOWN_MAX && hosts.heard.len() <= KNOWN_MAX);
        let most = 60 * NEW_MAX as usize + 30 * KNOWN_MAX;
        assert!(told <= most, "{told} of at most {most} for 600,000 addresses");
        assert!(said <= 12_000 * 128);
        assert_eq!(late, 0);
    }
}
