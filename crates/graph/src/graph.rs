//! Nodes joined into a graph, through which one worker's packets go.

use std::any::Any;

use ebb_units::Time;

use crate::memory::move_leaving;
use crate::{Batch, DropReason, Packet, PortId};

/// One step of packet processing.
///
/// A node takes every packet out of `batch` and hands each to one of its outputs or exits. It
/// reads no clock (`now` is handed in) and does no I/O.
pub trait Node: Send {
    /// Name in traces and counters.
    fn name(&self) -> &'static str;

    /// Consumes the batch. Packets of one flow leave in the order they came.
    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>);

    /// When the node next wants [`Node::poll`], if it holds anything that time can change.
    /// Calling earlier is harmless and wastes energy.
    fn poll_at(&self) -> Option<Time> {
        None
    }

    /// Lets the node act on the passing of time.
    fn poll(&mut self, _now: Time, _out: &mut Outputs<'_>) {}

    /// Packets the node holds back.
    fn held(&self) -> usize {
        0
    }

    /// Whether it remembers something of flows from packet to packet.
    fn keeps_state(&self) -> bool {
        false
    }

    /// Gives up what it holds back and remembers of the flows that `leaves`, which is asked with the port
    /// where a flow comes in and its hash in redirect tables.
    fn give_up(&mut self, _leaves: &mut dyn FnMut(PortId, u32) -> bool) -> Vec<Given> {
        Vec::new()
    }

    /// Hands over to others what it keeps for them: no packet may come any more.
    fn retire(&mut self) {}

    /// Goes on with what the same node of another graph gave up.
    fn take_over(&mut self, _now: Time, given: Given, out: &mut Outputs<'_>) {
        // Reached only by a node that gives something up and takes nothing.
        if let Given::Packets { packets, .. } = given {
            packets.into_iter().for_each(|packet| out.kernel(packet));
        }
    }
}

/// What a node gave up, on its way to the same node of another worker's graph.
#[derive(Debug)]
pub enum Given {
    /// Packets that it held back.
    Packets {
        /// Since when they wait: what ends their wait by time goes on from there.
        since: Time,
        /// In order of arrival.
        packets: Vec<Packet>,
    },
    /// What it remembered of flows, in a form that the node knows.
    State(Box<dyn Any + Send>),
}

/// What all nodes of a graph gave up of some flows.
#[derive(Debug, Default)]
pub struct FlowState(Vec<(usize, Given)>);

impl FlowState {
    /// Packets that were held back.
    pub fn packets(&self) -> usize {
        let packets = |given: &Given| match given {
            Given::Packets { packets, .. } => packets.len(),
            Given::State(_) => 0,
        };
        self.0.iter().map(|(_, given)| packets(given)).sum()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This, then `later`.
    pub fn and(mut self, mut later: FlowState) -> FlowState {
        self.0.append(&mut later.0);
        self
    }
}

/// A node of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(usize);

/// Where an output of a node leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// To another node.
    Node(NodeId),
    /// To the transmit exit of the packet's output port, or to what stands before it
    /// ([`GraphBuilder::before_transmit`]).
    Transmit,
    /// To the kernel's own stack.
    Kernel,
}

/// Where packets leave a graph.
#[derive(Debug)]
pub struct Exits {
    /// By port number.
    pub transmit: Vec<Batch>,
    /// For the kernel's own stack.
    pub kernel: Batch,
    /// Each with its [`Packet::reason`].
    pub dropped: Batch,
}

impl Exits {
    /// Exits for `ports` ports.
    pub fn new(ports: usize) -> Exits {
        Exits {
            transmit: (0..ports).map(|_| Batch::new()).collect(),
            kernel: Batch::new(),
            dropped: Batch::new(),
        }
    }
}

/// A node's view of what comes after it.
#[derive(Debug)]
pub struct Outputs<'a> {
    edges: &'a [Edge],
    egress: Option<usize>,
    pending: &'a mut [Batch],
    exits: &'a mut Exits,
}

