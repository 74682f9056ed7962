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

    /// Gives up the packets it holds back that `leaves`, and their timers with them.
    fn give_up(&mut self, _leaves: &mut dyn FnMut(&Packet) -> bool) -> Vec<Held> {
        Vec::new()
    }

    /// Goes on holding back what the same node of another graph gave up, or sends it on.
    fn take_over(&mut self, _now: Time, held: Held, out: &mut Outputs<'_>) {
        // Reached only by a node that gives packets up and takes none.
        held.packets.into_iter().for_each(|packet| out.kernel(packet));
    }
}

/// Packets that a node held back, on their way to the same node of another worker's graph.
#[derive(Debug)]
pub struct Held {
    /// Since when they wait: what ends their wait by time goes on from there.
    pub since: Time,
    /// In order of arrival.
    pub packets: Vec<Packet>,
}

/// What all nodes of a graph gave up.
#[derive(Debug, Default)]
pub struct Goods(Vec<(usize, Held)>);

impl Goods {
    /// Packets.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(_, held)| held.packets.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These, then `later`.
    pub fn and(mut self, mut later: Goods) -> Goods {
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
    /// To the transmit exit of the packet's output port.
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
        move_leaving(batch, &mut self.exits.transmit, leaves);
    }

    /// Hands a packet to the kernel.
    #[inline]
    pub fn kernel(&mut self, packet: Packet) {
        self.exits.kernel.push(packet);
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
        self.slots.push(Slot { node, edges: Vec::new() });
        NodeId(self.slots.len() - 1)
    }

    /// Wires the next free output of `from`.
    pub fn wire(&mut self, from: NodeId, to: Edge) -> &mut Self {
        self.slots[from.0].edges.push(to);
        self
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
            let Slot { node, edges } = &mut self.slots[index];
            node.poll(now, &mut Outputs { edges, pending: &mut self.pending, exits });
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

    /// Takes the held packets that `leaves` out of all nodes.
    pub fn give_up(&mut self, leaves: &mut dyn FnMut(&Packet) -> bool) -> Goods {
        let slots = self.slots.iter_mut().enumerate();
        let given = slots.flat_map(|(index, slot)| {
            slot.node.give_up(leaves).into_iter().map(move |held| (index, held))
        });
        Goods(given.collect())
    }

    /// Has the nodes go on with what the nodes of a graph of the same shape gave up.
    pub fn take_over(&mut self, now: Time, goods: Goods, exits: &mut Exits) {
        for (index, held) in goods.0 {
            let Slot { node, edges } = &mut self.slots[index];
            node.take_over(now, held, &mut Outputs { edges, pending: &mut self.pending, exits });
        }
        self.settle(now, 0, exits);
    }

    fn settle(&mut self, now: Time, first: usize, exits: &mut Exits) {
        let mut start = first;
        loop {
            for index in start..self.slots.len() {
                if self.pending[index].is_empty() {
                    continue;
                }
                core::mem::swap(&mut self.pending[index], &mut self.scratch);
                let Slot { node, edges } = &mut self.slots[index];
                let mut out = Outputs { edges, pending: &mut self.pending, exits };
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
}
