//! Tunnels of the kernel's XFRM state, for which somebody else exchanges keys (`[esp] kernel`).
//!
//! Policies say which packets go into which tunnel, associations what they are sealed and opened with. The newest
//! association that a policy asks for seals; all open. Neighbours: `ebb_host::netlink::xfrm` reads, `tunnel_state`
//! has a thread for it and remembers which numbers are used.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ebb_apps::esp::{Algorithm, DontFragment, Key, Keyed, Outer, Peer, Selector};
use ebb_host::netlink::xfrm::{self, Association, State, Template, Window};

/// Longest sealed packet until the path asks for less.
const MTU: u16 = 1500;

/// As the application has them.
pub fn peers(state: &State) -> (Vec<Peer>, Vec<Selector>) {
    let mut policies: Vec<&xfrm::Policy> = state.policies.iter().collect();
    policies.sort_by_key(|policy| (policy.priority, policy.index));
    let mut tunnels: Vec<Template> = Vec::new();
    let mut number = |tunnel| {
        let known = tunnels.iter().position(|known| *known == tunnel);
        known.unwrap_or_else(|| {
            tunnels.push(tunnel);
            tunnels.len() - 1
        })
    };
    let selector = |policy: &&xfrm::Policy| Selector {
        local: policy.from,
        remote: policy.to,
        tunnel: policy.tunnel.map(&mut number),
    };
    let selectors = policies.iter().map(selector).collect();
    (tunnels.into_iter().map(|tunnel| peer(tunnel, &state.associations)).collect(), selectors)
}

/// Names of all keys that are there, in use or not: an older association may come into use again.
pub fn names(state: &State) -> BTreeSet<String> {
    state.associations.iter().filter_map(|one| keyed(one, 0)).map(|one| one.key.name()).collect()
}

/// The kernel's windows of associations that open, by their keys' names: own end, index, window, and up to which number
/// all has come there.
pub fn windows(state: &State) -> BTreeMap<String, (IpAddr, u32, Window, u64)> {
    let tunnels: Vec<Template> = state.policies.iter().filter_map(|one| one.tunnel).collect();
    let opens = |one: &&Association| {
        tunnels.iter().any(|tunnel| {
            (tunnel.remote, tunnel.local, tunnel.reqid) == (one.from, one.to, one.reqid)
        })
    };
    let window = |one: &Association| {
        Some((keyed(one, 0)?.key.name(), (one.to, one.spi, one.window.clone()?, one.seen)))
    };
    state.associations.iter().filter(opens).filter_map(window).collect()
}

/// Whose packets leave nowhere where no association is known.
fn peer(asked: Template, all: &[Association]) -> Peer {
    let Template { local, remote, reqid, spi } = asked;
    let of = |from, to| {
        let is_asked = move |one: &&Association| (one.from, one.to, one.reqid) == (from, to, reqid);
        all.iter().filter(is_asked)
    };
    // The first of those that are as new: so the kernel lists them, and so it chooses.
    let newest = of(local, remote)
        .filter(|one| spi == 0 || one.spi == spi)
        .min_by_key(|one| Reverse(one.added_s));
    let mut into: Vec<&Association> = of(remote, local).collect();
    into.sort_by_key(|one| Reverse(one.added_s));
    let udp = newest.or(into.first().copied()).is_some_and(|one| one.udp);
    let newest = newest.filter(|_| local.is_ipv4() == remote.is_ipv4());
    Peer {
        outer: Outer { local, remote, udp, df: DontFragment::Copy },
        mtu: MTU,
        out: newest.and_then(|one| keyed(one, one.sent)),
        into: into.into_iter().filter_map(|one| keyed(one, one.seen)).collect(),
    }
}

