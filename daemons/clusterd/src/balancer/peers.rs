//! Several balancers for one address: each has an Ethernet address of the cluster, neighbours are spread
//! over them, and when one is silent the others take its address.
//!
//! Who is responsible for an address takes what the world sends to it, and lets out what back-ends send to
//! the hosts that belong to it, so that a frame which a switch floods to all balancers goes on once.
//! Switches learn where addresses are from the frames in which balancers say that they live.

use std::time::Duration;

use ebb_cluster::{Conversation, Detector, Hosts, Liveness, Stamp};
use ebb_units::Time;

use super::frame::AddressSet;
use super::plane::Probing;
use super::topology::{Mac, Topology};
use super::words::{HOSTS_MAX, PeerAuthentication, Unread, Words, Writing, reminder};

/// It answers for nothing before it has listened for so long, and for so many words: each is to answer one of its own.
const LISTEN: Duration = Duration::from_millis(200);
const LISTEN_WORDS: u32 = 6;
/// What was on its way to a balancer that gives an address back is still taken for so long.
const GRACE: Duration = Duration::from_millis(50);
/// Beyond the detection time words may have been on their way for so long.
const LATE: Duration = Duration::from_millis(100);

struct Peer {
    /// By link.
    detectors: Vec<Detector>,
    conversation: Conversation,
    ready: bool,
    serves: bool,
}

/// The balancers as one of them sees them. Time is an argument.
pub struct Peers {
    me: usize,
    sides: usize,
    writing: Writing,
    /// What it said last.
    stamp: Stamp,
    probing: Probing,
    peers: Vec<Peer>,
    accepted: AddressSet,
    /// `accepted` without what it has given back and still takes.
    owned: AddressSet,
    /// Until when it takes what it is not responsible for any more, by address.
    grace: Vec<Time>,
    begun: Option<Time>,
    said: Time,
    fit: bool,
    serves: bool,
    leaving: bool,
    /// By side.
    hosts: Vec<Hosts>,
    takeovers: u64,
    forged: u64,
    stale: u64,
}

impl Peers {
    /// Nobody has been heard yet.
    pub fn new(
        topology: &Topology,
        authentication: &PeerAuthentication,
        probing: Probing,
        now: Time,
    ) -> Peers {
        let (count, sides) = (topology.balancers(), topology.sides.len());
        let detector = || Detector::new(probing.interval, probing.misses, now);
        let peer = |_| Peer {
            detectors: (0..2 * sides).map(|_| detector()).collect(),
            conversation: Conversation::new(2 * sides),
            ready: false,
            serves: false,
        };
        Peers {
            me: topology.me,
            sides,
            writing: Writing::new(authentication),
            stamp: Stamp { session: authentication.session, number: 0 },
            probing,
            peers: (0..count).map(peer).collect(),
            accepted: u64::from(count == 1),
            owned: u64::from(count == 1),
            grace: vec![Time::ZERO; count],
            begun: None,
            said: Time::ZERO,
            fit: true,
            serves: false,
            leaving: false,
            hosts: (0..sides).map(|_| Hosts::default()).collect(),
            takeovers: 0,
            forged: 0,
            stale: 0,
        }
    }

    /// Whether there are others at all.
    pub fn several(&self) -> bool {
        self.peers.len() > 1
    }

    /// The addresses whose frames it takes now.
    pub fn accepted(&self) -> AddressSet {
        self.accepted
    }

    /// Whether it answers for addresses of the cluster and can forward.
    pub fn set_serves(&mut self, serves: bool) {
        self.serves = serves;
    }

    /// Whether no other balancer has served before: the cluster begins with this one.
    pub fn is_first(&self) -> bool {
        let serves = |peer: usize| peer != self.me && self.peers[peer].serves && self.lives(peer);
        !(0..self.peers.len()).any(serves)
    }

    /// The number of an address that it is responsible for, its own if it is: what neighbours are told by all.
    pub fn speaks_for(&self) -> usize {
        let own = self.owned >> self.me & 1 == 1;
        if own { self.me } else { self.owned.trailing_zeros() as usize % self.peers.len() }
    }

    /// How often it took the address of one that fell silent.
    pub fn takeovers(&self) -> u64 {
        self.takeovers
    }

    /// Frames whose seal was wrong.
    pub fn forged(&self) -> u64 {
        self.forged
    }

    /// Frames under the seal that were not said just now, or on another link: repeated, or held back.
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// Numbers of the others that live.
    pub fn alive(&self) -> Vec<usize> {
        (0..self.peers.len()).filter(|peer| *peer != self.me && self.lives(*peer)).collect()
    }

