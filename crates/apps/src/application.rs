//! What stands in packets' way beside routing, and how it is chained.
//!
//! Room: between `graph` and the applications. Ingress nodes in the order of the applications, then routing,
//! then egress nodes in the same order, then observers. A place where no application has a node costs nothing.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use ebb_graph::{Batch, Edge, GraphBuilder, Node, NodeId, Outputs, Packet, PortId};
use ebb_units::Time;

use crate::meter::{Meters, Place};
use crate::ports::{PortSet, Selected, Side};

/// Bit of [`Packet::flags`] of what an application made of a packet that came in, with an address of the router's as
/// its source: no reverse-path filter is asked.
pub(crate) const OWN_SOURCE: u8 = 8;

/// Bit of [`Packet::flags`] of what came in a tunnel, whose peer vouches for its source: no reverse-path filter is
/// asked, as Linux asks none of packets that IPsec has opened (`__fib_validate_source`).
pub(crate) const OPENED: u8 = 16;

/// A packet application: what all workers share of it, out of which each gets its own nodes.
///
/// Nodes send packets on by output 0, to the kernel ([`Outputs::kernel`]), or drop them
/// ([`Outputs::drop`], with [`ebb_graph::DropReason::Application`] and a counter of the application that says
/// why). What they remember of flows moves with these to other workers ([`Node::give_up`]).
pub trait Application: Debug + Send + Sync {
    /// Name in the configuration, in counters and in what is shown of the graph.
    fn name(&self) -> &'static str;

    /// A worker's node for packets as they come in: frames of any kind that are not the kernel's at once.
    fn ingress(&self, _worker: usize) -> Option<Box<dyn Node>> {
        None
    }

    /// A worker's node for packets on their way out: whole frames for [`Packet::output`], the router's own
    /// ICMP errors among them.
    fn egress(&self, _worker: usize) -> Option<Box<dyn Node>> {
        None
    }

    /// What a worker shows packets to as they leave, after all egress nodes.
    fn observer(&self, _worker: usize) -> Option<Box<dyn Observer>> {
        None
    }

    /// What it has counted, by name, over all workers; only ever more.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Own addresses of the host on which it receives: packets to them are the workers' before the kernel's.
    fn addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// One of the packets that its ingress nodes made, from the IP header on, is too long for a link by which it would
    /// leave, and is dropped: the link has this MTU.
    fn too_long(&self, _now: Time, _packet: &[u8], _mtu: u16) {}

    /// Bytes by which its egress node lengthens packets that leave by `port`: the MTU is smaller by them.
    fn overhead(&self, _port: PortId) -> u16 {
        0
    }

    /// By which of their ports packets come to its node in this place, where it is for some ports only; none: all do.
    fn side(&self, place: Place) -> Option<Side> {
        Some(match place {
            Place::Ingress | Place::Observer => Side::Input,
            Place::Egress => Side::Output,
        })
    }

    /// The ports that it is for, if those may be some only.
    fn ports(&self) -> Option<&Arc<PortSet>> {
        None
    }
}

/// An application for some ports: other ports' packets pass its nodes by.
#[derive(Debug)]
pub struct OnPorts {
    application: Arc<dyn Application>,
    ports: Arc<PortSet>,
}

impl OnPorts {
    /// For all ports until the set says otherwise.
    pub fn new(application: Arc<dyn Application>) -> OnPorts {
        OnPorts { application, ports: Arc::new(PortSet::all()) }
    }
}

impl Application for OnPorts {
    fn name(&self) -> &'static str {
        self.application.name()
    }

    fn ingress(&self, worker: usize) -> Option<Box<dyn Node>> {
        self.application.ingress(worker)
    }

    fn egress(&self, worker: usize) -> Option<Box<dyn Node>> {
        self.application.egress(worker)
    }

    fn observer(&self, worker: usize) -> Option<Box<dyn Observer>> {
        self.application.observer(worker)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.application.counters()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.application.addresses()
    }

    fn too_long(&self, now: Time, packet: &[u8], mtu: u16) {
        self.application.too_long(now, packet, mtu);
    }

    fn overhead(&self, port: PortId) -> u16 {
        self.application.overhead(port)
    }

    fn side(&self, place: Place) -> Option<Side> {
        self.application.side(place)
    }

    fn ports(&self) -> Option<&Arc<PortSet>> {
        Some(&self.ports)
    }
}

