//! What others can verify a bound by.

use serde::Serialize;

#[cfg(feature = "solver")]
use crate::bound::PlanesCertificate;
#[cfg(feature = "solver")]
use crate::{Mesh, Routed, Traffic, VoltageRange};

/// Everything that proves a bound: `docs/verify_bound.py` verifies it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CertificatePlan {
    /// The least share of a link's capacity that any voltage leaves: 1 / `alpha_max`.
    pub floor: f64,
    /// Directed links as pairs of tiles; others name them by their place in this list.
    pub links: Vec<(usize, usize)>,
    /// Source, destination and rate of every flow, in units of a link's capacity.
    pub flows: Vec<(usize, usize, f64)>,
    /// The proof of `lower`.
    #[serde(flatten)]
    pub proof: Proof,
    /// The proof of `upper`.
    pub routes: Vec<CertifiedRoute>,
}

/// The proof of a lower bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Proof {
    /// On one plane.
    One {
        /// Sets of prices, a price for each link.
        prices: Vec<Vec<f64>>,
    },
    /// On several.
    #[cfg(feature = "solver")]
    Planes(PlanesCertificate),
}

/// A path and what it carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CertifiedRoute {
    /// On which plane, from 0.
    pub plane: usize,
    /// Where it begins.
    pub source: usize,
    /// Where it ends.
    pub target: usize,
    /// In units of a link's capacity.
    pub rate: f64,
    /// Links in their order.
    pub links: Vec<usize>,
}

#[cfg(feature = "solver")]
impl CertificatePlan {
    /// A certificate of `routes`, those of each plane, and of the bound that `proof` proves.
    pub(super) fn new<'a>(
        mesh: &Mesh,
        traffic: &Traffic,
        range: VoltageRange,
        routes: impl Iterator<Item = &'a [Routed]>,
        proof: Proof,
    ) -> CertificatePlan {
        let path = |(plane, routed): (usize, &'a Routed)| {
            routed.paths.iter().map(move |share| CertifiedRoute {
                plane,
                source: routed.flow.source,
                target: routed.flow.destination,
                rate: routed.flow.rate * share.share,
                links: share.path.clone(),
            })
        };
        let planes = routes.enumerate();
        let routes = planes.flat_map(|(plane, all)| all.iter().map(move |one| (plane, one)));
        let flows = traffic.flows().map(|flow| (flow.source, flow.destination, flow.rate));
        CertificatePlan {
            floor: range.floor(),
            links: mesh.links().iter().map(|link| (link.from, link.to)).collect(),
            flows: flows.collect(),
            proof,
            routes: routes.flat_map(path).collect(),
        }
    }
}