impl Outputs<'_> {
    /// Sends a packet to the node's output number `output`.
    ///
    /// # Panics
    /// When the output was not wired.
    #[inline]
    pub fn push(&mut self, output: usize, packet: Packet) {
        match self.edges[output] {
            Edge::Node(node) => self.pending[node.0].push(packet),
            Edge::Transmit => self.transmit(packet),
            Edge::Kernel => self.kernel(packet),
        }
    }

    /// Sends a whole batch to output number `output`, without touching its packets where it can.
    #[inline]
    pub fn forward(&mut self, output: usize, batch: &mut Batch) {
        match self.edges[output] {
            Edge::Node(node) => {
                let pending = &mut self.pending[node.0];
                if pending.is_empty() {
                    core::mem::swap(pending, batch)
                } else {
                    pending.append(batch)
                }
            }
            Edge::Transmit => self.transmit_if(batch, |packet| Some((packet.output, packet.len()))),
            Edge::Kernel => self.exits.kernel.append(batch),
        }
    }

    /// Sends a packet out of its [`Packet::output`] port.
    #[inline]
    pub fn transmit(&mut self, packet: Packet) {
        if let Some(node) = self.egress {
            return self.pending[node].push(packet);
        }
        self.exits.transmit[packet.output.0 as usize].push(packet);
    }

    /// Sends the packets for which `leaves` names a port and a length out of that port, cut to that length.
    /// The others stay, in order.
    #[inline(always)]
    pub fn transmit_if(
        &mut self,
        batch: &mut Batch,
        leaves: impl FnMut(&mut Packet) -> Option<(PortId, usize)>,
    ) {
        // One loop for both: a second copy of it would cost the first one a tenth of its speed.
        let (to, mask) = match self.egress {
            None => (&mut self.exits.transmit[..], usize::MAX),
            Some(node) => (core::slice::from_mut(&mut self.pending[node]), 0),
        };
        move_leaving(batch, to, mask, leaves);
    }

    /// Hands a packet to the kernel.
    #[inline]
    pub fn kernel(&mut self, packet: Packet) {
        self.exits.kernel.push(packet);
    }

    /// How many packets have been dropped and not been taken away yet, by all nodes.
    pub fn dropped(&self) -> usize {
        self.exits.dropped.len()
    }

    /// Drops a packet for a reason.
    #[inline]
    pub fn drop(&mut self, mut packet: Packet, reason: DropReason) {
        packet.reason = reason;
        self.exits.dropped.push(packet);
    }
}

struct Slot {
    node: Box<dyn Node>,
    edges: Vec<Edge>,
    /// The node that gets what this one transmits, if it is not the exit.
    egress: Option<usize>,
}

impl Slot {
    fn split<'a>(
        &'a mut self,
        pending: &'a mut [Batch],
        exits: &'a mut Exits,
    ) -> (&'a mut dyn Node, Outputs<'a>) {
        (&mut *self.node, Outputs { edges: &self.edges, egress: self.egress, pending, exits })
    }
}

/// Nodes and the edges between them.
pub struct Graph {
    slots: Vec<Slot>,
    pending: Vec<Batch>,
    scratch: Batch,
}

/// Collects nodes and edges.
#[derive(Default)]
pub struct GraphBuilder {
    slots: Vec<Slot>,
}

impl GraphBuilder {
    /// No nodes yet.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Adds a node. Nodes run in the order they were added, so add them along the packets' way.
    pub fn add(&mut self, node: Box<dyn Node>) -> NodeId {
        self.slots.push(Slot { node, edges: Vec::new(), egress: None });
        NodeId(self.slots.len() - 1)
    }

    /// Wires the next free output of `from`.
    pub fn wire(&mut self, from: NodeId, to: Edge) -> &mut Self {
        self.slots[from.0].edges.push(to);
        self
    }

    /// Has `node`, and what it leads to, stand before the transmit exits of all nodes added until then but
    /// itself.
    pub fn before_transmit(&mut self, node: NodeId) {
        self.slots[..node.0].iter_mut().for_each(|slot| slot.egress = Some(node.0));
    }

    /// The finished graph.
    pub fn build(self) -> Graph {
        let pending = self.slots.iter().map(|_| Batch::new()).collect();
        Graph { slots: self.slots, pending, scratch: Batch::new() }
    }
}

impl Graph {
    /// Sends `batch` into `entry` and runs until every packet has left or is held by a node.
    pub fn run(&mut self, now: Time, entry: NodeId, batch: &mut Batch, exits: &mut Exits) {
        let pending = &mut self.pending[entry.0];
        if pending.is_empty() {
            core::mem::swap(pending, batch);
        } else {
            pending.append(batch);
        }
        self.settle(now, entry.0, exits);
    }

    /// Lets nodes act on time; see [`Node::poll`].
    pub fn poll(&mut self, now: Time, exits: &mut Exits) {
        for index in 0..self.slots.len() {
            if self.slots[index].node.poll_at().is_none_or(|at| at > now) {
                continue;
            }
            let (node, mut out) = self.slots[index].split(&mut self.pending, exits);
            node.poll(now, &mut out);
        }
        self.settle(now, 0, exits);
    }

    /// When [`Graph::poll`] is next due.
    pub fn poll_at(&self) -> Option<Time> {
        self.slots.iter().filter_map(|slot| slot.node.poll_at()).min()
    }

    /// Packets held back by all nodes.
    pub fn held(&self) -> usize {
        self.slots.iter().map(|slot| slot.node.held()).sum()
    }

    /// Whether there is anything to [`Graph::give_up`].
    pub fn has_state(&self) -> bool {
        self.slots.iter().any(|slot| slot.node.held() > 0 || slot.node.keeps_state())
    }

    /// Takes what nodes hold back and remember of the flows that `leaves`, see [`Node::give_up`].
    pub fn give_up(&mut self, leaves: &mut dyn FnMut(PortId, u32) -> bool) -> FlowState {
        let slots = self.slots.iter_mut().enumerate();
        let given = slots.flat_map(|(index, slot)| {
            slot.node.give_up(leaves).into_iter().map(move |given| (index, given))
        });
        FlowState(given.collect())
    }

