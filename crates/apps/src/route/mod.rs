//! IP routing: RFC 1812 and RFC 8200 forwarding as nodes of the packet graph.
//!
//! [`FibWriter`] changes the tables, [`Builder`] makes one worker's nodes over them. The README beside
//! this file tells how they work and what was chosen where the RFCs leave a choice.
//!
//! ```
//! use ebb_apps::route::{Decision, FibWriter, Interface, InterfaceId, Target};
//! use ebb_graph::PortId;
//! let (mut writer, _fib) = FibWriter::new();
//! let id = InterfaceId(1);
//! writer.set_interface(id, Interface {
//!     port: PortId(0),
//!     vlan: 0,
//!     mac: [2, 0, 0, 0, 0, 1],
//!     mtu: 1500,
//!     up: true,
//!     addresses: vec!["192.0.2.1/24".parse()?],
//! });
//! writer.set_route("192.0.2.0/24".parse()?, &Target::OnLink(id))?;
//! writer.set_route("0.0.0.0/0".parse()?, &Target::via(id, "192.0.2.254".parse()?))?;
//! writer.set_neighbour(id, "192.0.2.254".parse()?, [2, 0, 0, 0, 0, 9]);
//! writer.publish();
//! let address = "192.0.2.254".parse()?;
//! let expected = Decision::Forward { interface: id, address, mac: [2, 0, 0, 0, 0, 9] };
//! assert_eq!(writer.lookup("198.51.100.1".parse()?), expected);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::time::Duration;
use std::sync::Arc;

use ebb_graph::{Edge, Graph, GraphBuilder, NodeId};

use crate::application::{Application, Chain};
use crate::meter::Meters;

mod bounds;
mod budget;
mod checksums;
mod counters;
mod fib;
mod forward;
mod hold;
mod hops;
mod icmp;
mod input;
mod interfaces;
mod requests;
mod rewrite;
mod source;
mod table;
mod tally;
mod types;
mod validate;
mod view;
mod writer;

pub use checksums::finish_left;
pub(crate) use checksums::finish_received;
pub use counters::RouteCounters;
pub use fib::Fib;
pub use requests::Requests;
pub use tally::Volume;
pub use types::{Decision, FibError, Interface, InterfaceId, Path, ReversePath, Target};
pub use view::{Entry, Known};
pub use writer::FibWriter;

pub use budget::IcmpPerHost;
use forward::Forward;
use icmp::Icmp;
pub(crate) use icmp::too_big;
use input::Input;
pub(crate) use validate::is_whole_v4;

/// Bounds of one worker's routing nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLimits {
    /// Packets that may wait for one neighbour.
    pub hold_per_neighbour_max: usize,
    /// Packets that may wait for all neighbours together; for those of one interface as many as are left free, which
    /// is half of them if it is alone.
    pub hold_total_max: usize,
    /// How long packets wait before their senders are told that the host is unreachable.
    pub hold_timeout: Duration,
    /// ICMP errors per second that the worker sends in the long run.
    pub icmp_rate_pps: u32,
    /// ICMP errors the worker may send at once.
    pub icmp_burst: u32,
    /// Bounds of those to each single host, IPv4.
    pub icmp_v4: IcmpPerHost,
    /// The same for IPv6.
    pub icmp_v6: IcmpPerHost,
    /// A random number that nobody outside knows: which hosts' bounds are kept in the same place. Read when
    /// the graph is built.
    pub icmp_seed: u64,
}

impl Default for RouteLimits {
    fn default() -> RouteLimits {
        RouteLimits {
            hold_per_neighbour_max: 64,
            hold_total_max: 1024,
            hold_timeout: Duration::from_secs(3),
            icmp_rate_pps: 1000,
            icmp_burst: 100,
            icmp_v4: IcmpPerHost::NONE,
            icmp_v6: IcmpPerHost::NONE,
            icmp_seed: 0,
        }
    }
}

/// Bit of [`ebb_graph::Packet::flags`] at the transmit exits of a router that is alone: the packet is longer
/// than [`ebb_graph::Packet::key`], the MTU of the link that it leaves by, and is to be cut
/// ([`ebb_wire::Fragments`]).
pub const FRAGMENT: u8 = 32;

/// Makes workers' graphs.
///
/// Entering packets have [`ebb_graph::Packet::input`] set. Packets at the kernel exit are as they
/// came, but for checksums that were unfinished.
#[derive(Clone)]
pub struct Builder<'a> {
    fib: &'a Arc<Fib>,
    requests: Arc<Requests>,
    limits: RouteLimits,
    alone: bool,
    applications: &'a [Arc<dyn Application>],
    meters: Option<&'a Meters>,
}

/// What one worker's packets go through.
pub struct WorkerGraph {
    /// All nodes.
    pub graph: Graph,
    /// Where received packets enter.
    pub entry: NodeId,
    /// What the exits of the graph do not show.
    pub counters: Arc<RouteCounters>,
}

impl<'a> Builder<'a> {
    /// Routing alone, with the usual bounds.
    pub fn new(fib: &'a Arc<Fib>, requests: Arc<Requests>) -> Builder<'a> {
        let limits = RouteLimits::default();
        Builder { fib, requests, limits, alone: false, applications: &[], meters: None }
    }

    /// Of a router behind which no kernel forwards what it leaves out: packets with options pass it, and IPv4
    /// packets that may be cut into fragments leave with [`FRAGMENT`].
    pub fn alone(self) -> Builder<'a> {
        Builder { alone: true, ..self }
    }

    /// With these bounds.
    pub fn limits(self, limits: &RouteLimits) -> Builder<'a> {
        Builder { limits: limits.clone(), ..self }
    }

    /// With these applications around it, in this order.
    pub fn applications(self, applications: &'a [Arc<dyn Application>]) -> Builder<'a> {
        Builder { applications, ..self }
    }

    /// What they carry and take is counted by these.
    pub fn metered(self, meters: &'a Meters) -> Builder<'a> {
        Builder { meters: Some(meters), ..self }
    }

    /// The graph of a worker.
    pub fn worker(&self, worker: usize) -> WorkerGraph {
        let counters = Arc::new(RouteCounters::new(&self.limits));
        let mut builder = GraphBuilder::new();
        let chain = Chain::new(self.applications.iter().map(|one| &**one), worker, self.meters);
        let entry = chain.around(&mut builder, |builder| {
            let (fib, requests) = (self.fib, self.requests.clone());
            let input = builder.add(Box::new(Input::new(fib, counters.clone(), self.alone)));
            let forward =
                builder.add(Box::new(Forward::new(fib, requests, counters.clone(), self.alone)));
            let icmp =
                builder.add(Box::new(Icmp::new(fib, counters.clone(), self.applications.to_vec())));
            builder.wire(input, Edge::Node(forward));
            builder.wire(forward, Edge::Node(icmp));
            builder.wire(icmp, Edge::Node(forward));
            input
        });
        WorkerGraph { graph: builder.build(), entry, counters }
    }
}
