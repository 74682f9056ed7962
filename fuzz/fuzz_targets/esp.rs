//! Any frame through tunnels around routing: each leaves once, and none panics.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use ebb_apps::Application;
use ebb_apps::esp::{Algorithm, DontFragment, Esp, Key, Start, Tunnel, Used};
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target};
use ebb_graph::{Batch, Exits, Packet, Pool, PortId};
use ebb_units::Time;
use libfuzzer_sys::fuzz_target;

fn key(byte: &str) -> Key {
    let algorithm = Algorithm::Aes128Gcm;
    Key::from_hex(&byte.repeat(algorithm.key_len()), algorithm).expect("a key")
}

thread_local! {
    static POOL: std::cell::RefCell<Pool> = std::cell::RefCell::new(Pool::standalone(64));
}

fuzz_target!(|frames: Vec<Vec<u8>>| {
    let tunnel = Tunnel {
        local: "192.0.2.1".parse().expect("an address"),
        remote: "198.51.100.1".parse().expect("an address"),
        remote_prefixes: vec!["10.0.0.0/8".parse().expect("a prefix"), "2001:db8::/32".parse().expect("a prefix")],
        local_prefixes: Vec::new(),
        clear_prefixes: Vec::new(),
        algorithm: Algorithm::Aes128Gcm,
        out: (256, key("a1")),
        into: (257, key("b2")),
        window: 64,
        extended_sequence: frames.len() % 2 == 0,
        udp: true,
        mtu: 1400,
        df: DontFragment::Copy,
    };
    let claim = Used::default().claim(1 << 32, Duration::ZERO).expect("numbers");
    let starts = [Start { claim, seen: 0 }];
    let bell = Arc::new(|| ()) as _;
    let reserve = POOL.with_borrow(|pool| pool.reserve().clone());
    let esp: Arc<dyn Application> = Arc::new(Esp::new(1, &[tunnel], &starts, &bell, &reserve));
    let (mut writer, fib) = FibWriter::new();
    let id = InterfaceId(1);
    let gateway = "203.0.113.2".parse().expect("an address");
    let interface = Interface {
        port: PortId(0),
        vlan: 0,
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        up: true,
        addresses: vec!["203.0.113.1/24".parse().expect("an address")],
    };
    writer.set_interface(id, interface);
    writer.set_neighbour(id, gateway, [2, 0, 0, 0, 0, 2]);
    writer.set_route("0.0.0.0/0".parse().expect("a prefix"), &Target::via(id, gateway)).expect("room");
    writer.publish();
    let requests = Requests::new(16, Arc::new(|| {}));
    let applications = [esp];
    let mut worker = Builder::new(&fib, requests).applications(&applications).worker(0);
    let (mut batch, mut exits) = (Batch::new(), Exits::new(1));
    POOL.with_borrow_mut(|pool| {
        for bytes in frames.iter().take(32) {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
            frame.extend(bytes.iter().take(1700));
            batch.push(pool.get().expect("a frame").fill(&frame));
        }
        let count = batch.len();
        worker.graph.run(Time::from_nanos(1), worker.entry, &mut batch, &mut exits);
        let mut left = 0;
        for batch in exits.transmit.iter_mut().chain([&mut exits.kernel, &mut exits.dropped]) {
            let counted = |packet: &&Packet| packet.flags & Packet::ORIGINATED == 0;
            left += batch.iter().filter(counted).count();
            pool.put_batch(batch);
        }
        assert_eq!(left, count);
    });
});
