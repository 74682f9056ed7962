//! Any bytes as a frame through the routing graph, with a kernel behind it and alone: it leaves through exactly one exit.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use ebb_apps::route::{
    Builder, FRAGMENT, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph,
};
use ebb_graph::{Batch, Exits, FRAME_LEN, Graph, HEADROOM, NodeId, Pool, PortId};
use ebb_units::Time;
use ebb_wire::Fragments;
use libfuzzer_sys::fuzz_target;

struct Router {
    _tables: FibWriter,
    graph: Graph,
    entry: NodeId,
    exits: Exits,
    pool: Pool,
    now: u64,
}

impl Router {
    fn new(alone: bool) -> Router {
        let (mut tables, fib) = FibWriter::new();
        for port in 0..2u8 {
            let id = InterfaceId(u16::from(port));
            let nets = [format!("192.0.{port}.1/24"), format!("2001:db8:{port}::1/64")];
            let addresses = nets.iter().map(|net| net.parse().unwrap()).collect();
            let mac = [2, 0, 0, 0, 0, port];
            let interface = Interface { port: PortId(port), vlan: 0, mac, mtu: 1500, up: true, addresses };
            tables.set_interface(id, interface);
            let host = format!("192.0.{port}.2").parse().unwrap();
            tables.set_neighbour(id, host, [2, 0, 0, 0, 1, port]);
            let prefix = format!("{}.0.0.0/1", 128 * u32::from(port)).parse().unwrap();
            tables.set_route(prefix, &Target::via(id, host)).unwrap();
        }
        tables.set_route("::/0".parse().unwrap(), &Target::OnLink(InterfaceId(1))).unwrap();
        tables.publish();
        let requests = Requests::new(16, Arc::new(|| {}));
        let builder = Builder::new(&fib, requests);
        let builder = if alone { builder.alone() } else { builder };
        let WorkerGraph { graph, entry, .. } = builder.worker(0);
        let (exits, pool) = (Exits::new(2), Pool::standalone(4096));
        Router { _tables: tables, graph, entry, exits, pool, now: 1 }
    }
}

thread_local!(static ROUTERS: RefCell<[Router; 2]> = RefCell::new([false, true].map(Router::new)));

fuzz_target!(|bytes: &[u8]| {
    ROUTERS.with_borrow_mut(|routers| routers.iter_mut().for_each(|router| {
        let Router { graph, entry, exits, pool, now, .. } = router;
        *now += 1_000_000;
        let held = graph.held();
        let mut batch = Batch::new();
        let bytes = &bytes[..bytes.len().min(FRAME_LEN - HEADROOM)];
        batch.push(pool.get().expect("frames come back").fill(bytes));
        graph.run(Time::from_nanos(*now), *entry, &mut batch, exits);
        graph.poll(Time::from_nanos(*now), exits);
        let mut left = exits.kernel.len() + exits.dropped.len();
        left += exits.transmit.iter().map(|batch| batch.len()).sum::<usize>();
        assert_eq!(left + graph.held(), held + 1, "one packet in, one packet out or held");
        for packet in exits.transmit.iter().flat_map(|batch| batch.iter()).filter(|packet| packet.flags & FRAGMENT != 0) {
            let mtu = packet.key as usize;
            let mut out = vec![0; mtu];
            if let Some(mut fragments) = Fragments::of(&packet.data()[usize::from(packet.l3)..], mtu) {
                while fragments.write_next(&mut out).is_some_and(|len| len <= mtu) {}
            }
        }
        exits.transmit.iter_mut().for_each(|batch| pool.put_batch(batch));
        pool.put_batch(&mut exits.kernel);
        pool.put_batch(&mut exits.dropped);
    }));
});
