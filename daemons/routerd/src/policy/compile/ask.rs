//! What a rule's expressions ask of a packet: registers hold bytes of which it is known where in the packet they come from.

use ebb_host::netlink::policy::{Loaded, Range};
use ebb_ports::afxdp::Part;

use super::super::RouterInterface;

/// A part of the packet under a mask is not less than the first and not more than the second number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Within {
    pub(super) part: Part,
    pub(super) mask: u32,
    pub(super) low: u32,
    pub(super) high: u32,
}

/// All of these.
pub(super) type All = Vec<Within>;
/// Addresses, as 128 bits; those of IPv4 in the upper 32.
pub(super) type Addresses = Vec<(u128, u128)>;

/// What matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// One of these, which exclude each other: nothing if there are none, everything if one of them asks nothing.
    Any(Vec<All>),
    /// An address in these, or not in these: of the destination, or the source.
    Addresses(bool, Addresses, bool),
    /// It may match or not.
    Unknown,
}

impl Asked {
    pub(super) fn always(matches: bool) -> Asked {
        Asked::Any(if matches { vec![Vec::new()] } else { Vec::new() })
    }
}

/// Where a byte comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Byte {
    Unknown,
    Known(u8),
    /// A byte of a part, at this bit of it, masked and flipped.
    Of {
        part: Part,
        shift: u32,
        mask: u8,
        flip: u8,
    },
    /// Of the name of an interface.
    Name {
        sending: bool,
        at: usize,
    },
}

/// What is known of packets where a chain is.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) v6: bool,
    /// The state of the connection, if it is known.
    pub(super) state: Option<u32>,
    /// Whether the interfaces are known: of input, of output.
    pub(super) interfaces: [bool; 2],
    pub(super) places: &'a [RouterInterface],
}

const REGISTERS: usize = 20;
/// Most numbers that a part is compared with one by one; of addresses in one set.
const SINGLE_MAX: usize = 4096;
const ADDRESSES_MAX: usize = 12;

/// Registers of 4 bytes each.
pub(super) struct Registers<'a> {
    bytes: Vec<Byte>,
    view: View<'a>,
}

