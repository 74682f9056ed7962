//! Two paths, each with half.

use ebb_des::Seed;

use super::{Routing, RoutingError, each, path_xy, path_yx};
use crate::{Mesh, Routed, Routes, Traffic};

/// Two paths, even split: half by XY, half by YX.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoEven;

impl Routing for TwoEven {
    fn name(&self) -> &str {
        "2p-es"
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, _: Seed) -> Result<Routes, RoutingError> {
        each(traffic, |flow| {
            let paths = vec![path_xy(mesh, flow, self.name())?, path_yx(mesh, flow, self.name())?];
            Ok(Routed::even(flow, paths))
        })
    }
}
