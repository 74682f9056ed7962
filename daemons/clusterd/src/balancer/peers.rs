//! Several balancers for one address: each has an Ethernet address of the cluster, neighbours are spread
//! over them, and when one is silent the others take its address.
//!
//! Who is responsible for an address takes what the world sends to it, and lets out what back-ends send to
//! the hosts that belong to it, so that a frame which a switch floods to all balancers goes on once.
//! Switches learn where addresses are from the frames in which balancers say that they live.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cluster::{Detector, Liveness};
use ebb_units::Time;
use ring::{digest, hmac};

use super::frame::AddressSet;
use super::plane::Probing;
use super::topology::{Mac, Topology};

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
/// It answers for nothing before it has listened for so long.
const LISTEN: Duration = Duration::from_millis(200);
/// What was on its way to a balancer that gives an address back is still taken for so long.
const GRACE: Duration = Duration::from_millis(50);
/// Switches forget addresses; they are told again so often.
const REMIND: Duration = Duration::from_secs(2);

/// It can answer for addresses.
const READY: u8 = 1;
/// It answers for addresses and can forward; balancers of versions that do not say so are not believed to.
const SERVES: u8 = 2;

/// What all balancers of a cluster have in common besides the topology.
#[derive(Clone, Debug, Default)]
pub struct PeerAuthentication {
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
    accepted: AddressSet,
    /// `accepted` without what it has given back and still takes.
    owned: AddressSet,
    /// Until when it takes what it is not responsible for any more, by address.
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
    pub fn new(
        topology: &Topology,
        authentication: &PeerAuthentication,
        probing: Probing,
        now: Time,
    ) -> Peers {
        let (count, sides) = (topology.balancers(), topology.sides.len());
        let name = digest::digest(&digest::SHA256, authentication.cluster.as_bytes());
        let detector = || Detector::new(probing.interval, probing.misses, now);
        let peer = |_| Peer {
            detectors: (0..2 * sides).map(|_| detector()).collect(),
            ready: false,
            serves: false,
        };
        Peers {
            me: topology.me,
            sides,
            tag: name.as_ref()[..4].try_into().expect("four bytes"),
            key: authentication
                .token
                .as_ref()
                .map(|token| hmac::Key::new(hmac::HMAC_SHA256, token)),
            probing,
            peers: (0..count).map(peer).collect(),
            accepted: u64::from(count == 1),
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
    pub fn tick(&mut self, topology: &Topology, now: Time) -> Vec<(usize, Vec<u8>)> {
        if !self.several() {
            return Vec::new();
        }
        for peer in &mut self.peers {
            peer.detectors.iter_mut().for_each(|link| _ = link.look(now));
        }
        let begun = *self.begun.get_or_insert(now);
        let ready = self.fit && !self.leaving && now.since(begun) >= LISTEN;
        let gained = self.elect(ready, now);
        let mut frames = Vec::new();
        if gained != 0 || now.since(self.said) >= self.probing.interval {
            self.said = now;
            self.say(topology, ready, &mut frames);
        }
        if gained != 0 || now.since(self.reminded) >= REMIND {
            self.reminded = now;
            self.remind(topology, &mut frames);
        }
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
    fn say(&mut self, topology: &Topology, ready: bool, frames: &mut Vec<(usize, Vec<u8>)>) {
        for side in 0..self.sides {
            let hosts = self.some_hosts(side);
            let own = topology.probe_mac(side);
            let mut sources: Vec<Mac> = (0..self.peers.len())
                .filter(|address| self.owned >> address & 1 == 1)
                .map(|address| topology.sides[side].macs[address])
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
    fn remind(&self, topology: &Topology, frames: &mut Vec<(usize, Vec<u8>)>) {
        for (side, known) in self.known.iter().enumerate() {
            let ours = known.iter().filter(|host| self.owned >> topology.carrier(host) & 1 == 1);
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
            let authentication = |token: &str| PeerAuthentication {
                cluster: "c".to_owned(),
                token: Some(token.as_bytes().to_vec()),
            };
            let both = [0, 1].map(|me| {
                Peers::new(
                    &topologies[me],
                    &authentication(tokens[me]),
                    Probing::default(),
                    Time::ZERO,
                )
            });
            Pair { both, topologies, now: Time::from_nanos(1_000_000) }
        }

        fn run(&mut self, milliseconds: u32, living: [bool; 2]) {
            for _ in 0..milliseconds {
                self.now += Duration::from_millis(1);
                for me in (0..2).filter(|me| living[*me]) {
                    for (link, frame) in self.both[me].tick(&self.topologies[me], self.now) {
                        if living[1 - me] {
                            assert!(self.both[1 - me].hear(link, &frame, self.now));
                        }
                    }
                }
            }
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
        // The first hears it, the second carries it.
        pair.both[0].saw(0, host);
        pair.run(10, [true, true]);
        let mut frames = Vec::new();
        pair.both[1].remind(&pair.topologies[1], &mut frames);
        assert_eq!(frames.len(), 1);
        assert_eq!((frames[0].0, &frames[0].1[6..12]), (1, &host[..]));
        frames.clear();
        pair.both[0].remind(&pair.topologies[0], &mut frames);
        assert!(frames.is_empty());
    }
}
