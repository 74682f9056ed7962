//! What is from, or for, the ends of tunnels themselves.

use ebb_apps::esp::Tunnel;
use ebb_graph::DropReason;

use crate::harness::{Left, ip, net, template};
use crate::{End, FAR, NEAR, PLAIN, carried, inner, tunnel};

fn between(local: &str, remote: &str) -> Tunnel {
    Tunnel {
        local_prefixes: vec![net(local)],
        remote_prefixes: vec![net(remote)],
        ..tunnel(PLAIN, true)
    }
}

/// With fixed keys nobody exchanges any: what comes in clear from a peer whose packets come sealed is not the peer's.
#[test]
fn between_the_ends_of_a_fixed_tunnel_nothing_comes_in_clear() {
    let mut near = End::of(&[between("198.51.100.1/32", "203.0.113.1/32")]);
    for (source, dropped) in [(FAR, 1), ("203.0.113.9", 1)] {
        let mut forged = template(NEAR);
        forged.source.set_ip(ip(source));
        let left = near.router.send(&[forged.to_frame(&[1; 40])]);
        let is_dropped = matches!(left[..], [Left::Dropped(DropReason::Application)]);
        assert_eq!(is_dropped, source == FAR, "{source}: {left:?}");
        assert_eq!(near.count("dropped_clear_in"), dropped, "{source}");
    }
}

/// A peer may be in the network that is behind it, and is reached through the tunnel then. Behind a default route, it is
/// where that leads.
#[test]
fn a_peer_in_its_own_network_is_sealed_for() {
    for (remote, is_sealed) in [("203.0.113.0/24", true), ("0.0.0.0/0", false)] {
        let mut near = End::of(&[between("192.0.2.0/24", remote)]);
        let frame = template(FAR).to_frame(&[7; 40]);
        let left = near.pass(&frame);
        assert_eq!(left.len() > frame.len(), is_sealed, "{remote}");
        assert_eq!(near.count("sealed_packets"), u64::from(is_sealed), "{remote}");
        // What is sealed leaves for the same address, and is not sealed again.
        let mut near = End::of(&[between("192.0.2.0/24", remote)]);
        let inside = template("203.0.113.9").to_frame(&[7; 40]);
        assert!(near.pass(&inside).len() < inside.len() + 100);
    }
}

/// The kernel has associations of its own where others exchange keys.
#[test]
fn an_unknown_association_is_the_kernels_where_keys_are_exchanged() {
    let mut back = template("192.0.2.7");
    back.source.set_ip(ip("10.50.0.7"));
    // Both ends of the test are one router, whose own address the near end's is.
    let left = End::new(PLAIN, false).router.send(&[back.to_frame(&[1; 40])]);
    let [Left::Kernel(sealed)] = &left[..] else { panic!("{left:?}") };
    let mut sealed = carried(sealed);
    sealed[34..38].copy_from_slice(&[9; 4]);
    let mut near = End::new(PLAIN, true);
    let send = |near: &mut End| near.router.send(std::slice::from_ref(&sealed));
    assert_eq!(send(&mut near), [Left::Dropped(DropReason::Application)]);
    assert_eq!(near.count("dropped_unknown_spi"), 1);
    near.esp.replace(&[], &[], &mut |_, _| None);
    assert!(matches!(send(&mut near)[..], [Left::Kernel(_)]));
    assert_eq!(near.count("dropped_unknown_spi"), 1);
}

/// Keys that are not the peer's open nothing, whichever algorithm, and what is counted says so.
#[test]
fn another_key_opens_nothing() {
    use ebb_apps::esp::Algorithm::{Aes128CbcHmacSha256, Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
    for algorithm in [Aes128Gcm, Aes256Gcm, Chacha20Poly1305, Aes128CbcHmacSha256] {
        let kind = crate::Kind { algorithm, ..PLAIN };
        let mut near = End::new(kind, true);
        let mut wrong = tunnel(kind, false);
        wrong.into.1 = crate::key(algorithm, "c3");
        let mut far = End::of(&[wrong]);
        let sealed = carried(&near.pass(&inner(false, &[7; 40])));
        let left = far.router.send(std::slice::from_ref(&sealed));
        assert_eq!(left, [Left::Dropped(DropReason::Application)], "{algorithm:?}");
        assert_eq!((far.count("dropped_forged"), far.count("opened_packets")), (1, 0));
    }
}
