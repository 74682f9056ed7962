//! Sets of nftables that may change: which of them say so when they do, and what is in them, as ranges of keys.

use std::collections::BTreeSet;

use super::super::frame::{Fault, Parsed, attributes, string_of};
use super::expressions::decision;
use super::netfilter::number;
use super::types::{Decision, Expression, Place, Range, Ruleset};

/// Of sets: table, name, flags, length of keys. Of elements: table, set.
const TABLE: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 3;
const KEY_LEN: u16 = 5;
/// Longest keys that are read.
const KEY_MAX: u32 = 64;
/// Anonymous, constant, of intervals, a map, of concatenations. Not those with timeouts, of data, filled by packets or with
/// expressions for each element: packets change them.
const READABLE: u32 = 1 | 2 | 4 | 8 | 0x80;
const CONSTANT: u32 = 2;
const INTERVALS: u32 = 4;
const CONCATENATED: u32 = 0x80;

/// Of a list: elements. Of an element: key, data, flags, key of the end; what tells nothing of its meaning: padding, comments.
const ELEMENTS: u16 = 3;
const KEY: u16 = 1;
const DATA: u16 = 2;
const ELEMENT_FLAGS: u16 = 3;
const TELLING_NOTHING: [u16; 2] = [6, 8];
const KEY_END: u16 = 10;
const VALUE: u16 = 1;
const VERDICT: u16 = 2;
const ENDS: u32 = 1;

/// A set that can be read.
pub(super) struct Set {
    pub(super) place: Place,
    flags: u32,
    key_len: usize,
}

impl Set {
    /// Whether nobody can change it.
    pub(super) fn is_constant(&self) -> bool {
        self.flags & CONSTANT != 0
    }
}

/// Sets that rules ask, other than for packets of this host.
pub(super) fn asked<'a>(rules: &'a Ruleset, chains: &BTreeSet<&'a Place>) -> BTreeSet<Place> {
    let mut found = BTreeSet::new();
    for place in chains {
        for one in rules.chains.get(*place).into_iter().flatten().flatten() {
            if let Expression::In(_, set, _) | Expression::Map(_, set) = one {
                found.insert((place.0, place.1.clone(), set.clone()));
            }
        }
    }
    found
}

/// Nothing of sets that packets may change.
pub(super) fn set(body: &[u8]) -> Parsed<Option<Set>> {
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(Fault("set header"))?;
    let (mut table, mut name, mut flags, mut key_len) = (String::new(), String::new(), 0, None);
    attributes(rest, |kind, value| {
        match kind {
            TABLE => table = string_of(value),
            NAME => name = string_of(value),
            FLAGS => flags = number(value)?,
            KEY_LEN => key_len = Some(number(value)?),
            _ => {}
        }
        Ok(())
    })?;
    let key_len = key_len.filter(|len| *len <= KEY_MAX && flags & !READABLE == 0);
    Ok(key_len.map(|len| Set { place: (fixed[0], table, name), flags, key_len: len as usize }))
}

/// Which set's elements an announcement is about.
pub(super) fn set_of(body: &[u8]) -> Parsed<Place> {
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(Fault("set header"))?;
    let (mut table, mut name) = (String::new(), String::new());
    attributes(rest, |kind, value| {
        match kind {
            TABLE => table = string_of(value),
            NAME => name = string_of(value),
            _ => {}
        }
        Ok(())
    })?;
    Ok((fixed[0], table, name))
}

/// An element as the kernel lists it.
struct Listed {
    key: Vec<u8>,
    end: Option<Vec<u8>>,
    flags: u32,
    decision: Option<Decision>,
}

