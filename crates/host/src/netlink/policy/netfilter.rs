//! Chains of nftables: `linux/netfilter/nf_tables.h`.

use std::collections::BTreeSet;

use super::super::frame::{Fault, Parsed, attributes, string_of};
use super::types::{Chain, Family, Hook};

const SUBSYSTEM: u16 = 10 << 8;
pub(super) const GET_TABLE: u16 = SUBSYSTEM | 1;
pub(super) const GET_CHAIN: u16 = SUBSYSTEM | 4;
/// New and deleted tables, chains and rules: what changes the meaning of a ruleset. Elements of
/// sets come and go much more often and are no matter here.
const TELLING: [u16; 6] = [0, 2, 3, 5, 6, 8];

const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const DORMANT: u32 = 1;

const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_USE: u16 = 6;
const HOOK_NUMBER: u16 = 1;
const HOOK_DEVICE: u16 = 3;
const HOOK_DEVICES: u16 = 4;
const ACCEPT: u32 = 1;

const INET: u8 = 1;
const IPV4: u8 = 2;
const NETDEV: u8 = 5;
const IPV6: u8 = 10;

/// Whether a notification may change what happens to forwarded packets.
pub(super) fn tells(kind: u16) -> bool {
    kind & 0xff00 == SUBSYSTEM && TELLING.contains(&(kind & 0xff))
}

fn number(value: &[u8]) -> Parsed<u32> {
    value.first_chunk().map(|b| u32::from_be_bytes(*b)).ok_or(Fault("32-bit attribute"))
}

/// A table that does nothing at present, by family and name.
pub(super) fn dormant(body: &[u8]) -> Parsed<Option<(u8, String)>> {
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(Fault("table header"))?;
    let (mut name, mut flags) = (String::new(), 0);
    attributes(rest, |kind, value| {
        match kind {
            TABLE_NAME => name = string_of(value),
            TABLE_FLAGS => flags = number(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((flags & DORMANT != 0).then_some((fixed[0], name)))
}

/// None for chains that are not hooked in, or only where packets are that Ebb never has.
pub(super) fn chain(body: &[u8], dormant: &BTreeSet<(u8, String)>) -> Parsed<Option<Chain>> {
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(Fault("chain header"))?;
    let (mut table, mut name, mut hook) = (String::new(), String::new(), None);
    let (mut policy, mut rules, mut devices) = (ACCEPT, 0, Vec::new());
    attributes(rest, |kind, value| {
        match kind {
            CHAIN_TABLE => table = string_of(value),
            CHAIN_NAME => name = string_of(value),
            CHAIN_POLICY => policy = number(value)?,
            CHAIN_USE => rules = number(value)?,
            CHAIN_HOOK => hook = hook_of(value, &mut devices)?,
            _ => {}
        }
        Ok(())
    })?;
    let (family, word) = match fixed[0] {
        IPV4 => (Family::V4, "ip"),
        IPV6 => (Family::V6, "ip6"),
        INET => (Family::Both, "inet"),
        NETDEV => (Family::Both, "netdev"),
        _ => return Ok(None),
    };
    let Some(hook) = hook.and_then(|number| hook_named(fixed[0], number)) else { return Ok(None) };
    let name = format!("{word} {table} {name}");
    if dormant.contains(&(fixed[0], table)) {
        return Ok(None);
    }
    Ok(Some(Chain { name, family, hook, devices, drops: policy != ACCEPT, rules }))
}

fn hook_of(value: &[u8], devices: &mut Vec<String>) -> Parsed<Option<u32>> {
    let mut hook = None;
    attributes(value, |kind, value| {
        match kind {
            HOOK_NUMBER => hook = Some(number(value)?),
            HOOK_DEVICE => devices.push(string_of(value)),
            HOOK_DEVICES => attributes(value, |_, name| {
                devices.push(string_of(name));
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    devices.dedup();
    Ok(hook)
}

fn hook_named(family: u8, hook: u32) -> Option<Hook> {
    Some(match (family, hook) {
        (NETDEV, 0) | (INET, 5) => Hook::Ingress,
        (NETDEV, _) => Hook::Egress,
        (_, 0) => Hook::Prerouting,
        (_, 1) => Hook::Input,
        (_, 2) => Hook::Forward,
        (_, 3) => Hook::Output,
        (_, 4) => Hook::Postrouting,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::Builder;
    use super::*;

    fn recorded(family: u8, hook: u32, fill: impl FnOnce(&mut Builder)) -> Vec<u8> {
        let mut builder = Builder::default();
        builder
            .begin(GET_CHAIN, 0, 0, &[family, 0, 0, 0])
            .string(CHAIN_TABLE, "filter")
            .string(CHAIN_NAME, "through")
            .attribute(CHAIN_USE, &7_u32.to_be_bytes())
            .nested(CHAIN_HOOK, |b| {
                b.attribute(HOOK_NUMBER, &hook.to_be_bytes());
                fill(b);
            })
            .attribute(CHAIN_POLICY, &0_u32.to_be_bytes())
            .end();
        builder.bytes[16..].to_vec()
    }

    #[test]
    fn a_base_chain_says_where_it_sits_and_what_it_does() {
        let found = chain(&recorded(INET, 2, |_| ()), &BTreeSet::new()).unwrap().unwrap();
        assert_eq!(found.name, "inet filter through");
        assert_eq!(
            (found.hook, found.family, found.drops, found.rules),
            (Hook::Forward, Family::Both, true, 7)
        );
    }

    #[test]
    fn an_ingress_chain_names_its_interfaces() {
        let body = recorded(NETDEV, 0, |b| {
            b.nested(HOOK_DEVICES, |b| {
                b.string(1, "eth1").string(1, "eth2");
            });
        });
        let found = chain(&body, &BTreeSet::new()).unwrap().unwrap();
        assert_eq!(
            (found.hook, found.devices),
            (Hook::Ingress, vec!["eth1".into(), "eth2".into()])
        );
    }

    #[test]
    fn a_sleeping_table_has_no_chains() {
        let asleep = BTreeSet::from([(IPV4, "filter".to_owned())]);
        assert_eq!(chain(&recorded(IPV4, 2, |_| ()), &asleep).unwrap(), None);
        assert!(tells(SUBSYSTEM | 6) && !tells(SUBSYSTEM | 12) && !tells(6));
    }
}