/// Sees packets and changes nothing. What it remembers of flows stays where it is when they move to another
/// worker; when its worker ends, it is dropped and may hand over what it has.
pub trait Observer: Send {
    /// These leave now.
    fn observe(&mut self, now: Time, packets: &[Packet]);

    /// As [`Node::poll_at`].
    fn poll_at(&self) -> Option<Time> {
        None
    }

    /// As [`Node::poll`].
    fn poll(&mut self, _now: Time) {}

    /// As [`Node::retire`].
    fn retire(&mut self) {}
}

struct Watch {
    name: &'static str,
    observer: Box<dyn Observer>,
}

impl Node for Watch {
    fn name(&self) -> &'static str {
        self.name
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        self.observer.observe(now, batch);
        out.forward(0, batch);
    }

    fn poll_at(&self) -> Option<Time> {
        self.observer.poll_at()
    }

    fn poll(&mut self, now: Time, _out: &mut Outputs<'_>) {
        self.observer.poll(now);
    }

    fn retire(&mut self) {
        self.observer.retire();
    }
}

/// One worker's nodes in the order in which packets pass them.
pub(crate) struct Chain {
    ingress: Vec<Box<dyn Node>>,
    egress: Vec<Box<dyn Node>>,
}

impl Chain {
    pub(crate) fn new<'a>(
        applications: impl Iterator<Item = &'a dyn Application> + Clone,
        worker: usize,
        meters: Option<&Meters>,
    ) -> Chain {
        let node = |application: &'a dyn Application, place| {
            let name = application.name();
            let node = match place {
                Place::Ingress => application.ingress(worker)?,
                Place::Egress => application.egress(worker)?,
                Place::Observer => {
                    Box::new(Watch { name, observer: application.observer(worker)? })
                }
            };
            let node = match meters {
                Some(meters) => meters.around(name, place, node),
                None => node,
            };
            Some(match (application.ports(), application.side(place)) {
                (Some(ports), Some(side)) => Box::new(Selected::new(node, ports.clone(), side)),
                _ => node,
            })
        };
        let at = |place| applications.clone().filter_map(move |one| node(one, place));
        Chain {
            ingress: at(Place::Ingress).collect(),
            egress: at(Place::Egress).chain(at(Place::Observer)).collect(),
        }
    }

    /// Adds the nodes around those of `route`, which adds its own and returns where packets enter it; returns
    /// where packets enter the whole.
    pub(crate) fn around(
        self,
        builder: &mut GraphBuilder,
        route: impl FnOnce(&mut GraphBuilder) -> NodeId,
    ) -> NodeId {
        let ingress = add(builder, self.ingress);
        let entry = route(builder);
        connect(builder, &ingress, Edge::Node(entry));
        let egress = add(builder, self.egress);
        connect(builder, &egress, Edge::Transmit);
        if let Some(first) = egress.first() {
            builder.before_transmit(*first);
        }
        ingress.first().copied().unwrap_or(entry)
    }
}

fn add(builder: &mut GraphBuilder, nodes: Vec<Box<dyn Node>>) -> Vec<NodeId> {
    nodes.into_iter().map(|node| builder.add(node)).collect()
}

/// Each leads to the next, the last to `end`.
fn connect(builder: &mut GraphBuilder, nodes: &[NodeId], end: Edge) {
    let ends = nodes.iter().skip(1).map(|next| Edge::Node(*next)).chain([end]);
    for (node, end) in nodes.iter().zip(ends) {
        builder.wire(*node, end);
    }
}
