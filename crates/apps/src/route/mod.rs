//! IP routing: RFC 1812 and RFC 8200 forwarding as nodes of the packet graph.

use core::time::Duration;
use std::sync::Arc;

use ebb_graph::{Graph, GraphBuilder, NodeId};

mod counters;
mod fib;
mod requests;
mod types;

pub use counters::RouteCounters;
pub use fib::{Fib, FibWriter};
pub use requests::Requests;
pub use types::{Decision, FibError, Interface, InterfaceId, Path, Target};

/// Bounds of one worker's routing nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLimits {
    /// Packets that may wait for one neighbour.
    pub hold_per_neighbour_max: usize,
    /// Packets that may wait for all neighbours together.
    pub hold_total_max: usize,
    /// How long packets wait before their senders are told that the host is unreachable.
    pub hold_timeout: Duration,
    /// ICMP errors per second that the worker sends in the long run.
    pub icmp_rate_pps: u32,
    /// ICMP errors the worker may send at once.
    pub icmp_burst: u32,
}

impl Default for RouteLimits {
    fn default() -> RouteLimits {
        RouteLimits {
            hold_per_neighbour_max: 64,
            hold_total_max: 1024,
            hold_timeout: Duration::from_secs(3),
            icmp_rate_pps: 1000,
            icmp_burst: 100,
        }
    }
}

/// One worker's routing graph for `ports` ports, the node where received packets enter, and the
/// counters that complete those of its exits.
pub fn graph(
    _fib: &Arc<Fib>,
    _ports: usize,
    _requests: Arc<Requests>,
    _limits: &RouteLimits,
) -> (Graph, NodeId, Arc<RouteCounters>) {
    let _ = GraphBuilder::new();
    todo!("the nodes")
}
