//! All chains on a packet's way as lines that are asked in order: what a line asks, and where a packet goes that is as it
//! asks. Chains that others lead to are put in where they are led to.

use ebb_host::netlink::policy::{Chain, Decision, Expression, Hook, Loaded, Place, Range};
use ebb_ports::afxdp::{Part, SetTable};

use super::super::accepted::CONNECTIONS;
use super::Task;
use super::ask::{Addresses, All, Asked, Registers, View, Within};

/// Chains that one packet may go through; the kernel has 16 levels.
const DEPTH_MAX: u32 = 16;
/// Lines of all chains, and of one rule.
const LINES_MAX: usize = 150_000;
const OF_RULE_MAX: usize = 20_000;
/// Sets of one side that a packet is looked up in, a bit each.
const SETS_MAX: usize = 32;
/// `NF_CT_STATE_BIT(IP_CT_ESTABLISHED)`.
const ESTABLISHED: u32 = 2;
const TCP: u32 = 6;
/// The bits of `Part::Bits` that are flags of TCP.
const FLAGS: u32 = 0xff00;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// To this line, a later one; behind the last one it passes.
    Line(usize),
    /// To the kernel.
    Kernel,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// In ascending order, each part under each mask once.
    pub(super) asks: All,
    pub(super) to: To,
}

/// The lines, and the tables of sets of sources and destinations; nothing where they are too many.
pub(super) fn lines(chains: &[&Chain], task: Task<'_>) -> Option<(Vec<Line>, [SetTable; 2])> {
    let mut making = Making {
        task,
        lines: Vec::new(),
        labels: Vec::new(),
        sets: [vec![], vec![]],
        named: [false; 2],
    };
    for chain in chains {
        let place = chain.place.as_ref().filter(|_| !chain.strange)?;
        let early = chain.hook == Hook::Prerouting && chain.priority <= CONNECTIONS;
        let view = View {
            v6: task.v6,
            state: (task.established && !early).then_some(ESTABLISHED),
            interfaces: [chain.hook != Hook::Postrouting, chain.hook != Hook::Prerouting],
            places: task.places,
        };
        let accepted = making.label();
        let end = making.label();
        let from = From { asks: &[], sure: true, accepted, end, depth: 0 };
        making.chain(place, view, &from)?;
        making.here(end);
        if chain.drops {
            making.push(Vec::new(), Target::Kernel);
        }
        making.here(accepted);
    }
    making.finish()
}

/// Where a line leads before all lines are there.
#[derive(Clone, Copy)]
enum Target {
    Label(usize),
    Kernel,
}

struct Making<'a> {
    task: Task<'a>,
    lines: Vec<(All, Target)>,
    labels: Vec<usize>,
    sets: [Vec<Addresses>; 2],
    /// Rules ask for interfaces: of input, of output.
    named: [bool; 2],
}

/// How a chain is come to.
struct From<'a> {
    /// What was asked on the way; whether that is all.
    asks: &'a [Vec<All>],
    sure: bool,
    /// Where packets go that the chain accepts, and those that come to its end.
    accepted: usize,
    end: usize,
    depth: u32,
}

impl<'a> Making<'a> {
    fn label(&mut self) -> usize {
        self.labels.push(usize::MAX);
        self.labels.len() - 1
    }

    fn here(&mut self, label: usize) {
        self.labels[label] = self.lines.len();
    }

    fn push(&mut self, asks: All, to: Target) {
        // What cannot be is asked of nobody.
        if let Some(asks) = together(asks) {
            self.lines.push((asks, to));
        }
    }

    /// By interfaces that have no known name no packet passes where rules ask for them.
    fn guards(&self) -> Vec<All> {
        let mut found = Vec::new();
        let mut links: Vec<u32> = self.task.places.iter().map(|place| place.link).collect();
        links.sort_unstable();
        links.dedup();
        let parts = [Part::Input, Part::Output].into_iter().zip(self.named);
        for part in parts.filter(|(_, named)| *named).map(|(part, _)| part) {
            let mut next = 0;
            for link in &links {
                if next < *link {
                    let gap = Within { part, mask: u32::MAX, low: next, high: link - 1 };
                    found.push(vec![gap]);
                }
                next = link.saturating_add(1);
            }
            let rest = Within { part, mask: u32::MAX, low: next, high: u32::MAX };
            found.push(vec![rest]);
        }
        found
    }

