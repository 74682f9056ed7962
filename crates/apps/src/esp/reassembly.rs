//! Puts together what was cut on its way to a tunnel's end: IPv4 (RFC 791, RFC 815) and IPv6 (RFC 8200 section 4.5).
//!
//! Bounded in number for each peer, in all, in bytes and in time, whatever comes: what has no room drives out the
//! oldest of its own peer. Pieces that overlap spoil their packet (RFC 5722), for both families. Room: bytes and times;
//! what becomes of the packet is decided above (`node`).

use core::time::Duration;
use std::collections::VecDeque;

use ebb_units::Time;

/// Units of eight bytes that a packet may have behind its header: it has to fit a frame.
const UNITS: usize = 216;
const WORDS: usize = UNITS.div_ceil(64);
/// Longest packet, without its header.
pub(super) const LEN_MAX: usize = UNITS * 8;
/// Packets of one peer that wait for pieces, and of all.
const OF_A_PEER: usize = 16;
const OF_ALL: usize = 256;
/// How long they do. Shorter than RFC 8200 has it, as identifications come again (RFC 4963) and whatever was sent is
/// sent again by then.
const PATIENCE: Duration = Duration::from_secs(5);

/// Congestion was met, in the field of ECN.
const CE: u8 = 3;

/// From whom, to whom, by which version.
pub(super) type Peer = (u128, u128, bool);

/// A piece of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) peer: Peer,
    pub(super) id: u32,
    /// In bytes, a multiple of eight.
    pub(super) offset: usize,
    /// Whether others follow.
    pub(super) more: bool,
    pub(super) ecn: u8,
    pub(super) bytes: &'a [u8],
}

/// What became of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// It waits for others.
    Waits,
    /// With it the packet is whole: what is behind the header, ECN, and how many others it had.
    Whole(Vec<u8>, u8, u64),
    /// It is of no use.
    Refused,
}

struct Waiting {
    peer: Peer,
    id: u32,
    since: Time,
    bytes: Vec<u8>,
    /// Units that are there.
    there: [u64; WORDS],
    len: Option<usize>,
    pieces: u64,
    /// Bits of the ECN fields that came.
    ecn: u8,
    /// Pieces overlapped or contradicted each other: nothing of it is believed any more.
    spoilt: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Reassembly {
    /// In order of their first pieces.
    waiting: VecDeque<Waiting>,
}

impl Reassembly {
    /// Takes a piece in; also says how many others were given up.
    pub(super) fn join(&mut self, now: Time, piece: &Piece<'_>) -> (Joined, u64) {
        let mut given_up = 0;
        while self.waiting.front().is_some_and(|one| now.since(one.since) > PATIENCE) {
            given_up += self.give_up(0);
        }
        let end = piece.offset + piece.bytes.len();
        let odd = piece.more && !piece.bytes.len().is_multiple_of(8);
        if odd || piece.bytes.is_empty() || end > LEN_MAX {
            return (Joined::Refused, given_up);
        }
        let is_it = |one: &Waiting| (one.peer, one.id) == (piece.peer, piece.id);
        let at = match self.waiting.iter().position(is_it) {
            Some(at) => at,
            None => {
                given_up += self.make_room(piece.peer);
                self.waiting.push_back(Waiting::new(piece, now));
                self.waiting.len() - 1
            }
        };
        let one = &mut self.waiting[at];
        let before = one.pieces;
        if !one.take(piece) {
            // What came of it before is lost with it, once.
            given_up += if one.spoilt { std::mem::take(&mut one.pieces) } else { 0 };
            return (Joined::Refused, given_up);
        }
        if !one.is_whole() {
            return (Joined::Waits, given_up);
        }
        let one = self.waiting.remove(at).expect("it is there");
        match one.congestion() {
            Some(ecn) => (Joined::Whole(one.bytes, ecn, before), given_up),
            None => (Joined::Refused, given_up + before),
        }
    }

    fn give_up(&mut self, at: usize) -> u64 {
        self.waiting.remove(at).map_or(0, |one| one.pieces)
    }

