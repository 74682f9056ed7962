//! Policies of the kernel's IPsec as messages have them: `struct xfrm_userpolicy_info` and its attributes
//! (`linux/xfrm.h`).
//!
//! The one reader of them. What is looked for is the caller's: tunnels that can be told by addresses ([`Entry::tunnel`]),
//! or all that may happen to forwarded packets (`policy`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::super::abi::{AF_INET, AF_INET6};
use super::super::frame::{Fault, Parsed, attributes, u16_of, u32_of};
use super::window::PROTO_ESP;

pub(crate) const GET_POLICY: u16 = 0x15;
/// Length of `struct xfrm_userpolicy_id`, with which a dump is asked for.
pub(crate) const POLICY_ID_LEN: usize = 64;
pub(super) const MODE_TUNNEL: u8 = 1;

/// Lengths of `struct xfrm_userpolicy_info`, `xfrm_selector` and `xfrm_user_tmpl`.
const INFO_LEN: usize = 168;
const SELECTOR_LEN: usize = 56;
const TEMPLATE_LEN: usize = 64;
/// `XFRMA_TMPL`, `_SEC_CTX`, `_MARK`, `_IF_ID`.
const TEMPLATES: u16 = 5;
const SECURITY: u16 = 8;
const MARK: u16 = 21;
const INTERFACE: u16 = 31;
/// Kind of policy; padding; a device that does the same.
const TELLING_NOTHING: [u16; 3] = [16, 27, 28];
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Which packets meet a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
    Forward,
}

/// What becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Allow,
    Block,
    /// Not known here.
    Other,
}

/// The associations that a policy asks for (`struct xfrm_user_tmpl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Own end.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
    /// [`super::Association::reqid`].
    pub reqid: u32,
    /// Index of the one with which packets leave; 0: any.
    pub spi: u32,
}

/// A policy, with all that narrows it or is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub direction: Direction,
    pub action: Action,
    /// Sources and destinations.
    pub from: IpNet,
    pub to: IpNet,
    /// The least goes first; of one priority, the least index.
    pub priority: u32,
    pub index: u32,
    /// Asks for a port, a protocol or an interface beside addresses.
    selects_more: bool,
    /// How many transformations it asks for, and those that are tunnels of ESP.
    pub templates: u32,
    tunnels: Vec<Template>,
    /// For packets with a mark, or of an XFRM interface, only: forwarded packets have mark 0 unless a filter marks them.
    pub special: bool,
    /// For packets of a security context only.
    secured: bool,
    /// Has attributes that are not known here.
    unknown: bool,
}

impl Entry {
    /// Whether its action or a part of it is not known here: it may do anything to the packets that it concerns.
    pub fn is_strange(&self) -> bool {
        self.action == Action::Other || self.unknown
    }

    /// The tunnel that it asks for, or that it asks for none and allows; nothing where it is no policy that addresses
    /// alone select, or does anything else.
    pub fn tunnel(&self) -> Option<Option<Template>> {
        let narrowed = self.selects_more || self.special || self.secured;
        if narrowed || self.action != Action::Allow {
            return None;
        }
        match (self.templates, &self.tunnels[..]) {
            (0, _) => Some(None),
            (1, [tunnel]) => Some(Some(*tunnel)),
            _ => None,
        }
    }
}

