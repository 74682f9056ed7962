//! Tunnels while cores come and go: no sequence number is used twice, and no packet leaves in clear.

use crate::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{MemoryRouter, Scripted, router_mac};
use ebb_apps::Application;
use ebb_apps::esp::{Algorithm, DontFragment, Esp, Key, Start, Tunnel, Used};
use ebb_graph::Reserve;
use ebb_host::clock;
use ebb_wire::{Ipv4, Template};

const SPI: u32 = 0x1001;
const FLOWS: u16 = 64;
const BURST: usize = 8;
const MOVED_MIN: u64 = 100;
/// Fewer than a receive queue holds, so that a paused worker loses nothing.
const IN_FLIGHT_MAX: u64 = 1_024;

fn tunnel() -> Tunnel {
    let algorithm = Algorithm::Aes128Gcm;
    let key =
        |byte: &str| Key::from_hex(&byte.repeat(algorithm.key_len()), algorithm).expect("a key");
    Tunnel {
        local: "192.0.2.1".parse().expect("an address"),
        remote: "10.1.255.2".parse().expect("an address"),
        remote_prefixes: vec!["10.1.0.0/16".parse().expect("a prefix")],
        local_prefixes: vec!["10.0.0.0/16".parse().expect("a prefix")],
        clear_prefixes: Vec::new(),
        algorithm,
        out: (SPI, key("a1")),
        into: (SPI + 1, key("b2")),
        window: 1024,
        extended_sequence: false,
        udp: false,
        mtu: 1500,
        df: DontFragment::Copy,
    }
}

fn frames() -> Vec<Vec<u8>> {
    let frame = |flow: u16| {
        let source = ([10, 0, 0, flow as u8], 4000 + flow).into();
        let mut template = Template::udp(source, "10.1.0.7:9".parse().expect("an address"));
        template.destination_mac = router_mac(0);
        template.to_frame(&[0x5a; 40])
    };
    (0..FLOWS).map(frame).collect()
}

#[test]
fn hand_overs_of_cores_use_no_sequence_number_twice() {
    let workers = 3;
    let (_, reserve) = Reserve::allocate(64);
    let claim = Used::default().claim(1 << 30, Duration::ZERO).expect("numbers");
    let bell = Arc::new(|| ()) as _;
    let start = [Start { claim, seen: 0 }];
    let esp = Arc::new(Esp::new(workers, &[tunnel()], &start, &bell, &reserve));
    let script = Scripted::new(workers as u16);
    let applications: Vec<Arc<dyn Application>> = vec![esp.clone()];
    let router = MemoryRouter::around(workers, Box::new(script.policy()), applications);
    let mut far = router.far_ends();
    let (frames, mut sent, mut change) = (frames(), 0, 0);
    let (mut numbers, mut came, mut in_clear) = (BTreeSet::new(), 0, 0);
    let mut note = |frame: &[u8]| {
        let Some(packet) = Ipv4::new(&frame[14..]) else { return };
        came += 1;
        let esp = packet.payload();
        match packet.protocol() {
            50 if esp[..4] == SPI.to_be_bytes() => {
                numbers.insert(u32::from_be_bytes(*esp[4..].first_chunk().expect("a number")));
            }
            _ => in_clear += 1,
        }
    };
    let (begun, mut received) = (Instant::now(), 0);
    let mut all = frames.iter().cycle();
    // A busy machine takes longer to move as much.
    let goes_on = |begun: Instant| {
        begun.elapsed() < Duration::from_secs(1)
            || (router.entries_moved() <= MOVED_MIN && begun.elapsed() < Duration::from_secs(30))
    };
    while goes_on(begun) {
        let step = (begun.elapsed().as_millis() / 40) as u16;
        if step != change {
            change = step;
            script.want(1 + step % workers as u16);
        }
        if sent - received + BURST as u64 <= IN_FLIGHT_MAX {
            let burst = all.by_ref().take(BURST).map(Vec::as_slice);
            far[0].send_at(clock::monotonic(), burst);
            sent += BURST as u64;
        }
        received += far[1].receive(&mut note) as u64;
    }
    let mut quiet = Instant::now();
    while received < sent && quiet.elapsed() < Duration::from_secs(1) {
        let more = far[1].receive(&mut note) as u64;
        received += more;
        if more > 0 {
            quiet = Instant::now();
        }
    }
    assert!(router.entries_moved() > MOVED_MIN, "{} entries moved", router.entries_moved());
    router.stop_and_check();
    assert_eq!((received, came, in_clear), (sent, sent, 0));
    assert_eq!(numbers.len() as u64, sent, "each packet has a number of its own");
    let sealed = esp.counters().into_iter().find(|(name, _)| *name == "sealed_packets");
    assert_eq!(sealed.map(|(_, count)| count), Some(sent));
}
