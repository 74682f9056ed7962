//! Which ports an application is for, and the node that lets other ports' packets pass it by.
//!
//! Room: below `application`. Who configures ports may change a set while workers run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ebb_graph::{Batch, Given, Node, Outputs, Packet, PortId};
use ebb_units::Time;

/// Ports by their numbers, which others may read while it is changed.
///
/// ```
/// use ebb_apps::ports::PortSet;
/// use ebb_graph::PortId;
/// let ports = PortSet::all();
/// ports.set([PortId(2)]);
/// assert!(ports.has(PortId(2)) && !ports.has(PortId(1)));
/// ```
#[derive(Debug)]
pub struct PortSet(AtomicU32);

impl PortSet {
    /// Every port, of any number.
    pub fn all() -> PortSet {
        PortSet(AtomicU32::new(u32::MAX))
    }

    /// From now on these, of numbers up to 31.
    pub fn set(&self, ports: impl IntoIterator<Item = PortId>) {
        let bits = ports.into_iter().map(|port| bit(u32::MAX, port)).fold(0, |all, bit| all | bit);
        self.0.store(bits, Relaxed);
    }

    /// From now on every port.
    pub fn set_all(&self) {
        self.0.store(u32::MAX, Relaxed);
    }

    /// Whether it is every port.
    pub fn is_all(&self) -> bool {
        self.0.load(Relaxed) == u32::MAX
    }

    /// Whether a port is among them.
    pub fn has(&self, port: PortId) -> bool {
        let bits = self.0.load(Relaxed);
        bits == u32::MAX || bit(bits, port) != 0
    }
}

/// What of `bits` is the port's.
fn bit(bits: u32, port: PortId) -> u32 {
    bits & 1u32.checked_shl(u32::from(port.0)).unwrap_or(0)
}

/// By which of a packet's ports a node is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it came in.
    Input,
    /// Where it leaves.
    Output,
}

impl Side {
    fn of(self, packet: &Packet) -> PortId {
        match self {
            Side::Input => packet.input,
            Side::Output => packet.output,
        }
    }
}

/// A node that only packets of some ports come to.
pub(crate) struct Selected {
    node: Box<dyn Node>,
    ports: Arc<PortSet>,
    side: Side,
    /// What passes by, for as long as a batch is looked at.
    others: Batch,
}

impl Selected {
    pub(crate) fn new(node: Box<dyn Node>, ports: Arc<PortSet>, side: Side) -> Selected {
        Selected { node, ports, side, others: Batch::new() }
    }
}

impl Node for Selected {
    fn name(&self) -> &'static str {
        self.node.name()
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        let bits = self.ports.0.load(Relaxed);
        if bits != u32::MAX {
            let is_other = |packet: &mut Packet| bit(bits, self.side.of(packet)) == 0;
            // Of each flow all go the same way, and both keep their order.
            self.others.extend(batch.extract_if(.., is_other));
            if !self.others.is_empty() {
                out.forward(0, &mut self.others);
            }
            if batch.is_empty() {
                return;
            }
        }
        self.node.process(now, batch, out);
    }

    fn poll_at(&self) -> Option<Time> {
        self.node.poll_at()
    }

    fn poll(&mut self, now: Time, out: &mut Outputs<'_>) {
        self.node.poll(now, out);
    }

    fn held(&self) -> usize {
        self.node.held()
    }

    fn keeps_state(&self) -> bool {
        self.node.keeps_state()
    }

    fn give_up(&mut self, leaves: &mut dyn FnMut(PortId, u32) -> bool) -> Vec<Given> {
        self.node.give_up(leaves)
    }

    fn retire(&mut self) {
        self.node.retire();
    }

    fn take_over(&mut self, now: Time, given: Given, out: &mut Outputs<'_>) {
        self.node.take_over(now, given, out);
    }
}

#[cfg(test)]
mod tests {
    use ebb_graph::{DropReason, Edge, Exits, GraphBuilder, Pool};
    use proptest::prelude::*;

    use super::*;

    /// Drops every packet.
    struct Sink;

    impl Node for Sink {
        fn name(&self) -> &'static str {
            "sink"
        }
        fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
            batch.drain(..).for_each(|packet| out.drop(packet, DropReason::Application));
        }
    }

    proptest! {
        #[test]
        fn each_packet_goes_one_way_in_order(
            chosen in proptest::collection::btree_set(0u8..32, 0..32),
            packets in proptest::collection::vec(0u8..32, 0..64),
            by_output in any::<bool>(),
        ) {
            let ports = Arc::new(PortSet::all());
            ports.set(chosen.iter().map(|port| PortId(*port)));
            let side = if by_output { Side::Output } else { Side::Input };
            let mut builder = GraphBuilder::new();
            let node = Selected::new(Box::new(Sink), ports.clone(), side);
            let entry = builder.add(Box::new(node));
            builder.wire(entry, Edge::Kernel);
            let (mut graph, mut exits) = (builder.build(), Exits::new(32));
            let (mut pool, mut batch) = (Pool::standalone(64), Batch::new());
            for (number, port) in packets.iter().enumerate() {
                let mut packet = pool.get().expect("a frame").fill(&[number as u8]);
                (packet.input, packet.output) = match by_output {
                    true => (PortId(0), PortId(*port)),
                    false => (PortId(*port), PortId(0)),
                };
                batch.push(packet);
            }
            graph.run(Time::ZERO, entry, &mut batch, &mut exits);
            let numbers = |batch: &Batch| -> Vec<u8> {
                batch.iter().map(|packet| packet.data()[0]).collect()
            };
            let wanted = |there: bool| -> Vec<u8> {
                let of = packets.iter().enumerate();
                of.filter(|(_, port)| chosen.contains(port) == there).map(|(at, _)| at as u8).collect()
            };
            // With all 32 it is for ports of any number.
            prop_assert_eq!(numbers(&exits.dropped), wanted(true));
            prop_assert_eq!(numbers(&exits.kernel), wanted(false));
            prop_assert!((0..32).all(|port| ports.has(PortId(port)) == chosen.contains(&port)));
            pool.put_batch(&mut exits.dropped);
            pool.put_batch(&mut exits.kernel);
        }
    }
}
