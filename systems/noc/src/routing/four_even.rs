//! Four paths, each with a quarter.

use ebb_des::Seed;
use rand::Rng as _;

use super::{Routing, RoutingError, each, path_through, path_xy, path_yx};
use crate::{Flow, Mesh, Node, Routed, Routes, Traffic};

/// Four paths, even split: XY, YX, and both again through a tile drawn from the rectangle that
/// source and destination span (after Valiant 1982).
#[derive(Clone, Copy, Debug)]
pub(super) struct FourEven;

impl Routing for FourEven {
    fn name(&self) -> &str {
        "4p-es"
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, seed: Seed) -> Result<Routes, RoutingError> {
        let mut random = seed.stream("routing 4p-es");
        each(traffic, |flow| {
            let over = inside(mesh, flow, &mut random);
            let name = self.name();
            let paths = vec![
                path_xy(mesh, flow, name)?,
                path_yx(mesh, flow, name)?,
                path_through(mesh, flow, over, true, name)?,
                path_through(mesh, flow, over, false, name)?,
            ];
            Ok(Routed::even(flow, paths))
        })
    }
}

/// A tile of the rectangle, each as likely as any other. On a torus the rectangle lies the shorter
/// way round.
fn inside(mesh: &Mesh, flow: Flow, random: &mut ebb_des::Rng) -> Node {
    let [x, y] = mesh.towards(flow.source, flow.destination);
    let (row, column) = mesh.place(flow.source);
    let mut draw = |leg: Option<(crate::Direction, usize)>, at: usize, length: usize| match leg {
        None => at,
        Some((direction, steps)) => {
            let steps = random.random_range(0..=steps);
            let forward = matches!(direction, crate::Direction::East | crate::Direction::South);
            if forward { (at + steps) % length } else { (at + length - steps) % length }
        }
    };
    let column = draw(x, column, mesh.columns());
    let row = draw(y, row, mesh.rows());
    mesh.node(row, column)
}