    /// Has the nodes go on with what the nodes of a graph of the same shape gave up.
    pub fn take_over(&mut self, now: Time, state: FlowState, exits: &mut Exits) {
        for (index, given) in state.0 {
            let (node, mut out) = self.slots[index].split(&mut self.pending, exits);
            node.take_over(now, given, &mut out);
        }
        self.settle(now, 0, exits);
    }

    /// No packet may come any more: see [`Node::retire`].
    pub fn retire(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.node.retire());
    }

    fn settle(&mut self, now: Time, first: usize, exits: &mut Exits) {
        let mut start = first;
        loop {
            for index in start..self.slots.len() {
                if self.pending[index].is_empty() {
                    continue;
                }
                core::mem::swap(&mut self.pending[index], &mut self.scratch);
                let (node, mut out) = self.slots[index].split(&mut self.pending, exits);
                node.process(now, &mut self.scratch, &mut out);
                assert!(self.scratch.is_empty(), "node {} left packets behind", node.name());
            }
            match self.pending.iter().position(|batch| !batch.is_empty()) {
                Some(again) => start = again,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    /// Sends packets of odd length to output 0 and drops the others.
    struct Odd;

    impl Node for Odd {
        fn name(&self) -> &'static str {
            "odd"
        }
        fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
            for packet in batch.drain(..) {
                if packet.len() % 2 == 1 {
                    out.push(0, packet)
                } else {
                    out.drop(packet, DropReason::Truncated)
                }
            }
        }
    }

    /// Shortens packets by two and sends those that are left back to output 0.
    struct Shorten;

    impl Node for Shorten {
        fn name(&self) -> &'static str {
            "shorten"
        }
        fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
            for mut packet in batch.drain(..) {
                if packet.len() < 3 {
                    out.push(1, packet)
                } else {
                    packet.pull_front(2);
                    out.push(0, packet)
                }
            }
        }
    }

    #[test]
    fn packets_loop_and_leave_in_order() {
        let mut builder = GraphBuilder::new();
        let odd = builder.add(Box::new(Odd));
        let shorten = builder.add(Box::new(Shorten));
        builder.wire(odd, Edge::Node(shorten));
        builder.wire(shorten, Edge::Node(odd)).wire(shorten, Edge::Transmit);
        let mut graph = builder.build();
        let mut pool = Pool::standalone(8);
        let mut batch = Batch::new();
        for bytes in [b"12345".as_slice(), b"12", b"abc"] {
            batch.push(pool.get().expect("a frame").fill(bytes));
        }
        let mut exits = Exits::new(1);
        graph.run(Time::ZERO, odd, &mut batch, &mut exits);
        let sent: Vec<_> = exits.transmit[0].iter().map(|packet| packet.data().to_vec()).collect();
        assert_eq!(sent, [b"c".to_vec(), b"5".to_vec()]);
        assert_eq!(exits.dropped.len(), 1);
        assert_eq!(exits.dropped[0].reason, DropReason::Truncated);
    }

    /// Notes the port of each packet in its first byte and lets it leave.
    struct Label;

    impl Node for Label {
        fn name(&self) -> &'static str {
            "label"
        }
        fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
            for mut packet in batch.drain(..) {
                packet.data_mut()[0] = b'0' + packet.output.0;
                out.transmit(packet);
            }
        }
    }

    /// Sends packets out of the port that their last byte says, cut to two bytes: all at once but those of
    /// odd length.
    struct Route;

    impl Node for Route {
        fn name(&self) -> &'static str {
            "route"
        }
        fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
            let port = |packet: &Packet| PortId(packet.data()[packet.len() - 1] - b'0');
            out.transmit_if(batch, |packet| (packet.len() % 2 == 0).then(|| (port(packet), 2)));
            for mut packet in batch.drain(..) {
                packet.output = port(&packet);
                out.transmit(packet);
            }
        }
    }

    #[test]
    fn what_stands_before_transmit_sees_every_packet_with_its_port() {
        let mut builder = GraphBuilder::new();
        let route = builder.add(Box::new(Route));
        let label = builder.add(Box::new(Label));
        builder.before_transmit(label);
        let mut graph = builder.build();
        let mut pool = Pool::standalone(8);
        let mut batch = Batch::new();
        for bytes in [b"abc1".as_slice(), b"ab0", b"cde0", b"cd1", b"efg1"] {
            batch.push(pool.get().expect("a frame").fill(bytes));
        }
        let mut exits = Exits::new(2);
        graph.run(Time::ZERO, route, &mut batch, &mut exits);
        let sent = |port: usize| -> Vec<Vec<u8>> {
            exits.transmit[port].iter().map(|packet| packet.data().to_vec()).collect()
        };
        assert_eq!(sent(0), [b"0d".to_vec(), b"0b0".to_vec()]);
        assert_eq!(sent(1), [b"1b".to_vec(), b"1f".to_vec(), b"1d1".to_vec()]);
    }
}
