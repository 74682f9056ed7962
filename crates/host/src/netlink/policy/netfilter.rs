//! Chains of nftables, and the generations of its rule sets: `linux/netfilter/nf_tables.h`.

use super::super::frame::{Fault, Parsed, attributes, string_of};
use super::types::{Chain, DeviceName, Family, Hook};

const SUBSYSTEM: u16 = 10 << 8;
pub(super) const GET_CHAIN: u16 = SUBSYSTEM | 4;
pub(super) const NEW_GENERATION: u16 = SUBSYSTEM | 15;
pub(super) const GET_GENERATION: u16 = SUBSYSTEM | 16;
/// New and deleted tables, chains and rules: what changes the meaning of a ruleset.
const TELLING: [u16; 6] = [0, 2, 3, 5, 6, 8];

/// New and deleted elements of sets, which come and go much more often: they tell where rules ask the set.
const OF_ELEMENTS: [u16; 2] = [12, 14];

const GENERATION: u16 = 1;

/// A change of nothing, as the first and the last message of a batch (`NFNL_MSG_BATCH_BEGIN`, `_END`; in the header, whose
/// messages are between them): the kernel makes changes one after the other.
pub(super) const NO_CHANGE: [(u16, &[u8]); 2] = [(16, &[0, 0, 0, 10]), (17, &[0, 0, 0, 10])];

const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
/// Handle, uses, counters, padding, flags, identifier, comments: they decide on no packet. (The kernel counts uses while a
/// change is still being made.)
const CHAIN_TELLING_NOTHING: [u16; 7] = [2, 6, 8, 9, 10, 11, 12];
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const HOOK_DEVICE: u16 = 3;
const HOOK_DEVICES: u16 = 4;
const DEVICE_NAME: u16 = 1;
/// `NFTA_DEVICE_PREFIX`, Linux 6.18.
const DEVICE_PREFIX: u16 = 2;
const ACCEPT: u32 = 1;

const INET: u8 = 1;
const IPV4: u8 = 2;
const ARP: u8 = 3;
const NETDEV: u8 = 5;
const BRIDGE: u8 = 7;
const IPV6: u8 = 10;
const DECNET: u8 = 12;

/// Whether a notification may change what happens to forwarded packets.
pub(super) fn tells(kind: u16) -> bool {
    kind & 0xff00 == SUBSYSTEM && TELLING.contains(&(kind & 0xff))
}

/// Whether a notification says that elements of a set have come or gone.
pub(super) fn tells_of_elements(kind: u16) -> bool {
    kind & 0xff00 == SUBSYSTEM && OF_ELEMENTS.contains(&(kind & 0xff))
}

pub(super) fn number(value: &[u8]) -> Parsed<u32> {
    value.first_chunk().map(|b| u32::from_be_bytes(*b)).ok_or(Fault("32-bit attribute"))
}