/// With its numbers behind those up to `used`.
fn keyed(one: &Association, used: u64) -> Option<Keyed> {
    let bytes = one.key.bytes();
    let algorithm = match one.algorithm {
        xfrm::Algorithm::AesGcm if bytes.len() == Algorithm::Aes128Gcm.key_len() => {
            Algorithm::Aes128Gcm
        }
        xfrm::Algorithm::AesGcm => Algorithm::Aes256Gcm,
        xfrm::Algorithm::Chacha20Poly1305 => Algorithm::Chacha20Poly1305,
        xfrm::Algorithm::Aes128CbcHmacSha256 => Algorithm::Aes128CbcHmacSha256,
    };
    let key = Key::from_bytes(bytes, algorithm).ok()?;
    // RFC 3948 is of IPv4 here.
    let fits = !one.udp || one.from.is_ipv4();
    fits.then_some(Keyed { spi: one.spi, algorithm, key, extended: one.extended, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(from: &str, to: &str, priority: u32, reqid: Option<u32>) -> xfrm::Policy {
        let [own, peer] = ["192.0.2.1", "198.51.100.1"].map(|end| end.parse().expect("an address"));
        xfrm::Policy {
            from: from.parse().expect("a prefix"),
            to: to.parse().expect("a prefix"),
            priority,
            index: 1,
            tunnel: reqid.map(|reqid| Template { local: own, remote: peer, reqid, spi: 0 }),
        }
    }

    #[test]
    fn policies_go_by_priority_and_share_their_tunnels() {
        let state = State {
            policies: vec![
                policy("10.1.0.0/16", "0.0.0.0/0", 9, Some(1)),
                policy("10.1.0.0/16", "10.1.0.0/16", 1, None),
                policy("10.3.0.0/16", "10.2.0.0/16", 8, Some(2)),
                policy("10.4.0.0/16", "10.2.0.0/16", 10, Some(1)),
            ],
            associations: Vec::new(),
        };
        let (peers, selectors) = peers(&state);
        let tunnels: Vec<Option<usize>> = selectors.iter().map(|one| one.tunnel).collect();
        assert_eq!(tunnels, [None, Some(0), Some(1), Some(1)]);
        assert!(peers.len() == 2 && peers.iter().all(|one| one.out.is_none()));
    }
    fn association(spi: u32, reqid: u32, added_s: u64) -> Association {
        let [from, to] = ["192.0.2.1", "198.51.100.1"].map(|end| end.parse().expect("an address"));
        let (algorithm, key) = (xfrm::Algorithm::AesGcm, xfrm::Secret::new(vec![spi as u8; 20]));
        let (extended, udp, sent, seen, window) = (false, false, 40, 50, None);
        Association {
            from,
            to,
            spi,
            reqid,
            algorithm,
            key,
            extended,
            udp,
            added_s,
            sent,
            seen,
            window,
        }
    }

    fn back(one: Association) -> Association {
        Association { from: one.to, to: one.from, ..one }
    }

    #[test]
    fn the_association_is_the_one_that_the_kernel_would_take() {
        let chosen = |reqid, spi, associations: Vec<Association>| {
            let mut policy = policy("10.1.0.0/16", "10.2.0.0/16", 1, Some(reqid));
            policy.tunnel.as_mut().expect("a tunnel").spi = spi;
            let peer = peers(&State { policies: vec![policy], associations }).0.remove(0);
            let into: Vec<(u32, u64)> = peer.into.iter().map(|one| (one.spi, one.used)).collect();
            (peer.out.map(|out| (out.spi, out.used)), into)
        };
        let all = || vec![association(3, 7, 20), association(2, 7, 20), association(1, 7, 10)];
        assert_eq!(chosen(7, 0, all()).0, Some((3, 40)), "the newest, and of those the first");
        assert_eq!(chosen(7, 1, all()).0, Some((1, 40)), "the policy asks for it");
        assert_eq!(chosen(7, 9, all()).0, None);
        assert_eq!(chosen(0, 0, all()).0, None, "another's");
        assert_eq!(chosen(0, 0, vec![association(4, 0, 1)]).0, Some((4, 40)));
        let back: Vec<Association> = all().into_iter().map(back).collect();
        assert_eq!(chosen(7, 1, back), (None, vec![(3, 50), (2, 50), (1, 50)]));
    }
}
