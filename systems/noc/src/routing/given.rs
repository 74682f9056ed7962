use std::collections::BTreeMap;

use ebb_des::Seed;

use super::{Routing, RoutingError};
use crate::{Mesh, Node, Routed, Routes, Share, Traffic};

/// A path that a user wrote down.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenPath {
    /// The tiles it passes, source first, destination last.
    pub tiles: Vec<Node>,
    /// Its part of the flow; parts are scaled to add up to 1 over the paths of a flow.
    #[serde(default = "one")]
    pub share: f64,
}

fn one() -> f64 {
    1.0
}

/// Any number of paths for each flow, as a user wrote them; flows without a path go by another
/// routing.
pub struct Given<'a> {
    name: String,
    paths: Vec<GivenPath>,
    otherwise: &'a dyn Routing,
}

impl<'a> Given<'a> {
    /// The routing `name` of these paths.
    pub fn new(name: impl Into<String>, paths: Vec<GivenPath>, otherwise: &'a dyn Routing) -> Self {
        Given { name: name.into(), paths, otherwise }
    }

    fn wrong(&self, message: String) -> RoutingError {
        RoutingError::Given { routing: self.name.clone(), message }
    }

    fn links(&self, mesh: &Mesh, tiles: &[Node]) -> Result<Vec<usize>, RoutingError> {
        let step = |pair: &[Node]| {
            let (from, to) = (pair[0], pair[1]);
            let exists = from < mesh.nodes() && to < mesh.nodes();
            let link = exists.then(|| mesh.leaving(from).find(|&at| mesh.links()[at].to == to));
            let wrong = || self.wrong(format!("no link runs from tile {from} to tile {to}"));
            link.flatten().ok_or_else(wrong)
        };
        tiles.windows(2).map(step).collect()
    }
}

impl Routing for Given<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, seed: Seed) -> Result<Routes, RoutingError> {
        let mut ways: BTreeMap<(Node, Node), Vec<Share>> = BTreeMap::new();
        for given in &self.paths {
            let (Some(&from), Some(&to)) = (given.tiles.first(), given.tiles.last()) else {
                return Err(self.wrong("a path without tiles".to_owned()));
            };
            if !(given.share.is_finite() && given.share > 0.0) {
                return Err(self.wrong(format!("share {} of a path is not above 0", given.share)));
            }
            let path = self.links(mesh, &given.tiles)?;
            ways.entry((from, to)).or_default().push(Share { share: given.share, path });
        }
        let mut routes = self.otherwise.route(mesh, traffic, seed)?;
        for routed in &mut routes.flows {
            let ends = (routed.flow.source, routed.flow.destination);
            if let Some(mut paths) = ways.remove(&ends) {
                let total: f64 = paths.iter().map(|way| way.share).sum();
                paths.iter_mut().for_each(|way| way.share /= total);
                *routed = Routed { flow: routed.flow, paths };
            }
        }
        Ok(routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_paths_replace_the_others() {
        let mesh = Mesh::new(2, 2).expect("mesh");
        let mut traffic = Traffic::silent(4);
        traffic.add(0, 3, 1.0);
        traffic.add(1, 0, 1.0);
        let path = |tiles: &[Node], share| GivenPath { tiles: tiles.to_vec(), share };
        let xy = super::super::routing("xy").expect("xy");
        let paths = vec![path(&[0, 1, 3], 1.0), path(&[0, 2, 3], 3.0)];
        let routes = Given::new("mine", paths, xy).route(&mesh, &traffic, Seed(0)).expect("routed");
        let shares: Vec<f64> = routes.flows[0].paths.iter().map(|way| way.share).collect();
        assert_eq!(shares, [0.25, 0.75]);
        assert_eq!(routes.flows[1].paths.len(), 1);
        let refused = |paths| Given::new("mine", paths, xy).route(&mesh, &traffic, Seed(0));
        assert!(refused(vec![path(&[0, 3], 1.0)]).is_err());
        assert!(refused(vec![path(&[0, 1, 3], 0.0)]).is_err());
        assert!(refused(vec![path(&[], 1.0)]).is_err());
    }
}
