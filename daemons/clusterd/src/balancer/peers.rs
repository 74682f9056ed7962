//! Several balancers for one address: each has an Ethernet address of the cluster, neighbours are spread
//! over them, and when one is silent the others take its address.
//!
//! Who is in charge of an address takes what the world sends to it, and lets out what back-ends send to
//! the hosts that belong to it, so that a frame which a switch floods to all balancers goes on once.
//! Switches learn where addresses are from the frames in which balancers say that they live.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cluster::{Detector, Liveness};
use ebb_units::Time;
use ring::{digest, hmac};

use super::face::{Face, Mac};
use super::frame::Charge;
use super::plane::Probing;

/// EtherType of what balancers say to each other (IEEE 802, local experiments).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Whom they say it to: a group of local administration.
const GROUP: Mac = [0x03, 0xeb, 0xb0, 0, 0, 1];
const MAGIC: [u8; 8] = *b"ebbpeer1";
/// Ethernet header, magic, cluster, number, flags, hosts.
const HEAD: usize = 14 + 8 + 4 + 3;
const SEAL: usize = 32;
/// Hosts named in a frame at most.
const HOSTS_MAX: usize = 128;
/// Hosts remembered on a side at most.
const KNOWN_MAX: usize = 4096;
/// It takes charge of nothing before it has listened for so long.
const LISTEN: Duration = Duration::from_millis(200);
/// What was on its way to a balancer that gives an address back is still taken for so long.
const GRACE: Duration = Duration::from_millis(50);
/// Switches forget addresses; they are told again so often.
const REMIND: Duration = Duration::from_secs(2);

/// It can take charge of addresses.
const READY: u8 = 1;
/// It answers for addresses and can forward; balancers of versions that do not say so are not believed to.
const SERVES: u8 = 2;

/// What all balancers of a cluster have in common besides the face.
#[derive(Clone, Debug, Default)]
pub struct Bond {
    /// The cluster's name: others may be on the same segments.
    pub cluster: String,
    /// What seals what they say; without one nobody is kept from saying it.
    pub token: Option<Vec<u8>>,
}

struct Peer {
    /// By link.
    detectors: Vec<Detector>,
    ready: bool,
    serves: bool,
}

/// The balancers as one of them sees them. Time is an argument.
pub struct Peers {
    me: usize,
    sides: usize,
    tag: [u8; 4],
    key: Option<hmac::Key>,
    probing: Probing,
    peers: Vec<Peer>,
    charge: Charge,
    /// `charge` without what it has given back and still takes.
    owned: Charge,
    /// Until when it takes what it is not in charge of any more, by address.
    grace: Vec<Time>,
    begun: Option<Time>,
    said: Time,
    reminded: Time,
    fit: bool,
    serves: bool,
    leaving: bool,
    /// Hosts that it has heard on each side itself, and the next to be named.
    heard: Vec<(BTreeSet<Mac>, usize)>,
    /// Hosts that anybody has heard.
    known: Vec<BTreeSet<Mac>>,
    last: Vec<Mac>,
    takeovers: u64,
    forged: u64,
}

impl Peers {
    /// Nobody has been heard yet.
    pub fn new(face: &Face, bond: &Bond, probing: Probing, now: Time) -> Peers {
        let (count, sides) = (face.balancers(), face.sides.len());
        let name = digest::digest(&digest::SHA256, bond.cluster.as_bytes());
        let detector = || Detector::new(probing.interval, probing.misses, now);
        let peer = |_| Peer {
            detectors: (0..2 * sides).map(|_| detector()).collect(),
            ready: false,
            serves: false,
        };
        Peers {
            me: face.me,
            sides,
            tag: name.as_ref()[..4].try_into().expect("four bytes"),
            key: bond.token.as_ref().map(|token| hmac::Key::new(hmac::HMAC_SHA256, token)),
            probing,
            peers: (0..count).map(peer).collect(),
            charge: u64::from(count == 1),
            owned: u64::from(count == 1),
            grace: vec![Time::ZERO; count],
            begun: None,
            said: Time::ZERO,
            reminded: Time::ZERO,
            fit: true,
            serves: false,
            leaving: false,
            heard: vec![(BTreeSet::new(), 0); sides],
            known: vec![BTreeSet::new(); sides],
            last: vec![[0; 6]; sides],
            takeovers: 0,
            forged: 0,
        }
    }

    /// Whether there are others at all.
    pub fn several(&self) -> bool {
        self.peers.len() > 1
    }

