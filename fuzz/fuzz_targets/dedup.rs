//! Any packets and any reports from a link whose other end encodes: nothing panics, each packet leaves once, and none that
//! was put together is another than was encoded.
//!
//! The first byte of each input says what it is: a report, a frame as it is, or a change of a frame that was encoded.
#![no_main]

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use ebb_apps::Application;
use ebb_apps::dedup::{Dedup, Sampling, Settings};
use ebb_graph::{Batch, Edge, Exits, Graph, GraphBuilder, NodeId, Pool, PortId};
use ebb_units::Time;
use ebb_wire::Template;
use libfuzzer_sys::fuzz_target;

thread_local! {
    /// Its memory is never given back.
    static POOL: RefCell<Pool> = RefCell::new(Pool::standalone(64));
    static LINK: RefCell<Option<Link>> = const { RefCell::new(None) };
}

/// Both ends of a link, for some inputs: to make them takes a hundred times as long as to run a frame through them.
struct Link {
    near: (Arc<Dedup>, [(Graph, NodeId); 2]),
    far: (Arc<Dedup>, [(Graph, NodeId); 2]),
    nanos: u64,
    /// What the near end was given.
    entered: HashSet<Vec<u8>>,
    inputs: u32,
}

const INPUTS: u32 = 128;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn end(session: u128) -> (Arc<Dedup>, [(Graph, NodeId); 2]) {
    let settings = Settings { sampling: Sampling::Maxp, period: 32, cache_bytes: 1 << 16, seed: 1 };
    let dedup =
        Arc::new(Dedup::new(1, &settings, &[(PortId(0), session)], &(Arc::new(|| ()) as _)));
    let graph = |node: Option<Box<dyn ebb_graph::Node>>| {
        let mut builder = GraphBuilder::new();
        let entry = builder.add(node.expect("a node"));
        builder.wire(entry, Edge::Transmit);
        (builder.build(), entry)
    };
    let graphs = [graph(dedup.egress(0)), graph(dedup.ingress(0))];
    (dedup, graphs)
}

/// What becomes of a frame.
fn pass(
    (graph, entry): &mut (Graph, NodeId),
    pool: &mut Pool,
    now: Time,
    frame: &[u8],
) -> Option<Vec<u8>> {
    let (mut batch, mut exits) = (Batch::new(), Exits::new(1));
    batch.push(pool.get().expect("a frame").fill(&frame[..frame.len().min(1700)]));
    graph.run(now, *entry, &mut batch, &mut exits);
    let left = exits.transmit[0].first().map(|packet| packet.data().to_vec());
    assert_eq!(exits.transmit[0].len() + exits.dropped.len(), 1);
    pool.put_batch(&mut exits.transmit[0]);
    pool.put_batch(&mut exits.dropped);
    left
}

fn talk(near: &Dedup, far: &Dedup, now: Time) {
    let mut datagram = Vec::new();
    for _ in 0..4 {
        for (from, to) in [(near, far), (far, near)] {
            while from.peers()[0].send(now, &mut datagram) {
                to.peers()[0].receive(&datagram, now);
            }
        }
    }
}

fn link() -> Link {
    let (near, far, nanos) = (end(5), end(6), 1_000_000_000);
    talk(&near.0, &far.0, Time::from_nanos(nanos));
    Link { near, far, nanos, entered: HashSet::new(), inputs: 0 }
}

fuzz_target!(|inputs: Vec<Vec<u8>>| {
    LINK.with_borrow_mut(|place| {
        if place.as_ref().is_none_or(|link| link.inputs >= INPUTS) {
            *place = Some(link());
        }
        let Link { near: (near, out), far: (far, into), nanos, entered, inputs: used } =
            place.as_mut().expect("one is there");
        *used += 1;
        POOL.with_borrow_mut(|pool| {
            for input in inputs.iter().take(64) {
                *nanos += 6_000_000;
                let now = Time::from_nanos(*nanos);
                let Some((kind, bytes)) = input.split_first() else { continue };
                match kind % 4 {
                    0 => far.peers()[0].receive(bytes, now),
                    1 => _ = pass(&mut into[1], pool, now, bytes),
                    _ => {
                        let ends = ["192.0.2.1:7", "192.0.2.2:9"]
                            .map(|text| text.parse().expect("an address"));
                        let mut template = Template::udp(ends[0], ends[1]);
                        template.destination_mac = MAC;
                        let mut payload = vec![*kind; 700];
                        payload.extend(bytes.iter().take(700));
                        let frame = template.to_frame(&payload);
                        entered.insert(frame.clone());
                        let mut link =
                            pass(&mut out[0], pool, now, &frame).expect("nothing is dropped");
                        let is_encoded = link[38..40] == [0, 4];
                        // Beyond the IP header, whose checksum is the router's matter.
                        if kind & 4 != 0 && is_encoded && !bytes.is_empty() {
                            let place = 42 + usize::from(bytes[0]) % (link.len() - 42);
                            link[place] ^= bytes[bytes.len() - 1];
                        }
                        if let Some(came) = pass(&mut into[1], pool, now, &link) {
                            assert!(entered.contains(&came));
                        }
                        talk(near, far, now);
                    }
                }
            }
        });
    });
});
