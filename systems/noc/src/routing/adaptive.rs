use ebb_des::Seed;

use super::walk::missing;
use super::{Routing, RoutingError};
use crate::{Mesh, Path, Routed, Routes, Traffic};

/// Flows by falling rate, each hop by hop over the less loaded of the links that lead nearer; ties
/// go along X. After Shin and Kim 2004.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptive;

impl Routing for Adaptive {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, _: Seed) -> Result<Routes, RoutingError> {
        let mut flows: Vec<_> = traffic.flows().collect();
        flows.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        let mut loads = vec![0.0_f64; mesh.links().len()];
        let mut routed = Vec::with_capacity(flows.len());
        for flow in flows {
            let mut path = Path::new();
            let mut at = flow.source;
            while at != flow.destination {
                let nearer = mesh.towards(at, flow.destination).into_iter().flatten();
                let links = nearer.filter_map(|(direction, _)| mesh.link(at, direction));
                let link = links
                    .min_by(|&a, &b| loads[a].total_cmp(&loads[b]))
                    .ok_or_else(|| missing(self.name(), flow, at))?;
                path.push(link);
                at = mesh.links()[link].to;
            }
            for &link in &path {
                loads[link] += flow.rate;
            }
            routed.push(Routed::single(flow, path));
        }
        routed.sort_by_key(|routed| (routed.flow.source, routed.flow.destination));
        Ok(Routes { flows: routed })
    }
}
