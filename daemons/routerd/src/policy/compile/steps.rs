//! Lines as steps: a tree in which a step halves what is left, until few lines are left that are asked one by one. Lines one
//! behind the other that lead to the same place may be asked in any order: those that ask the same parts make a tree.
//! Where they lead to many places in turn there is one tree of all, if packets then take fewer steps.

use std::collections::BTreeMap;

use ebb_ports::afxdp::{Part, Step};

use super::ask::{All, Within};
use super::lines::{Line, To, largest};

/// Lines that are asked one by one.
const LEAF_MAX: usize = 3;
/// Groups of fewer lines have no tree of their own.
const GROUP_MIN: usize = 12;
const DEPTH_MAX: u32 = 40;
/// Fewer runs of lines that lead to one place have no tree together; steps of such a tree for a line.
const RUNS_MIN: usize = 4;
const OF_LINE_MAX: usize = 16;
/// Steps of one family; the memory of decisions has room for twice as many words.
const STEPS_MAX: usize = 250_000;
/// Numbers that are tried for halving.
const TRIED_MAX: usize = 12;

/// The steps; nothing where they are too many or no packet passes.
pub(super) fn steps(lines: &[Line]) -> Option<Vec<Step>> {
    let lines = &live(lines)[..];
    let mut making = Making { steps: Vec::new(), places: BTreeMap::new(), open: Vec::new() };
    let mut begins = vec![false; lines.len() + 1];
    for line in lines {
        if let To::Line(to) = line.to {
            begins[to] = true;
        }
    }
    let mut at = 0;
    while at < lines.len() {
        making.places.insert(at, making.steps.len());
        let end = (at + 1..lines.len()).find(|end| begins[*end]).unwrap_or(lines.len());
        making.part(&lines[at..end])?;
        at = end;
    }
    making.places.insert(lines.len(), making.steps.len());
    making.steps.push(Step::Pass);
    making.finish(lines.len())
}

/// The lines that some packet may come to.
fn live(lines: &[Line]) -> Vec<Line> {
    let mut come = vec![false; lines.len() + 1];
    come[0] = true;
    for (at, line) in lines.iter().enumerate() {
        if come[at] {
            come[at + 1] |= !line.asks.is_empty();
            if let To::Line(to) = line.to {
                come[to] = true;
            }
        }
    }
    // How many of them are before each line.
    let before: Vec<usize> = come
        .iter()
        .scan(0, |count, come| {
            let before = *count;
            *count += usize::from(*come);
            Some(before)
        })
        .collect();
    let moved = |line: &Line| Line {
        asks: line.asks.clone(),
        to: match line.to {
            To::Line(to) => To::Line(before[to]),
            To::Kernel => To::Kernel,
        },
    };
    lines.iter().zip(&come).filter(|(_, come)| **come).map(|(line, _)| moved(line)).collect()
}

struct Making {
    steps: Vec<Step>,
    /// Where lines begin.
    places: BTreeMap<usize, usize>,
    /// Steps that lead to a line that has no place yet.
    open: Vec<(usize, usize)>,
}

/// What is known of a packet at a place in a tree.
#[derive(Clone)]
struct Known {
    low: [u32; ebb_ports::afxdp::PARTS],
    high: [u32; ebb_ports::afxdp::PARTS],
    set: [u32; ebb_ports::afxdp::PARTS],
    clear: [u32; ebb_ports::afxdp::PARTS],
}

/// What halves lines.
#[derive(Clone, Copy)]
enum Cut {
    AtLeast(Part, u32),
    Bit(Part, u32),
}

/// Whether a packet of which this is known is as a line asks.
#[derive(Clone, Copy, PartialEq)]
enum Fits {
    Never,
    Perhaps,
    Always,
}

impl Known {
    fn nothing() -> Known {
        let most = |at: usize| PARTS[at].map_or(u32::MAX, |part| largest(part).unwrap_or(u32::MAX));
        Known {
            low: [0; ebb_ports::afxdp::PARTS],
            high: std::array::from_fn(most),
            set: [0; ebb_ports::afxdp::PARTS],
            clear: [0; ebb_ports::afxdp::PARTS],
        }
    }

    fn fits(&self, one: &Within) -> Fits {
        let at = one.part as usize;
        if one.mask != u32::MAX {
            return match one.mask.is_power_of_two() && one.low == one.high {
                true if self.set[at] & one.mask != 0 => Fits::of(one.low == one.mask),
                true if self.clear[at] & one.mask != 0 => Fits::of(one.low == 0),
                _ => Fits::Perhaps,
            };
        }
        if one.high < self.low[at] || one.low > self.high[at] {
            Fits::Never
        } else {
            let always = one.low <= self.low[at] && one.high >= self.high[at];
            if always { Fits::Always } else { Fits::Perhaps }
        }
    }

    fn never(&self, asks: &All) -> bool {
        asks.iter().any(|one| self.fits(one) == Fits::Never)
    }

