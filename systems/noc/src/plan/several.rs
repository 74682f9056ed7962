//! What a plan says about several planes: one routing's flows allocated to all of them, and with planes that
//! can sleep the least watts over their number and the routings.

use ebb_des::Seed;

use super::{Compared, Plan, PlanesPlan, Solved};
use crate::planes::{Allocated, Allocation};
use crate::{Mesh, Problem, RouterTable, Routes, VoltageRange};

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
        let chosen = able.iter().position(|(name, _)| *name == "xy").unwrap_or(0);
        let (name, routes) = able.swap_remove(chosen);
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
        feasible.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, plan)| plan)
    }
}

/// The watts of all routers of all planes; `None` where a plane is overloaded.
fn watts(mesh: &Mesh, routes: &Routes, found: &Allocated, table: &RouterTable) -> Option<f64> {
    let parts = routes.parts(&found.plane, found.loads.len());
    let plane = |(routes, loads): (&Routes, &Vec<f64>)| {
        table.plane_watts(mesh, loads, &routes.traffic(mesh)).ok()
    };
    parts.iter().zip(&found.loads).map(plane).sum()
}
