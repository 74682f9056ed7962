//! Paths that a user wrote down.

use std::collections::BTreeMap;

use ebb_des::Seed;

use super::{Routing, RoutingError, each, path_xy};
use crate::{Flow, Mesh, Node, Path, Routed, Routes, Share, Traffic};

/// A path that a user wrote down.
#[derive(
    Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, ebb_scenario::Described,
)]
#[serde(deny_unknown_fields)]
pub struct GivenPath {
    /// The tiles it passes, source first, destination last.
    pub tiles: Vec<Node>,
    /// Its part of the flow; parts are scaled to add up to 1 over the paths of a flow.
    #[serde(default = "GivenPath::default_share")]
    #[schema(default = 1.0)]
    pub share: f64,
}

/// Any number of paths for each flow, as a user wrote them; flows without a path go by XY, or by a
/// shortest way where XY needs a link that is not there.
pub struct Given {
    name: String,
    paths: Vec<GivenPath>,
}

impl Given {
    /// The routing `name` of these paths.
    pub fn new(name: impl Into<String>, paths: Vec<GivenPath>) -> Self {
        Given { name: name.into(), paths }
    }

    fn wrong(&self, message: String) -> RoutingError {
        RoutingError::Given { routing: self.name.clone(), message }
    }

    fn links(&self, mesh: &Mesh, tiles: &[Node]) -> Result<Vec<usize>, RoutingError> {
        let step = |pair: &[Node]| {
            let (from, to) = (pair[0], pair[1]);
            let exists = from < mesh.nodes() && to < mesh.nodes();
            let link = exists.then(|| mesh.leaving(from).find(|&at| mesh.links()[at].to == to));
            let wrong = || self.wrong(format!("there is no link from tile {from} to tile {to}"));
            link.flatten().ok_or_else(wrong)
        };
        tiles.windows(2).map(step).collect()
    }
}

impl Routing for Given {
    fn name(&self) -> &str {
        &self.name
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, _: Seed) -> Result<Routes, RoutingError> {
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
        each(traffic, |flow| {
            if let Some(mut paths) = ways.remove(&(flow.source, flow.destination)) {
                let total: f64 = paths.iter().map(|way| way.share).sum();
                paths.iter_mut().for_each(|way| way.share /= total);
                return Ok(Routed { flow, paths });
            }
            let around = |fault| shortest(mesh, flow).ok_or(fault);
            Ok(Routed::single(flow, path_xy(mesh, flow, &self.name).or_else(around)?))
        })
    }
}

/// A path of the fewest links, the first found of equal ones.
fn shortest(mesh: &Mesh, flow: Flow) -> Option<Path> {
    let from_source = mesh.distances(flow.source);
    let mut path = Path::new();
    let mut at = flow.destination;
    while at != flow.source {
        let here = from_source[at]?;
        let nearer = |link: &usize| {
            let seen = mesh.links()[*link];
            seen.to == at && from_source[seen.from] == Some(here - 1)
        };
        let link = (0..mesh.links().len()).find(nearer)?;
        path.push(link);
        at = mesh.links()[link].from;
    }
    path.reverse();
    Some(path)
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
        let paths = vec![path(&[0, 1, 3], 1.0), path(&[0, 2, 3], 3.0)];
        let routes = Given::new("mine", paths).route(&mesh, &traffic, Seed(0)).expect("routed");
        let shares: Vec<f64> = routes.flows[0].paths.iter().map(|way| way.share).collect();
        assert_eq!(shares, [0.25, 0.75]);
        assert_eq!(routes.flows[1].paths.len(), 1);
        let refused = |paths| Given::new("mine", paths).route(&mesh, &traffic, Seed(0));
        assert!(refused(vec![path(&[0, 3], 1.0)]).is_err());
        assert!(refused(vec![path(&[0, 1, 3], 0.0)]).is_err());
        assert!(refused(vec![path(&[], 1.0)]).is_err());
        let cut = mesh.without(&[(1, 0)]).expect("removed");
        let routes = Given::new("mine", Vec::new()).route(&cut, &traffic, Seed(0)).expect("routed");
        assert_eq!(routes.flows[1].paths[0].path.len(), 3, "around the missing link");
    }
}
