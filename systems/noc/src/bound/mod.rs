//! The least power that any routing can need: Ideal Power Control (Li 2012, sections 6.4 and
//! 7.3), solved exactly and proven.

mod certificate;
mod cone;
mod envelope;
mod game;
mod many;
mod master;
mod pricing;
mod ray;
mod sampled;
mod search;
mod several;
mod shortest;
mod single;
mod two;

pub use certificate::{CertifiedCorner, CertifiedNode, PlanesCertificate};
pub use sampled::sampled;
pub use several::{PlanesBound, certified_power_planes, least_power_of_routes, least_power_planes};
pub use single::least_power;

use crate::{Mesh, Routed, TopologyError, Traffic};
use envelope::Line;
use pricing::Ways;

/// Why there is no bound.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BoundError {
    /// Nothing is sent.
    #[error("the traffic matrix is empty: no tile sends anything")]
    Empty,
    /// No path joins two tiles.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// More is sent than any routing can carry.
    #[error(
        "the load exceeds the capacity: even with the best routing a link has {load:.6} times its \
        capacity at full voltage; scale the traffic by at most {:.6}", 1.0 / load
    )]
    Capacity {
        /// The least that the fullest link must carry, in units of its capacity.
        load: f64,
    },
    /// More is sent than the planes can carry together.
    #[error("the load exceeds the capacity: found no routing that fits the planes")]
    PlanesCapacity,
    /// Ended before any flow was found that fits.
    #[error("the search for the least power stopped before it found a routing that fits")]
    Stopped,
    /// The solver gave up.
    #[error(transparent)]
    Solver(ebb_lp::LpError),
}

impl From<ebb_lp::LpError> for BoundError {
    fn from(error: ebb_lp::LpError) -> BoundError {
        match error {
            ebb_lp::LpError::Interrupted => BoundError::Stopped,
            other => BoundError::Solver(other),
        }
    }
}

/// The least power, proven.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// No routing needs less: proven by [`Bound::certificate`].
    pub lower: f64,
    /// What [`Bound::routes`] needs.
    pub upper: f64,
    /// The expansion factor of the best flow.
    pub alpha: f64,
    /// Its link loads, in units of a link's capacity.
    pub loads: Vec<f64>,
    /// By how much the power would fall per unit that a link could carry more at the same voltage.
    pub shadow_prices: Vec<f64>,
    /// The best flow.
    pub routes: Vec<Routed>,
    /// Why nothing is better.
    pub certificate: Certificate,
    /// Linear programs solved.
    pub solves: usize,
}

impl Bound {
    /// How far the two ends are apart, relative to the upper.
    pub fn gap(&self) -> f64 {
        if self.upper > 0.0 { (self.upper - self.lower) / self.upper } else { 0.0 }
    }
}

/// A proof of a lower bound that needs no solver: link prices, each set of which gives a line below
/// g(u) by shortest paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// Sets of link prices, each price at least 0.
    pub prices: Vec<Vec<f64>>,
    range_floor: f64,
}

impl Certificate {
    /// The least share of a link's capacity that any voltage leaves.
    pub fn floor(&self) -> f64 {
        self.range_floor
    }

    /// The bound that the prices prove for `traffic`, from nothing but shortest paths.
    pub fn lower(&self, mesh: &Mesh, traffic: &Traffic) -> f64 {
        let flows: Vec<_> = traffic.flows().collect();
        let proof = |prices: &Vec<f64>| {
            let prices: Vec<f64> = prices.iter().map(|price| price.max(0.0)).collect();
            let lengths: Vec<f64> = prices.iter().map(|price| 1.0 + price).collect();
            let at_zero = pricing::distance_rate(Ways::Any(mesh), &flows, &[lengths]);
            let line = Line { at_zero, slope: prices.iter().sum() };
            (line, single::least_capacity(mesh, &flows, &prices))
        };
        let proofs: Vec<_> = self.prices.iter().map(proof).collect();
        single::proven(&proofs, self.range_floor, 1.0)
    }
}