    fn chain(&mut self, place: &Place, view: View<'a>, from: &From<'_>) -> Option<()> {
        if from.depth > DEPTH_MAX {
            return None;
        }
        let rules = self.task.rules;
        for rule in rules.chains.get(place).map(Vec::as_slice).unwrap_or_default() {
            self.rule(rule, place, view, from)?;
        }
        Some(())
    }

    fn rule(
        &mut self,
        rule: &[Expression],
        place: &Place,
        view: View<'a>,
        from: &From<'_>,
    ) -> Option<()> {
        let mut registers = Registers::new(view);
        let mut asks = from.asks.to_vec();
        let mut sure = from.sure;
        for (at, one) in rule.iter().enumerate() {
            let is_last = at + 1 == rule.len();
            let asked = match one {
                Expression::Load(to, loaded) => {
                    registers.load(*to, *loaded);
                    if let Loaded::Interface { sending, .. } = loaded {
                        self.named[usize::from(*sending)] = true;
                    }
                    // A rule ends where there is nothing to load.
                    sure &= is_there(*loaded, view, &asks);
                    continue;
                }
                Expression::Value(to, value) => {
                    registers.value(*to, value);
                    continue;
                }
                Expression::Mask(from, to, mask, flipped) => {
                    registers.mask(*from, *to, mask, flipped);
                    continue;
                }
                Expression::MapInto(_, to) => {
                    registers.forget(*to);
                    Asked::Unknown
                }
                Expression::Equal(register, value, wanted) => {
                    registers.between(*register, value, value, *wanted)
                }
                Expression::Between(register, first, last, inside) => {
                    registers.between(*register, first, last, *inside)
                }
                Expression::In(register, set, inverted) => match self.elements(place, set) {
                    Some(all) => registers.one_of(*register, all, !inverted),
                    None => Asked::Unknown,
                },
                Expression::Sometimes => Asked::Unknown,
                Expression::Map(register, set) => {
                    let Some(all) = self.elements(place, set) else {
                        self.kernel(&asks);
                        return Some(());
                    };
                    for element in all {
                        let (mut asks, mut sure) = (asks.clone(), sure);
                        if !self.ask(registers.element_of(*register, element), &mut asks, &mut sure)
                        {
                            continue;
                        }
                        match &element.decision {
                            Some(decision) => {
                                let decision = decision.in_rule(is_last);
                                self.decide(decision, place, view, (&asks, sure), from)?;
                            }
                            None => self.kernel(&asks),
                        }
                    }
                    return Some(());
                }
                Expression::Decide(decision) => {
                    let decision = decision.in_rule(is_last);
                    return self.decide(decision, place, view, (&asks, sure), from);
                }
                Expression::Does(_) => {
                    self.kernel(&asks);
                    return Some(());
                }
            };
            if !self.ask(asked, &mut asks, &mut sure) {
                return Some(());
            }
        }
        Some(())
    }