    /// For one more of a peer.
    fn make_room(&mut self, peer: Peer) -> u64 {
        let its = || self.waiting.iter().filter(|one| one.peer == peer).count();
        if self.waiting.len() >= OF_ALL && its() == 0 {
            return self.give_up(0);
        }
        if self.waiting.len() < OF_ALL && its() < OF_A_PEER {
            return 0;
        }
        let oldest = self.waiting.iter().position(|one| one.peer == peer);
        oldest.map_or(0, |at| self.give_up(at))
    }
}

impl Waiting {
    fn new(piece: &Piece<'_>, since: Time) -> Waiting {
        Waiting {
            peer: piece.peer,
            id: piece.id,
            since,
            bytes: Vec::new(),
            there: [0; WORDS],
            len: None,
            pieces: 0,
            ecn: 0,
            spoilt: false,
        }
    }

    /// Adds a piece; false where it is not wanted.
    fn take(&mut self, piece: &Piece<'_>) -> bool {
        if self.spoilt {
            return false;
        }
        let end = piece.offset + piece.bytes.len();
        let units = piece.offset / 8..end.div_ceil(8);
        let there = units.clone().filter(|unit| self.has(*unit)).count();
        let last_differs = !piece.more && self.len.is_some_and(|len| len != end);
        let beyond = match (piece.more, self.len) {
            (true, Some(len)) => end >= len,
            (true, None) => false,
            (false, _) => self.bytes.len() > end,
        };
        if there > 0 || last_differs || beyond {
            // The very same once more comes of networks; anything else of somebody.
            let same = there == units.len()
                && !last_differs
                && !beyond
                && piece.more == (self.len != Some(end))
                && self.bytes.get(piece.offset..end) == Some(piece.bytes);
            self.spoilt = !same;
            return false;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[piece.offset..end].copy_from_slice(piece.bytes);
        units.for_each(|unit| self.there[unit / 64] |= 1 << (unit % 64));
        if !piece.more {
            self.len = Some(end);
        }
        self.pieces += 1;
        // Which of the four values came.
        self.ecn |= 1 << (piece.ecn & CE);
        true
    }

    fn has(&self, unit: usize) -> bool {
        self.there[unit / 64] >> (unit % 64) & 1 == 1
    }

    fn is_whole(&self) -> bool {
        let count = self.there.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        self.len.is_some_and(|len| count == len.div_ceil(8))
    }

    /// What the pieces say together (RFC 3168 section 5.3); nothing where they contradict each other.
    fn congestion(&self) -> Option<u8> {
        let came = |ecn: u8| self.ecn >> ecn & 1 == 1;
        match (came(CE), came(0)) {
            (true, true) => None,
            (true, false) => Some(CE),
            (false, true) => Some(0),
            (false, false) => Some(if came(2) { 2 } else { 1 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER: Peer = (1, 2, true);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// The pieces of a packet, cut behind these units.
    fn cut<'a>(id: u32, bytes: &'a [u8], cuts: &[usize]) -> Vec<Piece<'a>> {
        let mut ends: Vec<usize> =
            cuts.iter().map(|cut| cut * 8).filter(|end| (1..bytes.len()).contains(end)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.push(bytes.len());
        let starts = [0].into_iter().chain(ends.clone());
        let piece = |(offset, end): (usize, usize)| Piece {
            peer: PEER,
            id,
            offset,
            more: end < bytes.len(),
            ecn: 2,
            bytes: &bytes[offset..end],
        };
        starts.zip(ends.clone()).map(piece).collect()
    }

    proptest! {
        #[test]
        fn any_order_gives_the_packet(
            bytes in proptest::collection::vec(any::<u8>(), 1..=LEN_MAX),
            cuts in proptest::collection::vec(1..UNITS, 0..12),
            order in any::<u64>(),
            again in any::<bool>(),
        ) {
            let mut pieces = cut(7, &bytes, &cuts);
            let count = pieces.len() as u64;
            // A permutation, by sorting what the seed makes of the numbers.
            pieces.sort_by_key(|piece| (piece.offset as u64 + 1).wrapping_mul(order | 1).rotate_left(17));
            let mut joining = Reassembly::default();
            for (at_piece, piece) in pieces.iter().enumerate() {
                let (joined, given_up) = joining.join(at(at_piece as u64), piece);
                prop_assert_eq!(given_up, 0);
                if at_piece as u64 + 1 == count {
                    prop_assert_eq!(joined, Joined::Whole(bytes.clone(), 2, count - 1));
                } else {
                    prop_assert_eq!(joined, Joined::Waits);
                    if again {
                        prop_assert_eq!(joining.join(at(1), piece).0, Joined::Refused);
                    }
                }
            }
            prop_assert!(joining.waiting.is_empty());
        }

        #[test]
        fn whatever_comes_it_stays_bounded_and_every_piece_is_accounted_for(
            pieces in proptest::collection::vec(
                (0u128..40, 0u32..40, 0usize..UNITS, 1usize..600, any::<bool>(), 0u8..4, 0u64..200), 1..600),
        ) {
            let (mut joining, mut now) = (Reassembly::default(), 0);
            let (mut refused, mut whole) = (0, 0);
            for (peer, id, unit, len, more, ecn, span) in &pieces {
                now += span;
                let bytes = vec![*id as u8; if *more { len.next_multiple_of(8) } else { *len }];
                let piece = Piece { peer: (*peer, 2, true), id: *id, offset: unit * 8, more: *more, ecn: *ecn, bytes: &bytes };
                let (joined, given_up) = joining.join(at(now), &piece);
                refused += given_up + u64::from(joined == Joined::Refused);
                if let Joined::Whole(bytes, _, others) = joined {
                    prop_assert!(bytes.len() <= LEN_MAX);
                    whole += 1 + others;
                }
                prop_assert!(joining.waiting.len() <= OF_ALL);
                let of = |peer| joining.waiting.iter().filter(|one| one.peer == peer).count();
                prop_assert!(joining.waiting.iter().all(|one| of(one.peer) <= OF_A_PEER && one.bytes.len() <= LEN_MAX));
            }
            let wait = joining.waiting.iter().map(|one| one.pieces).sum::<u64>();
            prop_assert_eq!(refused + whole + wait, pieces.len() as u64);
        }
    }

    #[test]
    fn what_overlaps_is_refused_and_what_comes_of_it_later_too() {
        let bytes: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
        let pieces = cut(1, &bytes, &[5, 10]);
        let mut joining = Reassembly::default();
        assert_eq!(joining.join(at(0), &pieces[0]), (Joined::Waits, 0));
        let over = Piece { offset: 32, bytes: &bytes[..48], ..pieces[1] };
        assert_eq!(joining.join(at(1), &over), (Joined::Refused, 1), "the first is lost with it");
        assert_eq!(joining.join(at(2), &pieces[1]), (Joined::Refused, 0));
        assert_eq!(joining.join(at(2), &pieces[2]), (Joined::Refused, 0));
        // Long enough afterwards the identification may come again.
        for (piece, whole) in pieces.iter().zip([false, false, true]) {
            let joined = joining.join(at(6000), piece).0;
            assert_eq!(matches!(joined, Joined::Whole(..)), whole);
        }
    }

    #[test]
    fn what_waits_is_given_up_in_time_and_by_its_own_peer_alone() {
        let bytes = [1; 64];
        let mut joining = Reassembly::default();
        let first = |id, peer| Piece { peer, ..cut(id, &bytes, &[4])[0] };
        assert_eq!(joining.join(at(0), &first(1, PEER)), (Joined::Waits, 0));
        let other = (9, 2, true);
        for id in 0..100_000 {
            let (joined, given_up) = joining.join(at(1), &first(id, other));
            assert_eq!((joined, given_up), (Joined::Waits, u64::from(id >= 16)));
        }
        assert_eq!(joining.waiting.len(), 17, "the flood drove out nobody else");
        let rest = cut(1, &bytes, &[4])[1];
        assert!(matches!(joining.join(at(2), &rest).0, Joined::Whole(..)));
        assert_eq!(joining.join(at(6000), &first(2, PEER)), (Joined::Waits, 16));
    }

    #[test]
    fn congestion_is_that_of_all_pieces() {
        let bytes = [1; 64];
        let pieces = cut(1, &bytes, &[4]);
        for (ecn, together) in
            [([3, 2], Some(3)), ([3, 0], None), ([0, 0], Some(0)), ([1, 1], Some(1))]
        {
            let mut joining = Reassembly::default();
            joining.join(at(0), &Piece { ecn: ecn[0], ..pieces[0] });
            let joined = joining.join(at(0), &Piece { ecn: ecn[1], ..pieces[1] });
            let expected = match together {
                Some(ecn) => (Joined::Whole(bytes.to_vec(), ecn, 1), 0),
                None => (Joined::Refused, 1),
            };
            assert_eq!(joined, expected);
        }
    }
}
