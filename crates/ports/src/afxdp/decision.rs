//! Decisions: whether a packet may pass by what it holds and by its interfaces, as a program of few steps that the kernel
//! path takes for each packet (`bpf/rules.h`). Each step looks at one part of the packet and goes on with a later
//! step; the last one says whether the packet may pass. What the parts are compared for is the caller's.
//!
//! All interfaces of the process share the memory of decisions. It has room for two: the one in use, and the next.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::maps::Words;
use crate::Fence;

/// Parts of a packet.
pub const PARTS: usize = 16;
/// Steps that a packet takes at most, else it may not pass; as in `bpf/rules.h`.
pub const STEPS_MAX: usize = 192;
const DECISION_BITS: u32 = 19;
/// Words of a decision.
const WORDS: usize = 1 << DECISION_BITS;
const MASK: u64 = WORDS as u64 - 1;
const UNTRANSLATED: u64 = 1 << 40;
/// The head, and where the tables of either family are: sources, destinations.
const HEAD: usize = 5;
/// Addresses behind their first so many bits have a table of their own.
const ROOT_BITS: u32 = 16;
const KIND_AT_LEAST: u64 = 0;
const KIND_BITS: u64 = 1;
const KIND_WITHIN: u64 = 2;
const KIND_END: u64 = 3;

/// A part of a packet, a number of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Part {
    /// The source, most significant bits first; IPv4 has the first only.
    Source0 = 0,
    /// The next 32 bits of it.
    Source1,
    /// The next 32 bits of it.
    Source2,
    /// The last 32 bits of it.
    Source3,
    /// The destination, as above.
    Destination0,
    /// The next 32 bits of it.
    Destination1,
    /// The next 32 bits of it.
    Destination2,
    /// The last 32 bits of it.
    Destination3,
    /// The first two bytes above IP.
    SourcePort,
    /// The two bytes behind.
    DestinationPort,
    /// The protocol above IP.
    Protocol,
    /// The interface by which it came in, by index.
    Input,
    /// The interface by which it leaves, by index.
    Output,
    /// The type of service (IPv4, 8 bits), and above it the flags of TCP, else 0.
    Bits,
    /// The sets that the source is in, a bit each.
    SourceSets,
    /// The sets that the destination is in, a bit each.
    DestinationSets,
}

impl Part {
    /// One of the 32-bit words of an address.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn word(destination: bool, word: usize) -> Part {
        use Part::*;
        let all = [
            [Source0, Source1, Source2, Source3],
            [Destination0, Destination1, Destination2, Destination3],
        ];
        all[usize::from(destination)][word]
    }
}

/// A step of a decision; others are named by their place, and come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Goes on there where the part is this number or a larger one, else with the next step.
    AtLeast(Part, u32, usize),
    /// Goes on there where the part has one of these bits, else with the next step.
    Bits(Part, u32, usize),
    /// Goes on with the next step where the part under a mask is not less than the first and not more than the
    /// second number, else there.
    Within(Part, u32, [u32; 2], usize),
    /// The packet may pass.
    Pass,
    /// It may not.
    Stop,
}

impl Step {
    fn words(self) -> usize {
        if matches!(self, Step::Within(..)) { 2 } else { 1 }
    }
    fn target(self) -> Option<usize> {
        match self {
            Step::AtLeast(_, _, to) | Step::Bits(_, _, to) | Step::Within(_, _, _, to) => Some(to),
            Step::Pass | Step::Stop => None,
        }
    }
    /// Whether some packets go on with the next step: all are at least 0.
    fn falls_through(self) -> bool {
        !matches!(self, Step::AtLeast(_, 0, _) | Step::Pass | Step::Stop)
    }
}

/// Which sets addresses are in: from each address on to before the next one, in ascending order, beginning with 0.
pub type SetTable = Vec<(u128, u32)>;

/// The decision on one family's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// In order; the first step is the first one taken.
    pub steps: Vec<Step>,
    /// Sets of sources and of destinations; empty where none are asked for.
    pub sets: [SetTable; 2],
}

/// A decision on packets of both families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    words: Vec<u64>,
    families: [bool; 2],
}