/// None for policies of sockets, which have no addresses.
pub(crate) fn entry(body: &[u8]) -> Parsed<Option<Entry>> {
    let (info, rest) = body.split_first_chunk::<INFO_LEN>().ok_or(Fault("policy"))?;
    let direction = match info[160] {
        0 => Direction::In,
        1 => Direction::Out,
        2 => Direction::Forward,
        3..=5 => return Ok(None),
        _ => return Err(Fault("policy direction")),
    };
    let action = match info[161] {
        ALLOW => Action::Allow,
        BLOCK => Action::Block,
        _ => Action::Other,
    };
    let (from, to, selects_more) = selector(info.first_chunk().expect("longer"))?;
    let mut entry = Entry {
        direction,
        action,
        from,
        to,
        priority: u32_of(&info[152..])?,
        index: u32_of(&info[156..])?,
        selects_more,
        templates: 0,
        tunnels: Vec::new(),
        special: false,
        secured: false,
        unknown: false,
    };
    attributes(rest, |kind, value| {
        match kind {
            TEMPLATES => {
                let (templates, cut) = value.as_chunks::<TEMPLATE_LEN>();
                entry.templates += templates.len() as u32 + u32::from(!cut.is_empty());
                entry.tunnels.extend(templates.iter().filter_map(tunnel));
            }
            // Of a mark: value, then mask. 0 tells nothing.
            MARK | INTERFACE => entry.special |= value.iter().any(|byte| *byte != 0),
            SECURITY => entry.secured = true,
            kind => entry.unknown |= !TELLING_NOTHING.contains(&kind),
        }
        Ok(())
    })?;
    Ok(Some(entry))
}

fn tunnel(template: &[u8; TEMPLATE_LEN]) -> Option<Template> {
    if template[20] != PROTO_ESP || template[48] != MODE_TUNNEL {
        return None;
    }
    let family = u16_of(&template[24..]).ok()?;
    Some(Template {
        local: address(family, &template[28..44]).ok()?,
        remote: address(family, &template[..16]).ok()?,
        reqid: u32_of(&template[44..]).ok()?,
        spi: u32::from_be_bytes(*template[16..].first_chunk()?),
    })
}

pub(super) fn address(family: u16, bytes: &[u8]) -> Parsed<IpAddr> {
    let (v4, v6) = (bytes.first_chunk::<4>(), bytes.first_chunk::<16>());
    match (u8::try_from(family), v4, v6) {
        (Ok(AF_INET), Some(v4), _) => Ok(Ipv4Addr::from(*v4).into()),
        (Ok(AF_INET6), _, Some(v6)) => Ok(Ipv6Addr::from(*v6).into()),
        _ => Err(Fault("address family")),
    }
}

/// From, to, and whether it asks for anything but addresses (`struct xfrm_selector`).
fn selector(bytes: &[u8; SELECTOR_LEN]) -> Parsed<(IpNet, IpNet, bool)> {
    let family = u16_of(&bytes[40..])?;
    let net = |address, len| {
        IpNet::new(address, len).map(|net| net.trunc()).map_err(|_| Fault("prefix length"))
    };
    let to = net(address(family, &bytes[..16])?, bytes[42])?;
    let from = net(address(family, &bytes[16..32])?, bytes[43])?;
    // Masks of ports, the protocol, the interface.
    let plain = bytes[34..36] == [0; 2] && bytes[38..40] == [0; 2] && bytes[44] == 0;
    Ok((from, to, !plain || bytes[48..52] != [0; 4]))
}

/// Messages for tests.
#[cfg(test)]
pub(crate) mod messages {
    use super::*;

    pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = (value.len() + 4) as u16;
        let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// From 10.1.0.0/16 to 10.2.0.0/16, of priority 9.
    pub fn policy(direction: u8, action: u8) -> Vec<u8> {
        let mut info = vec![0; INFO_LEN];
        info[..4].copy_from_slice(&[10, 2, 0, 0]);
        info[16..20].copy_from_slice(&[10, 1, 0, 0]);
        info[40..42].copy_from_slice(&u16::from(AF_INET).to_ne_bytes());
        (info[42], info[43]) = (16, 16);
        info[152..156].copy_from_slice(&9_u32.to_ne_bytes());
        (info[160], info[161]) = (direction, action);
        info
    }

    /// From 192.0.2.1 to 198.51.100.1, request 7, index 0xc001.
    pub fn template() -> [u8; TEMPLATE_LEN] {
        let mut template = [0; TEMPLATE_LEN];
        template[..4].copy_from_slice(&[198, 51, 100, 1]);
        template[16..20].copy_from_slice(&0xc001_u32.to_be_bytes());
        template[20] = PROTO_ESP;
        template[24..26].copy_from_slice(&u16::from(AF_INET).to_ne_bytes());
        template[28..32].copy_from_slice(&[192, 0, 2, 1]);
        template[44..48].copy_from_slice(&7_u32.to_ne_bytes());
        template[48] = MODE_TUNNEL;
        template
    }
}

