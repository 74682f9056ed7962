//! Hop by hop over the less loaded link.

use std::cmp::Ordering;

use ebb_des::Seed;

use super::walk::missing;
use super::{Routing, RoutingError};
use crate::{Flow, Mesh, Path, Routed, Routes, Traffic};

/// Flows by falling rate, of equal ones the earlier first, each hop by hop over the less loaded of the
/// links that lead nearer; ties go along X. After Li 2012, section
/// 6.5, who derives it from Stine, Carter and Flich, "Comparing adaptive routing and dynamic voltage scaling for link
/// power reduction", 2004.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptive;

impl Routing for Adaptive {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, _: Seed) -> Result<Routes, RoutingError> {
        in_order(mesh, traffic.flows().collect(), &mut || true)
    }
}

/// The same with flows of equal rate in the given order, and of two links that are equally full the one
/// along X where `along_x` says so.
pub(crate) fn in_order(
    mesh: &Mesh,
    mut flows: Vec<Flow>,
    along_x: &mut dyn FnMut() -> bool,
) -> Result<Routes, RoutingError> {
    flows.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let mut loads = vec![0.0_f64; mesh.links().len()];
    let mut routed = Vec::with_capacity(flows.len());
    for flow in flows {
        let mut path = Path::new();
        let mut at = flow.source;
        while at != flow.destination {
            let link = mesh
                .towards(at, flow.destination)
                .map(|nearer| nearer.and_then(|(direction, _)| mesh.link(at, direction)));
            let link = match link {
                [Some(x), Some(y)] => match loads[x].total_cmp(&loads[y]) {
                    Ordering::Less => x,
                    Ordering::Equal if along_x() => x,
                    Ordering::Equal | Ordering::Greater => y,
                },
                [x, y] => x.or(y).ok_or_else(|| missing(Adaptive.name(), flow, at))?,
            };
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