    fn elements(&self, place: &Place, set: &str) -> Option<&'a [Range]> {
        let place = (place.0, place.1.clone(), set.to_owned());
        self.task.rules.ranges.get(&place).map(|all| all.as_slice())
    }

    /// Adds what a rule asks; whether it may be so at all.
    fn ask(&mut self, asked: Asked, asks: &mut Vec<Vec<All>>, sure: &mut bool) -> bool {
        let any = match asked {
            Asked::Unknown => {
                *sure = false;
                return true;
            }
            Asked::Any(any) => any,
            Asked::Addresses(destination, all, inside) => {
                match self.addresses(destination, all, inside) {
                    Some(any) => any,
                    None => {
                        *sure = false;
                        return true;
                    }
                }
            }
        };
        if any.is_empty() {
            return false;
        }
        let of_flags = |one: &Within| one.part == Part::Bits && one.mask & FLAGS != 0;
        if any.iter().flatten().any(of_flags) && !is_tcp(asks) {
            *sure = false;
            return true;
        }
        if !any.iter().any(Vec::is_empty) {
            asks.push(any);
        }
        true
    }

    /// A set as a bit; one range of IPv4 or one prefix of IPv6 as it is.
    fn addresses(&mut self, destination: bool, all: Addresses, inside: bool) -> Option<Vec<All>> {
        if let ([(first, last)], true) = (all.as_slice(), inside)
            && let Some(words) = words(destination, *first, *last)
        {
            return Some(vec![words]);
        }
        let sets = &mut self.sets[usize::from(destination)];
        let bit = match sets.iter().position(|known| *known == all) {
            Some(bit) => bit,
            None if sets.len() < SETS_MAX => {
                sets.push(all);
                sets.len() - 1
            }
            None => return None,
        };
        let part = if destination { Part::DestinationSets } else { Part::SourceSets };
        let (mask, value) = (1 << bit, if inside { 1 << bit } else { 0 });
        Some(vec![vec![Within { part, mask, low: value, high: value }]])
    }

    fn decide(
        &mut self,
        decision: &Decision,
        place: &Place,
        view: View<'a>,
        (asks, sure): (&[Vec<All>], bool),
        from: &From<'_>,
    ) -> Option<()> {
        if self.lines.len() > LINES_MAX {
            return None;
        }
        let other = |chain: &String| (place.0, place.1.clone(), chain.clone());
        match decision {
            // One that may accept, or not, is passed over: what comes behind has to accept as well.
            Decision::Accept if sure => {
                for one in product(asks).into_iter().flatten() {
                    self.push(one, Target::Label(from.accepted));
                }
            }
            Decision::Accept | Decision::Continue => {}
            Decision::Return => self.lead(asks, sure, from.end),
            Decision::Jump(chain) => {
                let end = self.label();
                let from = From { asks, sure, end, depth: from.depth + 1, ..*from };
                self.chain(&other(chain), view, &from)?;
                self.here(end);
            }
            Decision::Goto(chain) => {
                let end = self.label();
                let inner = From { asks, sure, end, depth: from.depth + 1, ..*from };
                self.chain(&other(chain), view, &inner)?;
                self.here(end);
                self.lead(asks, sure, from.end);
            }
            Decision::Other => self.kernel(asks),
        }
        Some(())
    }

    /// Leads packets to a label; where nobody knows whether, to the kernel.
    fn lead(&mut self, asks: &[Vec<All>], sure: bool, to: usize) {
        match product(asks).filter(|_| sure) {
            Some(all) => all.into_iter().for_each(|one| self.push(one, Target::Label(to))),
            None => self.kernel(asks),
        }
    }

    /// Leaves what may be asked for to the kernel, and more where that is too much to tell.
    fn kernel(&mut self, asks: &[Vec<All>]) {
        let mut asks = asks.to_vec();
        loop {
            if let Some(all) = product(&asks) {
                return all.into_iter().for_each(|one| self.push(one, Target::Kernel));
            }
            let largest = (0..asks.len()).max_by_key(|at| asks[*at].len()).expect("some");
            asks.swap_remove(largest);
        }
    }

    fn finish(self) -> Option<(Vec<Line>, [SetTable; 2])> {
        let guards = self.guards();
        let (before, labels) = (guards.len(), self.labels);
        let line = |(asks, to): (All, Target)| Line {
            asks,
            to: match to {
                Target::Label(label) => To::Line(before + labels[label]),
                Target::Kernel => To::Kernel,
            },
        };
        let guards = guards.into_iter().map(|asks| Line { asks, to: To::Kernel });
        let lines: Vec<Line> = guards.chain(self.lines.into_iter().map(line)).collect();
        (lines.len() <= LINES_MAX).then(|| (lines, self.sets.map(|sets| table(&sets))))
    }
}

/// Whether all packets that are as asked have what a rule loads. Those that are decided on have at least 4 bytes above IP,
/// and TCP has its whole header.
fn is_there(loaded: Loaded, view: View<'_>, asks: &[Vec<All>]) -> bool {
    match loaded {
        Loaded::State | Loaded::Family | Loaded::Protocol | Loaded::Transport => true,
        Loaded::Interface { sending, .. } => view.interfaces[usize::from(sending)],
        Loaded::Header { transport, at, len } => {
            let end = u32::from(at) + u32::from(len);
            end <= match transport {
                true if is_tcp(asks) => 20,
                true => 4,
                false if view.v6 => 40,
                false => 20,
            }
        }
        Loaded::Packet | Loaded::Elsewhere => false,
    }
}

