//! What is sent through the cluster.

use std::time::Duration;

use ebb_traffic::{FlowSpec, Pacer, Schedule, SizeMix, Start, Stream, StreamSpec, draw_flows};
use ebb_units::PacketsPerSecond;

use super::{behind, lab};
use crate::generator::{Generator, Sender, TestLink};

/// So many flows of one rate from `begun` on, for `span`.
pub(super) fn of(
    links: Vec<Box<dyn TestLink>>,
    sizes: &SizeMix,
    count: u32,
    rate: f64,
    span: Duration,
    begun: ebb_units::Time,
) -> Generator {
    let (sources, destinations) = (behind(0), behind(1));
    let flows = FlowSpec {
        count,
        sources: &sources,
        destinations: &destinations,
        ipv6_share: 0.0,
        tcp_share: 0.0,
    };
    let spec = StreamSpec {
        first_flow: 0,
        from: lab::host_mac(0),
        to: lab::cluster_mac(0),
        sizes,
        popularity: 0.0,
        seed: 2,
    };
    let stream = Stream::new(&draw_flows(&flows, 1), &spec);
    let schedule = Schedule::constant(PacketsPerSecond(rate), span);
    let pace = Box::new(Pacer::new(schedule, begun, 256));
    Generator::new(links, vec![Sender { link: 0, stream, pace }], count, Start::Zero)
}
