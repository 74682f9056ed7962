//! Any bytes as what another balancer says: read or refused, and believed only if it answers what was said. Where there
//! is a token none of them is read.
#![no_main]

use ebb_clusterd::balancer::{
    BackEnd, PeerAuthentication, Peers, Probing, Side, Topology, Unread, Writing,
};
use ebb_units::Time;
use libfuzzer_sys::fuzz_target;

fn topology() -> Topology {
    let side = |side: u8| Side {
        outside: format!("out{side}"),
        inside: format!("in{side}"),
        macs: (0..2).map(|balancer| [2, 0, 0, 0, balancer, side]).collect(),
        addresses: vec![format!("10.0.{side}.1/24").parse().expect("a subnet")],
        probes: (0..2).map(|me| format!("10.0.{side}.24{me}").parse().expect("one")).collect(),
        probe_macs: (0..2).map(|balancer| [2, 0, 0, 2, balancer, side]).collect(),
    };
    let macs = vec![[2, 0, 0, 1, 0, 0], [2, 0, 0, 1, 0, 1]];
    let back_end = BackEnd { name: "r".to_owned(), macs, weight: 1, capacity_pps: 1e6 };
    Topology::new(vec![side(0), side(1)], vec![back_end], 0)
}

fuzz_target!(|bytes: &[u8]| {
    let open = PeerAuthentication { cluster: "c".to_owned(), token: None, session: 1 };
    let sealed = PeerAuthentication { token: Some(b"not found out".to_vec()), ..open.clone() };
    let topology = topology();
    let mut peers = Peers::new(&topology, &open, Probing::default(), Time::ZERO);
    for (step, part) in bytes.chunks(300).enumerate() {
        let now = Time::from_nanos(1_000_000_000 + step as u64 * 1_000_000);
        // Behind what begins every frame, so that not all end there.
        let mut frame =
            peers.tick(&topology, now).first().map_or(Vec::new(), |said| said.1.clone());
        frame.truncate(26);
        frame.extend(part);
        for frame in [part, &frame] {
            if let Ok(words) = Writing::new(&open).read(frame) {
                let again = Writing::new(&open).frame([2; 6], &words);
                assert_eq!(Writing::new(&open).read(&again), Ok(words));
            }
            let secret = Writing::new(&sealed).read(frame);
            assert!(matches!(secret, Err(Unread::Foreign | Unread::Other | Unread::Forged)));
            peers.hear(step % 4, frame, now);
        }
    }
});
