//! Which controller an end of circuits believes, and by which clock.

use std::collections::VecDeque;

use super::{Clock, HORIZON_NS};
use crate::sync::{Frame, Heard};

/// Frames in a row from another controller or clock until it is believed.
const STEPS_BELIEVED: u32 = 3;
/// A controller that said something this short a time ago speaks, and is not left for another, ns.
const SILENCE_NS: u64 = 250_000_000;
/// Frames over which the least delay is taken.
const DELAYS: usize = 64;
/// Controllers whose last number is remembered.
const CONTROLLERS_MAX: usize = 8;

/// Who speaks: which run of a controller, and from where if nothing else vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Speaker {
    epoch: u32,
    source: [u8; 6],
}

/// A frame is to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Its sender, or the sender's clock, is another than before.
    pub(super) is_new: bool,
}

/// Whom to believe: the first controller while it speaks, then another that goes on while the old one
/// is silent; of those who have a key no word twice.
#[derive(Clone, Debug)]
pub(super) struct Believed {
    clock: Clock,
    followed: Option<Speaker>,
    /// When it spoke last.
    spoke_ns: u64,
    /// Number of its last frame.
    sequence: u64,
    stranger: Option<Speaker>,
    strangers: u32,
    /// The last numbers of sealed frames, by controller; only who has a key gets in here.
    numbers: VecDeque<(u32, u64)>,
    /// Differences between our clock and the controller's, of recent frames.
    offsets: VecDeque<i64>,
    stepped: u64,
    replayed: u64,
}

impl Believed {
    pub(super) fn new(clock: Clock) -> Believed {
        Believed {
            clock,
            followed: None,
            spoke_ns: 0,
            sequence: 0,
            stranger: None,
            strangers: 0,
            numbers: VecDeque::new(),
            offsets: VecDeque::new(),
            stepped: 0,
            replayed: 0,
        }
    }

    /// Knows nobody any more; what was counted stays.
    pub(super) fn forget(&mut self) {
        let (stepped, replayed) = (self.stepped, self.replayed);
        *self = Believed { stepped, replayed, ..Believed::new(self.clock) };
    }

    /// Frames from another controller while one is followed, or with a clock far off.
    pub(super) fn stepped(&self) -> u64 {
        self.stepped
    }

    /// Sealed frames that are not newer than what was heard before.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Number of the last frame of the controller that is followed.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether to believe a controller's frame.
    pub(super) fn hear(&mut self, now_ns: u64, heard: &Heard) -> Option<Verdict> {
        let Frame::Sync { epoch, sent_ns, .. } = heard.frame else { return None };
        if heard.sealed && !self.is_next(epoch, heard.sequence) {
            self.replayed += 1;
            return None;
        }
        // A key vouches for a controller whatever card it uses.
        let source = if heard.sealed { [0; 6] } else { heard.source };
        let speaker = Speaker { epoch, source };
        let steady = self.is_steady(now_ns, sent_ns);
        let is_new = self.followed != Some(speaker) || !steady;
        if is_new && !self.may_change(now_ns, speaker, steady) {
            return None;
        }
        if is_new {
            self.offsets.clear();
        }
        self.followed = Some(speaker);
        (self.stranger, self.strangers) = (None, 0);
        (self.spoke_ns, self.sequence) = (now_ns, heard.sequence);
        Some(Verdict { is_new })
    }

    /// Whether a sealed frame was not heard before: its number is above the last of its controller, or,
    /// from one that is not known, of the one that is followed.
    fn is_next(&mut self, epoch: u32, sequence: u64) -> bool {
        let at = self.numbers.iter().position(|(known, _)| *known == epoch);
        let last = at.map_or(self.sequence, |at| self.numbers[at].1);
        if sequence <= last {
            return false;
        }
        match at {
            Some(at) => self.numbers[at].1 = sequence,
            None => {
                if self.numbers.len() == CONTROLLERS_MAX {
                    // Not the one that is followed: its run is the last that was heard of.
                    let followed = self.followed.map(|speaker| speaker.epoch);
                    let other = self.numbers.iter().position(|(known, _)| Some(*known) != followed);
                    self.numbers.remove(other.unwrap_or(0));
                }
                self.numbers.push_back((epoch, sequence));
            }
        }
        true
    }

    fn is_steady(&self, now_ns: u64, sent_ns: u64) -> bool {
        let offset = difference(now_ns, sent_ns);
        match self.clock {
            Clock::Shared => offset.unsigned_abs() < HORIZON_NS,
            Clock::Sync => {
                let known = self.offsets.iter().min();
                known.is_none_or(|known| offset.abs_diff(*known) < HORIZON_NS / 8)
            }
        }
    }

    /// Whether to follow this controller, or the same one by another clock, from now on.
    fn may_change(&mut self, now_ns: u64, speaker: Speaker, steady: bool) -> bool {
        if self.followed.is_some() {
            self.stepped += 1;
            if self.stranger != Some(speaker) {
                (self.stranger, self.strangers) = (Some(speaker), 0);
            }
            self.strangers = self.strangers.saturating_add(1);
            let silent = now_ns >= self.spoke_ns.saturating_add(SILENCE_NS);
            if !silent || self.strangers < STEPS_BELIEVED {
                return false;
            }
        }
        steady || self.clock == Clock::Sync
    }

    /// What to add to the controller's clock for ours.
    pub(super) fn offset(&mut self, now_ns: u64, sent_ns: u64) -> i64 {
        if self.clock == Clock::Shared {
            return 0;
        }
        self.offsets.push_back(difference(now_ns, sent_ns));
        if self.offsets.len() > DELAYS {
            self.offsets.pop_front();
        }
        *self.offsets.iter().min().expect("one was just added")
    }
}

/// How far our clock is ahead of another; another's may show anything.
fn difference(now_ns: u64, sent_ns: u64) -> i64 {
    now_ns.wrapping_sub(sent_ns) as i64
}
