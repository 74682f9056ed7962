//! What IPsec policies do to forwarded packets, as [`super::super::xfrm`] reads them.

use super::super::frame::{Fault, Parsed};
use super::super::xfrm::policies::{Action, Direction, entry};
pub(super) use super::super::xfrm::policies::{GET_POLICY, POLICY_ID_LEN};
use super::types::{Transform, Transforms};

pub(super) const GET_DEFAULT: u16 = 0x28;
const BLOCK: u8 = 1;

/// None for policies that forwarded packets do not meet: of sockets and of arriving traffic.
pub(super) fn policy(body: &[u8]) -> Parsed<Option<Transform>> {
    let Some(entry) = entry(body)? else { return Ok(None) };
    let direction = match entry.direction {
        Direction::Out => "out",
        Direction::Forward => "fwd",
        Direction::In => return Ok(None),
    };
    Ok(Some(Transform {
        direction,
        from: entry.from,
        to: entry.to,
        blocks: entry.action == Action::Block,
        templates: entry.templates,
        special: entry.special,
        strange: entry.is_strange(),
        priority: entry.priority,
        told: entry.tunnel().is_some(),
        goes_before_tunnels: false,
    }))
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
    use super::super::super::xfrm::policies::messages::{attribute, policy as message, template};
    use super::*;

    #[test]
    fn policies_for_forwarded_packets_are_told() {
        let found = policy(&message(2, 1)).unwrap().expect("a policy");
        assert_eq!(
            (found.to.to_string(), found.from.to_string()),
            ("10.2.0.0/16".into(), "10.1.0.0/16".into())
        );
        assert!(found.blocks && found.direction == "fwd" && !found.special && !found.told);
        assert_eq!(policy(&message(0, 1)).unwrap(), None, "arriving traffic");
        assert_eq!(policy(&message(4, 0)).unwrap(), None, "a socket's");
        let tunnel = [message(1, 0), attribute(5, &template())].concat();
        let found = policy(&tunnel).unwrap().expect("a policy");
        assert!(found.told && found.templates == 1 && !found.blocks && !found.strange);
    }

    #[test]
    fn what_is_not_known_may_do_anything() {
        let mut other_family = message(1, 1);
        other_family[40] = 99;
        let bodies = [message(6, 0), other_family, message(1, 1)];
        let all = transforms(bodies.iter().map(Vec::as_slice), None);
        assert_eq!((all.policies.len(), all.not_understood), (1, 2));
        assert!(blocks_by_default(&[2, 1, 2]) && !blocks_by_default(&[1, 2, 2]));
    }
}
