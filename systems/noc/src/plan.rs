//! The planner: what each routing and allocation of a problem needs, and the least anything could.

mod certificate;
mod several;

use std::collections::BTreeMap;

use ebb_des::Seed;
#[cfg(not(feature = "solver"))]
use ebb_scenario::Invalid;
use ebb_scenario::schema::checked;
use ebb_scenario::{Files, Progress};
use ebb_units::Watts;
use serde::Serialize;

use crate::problem::{NocError, Normalise, Problem};
#[cfg(feature = "solver")]
use certificate::Proof;
pub use certificate::{CertificatePlan, CertifiedRoute};
use several::Several;

use crate::routing::{Given, Routing, routing};
use crate::{Mapping, Mesh, Operation, RouterTable, Routes, TaskGraph, Traffic, VoltageRange};

/// The answer to a [`Problem`]: powers are plain sums of rate x hops / alpha^2, rates in units of
/// a link's capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The expansion factor of XY, or of the first routing asked for.
    pub alpha: Option<f64>,
    /// Sum of rate x hops over shortest paths at full voltage.
    pub power_nodvfs: f64,
    /// Each routing on one plane.
    pub routings: BTreeMap<String, RoutingPlan>,
    /// The least power on as many planes as asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundPlan>,
    /// Why there is no bound although one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_missing: Option<String>,
    /// With several planes, the least power on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_one_plane: Option<BoundPlan>,
    /// With several planes, the least power when the flows keep the paths of the routing that is
    /// allocated, and may be shared out between the planes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_routing: Option<RoutingBound>,
    /// The sampled method of the thesis on one plane, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Each allocation over several planes.
    pub planes: BTreeMap<String, PlanesPlan>,
    /// What the matrix was multiplied with.
    pub scale: f64,
    /// The mapping of a task graph: tile of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping: Option<BTreeMap<String, usize>>,
    /// Sum of rate x hops of that mapping, in the graph's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping_cost: Option<f64>,
}

/// A routing on one plane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingPlan {
    /// Sum of rate x hops / alpha^2; absent where the routing cannot carry the load.
    pub power: Option<f64>,
    /// Its expansion factor.
    pub alpha: Option<f64>,
    /// The fullest link's load.
    pub max_link_load: Option<f64>,
    /// The watts of all routers, with a router power table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_w: Option<Watts>,
    /// Why there is no power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The least power and its proof.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoundPlan {
    /// Nothing needs less.
    pub lower: f64,
    /// A splittable routing needs this.
    pub upper: f64,
    /// The expansion factor of its first plane.
    pub alpha: f64,
    /// Those of all planes.
    pub alphas: Vec<f64>,
    /// What a link's capacity more would save, where that is not nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadow_prices: Vec<ShadowPrice>,
    /// What others can verify both ends by, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificatePlan>,
}

/// The least power of a routing's own paths on several planes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingBound {
    /// Whose paths.
    pub routing: String,
    /// No allocation of them needs less.
    pub lower: f64,
    /// What sharing them out needs.
    pub upper: f64,
    /// The planes' expansion factors then.
    pub alphas: Vec<f64>,
}

/// What more capacity on a link would save.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShadowPrice {
    /// Where the link begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// Power saved per unit of load it could carry more at the same voltage.
    pub price: f64,
}

/// What the sampled method finds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampled {
    /// The least power over the sampled expansion factors.
    pub power: f64,
    /// Where it was found.
    pub alpha: f64,
    /// How many factors were tried.
    pub samples: usize,
}

/// An allocation over several planes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanesPlan {
    /// Sum over the planes of rate x hops / alpha^2; absent where one is overloaded.
    pub power: Option<f64>,
    /// The planes' expansion factors.
    pub alphas: Vec<f64>,
    /// The fullest link of each plane.
    pub max_link_loads: Vec<f64>,
    /// Power of each plane.
    pub powers: Vec<f64>,
    /// The watts of all routers of all planes, with a router power table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_w: Option<Watts>,
    /// Whose paths they are: absent for XY where it is among the routings asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// `true` where it was proven that no allocation of the same paths needs less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven: Option<bool>,
    /// At given voltages: nothing needs less there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<f64>,
}

