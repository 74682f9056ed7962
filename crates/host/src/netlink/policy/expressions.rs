//! Rules of nftables and elements of sets: `linux/netfilter/nf_tables.h`. Tells what a rule is made of, not what becomes of
//! a packet.

use super::super::frame::{Fault, Parsed, attributes, string_of};
use super::netfilter::number;
use super::types::{Decision, Element, Expression, Loaded, Place};

const SUBSYSTEM: u16 = 10 << 8;
pub(super) const GET_RULE: u16 = SUBSYSTEM | 7;
pub(super) const GET_SET: u16 = SUBSYSTEM | 10;
pub(super) const GET_ELEMENTS: u16 = SUBSYSTEM | 13;

/// Of rules: table, chain, expressions. Of sets: table, name, flags, length of keys. Of lists: an element.
const TABLE: u16 = 1;
const NAME: u16 = 2;
const EXPRESSIONS: u16 = 4;
const SET_FLAGS: u16 = 3;
const SET_KEY_LEN: u16 = 5;
const ELEMENTS: u16 = 3;
/// Anonymous and constant, perhaps a map: nobody can change it, and keys are compared as they are.
const FIXED: u32 = 1 | 2;
const MAP: u32 = 8;
/// Longest keys of sets that are read.
const KEY_MAX: u32 = 4;

const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
/// Keys of `ct`: the state, the mark.
const CT_STATE: u32 = 0;
const CT_MARK: u32 = 3;
const VALUE: u16 = 1;
const VERDICT: u16 = 2;

/// The registers of 16 bytes have the numbers from 1, those of 4 bytes from 8; 0 is the verdict.
fn register(number: u32) -> u32 {
    match number {
        1..=4 => (number - 1) * 4,
        8..=23 => number - 8,
        _ => u32::MAX,
    }
}

