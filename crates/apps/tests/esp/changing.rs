//! Tunnels with fixed keys, added and removed while others go on.

use ebb_apps::esp::{
    Claim, Direction, DontFragment, Keyed, Outer, Peer, Selector, Start, Tunnel, Used,
};

use crate::harness::{ip, net};
use crate::{End, FAR, NEAR, PLAIN, carried, inner, key, tunnel};

fn start(numbers: u64) -> Start {
    let behind = Used { numbers, ivs: 1_800_000_000 + numbers };
    Start { claim: Claim { behind, count: 1 << 30 }, seen: 0 }
}

/// Another tunnel, for another prefix behind the same peer.
fn other(is_near: bool) -> Tunnel {
    let mut other = tunnel(PLAIN, is_near);
    let (forth, back) =
        ((0x1005, key(PLAIN.algorithm, "c5")), (0x2006, key(PLAIN.algorithm, "d6")));
    (other.out, other.into) = if is_near { (forth, back) } else { (back, forth) };
    let prefixes = if is_near { &mut other.remote_prefixes } else { &mut other.local_prefixes };
    *prefixes = vec![net("10.50.9.0/24")];
    other
}

#[test]
fn a_tunnel_is_added_and_removed_while_others_go_on() {
    let (mut near, mut far) = (End::of(&[]), End::of(&[]));
    // Others have exchanged keys for the rest.
    let spi = 0x3001;
    let keyed = || Keyed {
        spi,
        algorithm: PLAIN.algorithm,
        key: key(PLAIN.algorithm, "e7"),
        extended: false,
        used: 0,
    };
    let outer = Outer { local: ip(NEAR), remote: ip(FAR), udp: false, df: DontFragment::Copy };
    let peer = Peer { outer, mtu: 1500, out: Some(keyed()), into: Vec::new() };
    let all = Selector { local: net("0.0.0.0/0"), remote: net("10.0.0.0/8"), tunnel: Some(0) };
    near.esp.replace(&[peer], &[all], &mut |_: &Keyed, _: Direction| Some(start(0)));
    let frame = inner(false, &[7; 40]);
    let index = |sealed: &[u8]| u32::from_be_bytes(*sealed[34..].first_chunk().expect("an index"));
    assert_eq!(index(&near.pass(&frame)), spi);
    for number in [0, 100] {
        near.esp.add(&tunnel(PLAIN, true), start(number));
        near.esp.add(&other(true), start(0));
        far.esp.add(&tunnel(PLAIN, false), start(0));
        let sealed = near.pass(&frame);
        assert_eq!(index(&sealed), 0x1001, "the exchanged tunnel is behind it");
        assert_eq!(u64::from(sealed[41]), number + 1);
        far.pass(&carried(&sealed));
        // The first of two is taken away: the other's associations keep theirs.
        let (out, into) = near.esp.remove(0x2002).expect("a tunnel");
        assert_eq!((out.numbers().1, into.seen()), (1, 0));
        assert_eq!(near.esp.remove(0x2002).map(|_| ()), None);
        assert_eq!(index(&near.pass(&frame)), spi, "as before");
        let at_9 = crate::template("10.50.9.1").to_frame(&[7; 40]);
        assert_eq!(index(&near.pass(&at_9)), 0x1005);
        assert!(near.esp.remove(0x2006).is_some() && far.esp.remove(0x1001).is_some());
        far.pass(&carried(&sealed));
        assert_eq!(far.count("opened_packets"), number / 100 + 1, "nobody opens it any more");
    }
    assert!(near.esp.remove(spi).is_none(), "somebody else's");
}
