//! Tables that change while packets flow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_apps::route::{Builder, FibWriter, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Pool, PortId};
use ebb_units::Time;

use crate::harness::{OUT, configure, ip, net, template};

const ROUNDS: u32 = 30_000;
const GATEWAYS: u32 = 16;

/// The prefixes in play: each has gateways of its own, whose MAC addresses tell it.
const PREFIXES: [(&str, &str, u8); 2] =
    [("10.201.0.0/16", "10.201.0.1", 0xa1), ("10.202.0.0/16", "10.202.0.1", 0xa2)];

fn gateway(side: u8, number: u32) -> String {
    format!("198.51.100.{}", 100 + u32::from(side & 1) * GATEWAYS + number % GATEWAYS)
}

/// Next-hop numbers are freed and used again all the time here; a packet that met a number with a
/// new meaning would leave with the other prefix's MAC address, or not at all.
#[test]
fn no_packet_follows_another_prefix() {
    let (mut writer, fib) = FibWriter::new();
    configure(&mut writer);
    writer.remove_route(net("198.51.100.0/24"));
    for (prefix, _, side) in PREFIXES {
        for number in 0..GATEWAYS {
            writer.set_neighbour(OUT, ip(&gateway(side, number)), [2, side, 0, 0, 0, 0]);
        }
        writer.set_route(net(prefix), &Target::via(OUT, ip(&gateway(side, 0)))).expect("space");
    }
    writer.publish();
    let stop = Arc::new(AtomicBool::new(false));
    let worker = {
        let stop = stop.clone();
        let requests = Requests::new(4, Arc::new(|| {}));
        let WorkerGraph { mut graph, entry, .. } = Builder::new(&fib, requests).worker(0);
        std::thread::spawn(move || {
            let mut pool = Pool::standalone(128);
            let mut exits = Exits::new(2);
            let mut batch = Batch::new();
            let frames = PREFIXES.map(|(_, to, _)| template(to).to_frame(b"data"));
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                for number in 0..Batch::RECEIVE_MAX {
                    let mut packet = pool.get().expect("a frame").fill(&frames[number % 2]);
                    packet.input = PortId(0);
                    batch.push(packet);
                }
                graph.run(Time::from_nanos(1), entry, &mut batch, &mut exits);
                assert_eq!(exits.transmit[1].len(), Batch::RECEIVE_MAX, "none is lost");
                for packet in exits.transmit[1].iter() {
                    let data = packet.data();
                    assert_eq!(data[31] & 3, data[1] & 3, "10.201 by a1, 10.202 by a2");
                }
                count += exits.transmit[1].len() as u64;
                pool.put_batch(&mut exits.transmit[1]);
            }
            count
        })
    };
    for number in 1..ROUNDS {
        for (prefix, _, side) in PREFIXES {
            let target = Target::via(OUT, ip(&gateway(side, number)));
            writer.set_route(net(prefix), &target).expect("numbers are used again");
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(worker.join().expect("no packet went astray") > 0);
}