    /// What is known where the cut holds, or does not.
    fn cut(&self, cut: Cut, holds: bool) -> Known {
        let mut known = self.clone();
        match (cut, holds) {
            (Cut::AtLeast(part, value), true) => known.low[part as usize] = value,
            (Cut::AtLeast(part, value), false) => known.high[part as usize] = value - 1,
            (Cut::Bit(part, bit), true) => known.set[part as usize] |= bit,
            (Cut::Bit(part, bit), false) => known.clear[part as usize] |= bit,
        }
        known
    }
}

impl Fits {
    fn of(fits: bool) -> Fits {
        if fits { Fits::Always } else { Fits::Never }
    }
}

impl Making {
    /// Lines in whose midst nobody comes: run by run, or in one tree where packets then take fewer steps.
    fn part(&mut self, lines: &[Line]) -> Option<()> {
        let (begin, open) = (self.steps.len(), self.open.len());
        let runs: Vec<&[Line]> = lines.chunk_by(|one, next| one.to == next.to).collect();
        for run in &runs {
            self.run(run)?;
        }
        if runs.len() < RUNS_MIN {
            return Some(());
        }
        let by_runs = (self.steps.split_off(begin), self.open.split_off(open));
        let mut ends = Vec::new();
        let most = begin + OF_LINE_MAX * lines.len();
        let all: Vec<&Line> = lines.iter().collect();
        let made = self.tree(&all, &Known::nothing(), &mut ends, (0, most));
        let end = self.steps.len();
        ends.into_iter().for_each(|step| self.lead(step, end));
        if made.is_none() || longest(&self.steps[begin..], begin) >= longest(&by_runs.0, begin) {
            self.steps.truncate(begin);
            self.open.truncate(open);
            self.steps.extend(by_runs.0);
            self.open.extend(by_runs.1);
        }
        Some(())
    }

    /// Lines that lead to one place.
    fn run(&mut self, lines: &[Line]) -> Option<()> {
        let mut groups: BTreeMap<u32, Vec<&Line>> = BTreeMap::new();
        for line in lines {
            groups.entry(signature(&line.asks)).or_default().push(line);
        }
        let (large, small): (Vec<_>, Vec<_>) =
            groups.into_values().partition(|group| group.len() >= GROUP_MIN);
        let rest: Vec<&Line> = small.into_iter().flatten().collect();
        for group in large.into_iter().chain((!rest.is_empty()).then_some(rest)) {
            let mut ends = Vec::new();
            self.tree(&group, &Known::nothing(), &mut ends, (0, STEPS_MAX))?;
            let end = self.steps.len();
            ends.into_iter().for_each(|step| self.lead(step, end));
        }
        Some(())
    }

    /// A tree of lines, the first of which counts that is as the packet; `ends` are steps that lead behind it.
    fn tree(
        &mut self,
        lines: &[&Line],
        known: &Known,
        ends: &mut Vec<usize>,
        (depth, most): (u32, usize),
    ) -> Option<()> {
        if self.steps.len() > most {
            return None;
        }
        let always = |line: &&Line| line.asks.iter().all(|one| known.fits(one) == Fits::Always);
        let certain = lines.iter().position(always);
        // No packet gets past a line that all are like.
        let lines = match certain {
            Some(at) if lines[..at].iter().all(|line| line.to == lines[at].to) => &lines[at..=at],
            Some(at) => &lines[..=at],
            None => lines,
        };
        let cut = match lines.len() > LEAF_MAX && depth < DEPTH_MAX {
            true => cut(lines, known),
            false => None,
        };
        let Some(cut) = cut else {
            self.leaf(lines, known);
            if certain.is_none() {
                ends.push(self.steps.len());
                self.steps.push(leads_on());
            }
            return Some(());
        };
        let at = self.steps.len();
        self.steps.push(match cut {
            Cut::AtLeast(part, value) => Step::AtLeast(part, value, 0),
            Cut::Bit(part, bit) => Step::Bits(part, bit, 0),
        });
        for holds in [false, true] {
            if holds {
                self.lead(at, self.steps.len());
            }
            let known = known.cut(cut, holds);
            let left: Vec<&Line> =
                lines.iter().copied().filter(|line| !known.never(&line.asks)).collect();
            self.tree(&left, &known, ends, (depth + 1, most))?;
        }
        Some(())
    }

    /// Lines one by one.
    fn leaf(&mut self, lines: &[&Line], known: &Known) {
        for line in lines {
            let mut misses = Vec::new();
            for one in line.asks.iter().filter(|one| known.fits(one) == Fits::Perhaps) {
                misses.push(self.steps.len());
                self.steps.push(Step::Within(one.part, one.mask, [one.low, one.high], 0));
            }
            self.go(line.to);
            let next = self.steps.len();
            misses.into_iter().for_each(|step| self.lead(step, next));
        }
    }

    fn go(&mut self, to: To) {
        match to {
            To::Kernel => self.steps.push(Step::Stop),
            To::Line(line) => {
                self.open.push((self.steps.len(), line));
                self.steps.push(leads_on());
            }
        }
    }

    fn lead(&mut self, step: usize, place: usize) {
        match &mut self.steps[step] {
            Step::AtLeast(_, _, to) | Step::Bits(_, _, to) | Step::Within(_, _, _, to) => {
                *to = place;
            }
            Step::Pass | Step::Stop => {}
        }
    }

