//! Ebb's data plane in memory: 64-byte packets out of frame memory, through the routing graph, and out.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::Result;
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Graph, NodeId, Pool, PortId};
use ebb_units::Time;
use ebb_wire::Template;
use ipnet::Ipv4Net;

const FRAME_LEN: usize = 64;
/// Neighbours that the table leads to, numbered from 1.
const GATEWAYS: u32 = 64;
/// Frames of the memory, as many as a small queue of a card has.
const FRAMES: u32 = 1024;

/// A packet as it comes.
pub(super) type Frame = [u8; FRAME_LEN];

/// A UDP packet of 64 bytes to an address, from a neighbour of port 0.
pub(super) fn frame(destination: &u32) -> Frame {
    let source: IpAddr = Ipv4Addr::new(192, 0, 2, 9).into();
    let destination: IpAddr = Ipv4Addr::from_bits(*destination).into();
    let mut template = Template::udp((source, 4000).into(), (destination, 7).into());
    template.destination_mac = [2, 0, 0, 0, 0, 1];
    let payload = [0; FRAME_LEN];
    let mut frame = [0; FRAME_LEN];
    template.write(&payload[template.udp_payload_offset()..], &mut frame);
    frame
}

/// One worker's graph with its frame memory.
pub(super) struct Router {
    graph: Graph,
    entry: NodeId,
    pool: Pool,
    exits: Exits,
    batch: Batch,
}

impl Router {
    /// Over a table in which routes lead to 64 neighbours in turn; the rest leads to the first.
    pub(super) fn new(routes: &[Ipv4Net]) -> Result<(FibWriter, Router)> {
        let (mut writer, fib) = FibWriter::new();
        for port in 0..2 {
            let interface = Interface {
                port: PortId(port),
                vlan: 0,
                mac: [2, 0, 0, 0, 0, 1 + port],
                mtu: 1500,
                up: true,
                addresses: Vec::new(),
            };
            writer.set_interface(InterfaceId(port.into()), interface);
        }
        let gateway = |number: u32| -> (InterfaceId, IpAddr) {
            let address = Ipv4Addr::new(10, 0, (number & 1) as u8, number as u8);
            (InterfaceId((number & 1) as u16), address.into())
        };
        for number in 1..=GATEWAYS {
            let (interface, address) = gateway(number);
            writer.set_neighbour(interface, address, [2, 0xaa, 0, 0, 0, number as u8]);
        }
        writer.publish();
        let (interface, address) = gateway(1);
        writer.set_route("0.0.0.0/0".parse()?, &Target::via(interface, address))?;
        for (index, route) in routes.iter().enumerate() {
            let (interface, address) = gateway(1 + index as u32 % GATEWAYS);
            writer.set_route(route.trunc().into(), &Target::via(interface, address))?;
        }
        let requests = Requests::new(16, Arc::new(|| {}));
        let WorkerGraph { graph, entry, .. } = Builder::new(&fib, requests).worker(0);
        let (pool, exits) = (Pool::standalone(FRAMES), Exits::new(2));
        Ok((writer, Router { graph, entry, pool, exits, batch: Batch::new() }))
    }

    /// Forwards all of them in batches; how many went out.
    #[inline(never)]
    pub(super) fn forward(&mut self, frames: &[Frame]) -> u64 {
        let mut sent = 0;
        for chunk in frames.chunks_exact(Batch::RECEIVE_MAX) {
            for bytes in chunk {
                let frame = self.pool.get().expect("all frames came back");
                self.batch.push(frame.fill(bytes));
            }
            self.graph.run(Time::from_nanos(1), self.entry, &mut self.batch, &mut self.exits);
            for batch in &mut self.exits.transmit {
                sent += batch.len() as u64;
                self.pool.put_batch(batch);
            }
            self.pool.put_batch(&mut self.exits.kernel);
            self.pool.put_batch(&mut self.exits.dropped);
        }
        sent
    }
}
