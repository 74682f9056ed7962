//! What a plan says about several planes: one routing's flows allocated to all of them, and with planes that
//! can sleep the least watts over their number and the routings.

use ebb_des::Seed;
use ebb_units::Watts;

#[cfg(feature = "solver")]
use super::RoutingBound;
use super::{Compared, Plan, PlanesPlan, Solved};
#[cfg(feature = "solver")]
use crate::NocError;
#[cfg(feature = "solver")]
use crate::bound::{BoundError, least_power_of_routes};
#[cfg(feature = "solver")]
use crate::planes::at_voltages;
use crate::planes::{Allocated, Allocation};
use crate::{Mesh, Problem, RouterTable, Routes, VoltageRange};
#[cfg(feature = "solver")]
use ebb_scenario::{Invalid, Progress};

/// What the allocations start from.
pub(super) struct Several<'a> {
    pub problem: &'a Problem,
    /// The routings asked for, at the matrix's own scale.
    pub routed: &'a [Compared],
    pub range: VoltageRange,
    pub seed: Seed,
}

impl Several<'_> {
    /// Allocates the flows of XY if it was asked for, else of the first routing that has routes, and
    /// adds `sleeping` where watts are known.
    pub(super) fn fill(&self, solved: &mut Solved, plan: &mut Plan, table: Option<&RouterTable>) {
        let mut able = self.able(plan.scale);
        if able.is_empty() {
            return;
        }
        let (name, routes) = able.swap_remove(chosen(&able));
        for allocation in Allocation::ALL {
            if !allocation.serves(self.problem.planes) {
                continue;
            }
            let planes = self.problem.planes;
            let found = allocation.allocate(&solved.mesh, &routes, self.range, planes, self.seed);
            if allocation == Allocation::Best && !found.proven {
                continue;
            }
            let router_w = table.and_then(|table| watts(&solved.mesh, &routes, &found, table));
            let allocated = PlanesPlan {
                proven: found.proven.then_some(true),
                routing: (name != "xy").then(|| name.to_owned()),
                ..PlanesPlan::of(found.operations.as_deref(), &found.loads, router_w)
            };
            plan.planes.insert(allocation.name().to_owned(), allocated);
            for (plane, loads) in found.loads.into_iter().enumerate() {
                solved.loads.push((format!("{} plane {}", allocation.name(), plane + 1), loads));
            }
        }
        if let Some(least) = table.and_then(|table| self.sleeping(&solved.mesh, plan, table)) {
            plan.planes.insert("sleeping".to_owned(), least);
        }
    }

    /// What needs the solver: the least that any allocation of the chosen routing's paths needs, and the
    /// best one at given voltages.
    #[cfg(feature = "solver")]
    pub(super) fn solve(
        &self,
        mesh: &Mesh,
        plan: &mut Plan,
        progress: &dyn Progress,
    ) -> Result<(), NocError> {
        let mut able = self.able(plan.scale);
        if able.is_empty() {
            return Ok(());
        }
        let (name, routes) = able.swap_remove(chosen(&able));
        let (planes, alphas) = (self.problem.planes, &self.problem.alphas);
        if !alphas.is_empty() {
            let found = at_voltages(mesh, &routes, alphas, NODES_MAX, progress)
                .map_err(BoundError::from)?;
            let fault = format!("{alphas:?}: found no allocation of the flows of {name} that fits");
            let none = || Invalid::new("alphas", fault, "use smaller factors or a lower load");
            let found = found.ok_or_else(none)?;
            let power: f64 = found.powers.iter().sum();
            let fullest = |loads: &Vec<f64>| loads.iter().copied().fold(0.0, f64::max);
            let fixed = PlanesPlan {
                power: Some(power),
                alphas: alphas.clone(),
                max_link_loads: found.loads.iter().map(fullest).collect(),
                powers: found.powers,
                router_w: None,
                routing: (name != "xy").then(|| name.to_owned()),
                proven: (found.lower >= power * (1.0 - PROVEN)).then_some(true),
                lower: Some(found.lower.min(power)),
            };
            plan.planes.insert("fixed".to_owned(), fixed);
        }
        if self.problem.bound {
            let some = plan.planes.values().filter(|plan| plan.power.is_some());
            let starts: Vec<Vec<f64>> = some.map(|plan| plan.max_link_loads.clone()).collect();
            let found = least_power_of_routes(mesh, &routes, self.range, planes, &starts, progress);
            // Where the paths do not fit, the allocations say so.
            plan.bound_routing = found.ok().map(|found| RoutingBound {
                routing: name.to_owned(),
                lower: found.lower,
                upper: found.upper,
                alphas: found.alphas.iter().map(|at| at.min(self.range.alpha_max())).collect(),
            });
        }
        Ok(())
    }

    /// The routings that have routes, at the problem's scale.
    fn able(&self, scale: f64) -> Vec<(&str, Routes)> {
        let mut able = Vec::new();
        for (name, routes) in self.routed {
            if let Ok(routes) = routes {
                able.push((name.as_str(), routes.scaled(scale)));
            }
        }
        able
    }

    /// With leakage a plane costs even when nothing is sent over it. With planes that can sleep the best is
    /// the cheapest number of them awake under the cheapest routing: one plane, or any allocation to more.
    fn sleeping(&self, mesh: &Mesh, plan: &Plan, table: &RouterTable) -> Option<PlanesPlan> {
        let mut all: Vec<PlanesPlan> = plan.planes.values().cloned().collect();
        for (name, routes) in self.able(plan.scale) {
            let alone = &plan.routings[name];
            all.push(PlanesPlan {
                power: alone.power,
                alphas: alone.alpha.into_iter().collect(),
                max_link_loads: alone.max_link_load.into_iter().collect(),
                powers: alone.power.into_iter().collect(),
                router_w: alone.router_w,
                routing: (name != "xy").then(|| name.to_owned()),
                proven: None,
                lower: None,
            });
            for awake in 2..=self.problem.planes {
                // `best` is exhaustive and stands in the plan already where it was worth it.
                let serving = |allocation: &Allocation| {
                    *allocation != Allocation::Best && allocation.serves(awake)
                };
                for allocation in Allocation::ALL.into_iter().filter(serving) {
                    let found = allocation.allocate(mesh, &routes, self.range, awake, self.seed);
                    all.push(PlanesPlan {
                        routing: (name != "xy").then(|| name.to_owned()),
                        ..PlanesPlan::of(
                            found.operations.as_deref(),
                            &found.loads,
                            watts(mesh, &routes, &found, table),
                        )
                    });
                }
            }
        }
        let feasible =
            all.into_iter().filter_map(|plan| Some((plan.power.and(plan.router_w)?, plan)));
        feasible.min_by(|a, b| a.0.0.total_cmp(&b.0.0)).map(|(_, plan)| plan)
    }
}

/// Nodes of the search for the best allocation at given voltages.
#[cfg(feature = "solver")]
const NODES_MAX: u32 = 2_000;
/// An allocation this near to the bound, relatively, is called proven.
#[cfg(feature = "solver")]
const PROVEN: f64 = 2e-6;

/// XY if it was asked for, else the first.
fn chosen(able: &[(&str, Routes)]) -> usize {
    able.iter().position(|(name, _)| *name == "xy").unwrap_or(0)
}

/// The watts of all routers of all planes; `None` where a plane is overloaded.
fn watts(mesh: &Mesh, routes: &Routes, found: &Allocated, table: &RouterTable) -> Option<Watts> {
    let parts = routes.parts(&found.plane, found.loads.len());
    let plane = |(routes, loads): (&Routes, &Vec<f64>)| {
        table.plane_watts(mesh, loads, &routes.traffic(mesh)).ok()
    };
    parts.iter().zip(&found.loads).map(plane).sum()
}