    fn finish(mut self, last: usize) -> Option<Vec<Step>> {
        for (step, line) in std::mem::take(&mut self.open) {
            let place = self.places[&line];
            match line == last {
                true => self.steps[step] = Step::Pass,
                false => self.lead(step, place),
            }
        }
        let mut passes = vec![false; self.steps.len()];
        // Where a step only leads on, those that lead to it lead there at once.
        let mut there: Vec<usize> = (0..self.steps.len()).collect();
        for at in (0..self.steps.len()).rev() {
            match &mut self.steps[at] {
                Step::Pass => passes[at] = true,
                Step::Stop => {}
                Step::AtLeast(_, 0, to) => {
                    there[at] = there[*to];
                    *to = there[at];
                    passes[at] = passes[*to];
                }
                Step::AtLeast(_, _, to) | Step::Bits(_, _, to) | Step::Within(_, _, _, to) => {
                    *to = there[*to];
                    passes[at] = passes[*to] || passes[at + 1];
                }
            }
            if let end @ (Step::Pass | Step::Stop) = self.steps[there[at]] {
                self.steps[at] = end;
            }
        }
        passes[0].then_some(self.steps)
    }
}

/// A step that always leads on, once it is said where.
fn leads_on() -> Step {
    Step::AtLeast(Part::Protocol, 0, 0)
}

const PARTS: [Option<Part>; ebb_ports::afxdp::PARTS] = {
    use Part::*;
    [
        Some(Source0),
        Some(Source1),
        Some(Source2),
        Some(Source3),
        Some(Destination0),
        Some(Destination1),
        Some(Destination2),
        Some(Destination3),
        Some(SourcePort),
        Some(DestinationPort),
        Some(Protocol),
        Some(Input),
        Some(Output),
        Some(Bits),
        Some(SourceSets),
        Some(DestinationSets),
    ]
};

/// The most steps that a packet takes of these, the first of which is at `begin`, until it is led out of them.
fn longest(steps: &[Step], begin: usize) -> usize {
    let mut from = vec![0; steps.len() + 1];
    for (at, step) in steps.iter().enumerate().rev() {
        let there = |to: usize| from.get(to.wrapping_sub(begin)).copied().unwrap_or(0);
        from[at] = match *step {
            Step::AtLeast(_, 0, to) => there(to),
            Step::AtLeast(_, _, to) | Step::Bits(_, _, to) | Step::Within(_, _, _, to) => {
                1 + from[at + 1].max(there(to))
            }
            Step::Pass | Step::Stop => 1,
        };
    }
    from[0]
}

/// Which of the parts by which many lines differ a line asks: addresses and ports.
fn signature(asks: &All) -> u32 {
    let class = |one: &Within| match one.part as u8 {
        0..4 => 1,
        4..8 => 2,
        8 => 4,
        9 => 8,
        14 => 16,
        15 => 32,
        _ => 0,
    };
    asks.iter().map(class).fold(0, |all, one| all | one)
}

/// The best cut: that which leaves the fewest lines on its larger side.
fn cut(lines: &[&Line], known: &Known) -> Option<Cut> {
    let mut best: Option<(usize, Cut)> = None;
    for (at, part) in PARTS.iter().enumerate().filter_map(|(at, part)| Some((at, (*part)?))) {
        let mut values: Vec<u32> = Vec::new();
        let mut bits = 0;
        for one in lines.iter().flat_map(|line| line.asks.iter()).filter(|one| one.part == part) {
            if one.mask == u32::MAX {
                values.push(one.low);
                values.extend(one.high.checked_add(1));
            } else if one.mask.is_power_of_two() && one.low == one.high {
                bits |= one.mask;
            }
        }
        values.retain(|value| *value > known.low[at] && *value <= known.high[at]);
        values.sort_unstable();
        // The middle one first: most lines are on either side of it.
        values.dedup();
        let stride = values.len().div_ceil(TRIED_MAX).max(1);
        let tried = values.iter().step_by(stride).chain(values.get(values.len() / 2));
        let cuts = tried.map(|value| Cut::AtLeast(part, *value));
        let new = bits & !(known.set[at] | known.clear[at]);
        let of_bits = (0..32).map(|bit| 1 << bit).filter(|bit| new & bit != 0);
        for cut in cuts.chain(of_bits.map(|bit| Cut::Bit(part, bit))) {
            let (yes, no) = (known.cut(cut, true), known.cut(cut, false));
            let left = |known: &Known| lines.iter().filter(|line| !known.never(&line.asks)).count();
            let (yes, no) = (left(&yes), left(&no));
            // Lines that are on both sides are asked twice over.
            let worth = yes.max(no) * 2 + yes + no;
            let halves = yes.max(no) < lines.len() && yes + no <= lines.len() + lines.len() / 2;
            if halves && best.is_none_or(|(known, _)| worth < known) {
                best = Some((worth, cut));
            }
        }
    }
    best.map(|(_, cut)| cut)
}
