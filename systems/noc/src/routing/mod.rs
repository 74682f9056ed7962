//! Routings, one file each: where each flow goes (Li 2012, section 6.4.1).

mod adaptive;
mod four_even;
mod given;
mod two_even;
mod two_random;
mod walk;
mod xy;
mod yx;

pub(crate) use adaptive::in_order as adaptive_in_order;
pub use given::{Given, GivenPath};

use ebb_des::Seed;

use crate::{Mesh, Node, Routed, Routes, Traffic};
use walk::{path_through, path_xy, path_yx};

/// A rule that says where flows go.
pub trait Routing: Sync {
    /// Its name, as users write it.
    fn name(&self) -> &str;

    /// Where the flows of `traffic` go. What is drawn comes from streams of `seed`.
    ///
    /// # Errors
    /// When a path the rule demands does not exist.
    fn route(&self, mesh: &Mesh, traffic: &Traffic, seed: Seed) -> Result<Routes, RoutingError>;
}

/// A routing cannot route a flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The path goes over a link that is not there.
    #[error(
        "routing {routing}: from tile {from} to tile {to} it needs a link at tile {at} that does \
        not exist"
    )]
    NoLink {
        /// The routing's name.
        routing: String,
        /// The flow's source.
        from: Node,
        /// The flow's destination.
        to: Node,
        /// Where the link is missing.
        at: Node,
    },
    /// A given routing that does not say where a flow goes, or says it wrongly.
    #[error("routing {routing}: {message}")]
    Given {
        /// The routing's name.
        routing: String,
        /// What is wrong.
        message: String,
    },
}

/// The routings of the literature: XY, YX, 2P-ES, 2P-RS, 4P-ES, Adaptive.
pub fn registry() -> [&'static dyn Routing; 6] {
    [
        &xy::Xy,
        &yx::Yx,
        &two_even::TwoEven,
        &two_random::TwoRandom,
        &four_even::FourEven,
        &adaptive::Adaptive,
    ]
}

/// The routing called `name`.
pub fn routing(name: &str) -> Option<&'static dyn Routing> {
    registry().into_iter().find(|routing| routing.name() == name)
}

/// Routes every flow by itself.
fn each(
    traffic: &Traffic,
    mut route: impl FnMut(crate::Flow) -> Result<Routed, RoutingError>,
) -> Result<Routes, RoutingError> {
    let flows = traffic.flows().map(&mut route).collect::<Result<_, _>>()?;
    Ok(Routes { flows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;

    /// Every routing delivers every flow whole, over links that exist, by a shortest way.
    #[test]
    fn every_routing_delivers_every_flow() {
        for mesh in [Mesh::new(3, 5).expect("mesh"), Mesh::torus(4, 5).expect("torus")] {
            let traffic = Pattern::Normal.traffic(&mesh, &mut Seed(1).stream("traffic"));
            for routing in registry() {
                let routes = routing.route(&mesh, &traffic, Seed(1)).expect("routed");
                assert_eq!(routes.flows.len(), traffic.flows().count());
                for routed in &routes.flows {
                    let total: f64 = routed.paths.iter().map(|way| way.share).sum();
                    assert!((total - 1.0).abs() < 1e-12);
                    let shortest = mesh.distances(routed.flow.source)[routed.flow.destination];
                    for way in &routed.paths {
                        let mut at = routed.flow.source;
                        for &link in &way.path {
                            assert_eq!(mesh.links()[link].from, at, "{}", routing.name());
                            at = mesh.links()[link].to;
                        }
                        assert_eq!(at, routed.flow.destination);
                        assert_eq!(Some(way.path.len()), shortest, "{}", routing.name());
                    }
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        for routing in registry() {
            let found = super::routing(routing.name()).expect("found");
            assert_eq!(found.name(), routing.name());
        }
        assert!(super::routing("zigzag").is_none());
    }

    #[test]
    fn a_missing_link_is_named() {
        let mesh = Mesh::new(2, 2).expect("mesh").without(&[(0, 1)]).expect("removed");
        let mut traffic = Traffic::silent(4);
        traffic.add(0, 3, 1.0);
        let error = super::routing("xy").expect("xy").route(&mesh, &traffic, Seed(0));
        assert!(error.expect_err("refused").to_string().contains("at tile 0"));
        assert!(super::routing("yx").expect("yx").route(&mesh, &traffic, Seed(0)).is_ok());
    }
}