#[cfg(test)]
mod tests {
    use super::messages::{attribute, policy, template};
    use super::*;

    const OUT: u8 = 1;

    fn read(parts: &[&[u8]]) -> Entry {
        entry(&parts.concat()).expect("a message").expect("a policy")
    }

    #[test]
    fn policies_are_told_that_ask_for_a_tunnel_by_addresses() {
        let found = read(&[&policy(OUT, ALLOW), &attribute(TEMPLATES, &template())]);
        let ends = ["192.0.2.1", "198.51.100.1"].map(|end| end.parse::<IpAddr>().unwrap());
        let asked = Template { local: ends[0], remote: ends[1], reqid: 7, spi: 0xc001 };
        assert_eq!(found.tunnel(), Some(Some(asked)));
        assert_eq!(
            (found.from.to_string(), found.to.to_string()),
            ("10.1.0.0/16".into(), "10.2.0.0/16".into())
        );
        assert_eq!((found.priority, found.templates, found.direction), (9, 1, Direction::Out));
        assert_eq!(read(&[&policy(OUT, ALLOW)]).tunnel(), Some(None), "it allows");
        assert_eq!(read(&[&policy(OUT, BLOCK)]).tunnel(), None, "it blocks");
        let changed = |at: usize, byte: u8| {
            let mut info = policy(OUT, ALLOW);
            info[at] = byte;
            read(&[&info, &attribute(TEMPLATES, &template())]).tunnel()
        };
        // A port, a protocol, an interface, a block.
        for (at, byte) in [(34, 0xff), (44, 17), (48, 1), (161, 1)] {
            assert_eq!(changed(at, byte), None, "{at}");
        }
        let with =
            |templates: &[u8]| read(&[&policy(OUT, ALLOW), &attribute(TEMPLATES, templates)]);
        // Of another mode, protocol, family; two at once; cut.
        for (at, byte) in [(48, 0), (20, 51), (24, 99)] {
            let mut other = template();
            other[at] = byte;
            assert_eq!((with(&other).tunnel(), with(&other).templates), (None, 1), "{at}");
        }
        let two = [template(), template()].concat();
        assert_eq!((with(&two).tunnel(), with(&two).templates), (None, 2));
        assert_eq!((with(&two[..100]).tunnel(), with(&two[..100]).templates), (None, 2));
    }

    #[test]
    fn what_narrows_a_policy_is_told() {
        let with = |kind: u16, value: &[u8]| read(&[&policy(OUT, ALLOW), &attribute(kind, value)]);
        for kind in [MARK, INTERFACE] {
            assert!(!with(kind, &[0; 8]).special && with(kind, &[0; 8]).tunnel().is_some());
            assert!(with(kind, &[1; 8]).special && with(kind, &[1; 8]).tunnel().is_none());
        }
        // A mark of 0 is one: none of the others are concerned.
        assert!(with(MARK, &[0, 0, 0, 0, 0xff, 0, 0, 0]).special);
        assert!(
            with(SECURITY, &[0; 4]).tunnel().is_none() && !with(SECURITY, &[0; 4]).is_strange()
        );
        assert!(with(99, &[0; 4]).is_strange() && !with(16, &[0; 4]).is_strange());
        assert!(read(&[&policy(OUT, 2)]).is_strange());
    }

    #[test]
    fn what_is_cut_or_of_no_family_is_refused_and_sockets_are_passed_over() {
        assert!(entry(&policy(OUT, ALLOW)[..100]).is_err());
        assert!(entry(&policy(6, ALLOW)).is_err(), "direction");
        let changed = |at: usize, byte: u8| {
            let mut info = policy(OUT, ALLOW);
            info[at] = byte;
            entry(&info)
        };
        assert!(changed(40, 99).is_err(), "family");
        assert!(changed(41, 1).is_err(), "family of more than a byte");
        assert!(changed(42, 33).is_err(), "prefix length");
        for direction in 3..=5 {
            assert_eq!(entry(&policy(direction, ALLOW)).unwrap(), None);
        }
    }
}
