//! Tunnels whose keys others exchange.

use ebb_apps::Application as _;
use ebb_apps::esp::{Claim, Direction, DontFragment, Keyed, Outer, Peer, Selector, Start, Used};
use ebb_graph::DropReason;

use crate::harness::{Left, ip, net, template};
use crate::{End, FAR, NEAR, PLAIN, carried, inner, key};

/// Associations that others exchange: the old one goes on until it is taken away, numbers go on where they were, and
/// without any nothing leaves.
#[test]
fn tunnels_come_and_go() {
    let keyed = |spi: u32, byte: &str| Keyed {
        spi,
        algorithm: PLAIN.algorithm,
        key: key(PLAIN.algorithm, byte),
        extended: false,
        used: 0,
    };
    let peer = |is_near: bool, out: Option<(u32, &str)>, into: &[(u32, &str)]| {
        let (local, remote) = if is_near { (NEAR, FAR) } else { (FAR, NEAR) };
        let outer =
            Outer { local: ip(local), remote: ip(remote), udp: false, df: DontFragment::Copy };
        let into = into.iter().map(|(spi, byte)| keyed(*spi, byte)).collect();
        Peer { outer, mtu: 1500, out: out.map(|(spi, byte)| keyed(spi, byte)), into }
    };
    let selector = |is_near: bool, tunnel| {
        let (near, far) = (net("192.0.2.0/24"), net("10.50.0.0/16"));
        let (local, remote) = if is_near { (near, far) } else { (far, near) };
        Selector { local, remote, tunnel }
    };
    let give = |end: &End, peers: &[Peer], selectors: &[Selector]| {
        let mut started = 0;
        let mut start = |_: &Keyed, _: Direction| {
            started += 1;
            let behind = Used { numbers: 0, ivs: 1_900_000_000 };
            Some(Start { claim: Claim { behind, count: 1 << 20 }, seen: 0 })
        };
        end.esp.replace(peers, selectors, &mut start);
        started
    };
    let (mut near, mut far) = (End::of(&[]), End::of(&[]));
    let frame = inner(false, &[7; 40]);
    assert_eq!(near.pass(&frame).len(), frame.len(), "no tunnel yet");
    let ways = [true, false].map(|is_near| [selector(is_near, Some(0))]);
    give(&near, &[peer(true, None, &[])], &ways[0]);
    assert_eq!(
        near.router.send(std::slice::from_ref(&frame)),
        [Left::Dropped(DropReason::Application)]
    );
    assert_eq!(near.count("dropped_no_association"), 1);
    assert_eq!(give(&near, &[peer(true, Some((0x1001, "a1")), &[])], &ways[0]), 1);
    assert_eq!(give(&far, &[peer(false, None, &[(0x1001, "a1")])], &ways[1]), 1);
    let old = near.pass(&frame);
    far.pass(&carried(&old));
    // New keys: the far end takes both for a while, and goes on with the window that it has.
    let both = [peer(false, None, &[(0x1001, "a1"), (0x1003, "a3")])];
    assert_eq!(give(&far, &both, &ways[1]), 1, "one is new");
    let late = near.pass(&frame);
    assert_eq!(late[38..42], [0, 0, 0, 2]);
    assert_eq!(give(&near, &[peer(true, Some((0x1003, "a3")), &[])], &ways[0]), 1);
    let new = near.pass(&frame);
    assert_eq!(new[34..42], [0, 0, 0x10, 3, 0, 0, 0, 1]);
    far.pass(&carried(&new));
    far.pass(&carried(&late));
    assert_eq!(far.router.send(&[carried(&old)]), [Left::Dropped(DropReason::Application)]);
    assert_eq!((far.count("dropped_replayed"), far.count("opened_packets")), (1, 3));
    // Tunnels may share what they are opened with, and its window.
    let shared = || [peer(false, None, &[(0x1003, "a3")]), peer(false, None, &[(0x1003, "a3")])];
    for other in [1, 0] {
        let elsewhere = Selector {
            local: net("10.50.0.0/16"),
            remote: net("198.51.100.0/24"),
            tunnel: Some(other),
        };
        let two = [elsewhere, selector(false, Some(1 - other))];
        assert_eq!(give(&far, &shared(), &two), 0, "known");
        assert_eq!(give(&End::of(&[]), &shared(), &two), 1, "one window");
        far.pass(&carried(&near.pass(&frame)));
    }
    assert_eq!(far.count("opened_packets"), 5);
    // A rule before the tunnel's lets packets pass as they are.
    let bypass = [selector(true, None), selector(true, Some(0))];
    give(&near, &[peer(true, Some((0x1003, "a3")), &[])], &bypass);
    assert_eq!(near.pass(&frame).len(), frame.len());
    assert_eq!(near.esp.addresses(), [ip(NEAR)]);
    // Of a tunnel between the ends themselves: what exchanges keys comes in clear, other senders' packets do not, and
    // what is for the router itself does not leave.
    let all = Selector { local: net("0.0.0.0/0"), remote: net("0.0.0.0/0"), tunnel: Some(0) };
    give(&near, &[peer(true, Some((0x1003, "a3")), &[])], &[all]);
    for (source, is_kernels) in [(FAR, true), ("203.0.113.9", false)] {
        let mut keys = template(NEAR);
        keys.source.set_ip(ip(source));
        let left = near.router.send(&[keys.to_frame(&[0; 30])]);
        assert_eq!(matches!(left[..], [Left::Kernel(_)]), is_kernels, "{source}: {left:?}");
    }
    assert_eq!(near.count("sealed_packets"), 5);
}