impl Decision {
    /// From the steps of IPv4 and IPv6. `untranslated`: packets whose addresses are translated may not pass. Nothing where
    /// it is too large. A packet that would take more than [`STEPS_MAX`] steps may not pass; a family of which no other
    /// one would be let pass is not decided on.
    ///
    /// # Panics
    /// When a step leads back, or behind the last one.
    pub fn new(families: [Option<&Steps>; 2], untranslated: bool) -> Option<Decision> {
        let mut words = vec![0; HEAD];
        words[0] = if untranslated { UNTRANSLATED } else { 0 };
        let mut decided = [false; 2];
        for (six, steps) in families.into_iter().enumerate() {
            let Some(Steps { steps, sets }) = steps else { continue };
            if words.len() + 2 * steps.len() > WORDS {
                return None;
            }
            if shortest(steps).is_none_or(|least| least > STEPS_MAX) {
                continue;
            }
            decided[six] = true;
            words[0] |= (words.len() as u64) << (20 * six);
            encode(steps, &mut words);
            for (side, table) in sets.iter().enumerate().filter(|(_, table)| !table.is_empty()) {
                words[1 + 2 * six + side] = match six {
                    0 => put_table4(table, &mut words),
                    _ => put_table6(table, &mut words),
                };
            }
        }
        let some = decided != [false; 2] && words.len() <= WORDS;
        some.then_some(Decision { words, families: decided })
    }

