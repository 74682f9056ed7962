//! What link prices say: a bound that holds whatever the solver did, and the paths worth adding.

use super::master::Master;
use super::shortest::Shortest;
use crate::{Flow, Mesh, Path};

/// A path that is cheaper than all its commodity has.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) commodity: usize,
    pub(super) plane: usize,
    pub(super) path: Path,
    /// Rate x how much cheaper.
    pub(super) gain: f64,
}

/// How much longer, relative to a hop, a link looks that carries as much as the fullest one. It
/// chooses among equally short paths those that do not fill other links.
const TIE: f64 = 1e-5;

/// Which paths a flow may take.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ways<'a> {
    /// Any that there are.
    Any(&'a Mesh),
    /// Only its own, on whichever plane; in the order of the flows.
    Given(&'a Mesh, &'a [Path]),
}

impl<'a> Ways<'a> {
    /// The mesh.
    pub(super) fn mesh(self) -> &'a Mesh {
        match self {
            Ways::Any(mesh) | Ways::Given(mesh, _) => mesh,
        }
    }

    /// Calls `visit` for each flow with how far its target is on each plane under the links' `lengths`
    /// there, and with what finds the path. Flows must be in order of their source.
    pub(super) fn for_each(
        self,
        flows: &[Flow],
        lengths: &[Vec<f64>],
        mut visit: impl FnMut(&Flow, &[f64], &dyn Fn(usize) -> Path),
    ) {
        match self {
            Ways::Any(mesh) => {
                let mut shortest = vec![Shortest::new(mesh); lengths.len()];
                let mut distances = Vec::with_capacity(lengths.len());
                for same in flows.chunk_by(|a, b| a.source == b.source) {
                    for (plane, lengths) in shortest.iter_mut().zip(lengths) {
                        plane.run(mesh, same[0].source, lengths);
                    }
                    for flow in same {
                        let to = flow.destination;
                        distances.clear();
                        distances.extend(shortest.iter().map(|plane| plane.distance(to)));
                        visit(flow, &distances, &|plane| shortest[plane].path(mesh, to));
                    }
                }
            }
            Ways::Given(_, paths) => {
                let length = |path: &Path, lengths: &Vec<f64>| -> f64 {
                    path.iter().map(|&link| lengths[link]).sum()
                };
                for (flow, path) in flows.iter().zip(paths) {
                    let distances: Vec<f64> =
                        lengths.iter().map(|lengths| length(path, lengths)).collect();
                    visit(flow, &distances, &|_| path.clone());
                }
            }
        }
    }
}

/// Sum of rate x shortest distance over the planes under the links' `lengths` of each: exact but for
/// rounding, whatever the lengths are.
pub(super) fn distance_rate(ways: Ways<'_>, flows: &[Flow], lengths: &[Vec<f64>]) -> f64 {
    let mut sum = 0.0;
    ways.for_each(flows, lengths, |flow, distances, _| {
        sum += flow.rate * distances.iter().copied().fold(f64::INFINITY, f64::min);
    });
    sum
}

/// The paths that are cheaper under `lengths` than all their commodities have, best first; among
/// equally cheap ones those over links with little of `loads`.
pub(super) fn offers(
    ways: Ways<'_>,
    master: &Master<'_>,
    flows: &[Flow],
    lengths: &[Vec<f64>],
    loads: &[Vec<f64>],
) -> Vec<Offer> {
    let mut offers = Vec::new();
    for (plane, exact) in lengths.iter().enumerate() {
        let fullest = loads[plane].iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let scale = TIE * exact.iter().copied().fold(f64::INFINITY, f64::min) / fullest;
        let leaning: Vec<f64> =
            exact.iter().zip(&loads[plane]).map(|(length, load)| length + scale * load).collect();
        let mut commodity = 0;
        ways.for_each(flows, &[leaning], |flow, _, path| {
            let path = path(0);
            let length: f64 = path.iter().map(|&link| exact[link]).sum();
            let have = master.cheapest(commodity, lengths);
            let saving = have - length;
            if saving > 1e-9 * have {
                offers.push(Offer { commodity, plane, path, gain: flow.rate * saving });
            }
            commodity += 1;
        });
    }
    offers.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.commodity.cmp(&b.commodity)));
    offers
}