    fn lives(&self, peer: usize) -> bool {
        let Peer { detectors, ready, .. } = &self.peers[peer];
        *ready && detectors.iter().all(|link| link.state() == Liveness::Alive)
    }

    /// Whether all its links carry: one that has lost a link leaves the addresses to the others.
    pub fn set_fit(&mut self, fit: bool) {
        self.fit = fit;
    }

    /// It is about to end.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// A frame came from a host.
    pub fn saw(&mut self, side: usize, host: Mac, now: Time) {
        self.hosts[side].saw(host, now);
    }

    /// Whether that is a frame of balancers to each other; takes what it says.
    pub fn hear(&mut self, link: usize, frame: &[u8], now: Time) -> bool {
        let words = match self.writing.read(frame) {
            Ok(words) => words,
            Err(Unread::Foreign) => return false,
            Err(Unread::Other) => return true,
            Err(Unread::Forged) => {
                self.forged += 1;
                return true;
            }
        };
        let Words { from, ready, serves, stamp, .. } = words;
        if from >= self.peers.len() || from == self.me {
            return true;
        }
        let answer = words.answers.get(self.me).copied().unwrap_or_default();
        let peer = &mut self.peers[from];
        // As long as it may be silent twice: a repeated word does not prolong what was said before.
        let window = 2 * self.probing.interval * self.probing.misses.max(1) + LATE;
        let said = (stamp, answer);
        let fresh = words.link == link
            && peer.conversation.hear(link, said, self.stamp.session, (now, window));
        if !fresh {
            // Whoever begins has heard nothing to answer.
            self.stale += u64::from(answer != Stamp::default());
            return true;
        }
        (peer.ready, peer.serves) = (ready, serves);
        peer.detectors[link].answered(now);
        words.hosts.into_iter().for_each(|host| self.hosts[link / 2].learn(host, now));
        true
    }

    /// Looks who is silent, and returns what is to be sent on which link. To be called every millisecond
    /// or so.
    pub fn tick(&mut self, topology: &Topology, now: Time) -> Vec<(usize, Vec<u8>)> {
        if !self.several() {
            return Vec::new();
        }
        for peer in &mut self.peers {
            peer.detectors.iter_mut().for_each(|link| _ = link.look(now));
        }
        let begun = *self.begun.get_or_insert(now);
        let ready = self.fit
            && !self.leaving
            && now.since(begun) >= LISTEN.max(self.probing.interval * LISTEN_WORDS);
        let gained = self.elect(ready, now);
        let mut frames = Vec::new();
        if gained != 0 || now.since(self.said) >= self.probing.interval {
            self.said = now;
            self.say(topology, ready, now, &mut frames);
        }
        self.tell(topology, gained, now, &mut frames);
        frames
    }

    /// Who is responsible for what now; returns what this one gained.
    fn elect(&mut self, ready: bool, now: Time) -> AddressSet {
        let there = |peer: &usize| if *peer == self.me { ready } else { self.lives(*peer) };
        let there: Vec<usize> = (0..self.peers.len()).filter(there).collect();
        let (mut accepted, mut owned, mut gained) = (0, 0, 0);
        for address in 0..self.peers.len() {
            let owner = match there.contains(&address) {
                true => Some(address),
                false => there.get(address % there.len().max(1)).copied(),
            };
            let bit = 1 << address;
            if owner == Some(self.me) {
                accepted |= bit;
                owned |= bit;
                gained |= bit & !self.owned;
                self.grace[address] = now + GRACE;
            } else if self.accepted & bit != 0 && self.grace[address] > now {
                accepted |= bit;
            }
        }
        self.takeovers += u64::from((gained & !(1 << self.me)).count_ones());
        (self.accepted, self.owned) = (accepted, owned);
        gained
    }

    /// That it lives, on all links: from each address that it is responsible for, so that switches know.
    fn say(
        &mut self,
        topology: &Topology,
        ready: bool,
        now: Time,
        frames: &mut Vec<(usize, Vec<u8>)>,
    ) {
        let answers: Vec<Stamp> =
            self.peers.iter().map(|peer| peer.conversation.answer()).collect();
        for side in 0..self.sides {
            let own = topology.probe_mac(side);
            let mut sources: Vec<Mac> = (0..self.peers.len())
                .filter(|address| self.owned >> address & 1 == 1)
                .map(|address| topology.sides[side].macs[address])
                .collect();
            if sources.is_empty() {
                sources.push(own);
            }
            let mut words = Words {
                from: self.me,
                ready,
                serves: self.serves,
                answers: answers.clone(),
                hosts: self.hosts[side].say(HOSTS_MAX),
                ..Words::default()
            };
            let outside = sources.into_iter().map(|source| (2 * side, source));
            for (link, source) in outside.chain([(2 * side + 1, own)]) {
                self.stamp.number = now.as_nanos().max(self.stamp.number + 1);
                (words.link, words.stamp) = (link, self.stamp);
                frames.push((link, self.writing.frame(source, &words)));
            }
        }
    }