/// A plan with what a report draws.
#[derive(Clone, Debug)]
pub struct Solved {
    /// The mesh.
    pub mesh: Mesh,
    /// The rates after normalisation.
    pub traffic: Traffic,
    /// The numbers.
    pub plan: Plan,
    /// Link loads by name: routings, the bound, planes.
    pub loads: Vec<(String, Vec<f64>)>,
}

/// A routing's name, and its routes or why it has none.
type Compared = (String, Result<Routes, String>);

impl Problem {
    /// Answers the problem.
    ///
    /// # Errors
    /// When it makes no sense, a file is wrong, or nothing can carry the load; the error names it.
    pub fn solve(
        &self,
        files: &dyn Files,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Solved, NocError> {
        checked(self)?;
        let seed = Seed(seed);
        let mesh = self.topology()?;
        let range = VoltageRange::new(self.alpha_max)?;
        let (matrix, mapping) = self.matrix(&mesh, files, seed)?;
        let named = |name: &str| RouterTable::named(name, files);
        let table = self.router.as_deref().map(named).transpose()?;
        let routed = self.route_all(&mesh, &matrix, seed)?;
        let scale = self.load * self.unit(&mesh, &matrix, &routed)?;
        let traffic = matrix.scaled(scale);
        let mut loads = Vec::new();
        let mut routings = BTreeMap::new();
        for (name, routes) in &routed {
            let plan = match routes {
                Err(fault) => RoutingPlan::faulty(fault.clone()),
                Ok(routes) => {
                    let routes = routes.scaled(scale);
                    let plan = RoutingPlan::of(&mesh, &routes, range, name);
                    let watts = |table: &RouterTable| {
                        table.plane_watts(&mesh, &routes.loads(&mesh), &traffic).ok()
                    };
                    loads.push((name.clone(), routes.loads(&mesh)));
                    RoutingPlan { router_w: table.as_ref().and_then(watts), ..plan }
                }
            };
            routings.insert(name.clone(), plan);
        }
        self.refuse_overload(&mesh, &routings, &loads)?;
        let first = if routings.contains_key("xy") { "xy" } else { routed[0].0.as_str() };
        let mut plan = Plan {
            alpha: routings[first].alpha,
            power_nodvfs: traffic.hop_rate(&mesh)?,
            routings,
            bound: None,
            bound_missing: None,
            bound_one_plane: None,
            bound_routing: None,
            sampled: None,
            planes: BTreeMap::new(),
            scale,
            mapping: mapping.as_ref().map(tiles_of),
            mapping_cost: mapping.as_ref().map(|(_, mapping)| mapping.cost),
        };
        let mut solved = Solved { mesh, traffic, plan: plan.clone(), loads };
        if self.planes > 1 {
            progress.at(0.3, "allocating flows to planes");
            let several = Several { problem: self, routed: &routed, range, seed };
            several.fill(&mut solved, &mut plan, table.as_ref());
            #[cfg(feature = "solver")]
            several.solve(&solved.mesh, &mut plan, progress)?;
        }
        #[cfg(feature = "solver")]
        self.bounds(&mut solved, &mut plan, range, progress)?;
        #[cfg(not(feature = "solver"))]
        self.without_solver(&mut plan)?;
        solved.plan = plan;
        Ok(solved)
    }

    /// Every routing that is compared, with its routes at the matrix's own scale or why it has
    /// none.
    fn route_all(
        &self,
        mesh: &Mesh,
        matrix: &Traffic,
        seed: Seed,
    ) -> Result<Vec<Compared>, NocError> {
        let names = self.routing_names()?;
        let given = Given::new("given", self.paths.clone());
        let alone = names.len() == 1;
        let mut all = Vec::new();
        for name in names {
            let rule: &dyn Routing = if name == "given" {
                &given
            } else {
                routing(&name).expect("the names were checked")
            };
            let routes = match rule.route(mesh, matrix, seed) {
                Err(fault) if alone || name == "given" => return Err(fault.into()),
                other => other.map_err(|fault| fault.to_string()),
            };
            all.push((name, routes));
        }
        Ok(all)
    }

    /// What the matrix must be multiplied with to have load 1.
    fn unit(&self, mesh: &Mesh, matrix: &Traffic, routed: &[Compared]) -> Result<f64, NocError> {
        let fullest = |routes: &Routes| routes.loads(mesh).into_iter().fold(0.0, f64::max);
        let load = match self.normalisation() {
            Normalise::None => 1.0,
            Normalise::Max => {
                let routes = routed.iter().filter_map(|(_, routes)| routes.as_ref().ok());
                routes.map(fullest).fold(0.0, f64::max)
            }
            Normalise::Xy => {
                let xy = routing("xy").expect("XY is registered");
                fullest(&xy.route(mesh, matrix, Seed(0))?)
            }
        };
        Ok(if load > 0.0 { 1.0 / load } else { 1.0 })
    }

    /// Where not one routing can carry the load, the first is named.
    fn refuse_overload(
        &self,
        mesh: &Mesh,
        routings: &BTreeMap<String, RoutingPlan>,
        loads: &[(String, Vec<f64>)],
    ) -> Result<(), NocError> {
        if routings.values().any(|routing| routing.power.is_some()) || self.planes > 1 {
            return Ok(());
        }
        let Some((routing, loads)) = loads.first() else { return Ok(()) };
        let fullest = (0..loads.len()).max_by(|&a, &b| loads[a].total_cmp(&loads[b]));
        let link = mesh.links()[fullest.unwrap_or(0)];
        let load = loads[fullest.unwrap_or(0)];
        let (from, to) = (link.from, link.to);
        Err(NocError::Capacity { routing: routing.clone(), load, from, to })
    }

    /// What a program without the solver leaves out is said, what was asked for by name refused.
    #[cfg(not(feature = "solver"))]
    fn without_solver(&self, plan: &mut Plan) -> Result<(), NocError> {
        const REMEDY: &str = "build with the feature `solver` (make build)";
        if self.samples > 0 {
            let fault = "the sampled method needs a program built with the solver";
            return Err(Invalid::new("samples", fault, REMEDY).into());
        }
        if !self.alphas.is_empty() {
            let fault = "whole flows at given voltages need a program built with the solver";
            return Err(Invalid::new("alphas", fault, REMEDY).into());
        }
        if self.bound {
            let fault = "the bound needs a program built with the solver";
            plan.bound_missing = Some(format!("{fault}: {REMEDY}"));
        }
        Ok(())
    }

    #[cfg(feature = "solver")]
    fn bounds(
        &self,
        solved: &mut Solved,
        plan: &mut Plan,
        range: VoltageRange,
        progress: &dyn Progress,
    ) -> Result<(), NocError> {
        use crate::bound;
        if self.samples > 0 {
            let found =
                bound::sampled(&solved.mesh, &solved.traffic, range, self.samples, progress)?;
            let samples = self.samples;
            plan.sampled = found.map(|(power, alpha)| Sampled { power, alpha, samples });
        }
        if !self.bound {
            return Ok(());
        }
        let one = bound::least_power(&solved.mesh, &solved.traffic, range, progress);
        // Quotients of link loads may round beyond it.
        let within = |alpha: f64| alpha.min(range.alpha_max());
        let one = if self.planes == 1 { Some(one?) } else { one.ok() };
        if let Some(one) = &one {
            solved.loads.push(("bound".to_owned(), one.loads.clone()));
        }
        let one = one.map(|one| BoundPlan {
            certificate: self.certificate.then(|| {
                let prices = Proof::One { prices: one.certificate.prices.clone() };
                let routes = std::iter::once(one.routes.as_slice());
                CertificatePlan::new(&solved.mesh, &solved.traffic, range, routes, prices)
            }),
            lower: one.lower,
            upper: one.upper,
            alpha: within(one.alpha),
            alphas: vec![within(one.alpha)],
            shadow_prices: shadow_prices(&solved.mesh, &one.shadow_prices),
        });
        if self.planes == 1 {
            plan.bound = one;
            return Ok(());
        }
        plan.bound_one_plane = one;
        let start = plan.planes.values().filter_map(|plan| plan.power.map(|_| plan));
        let start: Vec<Vec<f64>> = start.map(|plan| plan.max_link_loads.clone()).collect();
        let search = if self.certificate {
            bound::certified_power_planes
        } else {
            bound::least_power_planes
        };
        let (mesh, traffic) = (&solved.mesh, &solved.traffic);
        let mut found = search(mesh, traffic, range, self.planes, &start, progress)?;
        let proof = found.certificate.take();
        let certificate = proof.map(|proof| {
            let routes = found.routes.iter().map(Vec::as_slice);
            CertificatePlan::new(mesh, traffic, range, routes, Proof::Planes(proof))
        });
        plan.bound = Some(BoundPlan {
            lower: found.lower,
            upper: found.upper,
            alpha: within(found.alphas[0]),
            alphas: found.alphas.iter().copied().map(within).collect(),
            shadow_prices: Vec::new(),
            certificate,
        });
        for (plane, loads) in found.loads.into_iter().enumerate() {
            solved.loads.push((format!("bound plane {}", plane + 1), loads));
        }
        Ok(())
    }
}

fn tiles_of((graph, mapping): &(TaskGraph, Mapping)) -> BTreeMap<String, usize> {
    graph.tasks.iter().cloned().zip(mapping.tiles.iter().copied()).collect()
}

#[cfg(feature = "solver")]
fn shadow_prices(mesh: &Mesh, prices: &[f64]) -> Vec<ShadowPrice> {
    let dearest = prices.iter().copied().fold(0.0, f64::max);
    let mut found: Vec<ShadowPrice> = mesh
        .links()
        .iter()
        .zip(prices)
        .filter(|(_, price)| **price > 1e-9 * dearest)
        .map(|(link, &price)| ShadowPrice { from: link.from, to: link.to, price })
        .collect();
    found.sort_by(|a, b| b.price.total_cmp(&a.price));
    found
}

impl RoutingPlan {
    fn of(mesh: &Mesh, routes: &Routes, range: VoltageRange, name: &str) -> RoutingPlan {
        let loads = routes.loads(mesh);
        let fullest = loads.iter().copied().fold(0.0, f64::max);
        let operation = Operation::of(&loads, routes.hop_rate(), range);
        let fault = operation.is_none().then(|| {
            format!(
                "{name} exceeds the capacity: the load of its fullest link would be \
                {fullest:.6}"
            )
        });
        RoutingPlan {
            power: operation.map(|operation| operation.power),
            alpha: operation.map(|operation| operation.alpha),
            max_link_load: Some(fullest),
            router_w: None,
            fault,
        }
    }

    fn faulty(fault: String) -> RoutingPlan {
        let (power, alpha, max_link_load, router_w) = (None, None, None, None);
        RoutingPlan { power, alpha, max_link_load, router_w, fault: Some(fault) }
    }
}

impl PlanesPlan {
    fn of(
        operations: Option<&[Operation]>,
        loads: &[Vec<f64>],
        router_w: Option<Watts>,
    ) -> PlanesPlan {
        let each = |value: fn(&Operation) -> f64| {
            operations.map(|all| all.iter().map(value).collect::<Vec<_>>()).unwrap_or_default()
        };
        let fullest = |loads: &Vec<f64>| loads.iter().copied().fold(0.0, f64::max);
        let powers = each(|operation| operation.power);
        PlanesPlan {
            power: operations.map(|_| powers.iter().sum()),
            alphas: each(|operation| operation.alpha),
            max_link_loads: loads.iter().map(fullest).collect(),
            powers,
            router_w,
            routing: None,
            proven: None,
            lower: None,
        }
    }
}
