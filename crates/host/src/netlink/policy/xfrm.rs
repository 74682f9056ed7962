//! IPsec policies: `struct xfrm_userpolicy_info` (`linux/xfrm.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::super::abi::{AF_INET, AF_INET6};
use super::super::frame::{Fault, Parsed, attributes, u16_of, u32_of};
use super::super::xfrm::is_told;
use super::types::{Transform, Transforms};

pub(super) const GET_POLICY: u16 = 0x15;
pub(super) const GET_DEFAULT: u16 = 0x28;
/// Length of `struct xfrm_userpolicy_id`, with which a dump is asked for.
pub(super) const POLICY_ID_LEN: usize = 64;

const INFO_LEN: usize = 168;
const TEMPLATE_LEN: usize = 64;
const TEMPLATES: u16 = 5;
const MARK: u16 = 21;
const INTERFACE: u16 = 31;
/// Security context, which narrows; kind of policy; padding; a device that does the same.
const TELLING_NOTHING: [u16; 4] = [8, 16, 27, 28];
const BLOCK: u8 = 1;
const ALLOW: u8 = 0;

/// None for policies that forwarded packets do not meet: of sockets and of arriving traffic.
pub(super) fn policy(body: &[u8]) -> Parsed<Option<Transform>> {
    let (info, rest) = body.split_first_chunk::<INFO_LEN>().ok_or(Fault("policy"))?;
    let direction = match info[160] {
        1 => "out",
        2 => "fwd",
        // Of arriving traffic, and of sockets.
        0 | 3..=5 => return Ok(None),
        _ => return Err(Fault("policy direction")),
    };
    let family = u16_of(&info[40..42])? as u8;
    let (to_len, from_len) = (info[42], info[43]);
    let mut transform = Transform {
        direction,
        from: prefix(family, &info[16..32], from_len)?,
        to: prefix(family, &info[0..16], to_len)?,
        blocks: info[161] == BLOCK,
        templates: 0,
        special: false,
        strange: !matches!(info[161], ALLOW | BLOCK),
        priority: u32_of(&info[152..])?,
        told: is_told(body),
        goes_before_tunnels: false,
    };
    attributes(rest, |kind, value| {
        match kind {
            TEMPLATES => transform.templates += (value.len() / TEMPLATE_LEN) as u32,
            // Value, then mask: forwarded packets have mark 0 unless a filter marks them.
            MARK => transform.special |= u32_of(value)? != 0,
            INTERFACE => transform.special |= u32_of(value)? != 0,
            kind => transform.strange |= !TELLING_NOTHING.contains(&kind),
        }
        Ok(())
    })?;
    Ok(Some(transform))
}

fn prefix(family: u8, address: &[u8], length: u8) -> Parsed<IpNet> {
    let address: IpAddr = match family {
        AF_INET => <[u8; 4]>::try_from(&address[..4]).map(Ipv4Addr::from).expect("four").into(),
        AF_INET6 => <[u8; 16]>::try_from(address).map(Ipv6Addr::from).expect("sixteen").into(),
        _ => return Err(Fault("policy family")),
    };
    IpNet::new(address, length).map(|net| net.trunc()).map_err(|_| Fault("policy prefix length"))
}

/// `struct xfrm_userpolicy_default`: in, forward, out.
pub(super) fn blocks_by_default(body: &[u8]) -> bool {
    body.get(1..3).is_some_and(|actions| actions.contains(&BLOCK))
}

/// A policy of neither family concerns both.
pub(super) fn transforms<'a>(
    policies: impl Iterator<Item = &'a [u8]>,
    default: Option<&[u8]>,
) -> Transforms {
    let mut all = Transforms {
        blocks_by_default: default.is_some_and(blocks_by_default),
        ..Transforms::default()
    };
    for body in policies {
        match policy(body) {
            Ok(found) => all.policies.extend(found),
            Err(Fault(what)) => {
                tracing::debug!(what, code = "EBB-H011", "an IPsec policy is not understood");
                all.not_understood += 1;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(direction: u8, action: u8) -> Vec<u8> {
        let mut info = vec![0; INFO_LEN];
        info[..4].copy_from_slice(&[10, 0, 1, 0]);
        info[16..20].copy_from_slice(&[10, 0, 2, 0]);
        info[40..42].copy_from_slice(&u16::from(AF_INET).to_ne_bytes());
        (info[42], info[43]) = (24, 16);
        (info[160], info[161]) = (direction, action);
        info
    }

    #[test]
    fn policies_for_forwarded_packets_are_told() {
        let found = policy(&recorded(2, 1)).unwrap().expect("a policy");
        assert_eq!(found.to, "10.0.1.0/24".parse::<IpNet>().unwrap());
        assert_eq!(found.from, "10.0.0.0/16".parse::<IpNet>().unwrap());
        assert!(found.blocks && found.direction == "fwd" && !found.special);
        assert_eq!(policy(&recorded(0, 1)).unwrap(), None, "arriving traffic");
        assert_eq!(policy(&recorded(4, 0)).unwrap(), None, "a socket's");
    }

    #[test]
    fn what_is_not_known_may_do_anything() {
        let read = |body: &[u8]| policy(body).unwrap().expect("a policy").strange;
        let with = |kind: u8| [&recorded(1, 0)[..], &[8, 0, kind, 0, 0, 0, 0, 0]].concat();
        assert!(!read(&with(16)) && read(&with(99)) && read(&recorded(1, 2)));
        let other_family = {
            let mut body = recorded(1, 1);
            body[40] = 99;
            body
        };
        let bodies = [recorded(6, 0), other_family, recorded(1, 1)];
        let all = transforms(bodies.iter().map(Vec::as_slice), None);
        assert_eq!((all.policies.len(), all.not_understood), (1, 2));
    }

    #[test]
    fn what_is_cut_is_refused() {
        assert!(policy(&recorded(1, 0)[..100]).is_err());
        assert!(blocks_by_default(&[2, 1, 2]) && !blocks_by_default(&[1, 2, 2]));
    }
}
