//! Along the column, then along the row.

use ebb_des::Seed;

use super::{Routing, RoutingError, each, path_yx};
use crate::{Mesh, Routed, Routes, Traffic};

/// Along the column, then along the row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yx;

impl Routing for Yx {
    fn name(&self) -> &str {
        "yx"
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, _: Seed) -> Result<Routes, RoutingError> {
        each(traffic, |flow| Ok(Routed::single(flow, path_yx(mesh, flow, self.name())?)))
    }
}