    /// Tells the segments behind which balancer the hosts are: new ones, those whose turn it is, and all when it
    /// begins to carry others.
    fn tell(
        &mut self,
        topology: &Topology,
        gained: AddressSet,
        now: Time,
        frames: &mut Vec<(usize, Vec<u8>)>,
    ) {
        let owned = self.owned;
        let ours = |host: &Mac, addresses: AddressSet| addresses >> topology.carrier(host) & 1 == 1;
        for (side, hosts) in self.hosts.iter_mut().enumerate() {
            let due = hosts.tell(now).into_iter().filter(|host| ours(host, owned & !gained));
            let moved = hosts.all().filter(|host| ours(host, gained)).copied();
            let told = due.collect::<Vec<_>>().into_iter().chain(moved);
            frames.extend(told.map(|host| (2 * side + 1, reminder(host))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::{BackEnd, Side};
    use super::*;

    fn topology(me: usize) -> Topology {
        let side = |side: u8| Side {
            outside: format!("out{side}"),
            inside: format!("in{side}"),
            macs: (0..2).map(|balancer| [2, 0, 0, 0, balancer, side]).collect(),
            addresses: vec![format!("10.0.{side}.1/24").parse().expect("a subnet")],
            probes: (0..2).map(|me| format!("10.0.{side}.24{me}").parse().expect("one")).collect(),
            probe_macs: (0..2).map(|balancer| [2, 0, 0, 2, balancer, side]).collect(),
        };
        let back_end = BackEnd {
            name: "r".to_owned(),
            macs: vec![[2, 0, 0, 1, 0, 0], [2, 0, 0, 1, 0, 1]],
            weight: 1,
            capacity_pps: 1e9,
        };
        Topology::new(vec![side(0), side(1)], vec![back_end], me)
    }

    struct Pair {
        both: [Peers; 2],
        topologies: [Topology; 2],
        now: Time,
    }

    impl Pair {
        fn new(tokens: [&str; 2]) -> Pair {
            let topologies = [topology(0), topology(1)];
            let authentication = |me: usize| PeerAuthentication {
                cluster: "c".to_owned(),
                token: Some(tokens[me].as_bytes().to_vec()),
                session: 1 + me as u64,
            };
            let both = [0, 1].map(|me| {
                Peers::new(&topologies[me], &authentication(me), Probing::default(), Time::ZERO)
            });
            Pair { both, topologies, now: Time::from_nanos(1_000_000) }
        }

        /// Who said what on which link meanwhile.
        fn run(&mut self, milliseconds: u32, living: [bool; 2]) -> Vec<(usize, usize, Vec<u8>)> {
            let mut said = Vec::new();
            for _ in 0..milliseconds {
                self.now += Duration::from_millis(1);
                for me in (0..2).filter(|me| living[*me]) {
                    for (link, frame) in self.both[me].tick(&self.topologies[me], self.now) {
                        if living[1 - me] {
                            assert!(self.both[1 - me].hear(link, &frame, self.now));
                        }
                        said.push((me, link, frame));
                    }
                }
            }
            said
        }

        fn accepted(&self) -> [AddressSet; 2] {
            [self.both[0].accepted(), self.both[1].accepted()]
        }
    }

    #[test]
    fn a_silent_balancer_is_replaced_within_the_detection_time_and_comes_back() {
        let mut pair = Pair::new(["t", "t"]);
        pair.run(150, [true, true]);
        assert_eq!(pair.accepted(), [0, 0], "they listen first");
        pair.run(200, [true, true]);
        assert_eq!(pair.accepted(), [1, 2]);
        let before = pair.both[0].takeovers();
        pair.run(60, [true, false]);
        assert_eq!(pair.accepted()[0], 3, "60 ms later");
        assert_eq!(pair.both[0].takeovers(), before + 1);
        pair.run(40, [true, true]);
        pair.run(100, [true, true]);
        assert_eq!(pair.accepted(), [1, 2]);
        pair.both[1].leave();
        pair.run(10, [true, true]);
        assert_eq!(pair.accepted(), [3, 2], "what is on its way is still taken");
        pair.run(60, [true, true]);
        assert_eq!(pair.accepted(), [3, 0]);
    }

    #[test]
    fn whoever_lost_a_link_leaves_the_addresses_to_the_other() {
        let mut pair = Pair::new(["t", "t"]);
        pair.run(300, [true, true]);
        pair.both[0].set_fit(false);
        pair.run(70, [true, true]);
        assert_eq!(pair.accepted(), [0, 3]);
    }

    #[test]
    fn without_the_token_nobody_is_believed() {
        let mut pair = Pair::new(["t", "other"]);
        pair.run(300, [true, true]);
        assert!(pair.both[0].forged() > 0 && pair.both[0].alive().is_empty());
    }

    #[test]
    fn the_segment_learns_hosts_from_who_carries_them() {
        let mut pair = Pair::new(["t", "t"]);
        pair.run(300, [true, true]);
        let host = (0..=255).map(|last| [2, 9, 9, 9, 9, last]);
        let host =
            host.into_iter().find(|host| pair.topologies[0].carrier(host) == 1).expect("one");
        // The first hears it, the second carries it, and says so before long, once.
        pair.both[0].saw(0, host, pair.now);
        let said = pair.run(10, [true, true]);
        let told: Vec<_> = said.iter().filter(|said| said.2[6..12] == host).collect();
        assert_eq!(told.iter().map(|said| (said.0, said.1)).collect::<Vec<_>>(), [(1, 1)]);
        let said = pair.run(2000, [true, true]);
        assert_eq!(
            said.iter().filter(|said| said.2[6..12] == host).count(),
            1,
            "now and then again"
        );
        // Whoever takes over tells the segment of all that it carries now.
        let said = pair.run(100, [true, false]);
        assert!(said.iter().any(|said| said.0 == 0 && said.2[6..12] == host));
    }

    /// What a new host costs does not grow with the number of those that are known.
    #[test]
    fn many_hosts_make_no_more_frames_than_they_are() {
        let mut pair = Pair::new(["t", "t"]);
        pair.run(300, [true, true]);
        let quiet = pair.run(4000, [true, true]).len();
        let mut frames = 0;
        for number in 0..3200_u16 {
            let [high, low] = number.to_be_bytes();
            let heard = usize::from(number & 1);
            pair.both[heard].saw(0, [2, 0x99, 0, 0, high, low], pair.now);
            frames += pair.run(1 + u32::from(number) % 4 / 3, [true, true]).len();
        }
        assert!(frames < quiet + 3 * 3200, "{frames} frames, {quiet} without them");
    }

    /// All that a balancer said is said again after it has died, and while its successor begins.
    #[test]
    fn what_a_dead_balancer_said_keeps_nobody_from_taking_its_address() {
        let mut pair = Pair::new(["t", "t"]);
        let mut said = pair.run(400, [true, true]);
        said.retain(|said| said.0 == 1);
        assert_eq!(pair.accepted(), [1, 2]);
        let again = |pair: &mut Pair, milliseconds: usize| {
            for step in 0..milliseconds {
                pair.run(1, [true, false]);
                for (_, link, frame) in said.iter().skip(step % 50).step_by(50) {
                    pair.both[0].hear(*link, frame, pair.now);
                }
            }
        };
        again(&mut pair, 70);
        assert_eq!(pair.accepted()[0], 3, "70 ms later");
        assert!(pair.both[0].stale() > 100 && pair.both[0].forged() == 0);
        // The other one is not there, either, when this one begins anew.
        let authentication =
            PeerAuthentication { cluster: "c".to_owned(), token: Some(b"t".to_vec()), session: 77 };
        pair.both[0] =
            Peers::new(&pair.topologies[0], &authentication, Probing::default(), pair.now);
        again(&mut pair, 300);
        assert_eq!(pair.accepted()[0], 3);
        assert!(pair.both[0].alive().is_empty());
        // When it comes back it is believed, whatever is said again.
        let authentication = PeerAuthentication { session: 78, ..authentication };
        pair.both[1] =
            Peers::new(&pair.topologies[1], &authentication, Probing::default(), pair.now);
        for step in 0..400 {
            pair.run(1, [true, true]);
            for (_, link, frame) in said.iter().skip(step % 50).step_by(50) {
                pair.both[0].hear(*link, frame, pair.now);
            }
        }
        assert_eq!(pair.accepted(), [1, 2]);
    }

    #[test]
    fn a_word_is_of_its_link() {
        let mut pair = Pair::new(["t", "t"]);
        pair.run(300, [true, true]);
        let before = pair.both[0].stale();
        for _ in 0..60 {
            pair.now += Duration::from_millis(1);
            for me in 0..2 {
                for (link, frame) in pair.both[me].tick(&pair.topologies[me], pair.now) {
                    // Nothing comes over the second side; somebody repeats there what the first one has.
                    if link < 2 {
                        pair.both[1 - me].hear(link, &frame, pair.now);
                        pair.both[1 - me].hear(link + 2, &frame, pair.now);
                    }
                }
            }
        }
        assert!(pair.both[0].alive().is_empty() && pair.both[0].stale() > before);
    }
}