/// Whether what is asked asks for TCP.
fn is_tcp(asks: &[Vec<All>]) -> bool {
    let tcp = |one: &Within| {
        one.part == Part::Protocol && one.mask == 0xff && (one.low, one.high) == (TCP, TCP)
    };
    asks.iter().any(|any| any.iter().all(|all| all.iter().any(tcp)))
}

/// All combinations of alternatives; nothing where they are too many.
fn product(asks: &[Vec<All>]) -> Option<Vec<All>> {
    let count = asks.iter().try_fold(1_usize, |count, any| count.checked_mul(any.len()))?;
    if count > OF_RULE_MAX {
        return None;
    }
    let mut all: Vec<All> = vec![Vec::new()];
    for any in asks {
        let with =
            |one: &All| any.iter().map(|more| [&one[..], &more[..]].concat()).collect::<Vec<_>>();
        all = all.iter().flat_map(with).collect();
    }
    Some(all)
}

/// Each part under each mask once, prefixes as ranges; nothing where no packet is like that.
fn together(asks: All) -> Option<All> {
    let mut found: All = Vec::new();
    for one in asks {
        let one = as_range(one);
        if one.low > one.high {
            return None;
        }
        match found.iter_mut().find(|known| (known.part, known.mask) == (one.part, one.mask)) {
            Some(known) => {
                (known.low, known.high) = (known.low.max(one.low), known.high.min(one.high));
                if known.low > known.high {
                    return None;
                }
            }
            None => found.push(one),
        }
    }
    found.sort_unstable();
    Some(found)
}

/// The largest number of a part; flags and sets are no numbers.
pub(super) fn largest(part: Part) -> Option<u32> {
    match part {
        Part::SourcePort | Part::DestinationPort => Some(0xffff),
        Part::Protocol => Some(0xff),
        Part::Bits | Part::SourceSets | Part::DestinationSets => None,
        _ => Some(u32::MAX),
    }
}

/// The upper bits of a number as a range of it.
fn as_range(one: Within) -> Within {
    let Some(all) = largest(one.part) else { return one };
    let rest = all & !one.mask;
    // The mask is one of upper bits, and what is asked of one value or of the whole number.
    let prefix = one.mask & !all == 0 && rest & rest.wrapping_add(1) == 0;
    match prefix {
        true if one.low & rest == 0 && (rest == 0 || one.high & rest == 0) => {
            Within { mask: u32::MAX, high: one.high | rest, ..one }
        }
        _ => one,
    }
}

/// A range of addresses by the words of an address: one word from a first to a last, those before it equal, those behind it
/// any. Nothing where it is none such.
fn words(destination: bool, first: u128, last: u128) -> Option<All> {
    let word = |address: u128, at: usize| (address >> (96 - 32 * at)) as u32;
    let (mut all, mut ranged) = (Vec::new(), false);
    for at in 0..4 {
        let (low, high) = (word(first, at), word(last, at));
        if ranged {
            if (low, high) != (0, u32::MAX) {
                return None;
            }
            continue;
        }
        ranged = low != high;
        if (low, high) != (0, u32::MAX) {
            all.push(Within { part: Part::word(destination, at), mask: u32::MAX, low, high });
        }
    }
    Some(all)
}

/// Which of the sets each address is in.
fn table(sets: &[Addresses]) -> SetTable {
    if sets.is_empty() {
        return SetTable::new();
    }
    let mut changes: Vec<(u128, u32)> = vec![(0, 0)];
    for (bit, set) in sets.iter().enumerate() {
        for (first, last) in set {
            changes.push((*first, 1 << bit));
            changes.extend(last.checked_add(1).map(|next| (next, 1 << bit)));
        }
    }
    changes.sort_unstable_by_key(|(address, _)| *address);
    let (mut found, mut inside) = (SetTable::new(), 0);
    for (address, turned) in changes {
        inside ^= turned;
        match found.last_mut() {
            Some((known, sets)) if *known == address => *sets = inside,
            _ => found.push((address, inside)),
        }
    }
    found.dedup_by_key(|(_, sets)| *sets);
    found
}