/// The generation of the rule set that a message tells of: the kernel counts them before it goes over to the next, and
/// announces them when everything else of the change is announced.
pub(super) fn generation(kind: u16, body: &[u8]) -> Parsed<Option<u32>> {
    let (_, rest) = body.split_first_chunk::<4>().ok_or(Fault("generation header"))?;
    let mut found = None;
    if kind == NEW_GENERATION {
        attributes(rest, |kind, value| {
            if kind == GENERATION {
                found = Some(number(value)?);
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// None for chains that are not hooked in, or only where packets are that Ebb never has. Those of a table that is dormant
/// count as well: the kernel lists a table as dormant before it is, and even if it never will be.
pub(super) fn chain(body: &[u8]) -> Parsed<Option<Chain>> {
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(Fault("chain header"))?;
    let (mut table, mut name, mut hook) = (String::new(), String::new(), None);
    let (mut policy, mut strange) = (ACCEPT, false);
    let mut first_only = false;
    attributes(rest, |kind, value| {
        match kind {
            CHAIN_TABLE => table = string_of(value),
            CHAIN_NAME => name = string_of(value),
            CHAIN_POLICY => policy = number(value)?,
            CHAIN_TYPE => first_only = string_of(value) == "nat",
            CHAIN_HOOK => hook = Some(HookPoint::of(value)?),
            other => strange |= !CHAIN_TELLING_NOTHING.contains(&other),
        }
        Ok(())
    })?;
    let (family, word) = match fixed[0] {
        IPV4 => (Family::V4, "ip"),
        IPV6 => (Family::V6, "ip6"),
        INET => (Family::Both, "inet"),
        NETDEV => (Family::Both, "netdev"),
        ARP | BRIDGE | DECNET => return Ok(None),
        _ => (Family::Both, "of an unknown family"),
    };
    let Some(place) = hook else { return Ok(None) };
    let shown = format!("{word} {table} {name}");
    let (priority, inside) = (place.priority, Some((fixed[0], table, name)));
    let hook = place.number.map_or(Hook::Other(u32::MAX), |number| hook_named(fixed[0], number));
    let (devices, strange) = (place.devices, strange || place.strange);
    Ok(Some(Chain {
        name: shown,
        family,
        hook,
        devices,
        drops: policy != ACCEPT,
        rules: 0,
        first_only,
        priority,
        place: inside,
        strange,
    }))
}

/// Where a chain is hooked in.
#[derive(Default)]
struct HookPoint {
    number: Option<u32>,
    priority: i32,
    devices: Vec<DeviceName>,
    strange: bool,
}

impl HookPoint {
    fn of(value: &[u8]) -> Parsed<HookPoint> {
        let mut place = HookPoint::default();
        attributes(value, |kind, value| {
            match kind {
                HOOK_NUMBER => place.number = Some(number(value)?),
                HOOK_PRIORITY => place.priority = number(value)?.cast_signed(),
                HOOK_DEVICE => place.devices.push(device(value)),
                HOOK_DEVICES => attributes(value, |kind, name| {
                    place.devices.push(match kind {
                        DEVICE_NAME => device(name),
                        DEVICE_PREFIX => DeviceName::Prefix(string_of(name)),
                        _ => DeviceName::Any,
                    });
                    Ok(())
                })?,
                // It may say where else the chain is.
                _ => {
                    place.strange = true;
                    place.devices.push(DeviceName::Any);
                }
            }
            Ok(())
        })?;
        place.devices.dedup();
        Ok(place)
    }
}

/// A name as the kernel compares it: with its end, or the beginning of names (Linux 6.16,
/// `nft_netdev_hook`).
fn device(value: &[u8]) -> DeviceName {
    match value.contains(&0) {
        true => DeviceName::Exact(string_of(value)),
        false => DeviceName::Prefix(string_of(value)),
    }
}

fn hook_named(family: u8, hook: u32) -> Hook {
    match (family, hook) {
        (NETDEV, 0) | (INET, 5) => Hook::Ingress,
        (NETDEV, 1) => Hook::Egress,
        (INET | IPV4 | IPV6, 0) => Hook::Prerouting,
        (INET | IPV4 | IPV6, 1) => Hook::Input,
        (INET | IPV4 | IPV6, 2) => Hook::Forward,
        (INET | IPV4 | IPV6, 3) => Hook::Output,
        (INET | IPV4 | IPV6, 4) => Hook::Postrouting,
        (_, other) => Hook::Other(other),
    }
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
        let found = chain(&recorded(INET, 2, |_| ())).unwrap().unwrap();
        assert_eq!(found.name, "inet filter through");
        assert_eq!((found.hook, found.family, found.drops), (Hook::Forward, Family::Both, true));
    }

    #[test]
    fn an_ingress_chain_names_its_interfaces() {
        let body = recorded(NETDEV, 0, |b| {
            b.nested(HOOK_DEVICES, |b| {
                b.string(1, "eth1").string(1, "eth2");
            });
        });
        let found = chain(&body).unwrap().unwrap();
        assert_eq!(
            (found.hook, found.devices),
            (Hook::Ingress, ["eth1", "eth2"].map(|name| DeviceName::Exact(name.into())).into())
        );
    }

    #[test]
    fn names_may_be_the_beginnings_of_names() {
        let devices = |fill: &dyn Fn(&mut Builder)| {
            let found = chain(&recorded(NETDEV, 0, |b| fill(b)));
            found.unwrap().unwrap().devices
        };
        let prefix = [DeviceName::Prefix("p".into())];
        // As Linux 6.18 says it, and as 6.16 did: without the byte that ends a name.
        let named: &dyn Fn(&mut Builder) = &|b| {
            b.nested(HOOK_DEVICES, |b| {
                b.string(DEVICE_PREFIX, "p");
            });
        };
        assert_eq!(devices(named), prefix);
        let unended: &dyn Fn(&mut Builder) = &|b| {
            b.nested(HOOK_DEVICES, |b| {
                b.attribute(DEVICE_NAME, b"p");
            });
        };
        assert_eq!(devices(unended), prefix);
        assert_eq!(devices(&|b| _ = b.attribute(HOOK_DEVICE, b"p")), prefix);
        assert!(prefix[0].fits("p0") && !prefix[0].fits("eth0"));
        assert!(!DeviceName::Exact("p".into()).fits("p0"));
    }

    #[test]
    fn what_is_not_known_may_concern_anything() {
        let read = |body: &[u8]| chain(body).unwrap().unwrap();
        let hook = read(&recorded(NETDEV, 0, |b| _ = b.u32(9, 0)));
        assert_eq!((hook.strange, hook.devices), (true, vec![DeviceName::Any]));
        let device = read(&recorded(NETDEV, 1, |b| {
            b.nested(HOOK_DEVICES, |b| _ = b.string(7, "p0"));
        }));
        assert_eq!((device.strange, device.devices), (false, vec![DeviceName::Any]));
        let mut chain = recorded(INET, 2, |_| ());
        chain.extend([8, 0, 77, 0, 0, 0, 0, 0]);
        assert!(read(&chain).strange && !read(&recorded(INET, 2, |_| ())).strange);
        for (family, number) in [(INET, 6), (IPV4, 5), (NETDEV, 2), (99, 0)] {
            let found = read(&recorded(family, number, |_| ()));
            assert_eq!(found.hook, Hook::Other(number), "family {family}");
        }
    }

    #[test]
    fn changes_and_generations_are_told_apart() {
        assert!(tells(SUBSYSTEM | 6) && !tells(SUBSYSTEM | 12) && !tells(6));
        let body = [0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 1, 44];
        assert_eq!(generation(NEW_GENERATION, &body).unwrap(), Some(300));
        assert_eq!(generation(SUBSYSTEM | 6, &body).unwrap(), None);
        assert!(generation(NEW_GENERATION, &body[..3]).is_err());
    }
}