/// A rule: which chain it is in, and what it is made of.
pub(super) fn rule(body: &[u8]) -> Parsed<(Place, Vec<Expression>)> {
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(Fault("rule header"))?;
    let (mut table, mut chain, mut found) = (String::new(), String::new(), Vec::new());
    attributes(rest, |kind, value| {
        match kind {
            TABLE => table = string_of(value),
            NAME => chain = string_of(value),
            EXPRESSIONS => attributes(value, |_, one| {
                found.push(expression(one)?);
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(((fixed[0], table, chain), found))
}

/// Attributes of an expression by number.
struct Parts<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Parts<'a> {
    fn of(value: &'a [u8]) -> Parsed<Parts<'a>> {
        let mut parts = Vec::new();
        attributes(value, |kind, value| {
            parts.push((kind, value));
            Ok(())
        })?;
        Ok(Parts(parts))
    }
    fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.iter().find(|(known, _)| *known == kind).map(|(_, value)| *value)
    }
    fn number(&self, kind: u16) -> Parsed<Option<u32>> {
        self.get(kind).map(number).transpose()
    }
    fn register(&self, kind: u16) -> Parsed<u32> {
        Ok(register(self.number(kind)?.unwrap_or(u32::MAX)))
    }
    /// The value inside an attribute.
    fn data(&self, kind: u16) -> Parsed<Vec<u8>> {
        let inside = Parts::of(self.get(kind).unwrap_or_default())?;
        Ok(inside.get(VALUE).unwrap_or_default().to_vec())
    }
}

fn expression(value: &[u8]) -> Parsed<Expression> {
    let whole = Parts::of(value)?;
    let name = string_of(whole.get(EXPRESSION_NAME).unwrap_or_default());
    let parts = Parts::of(whole.get(EXPRESSION_DATA).unwrap_or_default())?;
    let does = || Expression::Does(name.clone());
    Ok(match &name[..] {
        "ct" => match (parts.number(1)?, parts.number(2)?) {
            (Some(to), Some(CT_STATE)) => Expression::Load(register(to), Loaded::State),
            (Some(to), Some(_)) => Expression::Load(register(to), Loaded::Elsewhere),
            (None, Some(CT_MARK)) => Expression::Does("ct mark".into()),
            _ => does(),
        },
        "meta" => match (parts.number(1)?, parts.number(2)?) {
            (Some(to), Some(key)) => Expression::Load(register(to), meta(key)),
            _ => does(),
        },
        "payload" if parts.get(1).is_some() && parts.get(5).is_none() => {
            let numbers = (parts.number(2)?, parts.number(3)?, parts.number(4)?);
            Expression::Load(parts.register(1)?, header(numbers))
        }
        "exthdr" if parts.get(1).is_some() && parts.get(7).is_none() => {
            Expression::Load(parts.register(1)?, Loaded::Packet)
        }
        "fib" | "rt" | "xfrm" | "osf" | "tunnel" if parts.get(1).is_some() => {
            Expression::Load(parts.register(1)?, Loaded::Elsewhere)
        }
        "socket" if parts.get(2).is_some() => {
            Expression::Load(parts.register(2)?, Loaded::Elsewhere)
        }
        "hash" | "byteorder" if parts.get(2).is_some() => {
            Expression::Load(parts.register(2)?, Loaded::Packet)
        }
        "immediate" => {
            let inside = Parts::of(parts.get(2).unwrap_or_default())?;
            match inside.get(VERDICT) {
                Some(verdict) => Expression::Decide(decision(verdict)?),
                None => Expression::Value(parts.register(1)?, parts.data(2)?),
            }
        }
        "bitwise" if parts.number(6)?.unwrap_or(0) == 0 => {
            Expression::Mask(parts.register(1)?, parts.register(2)?, parts.data(4)?, parts.data(5)?)
        }
        "bitwise" => Expression::Load(parts.register(2)?, Loaded::Packet),
        "cmp" => match parts.number(2)? {
            Some(operator @ (0 | 1)) => {
                Expression::Equal(parts.register(1)?, parts.data(3)?, operator == 0)
            }
            Some(operator @ 2..=5) => compared(operator, parts.register(1)?, parts.data(3)?),
            _ => Expression::Sometimes,
        },
        "range" => match parts.number(2)? {
            Some(operator @ (0 | 1)) => Expression::Between(
                parts.register(1)?,
                parts.data(3)?,
                parts.data(4)?,
                operator == 0,
            ),
            _ => Expression::Sometimes,
        },
        "lookup" => {
            let set = string_of(parts.get(1).unwrap_or_default());
            match parts.number(3)? {
                None => {
                    let inverted = parts.number(5)?.unwrap_or(0) & 1 != 0;
                    Expression::In(parts.register(2)?, set, inverted)
                }
                Some(0) => Expression::Map(parts.register(2)?, set),
                Some(to) => Expression::MapInto(parts.register(2)?, register(to)),
            }
        }
        _ => does(),
    })
}

/// Bytes of the network header, or of the one above; of the link's anything.
fn header((base, at, len): (Option<u32>, Option<u32>, Option<u32>)) -> Loaded {
    let number = |value: Option<u32>| value.and_then(|value| u16::try_from(value).ok());
    match (base, number(at), number(len)) {
        (Some(base @ (1 | 2)), Some(at), Some(len)) => {
            Loaded::Header { transport: base == 2, at, len }
        }
        _ => Loaded::Packet,
    }
}

/// Less, not more, more, not less than a value.
fn compared(operator: u32, register: u32, value: Vec<u8>) -> Expression {
    let (least, most) = (vec![0; value.len()], vec![0xff; value.len()]);
    match operator {
        2 => Expression::Between(register, value, most, false),
        3 => Expression::Between(register, least, value, true),
        4 => Expression::Between(register, least, value, false),
        _ => Expression::Between(register, value, most, true),
    }
}

/// What a key of `meta` tells of: length, protocol, interfaces by index, name, type, group, family, and the rest.
fn meta(key: u32) -> Loaded {
    match key {
        15 => Loaded::Family,
        16 => Loaded::Transport,
        1 => Loaded::Protocol,
        4..=7 => Loaded::Interface { sending: key % 2 == 1, named: key >= 6 },
        0 | 8 | 9 | 19 | 23 | 24 => Loaded::Packet,
        _ => Loaded::Elsewhere,
    }
}

pub(super) fn decision(value: &[u8]) -> Parsed<Decision> {
    let parts = Parts::of(value)?;
    let chain = || string_of(parts.get(2).unwrap_or_default());
    Ok(match parts.number(1)?.unwrap_or(0).cast_signed() {
        1 => Decision::Accept,
        -1 | -2 => Decision::Continue,
        -3 => Decision::Jump(chain()),
        -4 => Decision::Goto(chain()),
        -5 => Decision::Return,
        _ => Decision::Other,
    })
}

/// A set that nobody can change and whose keys are short.
pub(super) fn fixed_set(body: &[u8]) -> Parsed<Option<Place>> {
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(Fault("set header"))?;
    let parts = Parts::of(rest)?;
    let flags = parts.number(SET_FLAGS)?.unwrap_or(0);
    let short = parts.number(SET_KEY_LEN)?.is_some_and(|len| len <= KEY_MAX);
    let (table, name) = (parts.get(TABLE), parts.get(NAME));
    let place =
        || (fixed[0], string_of(table.unwrap_or_default()), string_of(name.unwrap_or_default()));
    Ok((flags & FIXED == FIXED && flags & !(FIXED | MAP) == 0 && short).then(place))
}

/// Elements of a set, and what a map of decisions has for them.
pub(super) fn elements(body: &[u8]) -> Parsed<Vec<Element>> {
    let rest = body.get(4..).ok_or(Fault("set header"))?;
    let list = Parts::of(rest)?.get(ELEMENTS).unwrap_or_default();
    let mut found = Vec::new();
    attributes(list, |_, element| {
        let parts = Parts::of(element)?;
        let data = Parts::of(parts.get(2).unwrap_or_default())?;
        let decision = data.get(VERDICT).map(decision).transpose()?;
        found.push((parts.data(1)?, decision));
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::Builder;
    use super::*;

    fn made(builder: &mut Builder, name: &str, fill: impl FnOnce(&mut Builder)) {
        builder.nested(1, |b| {
            b.string(EXPRESSION_NAME, name);
            b.nested(EXPRESSION_DATA, fill);
        });
    }

    #[test]
    fn a_rule_that_accepts_what_is_established_is_read() {
        let mut builder = Builder::default();
        let be = u32::to_be_bytes;
        builder
            .begin(GET_RULE, 0, 0, &[1, 0, 0, 0])
            .string(TABLE, "filter")
            .string(NAME, "forward")
            .nested(EXPRESSIONS, |b| {
                made(b, "ct", |b| {
                    b.attribute(2, &be(0)).attribute(1, &be(1));
                });
                made(b, "bitwise", |b| {
                    b.attribute(1, &be(1)).attribute(2, &be(1)).attribute(3, &be(4));
                    b.nested(4, |b| _ = b.attribute(VALUE, &[6, 0, 0, 0]));
                    b.nested(5, |b| _ = b.attribute(VALUE, &[0; 4]));
                });
                made(b, "cmp", |b| {
                    b.attribute(1, &be(1)).attribute(2, &be(1));
                    b.nested(3, |b| _ = b.attribute(VALUE, &[0; 4]));
                });
                made(b, "counter", |_| ());
                made(b, "immediate", |b| {
                    b.attribute(1, &be(0));
                    b.nested(2, |b| {
                        b.nested(VERDICT, |b| _ = b.attribute(1, &be(1)));
                    });
                });
            })
            .end();
        let (place, rule) = rule(&builder.bytes[16..]).unwrap();
        assert_eq!(place, (1, "filter".to_owned(), "forward".to_owned()));
        let wanted = [
            Expression::Load(0, Loaded::State),
            Expression::Mask(0, 0, vec![6, 0, 0, 0], vec![0; 4]),
            Expression::Equal(0, vec![0; 4], false),
            Expression::Does("counter".into()),
            Expression::Decide(Decision::Accept),
        ];
        assert_eq!(rule, wanted);
    }

    /// What `nft --debug=netlink add rule ... ct mark set 0x456262`, and `ct zone set`, give to the kernel.
    #[test]
    fn marks_of_connections_are_told_from_what_else_is_set() {
        let be = u32::to_be_bytes;
        let sets = |key: u32| {
            let mut builder = Builder::default();
            builder.begin(GET_RULE, 0, 0, &[1, 0, 0, 0]);
            builder.nested(EXPRESSIONS, |b| {
                made(b, "immediate", |b| {
                    b.attribute(1, &be(1));
                    b.nested(2, |b| _ = b.attribute(VALUE, &0x456262_u32.to_ne_bytes()));
                });
                made(b, "ct", |b| _ = b.attribute(2, &be(key)).attribute(4, &be(1)));
            });
            builder.end();
            rule(&builder.bytes[16..]).unwrap().1
        };
        let value = Expression::Value(0, 0x456262_u32.to_ne_bytes().into());
        assert_eq!(sets(3), [value.clone(), Expression::Does("ct mark".into())]);
        assert_eq!(sets(1), [value, Expression::Does("ct".into())]);
    }

    #[test]
    fn what_is_not_known_does_something() {
        let mut builder = Builder::default();
        builder.begin(GET_RULE, 0, 0, &[1, 0, 0, 0]);
        builder.nested(EXPRESSIONS, |b| made(b, "new thing", |_| ())).end();
        let (_, rule) = rule(&builder.bytes[16..]).unwrap();
        assert_eq!(rule, [Expression::Does("new thing".into())]);
    }
}