    /// The addresses whose frames it takes now.
    pub fn charge(&self) -> Charge {
        self.charge
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

    /// The number of an address that it is in charge of, its own if it is: what neighbours are told by all.
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
    pub fn saw(&mut self, side: usize, host: Mac) {
        if self.last[side] == host {
            return;
        }
        self.last[side] = host;
        let (heard, _) = &mut self.heard[side];
        if heard.len() < KNOWN_MAX && host[0] & 1 == 0 && heard.insert(host) {
            self.learn(side, host);
        }
    }

    fn learn(&mut self, side: usize, host: Mac) {
        if self.known[side].len() < KNOWN_MAX && self.known[side].insert(host) {
            // The segment is told at once.
            self.reminded = Time::ZERO;
        }
    }

    /// Whether that is a frame of balancers to each other; takes what it says.
    pub fn hear(&mut self, link: usize, frame: &[u8], now: Time) -> bool {
        if frame.get(12..14) != Some(&ETHERTYPE) {
            return false;
        }
        let Some(body) = frame.get(14..HEAD).filter(|body| body[..8] == MAGIC) else { return true };
        let (peer, flags, hosts) = (usize::from(body[12]), body[13], usize::from(body[14]));
        let end = HEAD + 6 * hosts;
        if body[8..12] != self.tag || peer >= self.peers.len() || peer == self.me {
            return true;
        }
        let Some(seal) = frame.get(end..end + SEAL) else { return true };
        let good =
            self.key.as_ref().is_none_or(|key| hmac::verify(key, &frame[14..end], seal).is_ok());
        if !good {
            self.forged += 1;
            return true;
        }
        self.peers[peer].ready = flags & READY != 0;
        self.peers[peer].serves = flags & SERVES != 0;
        self.peers[peer].detectors[link].answered(now);
        for host in frame[HEAD..end].chunks_exact(6) {
            self.learn(link / 2, host.try_into().expect("six bytes"));
        }
        true
    }

    /// Looks who is silent, and returns what is to be sent on which link. To be called every millisecond
    /// or so.
    pub fn tend(&mut self, face: &Face, now: Time) -> Vec<(usize, Vec<u8>)> {
        if !self.several() {
            return Vec::new();
        }
        for peer in &mut self.peers {
            peer.detectors.iter_mut().for_each(|link| _ = link.look(now));
        }
        let begun = *self.begun.get_or_insert(now);
        let ready = self.fit && !self.leaving && now.since(begun) >= LISTEN;
        let gained = self.recharge(ready, now);
        let mut frames = Vec::new();
        if gained != 0 || now.since(self.said) >= self.probing.interval {
            self.said = now;
            self.say(face, ready, &mut frames);
        }
        if gained != 0 || now.since(self.reminded) >= REMIND {
            self.reminded = now;
            self.remind(face, &mut frames);
        }
        frames
    }

    /// Who is in charge of what now; returns what this one gained.
    fn recharge(&mut self, ready: bool, now: Time) -> Charge {
        let there = |peer: &usize| if *peer == self.me { ready } else { self.lives(*peer) };
        let there: Vec<usize> = (0..self.peers.len()).filter(there).collect();
        let (mut charge, mut owned, mut gained) = (0, 0, 0);
        for address in 0..self.peers.len() {
            let owner = match there.contains(&address) {
                true => Some(address),
                false => there.get(address % there.len().max(1)).copied(),
            };
            let bit = 1 << address;
            if owner == Some(self.me) {
                charge |= bit;
                owned |= bit;
                gained |= bit & !self.owned;
                self.grace[address] = now + GRACE;
            } else if self.charge & bit != 0 && self.grace[address] > now {
                charge |= bit;
            }
        }
        self.takeovers += u64::from((gained & !(1 << self.me)).count_ones());
        (self.charge, self.owned) = (charge, owned);
        gained
    }

    /// That it lives, on all links: from each address that it is in charge of, so that switches know.
    fn say(&mut self, face: &Face, ready: bool, frames: &mut Vec<(usize, Vec<u8>)>) {
        for side in 0..self.sides {
            let hosts = self.some_hosts(side);
            let own = face.probe_mac(side);
            let mut sources: Vec<Mac> = (0..self.peers.len())
                .filter(|address| self.owned >> address & 1 == 1)
                .map(|address| face.sides[side].macs[address])
                .collect();
            if sources.is_empty() {
                sources.push(own);
            }
            for source in sources {
                frames.push((2 * side, self.frame(source, ready, &hosts)));
            }
            frames.push((2 * side + 1, self.frame(own, ready, &hosts)));
        }
    }

    fn some_hosts(&mut self, side: usize) -> Vec<Mac> {
        let (heard, next) = &mut self.heard[side];
        let hosts: Vec<Mac> = heard.iter().skip(*next).take(HOSTS_MAX).copied().collect();
        *next = if hosts.len() < HOSTS_MAX { 0 } else { *next + HOSTS_MAX };
        hosts
    }

    fn frame(&self, source: Mac, ready: bool, hosts: &[Mac]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(HEAD + 6 * hosts.len() + SEAL);
        frame.extend(GROUP);
        frame.extend(source);
        frame.extend(ETHERTYPE);
        frame.extend(MAGIC);
        frame.extend(self.tag);
        let flags = if ready { READY } else { 0 } | if self.serves { SERVES } else { 0 };
        frame.extend([self.me as u8, flags, hosts.len() as u8]);
        hosts.iter().for_each(|host| frame.extend(host));
        match &self.key {
            Some(key) => frame.extend(hmac::sign(key, &frame[14..]).as_ref()),
            None => frame.extend([0; SEAL]),
        }
        frame
    }

    /// Tells the segments behind which balancer the hosts are.
    fn remind(&self, face: &Face, frames: &mut Vec<(usize, Vec<u8>)>) {
        for (side, known) in self.known.iter().enumerate() {
            let ours = known.iter().filter(|host| self.owned >> face.carrier(host) & 1 == 1);
            for host in ours {
                let mut frame = Vec::with_capacity(60);
                frame.extend(GROUP);
                frame.extend(host);
                frame.extend(ETHERTYPE);
                frame.resize(60, 0);
                frames.push((2 * side + 1, frame));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::face::{BackEnd, Side};
    use super::*;

    fn face(me: usize) -> Face {
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
        };
        Face::new(vec![side(0), side(1)], vec![back_end], me)
    }

    struct Pair {
        both: [Peers; 2],
        faces: [Face; 2],
        now: Time,
    }

    impl Pair {
        fn new(tokens: [&str; 2]) -> Pair {
            let faces = [face(0), face(1)];
            let bond = |token: &str| Bond {
                cluster: "c".to_owned(),
                token: Some(token.as_bytes().to_vec()),
            };
            let both = [0, 1].map(|me| {
                Peers::new(&faces[me], &bond(tokens[me]), Probing::default(), Time::ZERO)
            });
            Pair { both, faces, now: Time::from_nanos(1_000_000) }
        }

        fn run(&mut self, milliseconds: u32, living: [bool; 2]) {
            for _ in 0..milliseconds {
                self.now += Duration::from_millis(1);
                for me in (0..2).filter(|me| living[*me]) {
                    for (link, frame) in self.both[me].tend(&self.faces[me], self.now) {
                        if living[1 - me] {
                            assert!(self.both[1 - me].hear(link, &frame, self.now));
                        }
                    }
                }
            }
        }

        fn charges(&self) -> [Charge; 2] {
            [self.both[0].charge(), self.both[1].charge()]
        }
    }

    #[test]
    fn a_silent_balancer_is_replaced_within_the_detection_time_and_comes_back() {
        let mut pair = Pair::new(["t", "t"]);
        pair.run(150, [true, true]);
        assert_eq!(pair.charges(), [0, 0], "they listen first");
        pair.run(200, [true, true]);
        assert_eq!(pair.charges(), [1, 2]);
        let before = pair.both[0].takeovers();
        pair.run(60, [true, false]);
        assert_eq!(pair.charges()[0], 3, "60 ms later");
        assert_eq!(pair.both[0].takeovers(), before + 1);
        pair.run(40, [true, true]);
        pair.run(100, [true, true]);
        assert_eq!(pair.charges(), [1, 2]);
        pair.both[1].leave();
        pair.run(10, [true, true]);
        assert_eq!(pair.charges(), [3, 2], "what is on its way is still taken");
        pair.run(60, [true, true]);
        assert_eq!(pair.charges(), [3, 0]);
    }

    #[test]
    fn whoever_lost_a_link_leaves_the_addresses_to_the_other() {
        let mut pair = Pair::new(["t", "t"]);
        pair.run(300, [true, true]);
        pair.both[0].set_fit(false);
        pair.run(70, [true, true]);
        assert_eq!(pair.charges(), [0, 3]);
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
        let host = host.into_iter().find(|host| pair.faces[0].carrier(host) == 1).expect("one");
        // The first hears it, the second carries it.
        pair.both[0].saw(0, host);
        pair.run(10, [true, true]);
        let mut frames = Vec::new();
        pair.both[1].remind(&pair.faces[1], &mut frames);
        assert_eq!(frames.len(), 1);
        assert_eq!((frames[0].0, &frames[0].1[6..12]), (1, &host[..]));
        frames.clear();
        pair.both[0].remind(&pair.faces[0], &mut frames);
        assert!(frames.is_empty());
    }
}
