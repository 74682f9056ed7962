//! Along the row, then along the column.

use ebb_des::Seed;

use super::{Routing, RoutingError, each, path_xy};
use crate::{Mesh, Routed, Routes, Traffic};

/// Along the row, then along the column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Xy;

impl Routing for Xy {
    fn name(&self) -> &str {
        "xy"
    }

    fn route(&self, mesh: &Mesh, traffic: &Traffic, _: Seed) -> Result<Routes, RoutingError> {
        each(traffic, |flow| Ok(Routed::single(flow, path_xy(mesh, flow, self.name())?)))
    }
}
