//! Tunnels of the kernel's XFRM state, for which somebody else exchanges keys (`[esp] kernel`).
//!
//! Policies say which packets go into which tunnel, associations what they are sealed and opened with. The newest
//! association that a policy asks for seals; all open. Neighbours: `ebb_host::netlink::xfrm` reads, `tunnel_state`
//! has a thread for it and remembers which numbers are used.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;

use ebb_apps::esp::{Algorithm, DontFragment, Key, Keyed, Outer, Peer, Selector};
use ebb_host::netlink::xfrm::{self, Association, State};

/// Longest sealed packet until the path asks for less.
const MTU: u16 = 1500;

/// As the application has them.
pub fn peers(state: &State) -> (Vec<Peer>, Vec<Selector>) {
    let mut policies: Vec<&xfrm::Policy> = state.policies.iter().collect();
    policies.sort_by_key(|policy| (policy.priority, policy.index));
    let mut tunnels: Vec<(IpAddr, IpAddr, u32)> = Vec::new();
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
    state.associations.iter().filter_map(keyed).map(|keyed| keyed.key.name()).collect()
}

/// Whose packets leave nowhere where no association is known.
fn peer((local, remote, reqid): (IpAddr, IpAddr, u32), all: &[Association]) -> Peer {
    let of = |from, to| {
        let is_asked = move |one: &&Association| {
            (one.from, one.to) == (from, to) && (reqid == 0 || one.reqid == reqid)
        };
        all.iter().filter(is_asked)
    };
    // The last of those that are as new: the kernel lists in the order in which they came.
    let newest = of(local, remote).max_by_key(|one| one.added_s);
    let mut into: Vec<&Association> = of(remote, local).collect();
    into.sort_by_key(|one| Reverse(one.added_s));
    let udp = newest.or(into.first().copied()).is_some_and(|one| one.udp);
    Peer {
        outer: Outer { local, remote, udp, df: DontFragment::Copy },
        mtu: MTU,
        out: newest.filter(|_| local.is_ipv4() == remote.is_ipv4()).and_then(keyed),
        into: into.into_iter().filter_map(keyed).collect(),
    }
}

fn keyed(one: &Association) -> Option<Keyed> {
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
    fits.then_some(Keyed { spi: one.spi, algorithm, key, extended: one.extended })
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
            tunnel: reqid.map(|reqid| (own, peer, reqid)),
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
}