/// Elements of a set; nothing where one of them is more than a key and a decision.
pub(super) fn ranges(set: &Set, bodies: &[&[u8]]) -> Parsed<Option<Vec<Range>>> {
    let (mut listed, mut plain) = (Vec::new(), true);
    for body in bodies {
        let rest = body.get(4..).ok_or(Fault("set header"))?;
        attributes(rest, |kind, list| match kind {
            ELEMENTS => attributes(list, |_, one| {
                let found = element(one)?;
                plain &= found.as_ref().is_some_and(|one| one.key.len() == set.key_len);
                listed.extend(found);
                Ok(())
            }),
            _ => Ok(()),
        })?;
    }
    if !plain {
        return Ok(None);
    }
    let single = set.flags & INTERVALS == 0 || set.flags & CONCATENATED != 0;
    if single || listed.iter().any(|one| one.end.is_some()) {
        let range = |one: Listed| {
            let last = one.end.unwrap_or_else(|| one.key.clone());
            Range { first: one.key, last, decision: one.decision }
        };
        plain = listed.iter().all(|one| one.flags == 0);
        return Ok(plain.then(|| listed.into_iter().map(range).collect()));
    }
    Ok(between(listed, set.key_len))
}

/// Ranges from beginnings and from ends, which are no part of them.
fn between(mut listed: Vec<Listed>, key_len: usize) -> Option<Vec<Range>> {
    // An end before a beginning at the same key.
    listed.sort_by(|a, b| a.key.cmp(&b.key).then((b.flags & ENDS).cmp(&(a.flags & ENDS))));
    let mut found: Vec<Range> = Vec::new();
    let mut open: Option<Listed> = None;
    for one in listed {
        if one.flags & !ENDS != 0 {
            return None;
        }
        if let Some(Listed { key, decision, .. }) = open.take() {
            let last = before(&one.key)?;
            found.push(Range { first: key, last, decision });
        }
        if one.flags & ENDS == 0 {
            open = Some(one);
        }
    }
    if let Some(Listed { key, decision, .. }) = open {
        found.push(Range { first: key, last: vec![0xff; key_len], decision });
    }
    Some(found)
}

/// The key before; nothing before the first one.
fn before(key: &[u8]) -> Option<Vec<u8>> {
    let mut key = key.to_vec();
    for byte in key.iter_mut().rev() {
        let borrows = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrows {
            return Some(key);
        }
    }
    None
}

fn element(value: &[u8]) -> Parsed<Option<Listed>> {
    let mut one = Listed { key: Vec::new(), end: None, flags: 0, decision: None };
    let mut plain = true;
    attributes(value, |kind, value| {
        match kind {
            KEY => one.key = data(value)?,
            KEY_END => one.end = Some(data(value)?),
            ELEMENT_FLAGS => one.flags = number(value)?,
            DATA => attributes(value, |kind, value| {
                match kind {
                    VERDICT => one.decision = Some(decision(value)?),
                    _ => plain = false,
                }
                Ok(())
            })?,
            other => plain &= TELLING_NOTHING.contains(&other),
        }
        Ok(())
    })?;
    Ok(plain.then_some(one))
}

fn data(value: &[u8]) -> Parsed<Vec<u8>> {
    let mut found = Vec::new();
    attributes(value, |kind, value| {
        if kind == VALUE {
            found = value.to_vec();
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(key: u8, flags: u32) -> Listed {
        Listed { key: vec![10, key], end: None, flags, decision: None }
    }

    #[test]
    fn ranges_end_where_the_next_begins_or_where_it_is_said() {
        let all = [listed(9, ENDS), listed(3, 0), listed(7, 0), listed(20, 0), listed(0, ENDS)];
        let found = between(all.into(), 2).unwrap();
        let pairs: Vec<(u8, [u8; 2])> =
            found.iter().map(|one| (one.first[1], [one.last[0], one.last[1]])).collect();
        assert_eq!(pairs, [(3, [10, 6]), (7, [10, 8]), (20, [255, 255])]);
    }

    #[test]
    fn what_is_more_than_a_key_is_not_read() {
        assert!(between(vec![listed(1, 2)], 2).is_none());
        assert_eq!(before(&[1, 0, 0]), Some(vec![0, 255, 255]));
        assert_eq!(before(&[0, 0]), None);
    }
}
