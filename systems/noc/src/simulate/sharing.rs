//! Elements that share a router: a concentrated network, whose elements lie in blocks of the mesh and take
//! turns at one port of their router, by a multiplexer outside of it ("external concentration": Kumar et
//! al., "Exploring concentration and channel slicing in on-chip network router", NOCS 2009; Balfour and Dally,
//! "Design tradeoffs for tiled CMP on-chip networks", ICS 2006). What they send is drawn together.

use ebb_scenario::Invalid;

use super::scenario::Scenario;
use crate::flit::TraceEntry;
use crate::{Mesh, NocError, Traffic};

/// Which elements share a router.
pub(super) struct Sharing {
    /// Rows and columns of a block.
    block: (usize, usize),
    /// Elements in a row of the mesh.
    columns: usize,
    /// Routers in all.
    routers: (usize, usize),
}

impl Sharing {
    /// As the scenario says.
    pub(super) fn of(scenario: &Scenario, elements: &Mesh) -> Result<Sharing, Invalid> {
        let block = scenario.elements()?;
        let (rows, columns) = (elements.rows(), elements.columns());
        let even = rows % block.0 == 0 && columns % block.1 == 0;
        let message = format!("{}x{} does not divide a {rows}x{columns} mesh", block.0, block.1);
        Invalid::unless(even, "concentration", message, "for example 2x2 on 8x8")?;
        Ok(Sharing { block, columns, routers: (rows / block.0, columns / block.1) })
    }

    /// Whether every element has its own router.
    pub(super) fn is_none(&self) -> bool {
        self.block == (1, 1)
    }

    /// The mesh of the routers.
    pub(super) fn routers(&self, scenario: &Scenario, elements: &Mesh) -> Result<Mesh, NocError> {
        if self.is_none() {
            return Ok(elements.clone());
        }
        let (rows, columns) = self.routers;
        Ok(if scenario.torus { Mesh::torus(rows, columns) } else { Mesh::new(rows, columns) }?)
    }

    /// The router of an element.
    fn router(&self, element: usize) -> usize {
        let (row, column) = (element / self.columns, element % self.columns);
        row / self.block.0 * self.routers.1 + column / self.block.1
    }

    /// Rates between routers, and what stays at each, from those of the elements.
    pub(super) fn rates(&self, traffic: &Traffic, itself: &[f64]) -> (Traffic, Vec<f64>) {
        let count = self.routers.0 * self.routers.1;
        let (mut between, mut within) = (Traffic::silent(count), vec![0.0; count]);
        for flow in traffic.flows() {
            let (from, to) = (self.router(flow.source), self.router(flow.destination));
            if from == to {
                within[from] += flow.rate;
            } else {
                between.add(from, to, flow.rate);
            }
        }
        for (element, rate) in itself.iter().enumerate() {
            within[self.router(element)] += rate;
        }
        (between, within)
    }

    /// A packet between elements as one between routers.
    pub(super) fn entry(&self, entry: TraceEntry) -> TraceEntry {
        let router = |element: u32| self.router(element as usize) as u32;
        TraceEntry { source: router(entry.source), target: router(entry.target), ..entry }
    }
}