impl<'a> Registers<'a> {
    pub(super) fn new(view: View<'a>) -> Registers<'a> {
        Registers { bytes: vec![Byte::Unknown; 4 * REGISTERS], view }
    }

    fn put(&mut self, to: u32, bytes: impl IntoIterator<Item = Byte>) {
        let mut bytes: Vec<Byte> = bytes.into_iter().collect();
        bytes.resize(bytes.len().next_multiple_of(4), Byte::Known(0));
        let room = self.bytes.iter_mut().skip(4 * to as usize);
        room.zip(bytes).for_each(|(room, byte)| *room = byte);
    }

    pub(super) fn value(&mut self, to: u32, value: &[u8]) {
        self.put(to, value.iter().map(|byte| Byte::Known(*byte)));
    }

    /// Nobody knows what the register holds from now on, however long it is.
    pub(super) fn forget(&mut self, to: u32) {
        self.put(to, [Byte::Unknown; 64]);
    }

    pub(super) fn load(&mut self, to: u32, loaded: Loaded) {
        let view = self.view;
        let of = |part| Byte::Of { part, shift: 0, mask: 0xff, flip: 0 };
        match loaded {
            Loaded::State => match view.state {
                Some(state) => self.value(to, &state.to_ne_bytes()),
                None => self.forget(to),
            },
            Loaded::Family => self.value(to, &[if view.v6 { 10 } else { 2 }]),
            Loaded::Protocol => {
                self.value(to, &if view.v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
            }
            Loaded::Transport => self.put(to, [of(Part::Protocol)]),
            Loaded::Header { transport, at, len } => {
                let byte = |at: u16| header_byte(view.v6, transport, at);
                let end = at.saturating_add(len.min(64));
                self.put(to, (at..end).map(byte).collect::<Vec<_>>());
            }
            Loaded::Interface { sending, .. } if !view.interfaces[usize::from(sending)] => {
                self.forget(to);
            }
            Loaded::Interface { sending, named: true } => {
                self.put(to, (0..16).map(|at| Byte::Name { sending, at }).collect::<Vec<_>>());
            }
            Loaded::Interface { sending, named: false } => {
                let part = if sending { Part::Output } else { Part::Input };
                let byte = |at: u32| Byte::Of { part, shift: host_shift(at), mask: 0xff, flip: 0 };
                self.put(to, (0..4).map(byte).collect::<Vec<_>>());
            }
            Loaded::Packet | Loaded::Elsewhere => self.forget(to),
        }
    }

    pub(super) fn mask(&mut self, from: u32, to: u32, mask: &[u8], flipped: &[u8]) {
        let bytes = self.get(from, mask.len());
        let masked = |(byte, (mask, flipped)): (&Byte, (&u8, &u8))| match *byte {
            Byte::Known(value) => Byte::Known(value & mask ^ flipped),
            Byte::Of { part, shift, mask: before, flip } => {
                Byte::Of { part, shift, mask: before & mask, flip: flip & mask ^ flipped }
            }
            _ if *mask == 0 => Byte::Known(*flipped),
            _ => Byte::Unknown,
        };
        let masked: Vec<Byte> = bytes.iter().zip(mask.iter().zip(flipped)).map(masked).collect();
        match mask.len() == flipped.len() && masked.len() == mask.len() {
            true => self.put(to, masked),
            false => self.forget(to),
        }
    }

    fn get(&self, from: u32, len: usize) -> Vec<Byte> {
        let begin = (4 * from as usize).min(self.bytes.len());
        self.bytes[begin..].iter().take(len).copied().collect()
    }

    /// Keys from a first to a last one, compared byte by byte.
    pub(super) fn between(&self, register: u32, first: &[u8], last: &[u8], inside: bool) -> Asked {
        if first.len() != last.len() || first.is_empty() {
            return Asked::Unknown;
        }
        let bytes = self.get(register, first.len());
        let part = |byte: &Byte| match byte {
            Byte::Of { part, .. } => Some(*part),
            _ => None,
        };
        // A range of several numbers in a row is none of each of them.
        let one = bytes.iter().all(|byte| part(byte) == part(&bytes[0]));
        if !one && first != last && self.address(&bytes).is_none() {
            return Asked::Unknown;
        }
        let range = Range { first: first.to_vec(), last: last.to_vec(), decision: None };
        self.one_of(register, &[range], inside)
    }

    /// One of the elements, or none.
    pub(super) fn one_of(&self, register: u32, elements: &[Range], inside: bool) -> Asked {
        let Some(len) = elements.first().map(|one| one.first.len()) else {
            return Asked::always(!inside);
        };
        let bytes = self.get(register, len);
        if bytes.len() != len || elements.iter().any(|one| one.first.len() != len) {
            return Asked::Unknown;
        }
        if let Some(destination) = self.address(&bytes)
            && (self.view.v6 || elements.len() > ADDRESSES_MAX)
        {
            return Asked::Addresses(destination, addresses(elements), inside);
        }
        let each: Option<Vec<Vec<All>>> =
            elements.iter().map(|one| self.element(&bytes, one)).collect();
        let Some(each) = each else { return Asked::Unknown };
        let all: Vec<All> = each.into_iter().flatten().collect();
        match inside {
            true => disjoint(all),
            false => outside(&all),
        }
    }

    /// What an element of a map asks.
    pub(super) fn element_of(&self, register: u32, element: &Range) -> Asked {
        self.one_of(register, std::slice::from_ref(element), true)
    }

    /// Whether these are all bytes of an address as they are: of the destination.
    fn address(&self, bytes: &[Byte]) -> Option<bool> {
        if bytes.len() != if self.view.v6 { 16 } else { 4 } {
            return None;
        }
        [false, true].into_iter().find(|destination| {
            bytes.iter().enumerate().all(|(at, byte)| {
                let part = Part::word(*destination, at / 4);
                let shift = 24 - 8 * (at as u32 % 4);
                *byte == Byte::Of { part, shift, mask: 0xff, flip: 0 }
            })
        })
    }

    /// What the bytes have to be to be in a range; nothing where that cannot be told.
    fn element(&self, bytes: &[Byte], range: &Range) -> Option<Vec<All>> {
        if let Some(Byte::Name { sending, at: 0 }) = bytes.first() {
            return self.named(bytes, *sending, range);
        }
        let mut parts: Vec<(Within, u32)> = Vec::new();
        let exact = range.first == range.last;
        let mut matches = true;
        for (at, byte) in bytes.iter().enumerate() {
            let (first, last) = (range.first[at], range.last[at]);
            match *byte {
                Byte::Known(known) => {
                    // Of several bytes only those of one value can be judged one by one.
                    if first != last && bytes.len() > 1 {
                        return None;
                    }
                    matches &= (first..=last).contains(&known);
                }
                Byte::Of { part, shift, mask, flip } => {
                    if first != last && (mask != 0xff || flip != 0) {
                        return None;
                    }
                    let (low, high) = (first ^ flip, last ^ flip);
                    matches &= low & !mask == 0 || mask == 0xff;
                    let (mask, low, high) = (
                        u32::from(mask) << shift,
                        u32::from(low) << shift,
                        u32::from(high) << shift,
                    );
                    match parts.iter_mut().find(|(one, _)| one.part == part && one.mask & mask == 0)
                    {
                        Some((one, lowest)) => {
                            // Byte by byte is number by number from the most significant byte on.
                            if !exact && shift > *lowest {
                                return None;
                            }
                            (one.mask, one.low, one.high) =
                                (one.mask | mask, one.low | low, one.high | high);
                            *lowest = shift;
                        }
                        None => parts.push((Within { part, mask, low, high }, shift)),
                    }
                }
                Byte::Unknown | Byte::Name { .. } => return None,
            }
        }
        if !matches {
            return Some(Vec::new());
        }
        let wide = parts.iter().filter(|(one, _)| one.low != one.high).count();
        let of_address = parts.iter().filter(|(one, _)| (one.part as u8) < 8).count();
        // The words of a long address do not make a range one by one.
        if wide > 0 && self.view.v6 && of_address > 0 {
            return None;
        }
        Some(vec![parts.into_iter().map(|(one, _)| one).filter(|one| one.mask != 0).collect()])
    }

    /// Interfaces of a name, or whose names begin so.
    fn named(&self, bytes: &[Byte], sending: bool, range: &Range) -> Option<Vec<All>> {
        let whole = bytes.iter().enumerate().all(|(at, byte)| *byte == Byte::Name { sending, at });
        if !whole || range.first != range.last {
            return None;
        }
        let part = if sending { Part::Output } else { Part::Input };
        let matches = |place: &&RouterInterface| {
            let mut name = [0_u8; 16];
            name.iter_mut().zip(place.name.bytes().take(15)).for_each(|(to, from)| *to = from);
            name[..bytes.len()] == range.first[..]
        };
        let one = |place: &RouterInterface| {
            vec![Within { part, mask: u32::MAX, low: place.link, high: place.link }]
        };
        Some(self.view.places.iter().filter(matches).map(one).collect())
    }
}

/// The bit of a number of the host's at which its bytes begin.
fn host_shift(at: u32) -> u32 {
    if cfg!(target_endian = "little") { 8 * at } else { 24 - 8 * at }
}

fn header_byte(v6: bool, transport: bool, at: u16) -> Byte {
    let of = |part, shift| Byte::Of { part, shift, mask: 0xff, flip: 0 };
    let address = |destination, at: u16| {
        of(Part::word(destination, usize::from(at / 4)), 24 - 8 * u32::from(at % 4))
    };
    match (transport, v6, at) {
        (true, _, 0 | 1) => of(Part::SourcePort, 8 - 8 * u32::from(at)),
        (true, _, 2 | 3) => of(Part::DestinationPort, 24 - 8 * u32::from(at)),
        // Only of TCP: the lines see to that.
        (true, _, 13) => of(Part::Bits, 8),
        (false, false, 1) => of(Part::Bits, 0),
        (false, false, 9) | (false, true, 6) => of(Part::Protocol, 0),
        (false, false, 12..16) => address(false, at - 12),
        (false, false, 16..20) => address(true, at - 16),
        (false, true, 8..24) => address(false, at - 8),
        (false, true, 24..40) => address(true, at - 24),
        _ => Byte::Unknown,
    }
}

/// Addresses of elements, in ascending order, those that touch together.
fn addresses(elements: &[Range]) -> Addresses {
    let of = |key: &[u8], fill: u8| {
        let mut bytes = [fill; 16];
        bytes[..key.len()].copy_from_slice(key);
        u128::from_be_bytes(bytes)
    };
    let mut all: Addresses =
        elements.iter().map(|one| (of(&one.first, 0), of(&one.last, 0xff))).collect();
    all.retain(|(first, last)| first <= last);
    all.sort_unstable();
    let mut found: Addresses = Vec::with_capacity(all.len());
    for (first, last) in all {
        match found.last_mut() {
            Some((_, end)) if *end == u128::MAX || first <= *end + 1 => *end = last.max(*end),
            _ => found.push((first, last)),
        }
    }
    found
}

/// Alternatives that ask one part under one mask, as ranges in ascending order.
fn single(all: &[All]) -> Option<(Within, Vec<(u32, u32)>)> {
    let first = *all.first()?.first()?;
    let same = |one: &All| one.len() == 1 && one[0].part == first.part && one[0].mask == first.mask;
    if !all.iter().all(same) {
        return None;
    }
    let mut ranges: Vec<(u32, u32)> = all.iter().map(|one| (one[0].low, one[0].high)).collect();
    ranges.retain(|(low, high)| low <= high);
    ranges.sort_unstable();
    let mut found: Vec<(u32, u32)> = Vec::new();
    for (low, high) in ranges {
        match found.last_mut() {
            Some((_, end)) if *end == u32::MAX || low <= *end + 1 => *end = high.max(*end),
            _ => found.push((low, high)),
        }
    }
    Some((first, found))
}

/// Elements of a set are none of each other's but for names, of which several may fit one interface.
fn disjoint(mut all: Vec<All>) -> Asked {
    match single(&all) {
        Some((first, ranges)) if ranges.len() <= SINGLE_MAX => {
            let one = |(low, high)| vec![Within { low, high, ..first }];
            Asked::Any(ranges.into_iter().map(one).collect())
        }
        Some(_) => Asked::Unknown,
        None => {
            all.sort_unstable();
            all.dedup();
            Asked::Any(all)
        }
    }
}

fn outside(all: &[All]) -> Asked {
    if all.is_empty() {
        return Asked::always(true);
    }
    if all.iter().any(Vec::is_empty) {
        return Asked::always(false);
    }
    let Some((first, ranges)) = single(all).filter(|(_, all)| all.len() <= SINGLE_MAX) else {
        return Asked::Unknown;
    };
    let (mut gaps, mut next) = (Vec::new(), Some(0));
    for (low, high) in ranges {
        if let Some(begin) = next.filter(|begin| *begin < low) {
            gaps.push(vec![Within { low: begin, high: low - 1, ..first }]);
        }
        next = high.checked_add(1);
    }
    // Under a mask nothing is larger than it.
    if let Some(begin) = next.filter(|begin| *begin <= first.mask) {
        gaps.push(vec![Within { low: begin, high: first.mask, ..first }]);
    }
    Asked::Any(gaps)
}
