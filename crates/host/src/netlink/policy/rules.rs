//! Routing rules: `struct fib_rule_hdr` (`linux/fib_rules.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::super::abi::{AF_INET, AF_INET6};
use super::super::frame::{Fault, Parsed, attributes, ip_of, string_of, u32_of};
use super::types::{Rule, RuleAction};

const DST: u16 = 1;
const SRC: u16 = 2;
const INPUT: u16 = 3;
const GOTO: u16 = 4;
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const TUNNEL: u16 = 12;
const SUPPRESS_GROUP: u16 = 13;
const SUPPRESS_LENGTH: u16 = 14;
const TABLE: u16 = 15;
const MASK: u16 = 16;
const OUTPUT: u16 = 17;
const VRF: u16 = 19;
const USERS: u16 = 20;
/// Transport protocol and ports, DSCP, flow label, and masks of the last four.
const SELECTORS: std::ops::RangeInclusive<u16> = 22..=30;
/// Nothing, realms that only accounting asks for, padding, and who made the rule.
const TELLING_NOTHING: [u16; 7] = [5, 7, 8, 9, 11, 18, 21];

const INVERT: u32 = 2;
/// Permanent, unresolved, input or output detached, source address to be found.
const FLAGS_TELLING_NOTHING: u32 = 1 | 4 | 8 | 0x10 | 0x10000;
const NONE: u32 = u32::MAX;

/// None for rules of other families, such as multicast routing's.
pub(super) fn rule(body: &[u8]) -> Parsed<Option<Rule>> {
    let (fixed, rest) = body.split_first_chunk::<12>().ok_or(Fault("rule header"))?;
    let v6 = match fixed[0] {
        AF_INET => false,
        AF_INET6 => true,
        _ => return Ok(None),
    };
    let mut rule = Rule {
        v6,
        priority: 0,
        from: None,
        to: None,
        input: None,
        output: None,
        action: RuleAction::Nop,
        inverted: false,
        mark: None,
        by_user: false,
        vrf: false,
        further: fixed[3] != 0,
        suppresses: false,
        strange: false,
    };
    let flags = u32_of(&fixed[8..12])?;
    rule.inverted = flags & INVERT != 0;
    rule.strange = flags & !(INVERT | FLAGS_TELLING_NOTHING) != 0;
    let (mut table, mut target) = (u32::from(fixed[4]), 0);
    let (mut mark, mut mask) = (None, None);
    let (mut from, mut to) = (None, None);
    attributes(rest, |kind, value| {
        match kind {
            SRC => from = Some(ip_of(value)?),
            DST => to = Some(ip_of(value)?),
            INPUT => rule.input = Some(string_of(value)),
            OUTPUT => rule.output = Some(string_of(value)),
            PRIORITY => rule.priority = u32_of(value)?,
            GOTO => target = u32_of(value)?,
            TABLE => table = u32_of(value)?,
            MARK => mark = Some(u32_of(value)?),
            MASK => mask = Some(u32_of(value)?),
            USERS => rule.by_user = true,
            VRF => rule.vrf = value.first().is_some_and(|on| *on != 0),
            SUPPRESS_GROUP | SUPPRESS_LENGTH => rule.suppresses |= u32_of(value)? != NONE,
            TUNNEL => rule.further = true,
            kind if SELECTORS.contains(&kind) => rule.further = true,
            kind => rule.strange |= !TELLING_NOTHING.contains(&kind),
        }
        Ok(())
    })?;
    rule.from = prefix(v6, from, fixed[2])?;
    rule.to = prefix(v6, to, fixed[1])?;
    if mark.is_some() || mask.is_some() {
        rule.mark = Some((mark.unwrap_or(0), mask.unwrap_or(u32::MAX)));
    }
    rule.action = match fixed[7] {
        1 => RuleAction::Lookup(table),
        2 => RuleAction::Goto(target),
        3 => RuleAction::Nop,
        6..=8 => RuleAction::Discard,
        other => RuleAction::Other(other),
    };
    Ok(Some(rule))
}

fn prefix(v6: bool, address: Option<IpAddr>, length: u8) -> Parsed<Option<IpNet>> {
    if length == 0 {
        return Ok(None);
    }
    let unspecified = match v6 {
        true => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let net = IpNet::new(address.unwrap_or(unspecified), length);
    net.map(|net| Some(net.trunc())).map_err(|_| Fault("rule prefix length"))
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::Builder;
    use super::*;

    #[test]
    fn a_rule_has_its_selectors() {
        let mut builder = Builder::default();
        let fixed = [AF_INET, 0, 24, 0, 0, 0, 0, 6, 0, 0, 0, 0];
        builder
            .begin(32, 0, 0, &fixed)
            .attribute(SRC, &[10, 9, 8, 0])
            .u32(PRIORITY, 99)
            .string(INPUT, "eth1")
            .u32(SUPPRESS_LENGTH, NONE)
            .end();
        let rule = rule(&builder.bytes[16..]).unwrap().expect("a rule");
        assert_eq!(rule.from, Some("10.9.8.0/24".parse().unwrap()));
        assert_eq!((rule.priority, rule.action, rule.to), (99, RuleAction::Discard, None));
        assert_eq!(
            (rule.input.as_deref(), rule.suppresses, rule.further),
            (Some("eth1"), false, false)
        );
    }

    #[test]
    fn what_is_not_known_may_concern_anything() {
        let read = |flags: u8, kind: u16| {
            let mut builder = Builder::default();
            let fixed = [AF_INET, 0, 0, 0, 254, 0, 0, 1, flags, 0, 0, 0];
            builder.begin(32, 0, 0, &fixed).attribute(kind, &[2]).end();
            let rule = rule(&builder.bytes[16..]).unwrap().expect("a rule");
            (rule.strange, rule.further)
        };
        assert_eq!(read(1, 21), (false, false), "who made it");
        assert_eq!(read(1, 25), (false, true), "DSCP");
        assert_eq!(read(1, 31), (true, false));
        assert_eq!(read(0x20, 21), (true, false));
    }

    #[test]
    fn a_prefix_must_fit_its_address() {
        let mut builder = Builder::default();
        builder.begin(32, 0, 0, &[AF_INET, 33, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]).end();
        assert!(rule(&builder.bytes[16..]).is_err());
    }
}
