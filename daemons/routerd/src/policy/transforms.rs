//! Which IPsec policies are the kernel's where somebody else carries its tunnels (`[esp] kernel`).
//!
//! Carried are policies that [`ebb_host::netlink::xfrm`] tells, those for packets that leave, and what they say of packets
//! that come back. Neighbours: `evaluate`, which says what becomes of packets that the others concern.

use ebb_host::netlink::policy::Transform;
use ipnet::IpNet;

/// Those that the kernel has to follow by itself, in their order.
pub(super) fn of_the_kernel(all: Vec<Transform>) -> Vec<Transform> {
    // Whoever carries tunnels takes from the policies for leaving packets what has to come encrypted.
    let mirrors = |back: &Transform, out: &Transform| {
        out.told
            && out.direction == "out"
            && (out.from, out.to) == (back.to, back.from)
            && (out.templates > 0) == (back.templates > 0)
    };
    let is_carried = |one: &Transform| {
        one.told && (one.direction == "out" || all.iter().any(|out| mirrors(one, out)))
    };
    let (carried, mut left): (Vec<_>, Vec<_>) = all.iter().cloned().partition(is_carried);
    for one in left.iter_mut().filter(|one| !one.blocks && one.templates == 0) {
        // Of one priority, the order is the kernel's.
        one.goes_before_tunnels = carried.iter().any(|tunnel| {
            tunnel.templates > 0
                && one.direction == tunnel.direction
                && one.priority <= tunnel.priority
                && meet(&one.from, &tunnel.from)
                && meet(&one.to, &tunnel.to)
        });
    }
    left
}

fn meet(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: &str = "10.1.0.0/16";
    const FAR: &str = "10.2.0.0/16";

    fn one(direction: &'static str, from: &str, to: &str, templates: u32, told: bool) -> Transform {
        Transform {
            direction,
            from: from.parse().expect("a prefix"),
            to: to.parse().expect("a prefix"),
            blocks: false,
            templates,
            special: false,
            strange: false,
            priority: 10,
            told,
            goes_before_tunnels: false,
        }
    }

    #[test]
    fn policies_for_what_comes_back_are_carried_where_one_for_what_leaves_is() {
        let (out, back) = (one("out", NEAR, FAR, 1, true), one("fwd", FAR, NEAR, 1, true));
        let of = |all: &[&Transform]| of_the_kernel(all.iter().copied().cloned().collect());
        let is_left = |all: &[&Transform]| of(all).contains(&back);
        assert_eq!(of(&[&out, &back]), []);
        assert!(is_left(&[&back]), "nothing leaves by it");
        let wide = one("out", "10.0.0.0/8", FAR, 1, true);
        assert!(is_left(&[&back, &wide]), "other addresses");
        let bypass = one("out", NEAR, FAR, 0, true);
        assert!(is_left(&[&back, &bypass]), "what leaves in clear");
        let ports = one("out", NEAR, FAR, 1, false);
        assert_eq!(of(&[&back, &ports]), [back.clone(), ports.clone()], "the kernel's");
        assert_eq!(of(&[&one("fwd", FAR, NEAR, 0, true), &bypass]), []);
    }

    #[test]
    fn exceptions_from_a_tunnel_are_told_apart() {
        let tunnel = one("out", NEAR, FAR, 1, true);
        let goes_before = |one: Transform| {
            let left = of_the_kernel(vec![tunnel.clone(), one]);
            left[0].goes_before_tunnels
        };
        let ports = || one("out", "10.1.2.0/24", "0.0.0.0/0", 0, false);
        assert!(goes_before(ports()));
        assert!(goes_before(Transform { priority: 9, ..ports() }));
        assert!(!goes_before(Transform { priority: 11, ..ports() }), "the tunnel takes them");
        assert!(!goes_before(Transform { direction: "fwd", ..ports() }));
        assert!(!goes_before(one("out", "10.3.0.0/16", "0.0.0.0/0", 0, false)), "others");
    }
}
