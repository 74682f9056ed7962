//! Requests that are answered: what a tile owes, and when.
//!
//! A packet that arrives is a request; the element that it reaches sends a reply after a time. A tile
//! sends one packet after the other, replies that are due before requests. Elements take every packet
//! that arrives, so that requests and replies cannot deadlock each other even on shared channels; what
//! channels of their own bring is that neither waits behind the other.

use std::collections::VecDeque;

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described)]
#[serde(deny_unknown_fields, default)]
pub struct Replies {
    /// Length of a reply.
    #[schema(least = 1)]
    pub flits: u16,
    /// Processing elements' cycles from a request's last flit until its reply is made.
    #[schema(most = 1_000_000_000)]
    pub delay: u64,
    /// Requests of a tile that may be unanswered at a time; 0 for any number.
    pub outstanding: u32,
    /// Whether replies have virtual channels of their own.
    pub classes: bool,
}

impl Default for Replies {
    fn default() -> Replies {
        Replies { flits: 5, delay: 20, outstanding: 0, classes: true }
    }
}

/// A reply that is to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owed {
    /// Cycle in which it is made.
    pub(super) due: u64,
    pub(super) target: u32,
    /// Cycle in which the request was made.
    pub(super) asked: u64,
    pub(super) measured: bool,
}

/// What every tile owes and waits for.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) how: Replies,
    owed: Vec<VecDeque<Owed>>,
    unanswered: Vec<u32>,
}

impl Answers {
    pub(super) fn new(how: Replies, tiles: usize) -> Answers {
        Answers { how, owed: vec![VecDeque::new(); tiles], unanswered: vec![0; tiles] }
    }

    /// Notes a request that has arrived at `tile` in cycle `at`; the cycle of its reply.
    pub(super) fn owe(
        &mut self,
        tile: u32,
        target: u32,
        at: u64,
        asked: u64,
        measured: bool,
    ) -> u64 {
        let due = at + self.how.delay;
        self.owed[tile as usize].push_back(Owed { due, target, asked, measured });
        due
    }

    /// The next reply of a tile.
    pub(super) fn next(&self, tile: u32) -> Option<Owed> {
        self.owed[tile as usize].front().copied()
    }

    /// The tile sends that reply.
    pub(super) fn pay(&mut self, tile: u32) {
        self.owed[tile as usize].pop_front();
    }

    /// Whether a tile may send another request.
    pub(super) fn may_ask(&self, tile: u32) -> bool {
        self.how.outstanding == 0 || self.unanswered[tile as usize] < self.how.outstanding
    }

    /// A tile sends a request.
    pub(super) fn asks(&mut self, tile: u32) {
        self.unanswered[tile as usize] += 1;
    }

    /// A reply has arrived at a tile.
    pub(super) fn answered(&mut self, tile: u32) {
        self.unanswered[tile as usize] -= 1;
    }
}