    /// Which families it is about: IPv4, IPv6.
    pub fn families(&self) -> [bool; 2] {
        self.families
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// What the program decides about a packet with these parts, but for the sets, which it looks up itself.
    pub fn passes(&self, v6: bool, parts: [u32; PARTS], translated: bool) -> bool {
        let (passes, steps) = self.walk(v6, parts, translated);
        passes && steps <= STEPS_MAX
    }

    /// What the steps say about such a packet however many they are, and how many it takes.
    ///
    /// # Panics
    /// When the decision is not about the family.
    pub fn walk(&self, v6: bool, mut parts: [u32; PARTS], translated: bool) -> (bool, usize) {
        assert!(self.families[usize::from(v6)], "no decision on the family");
        let (six, word) = (usize::from(v6), |at: u64| self.words[at as usize]);
        if translated && word(0) & UNTRANSLATED != 0 {
            return (false, 0);
        }
        for side in 0..2 {
            let table = word((1 + 2 * six + side) as u64);
            if table != 0 {
                let address = &parts[4 * side..4 * side + 4];
                parts[Part::SourceSets as usize + side] = self.sets_of(v6, table, address);
            }
        }
        let (mut at, mut steps) = (word(0) >> (20 * six) & MASK, 0);
        loop {
            steps += 1;
            let step = word(at);
            let (value, part, to) =
                ((step >> 32) as u32, parts[(step >> 2 & 15) as usize], step >> 6 & MASK);
            at = match step & 3 {
                KIND_AT_LEAST if part >= value => to,
                KIND_BITS if part & value != 0 => to,
                KIND_WITHIN => {
                    let range = word(at + 1);
                    let inside = (part & value).wrapping_sub(range as u32) <= (range >> 32) as u32;
                    if inside { at + 2 } else { to }
                }
                KIND_END => return (value != 0, steps),
                _ => at + 1,
            };
        }
    }

    fn sets_of(&self, v6: bool, table: u64, address: &[u32]) -> u32 {
        let (width, mut at, mut count) = match v6 {
            false => {
                let root = (table as u32) + (address[0] >> (table >> 32));
                let root = self.words[root as usize];
                (1, root as u32 as usize, root >> 32)
            }
            true => (3, table as u32 as usize, table >> 32),
        };
        let wanted = address.iter().fold(0_u128, |all, word| all << 32 | u128::from(*word));
        let from = |at: usize| match v6 {
            false => u128::from(self.words[at] >> 32) << 96,
            true => u128::from(self.words[at]) << 64 | u128::from(self.words[at + 1]),
        };
        while count > 1 {
            let half = count >> 1;
            if from(at + width * half as usize) <= wanted {
                at += width * half as usize;
            }
            count -= half;
        }
        self.words[at + width - 1] as u32
    }
}

/// The fewest steps by which a packet may pass, if any does.
fn shortest(steps: &[Step]) -> Option<usize> {
    let mut from: Vec<Option<usize>> = vec![None; steps.len()];
    for (at, step) in steps.iter().enumerate().rev() {
        if let Some(to) = step.target() {
            assert!(to > at && to < steps.len(), "step {at} leads to {to}");
        }
        let next = if step.falls_through() { from[at + 1] } else { None };
        let there = step.target().and_then(|to| from[to]);
        from[at] = match step {
            Step::Pass => Some(1),
            _ => next.into_iter().chain(there).min().map(|least| least + 1),
        };
    }
    from.first().copied().flatten()
}

fn encode(steps: &[Step], words: &mut Vec<u64>) {
    let mut places = Vec::with_capacity(steps.len());
    let mut at = words.len() as u64;
    for step in steps {
        places.push(at);
        at += step.words() as u64;
    }
    let word = |kind: u64, part: Part, value: u32, to: usize| {
        kind | (part as u64) << 2 | (places[to] & MASK) << 6 | u64::from(value) << 32
    };
    for step in steps {
        match *step {
            Step::AtLeast(part, value, to) => words.push(word(KIND_AT_LEAST, part, value, to)),
            Step::Bits(part, bits, to) => words.push(word(KIND_BITS, part, bits, to)),
            Step::Within(part, mask, [low, high], to) => {
                words.push(word(KIND_WITHIN, part, mask, to));
                words.push(u64::from(low) | u64::from(high - low) << 32);
            }
            Step::Pass => words.push(KIND_END | 1 << 32),
            Step::Stop => words.push(KIND_END),
        }
    }
}

/// Enters a table of IPv4 addresses, which are the upper 32 bits; how the program finds it.
fn put_table4(table: &SetTable, words: &mut Vec<u64>) -> u64 {
    let bits = (usize::BITS - table.len().leading_zeros()).min(ROOT_BITS);
    let shift = 32 - bits;
    let roots = words.len();
    let entries = roots + (1 << bits);
    words.resize(entries, 0);
    let start = |at: usize| (table[at].0 >> 96) as u32;
    let mut at = 0;
    for root in 0..1_usize << bits {
        let (first, last) = ((root as u64) << shift, ((root as u64 + 1) << shift) - 1);
        while at + 1 < table.len() && u64::from(start(at + 1)) <= first {
            at += 1;
        }
        let mut end = at + 1;
        while end < table.len() && u64::from(start(end)) <= last {
            end += 1;
        }
        words[roots + root] = (entries + at) as u64 | ((end - at) as u64) << 32;
        at = end - 1;
    }
    words.extend((0..table.len()).map(|at| u64::from(start(at)) << 32 | u64::from(table[at].1)));
    roots as u64 | u64::from(shift) << 32
}

fn put_table6(table: &SetTable, words: &mut Vec<u64>) -> u64 {
    let begin = words.len() as u64;
    words.extend(
        table
            .iter()
            .flat_map(|(start, sets)| [(start >> 64) as u64, *start as u64, u64::from(*sets)]),
    );
    begin | (table.len() as u64) << 32
}

/// One of the two places for decisions, as long as somebody's packets may ask the decision in it.
#[derive(Debug)]
pub(super) struct Slot(u8);

impl Slot {
    /// 1 or 2.
    pub(super) fn number(&self) -> u8 {
        self.0
    }
}

/// The memory of the process.
struct Memory {
    fd: OwnedFd,
    words: Words,
    held: [(Weak<Slot>, Option<Arc<Decision>>); 2],
}

static MEMORY: Mutex<Option<Memory>> = Mutex::new(None);

fn with<T>(use_it: impl FnOnce(&mut Memory) -> io::Result<T>) -> io::Result<T> {
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    if memory.is_none() {
        let (fd, words) = Words::create(2 * WORDS)?;
        *memory = Some(Memory { fd, words, held: Default::default() });
    }
    use_it(memory.as_mut().expect("made"))
}

/// The map that programs are loaded with; it stays open until the process ends.
pub(super) fn map() -> io::Result<RawFd> {
    with(|memory| Ok(memory.fd.as_raw_fd()))
}

/// Where a decision is, written first if it is not there yet.
///
/// # Errors
/// When both places hold others that somebody's packets ask.
pub(super) fn hold(decision: &Arc<Decision>) -> io::Result<Arc<Slot>> {
    with(|memory| {
        for (at, (slot, held)) in memory.held.iter_mut().enumerate() {
            if held.as_ref() == Some(decision) {
                let held = slot.upgrade().unwrap_or_else(|| Arc::new(Slot(at as u8 + 1)));
                *slot = Arc::downgrade(&held);
                return Ok(held);
            }
        }
        let Some(free) = memory.held.iter().position(|(slot, _)| slot.strong_count() == 0) else {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "both decisions are in use"));
        };
        // Packets that were told to ask the former one are past it.
        if memory.held[free].1.is_some() {
            _ = Fence::programs().wait();
        }
        memory.words.write(free * WORDS, &decision.words);
        let slot = Arc::new(Slot(free as u8 + 1));
        memory.held[free] = (Arc::downgrade(&slot), Some(decision.clone()));
        Ok(slot)
    })
}
