//! Two paths, split at random.

use ebb_des::Seed;
use rand::Rng as _;

use super::{Routing, RoutingError, each, path_xy, path_yx};
use crate::{Mesh, Routed, Routes, Share, Traffic};

/// Two paths, random split: a share drawn evenly from 0 to 1 for each flow goes by XY, the rest by
/// YX. It models tasks that cannot be packed into equal halves.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoRandom;

impl Routing for TwoRandom {
    fn name(&self) -> &str {
        "2p-rs"
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, seed: Seed) -> Result<Routes, RoutingError> {
        let mut random = seed.stream("routing 2p-rs");
        each(traffic, |flow| {
            let share: f64 = random.random();
            let paths = vec![
                Share { share, path: path_xy(mesh, flow, self.name())? },
                Share { share: 1.0 - share, path: path_yx(mesh, flow, self.name())? },
            ];
            Ok(Routed { flow, paths })
        })
    }
}
