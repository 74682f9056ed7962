//! Ideal Power Control on several planes with a proven gap (Li 2012, eqs. 7.7-7.12).
//!
//! The unknowns that make it hard are the planes' capacities u (u_0 >= u_1 >= ...); at fixed u it
//! is linear. Two planes are closed by [`super::two`], more by [`super::many`], which also proves so
//! that others can verify it.

use ebb_scenario::Progress;

use super::certificate::PlanesCertificate;
use super::many::{self, Effort};
use super::master::{Master, Plane};
use super::pricing::Ways;
use super::search::Search;
use super::single::{first_paths, scaled_flows};
use super::{BoundError, two};
use crate::{Flow, Mesh, Path, Routed, Routes, Traffic, VoltageRange};

/// For three planes and more.
const MANY: Effort = Effort { gap: 2e-3, solves_max: 1_000, cells_max: 30_000 };
/// For the certificate of two planes, whose bound itself comes nearer.
const CERTIFIED: Effort = Effort { gap: 1e-4, solves_max: 300, cells_max: 10_000 };

/// The least power on several planes, proven.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanesBound {
    /// Nothing needs less.
    pub lower: f64,
    /// What `routes` need.
    pub upper: f64,
    /// The planes' expansion factors, the master's (smallest) first.
    pub alphas: Vec<f64>,
    /// The load of each link of each plane, in units of its capacity.
    pub loads: Vec<Vec<f64>>,
    /// The flow on each plane.
    pub routes: Vec<Vec<Routed>>,
    /// Linear programs solved.
    pub solves: usize,
    /// Why nothing is below its own `lower`, where it was asked for.
    pub certificate: Option<PlanesCertificate>,
}

/// The least power of `traffic` on `planes` planes over all splittable routings and voltages.
/// `starts` are capacities worth trying first: the fullest link of each plane of allocations.
///
/// # Errors
/// When nothing is sent, no path joins two tiles that talk, or no routing fits.
pub fn least_power_planes(
    mesh: &Mesh,
    traffic: &Traffic,
    range: VoltageRange,
    planes: usize,
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    of_any_routing(mesh, traffic, range, (planes, false), starts, progress)
}

/// The same with a certificate.
///
/// # Errors
/// As [`least_power_planes`].
pub fn certified_power_planes(
    mesh: &Mesh,
    traffic: &Traffic,
    range: VoltageRange,
    planes: usize,
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    of_any_routing(mesh, traffic, range, (planes, true), starts, progress)
}

/// Over all splittable routings; whether a certificate is wanted goes with the number of planes.
fn of_any_routing(
    mesh: &Mesh,
    traffic: &Traffic,
    range: VoltageRange,
    planes: (usize, bool),
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    let (flows, scale) = scaled_flows(mesh, traffic)?;
    let keys = first_paths(mesh, &flows);
    closed(Ways::Any(mesh), (keys, scale), range, planes, starts, progress)
}

/// The least power on `planes` planes when every part of a flow keeps its path of `routes`, on whichever
/// planes it is, over all ways to share the parts out and all voltages. No allocation of these routes to
/// planes needs less.
///
/// # Errors
/// When nothing is sent, or the routes do not fit the planes.
pub fn least_power_of_routes(
    mesh: &Mesh,
    routes: &Routes,
    range: VoltageRange,
    planes: usize,
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    let parts = routes.flows.iter().flat_map(|routed| {
        let flow = routed.flow;
        let some = routed.paths.iter().filter(|way| way.share > 0.0);
        some.map(move |way| (Flow { rate: flow.rate * way.share, ..flow }, way.path.clone()))
    });
    let mut keys: Vec<(Flow, Path)> = parts.collect();
    let total: f64 = keys.iter().map(|(flow, _)| flow.rate).sum();
    if keys.is_empty() {
        return Err(BoundError::Empty);
    }
    let scale = keys.len() as f64 / total;
    keys.iter_mut().for_each(|(flow, _)| flow.rate *= scale);
    let paths: Vec<Path> = keys.iter().map(|(_, path)| path.clone()).collect();
    closed(Ways::Given(mesh, &paths), (keys, scale), range, (planes, false), starts, progress)
}

/// Searches from the paths `keys` of the flows, whose rates are multiplied by `scale`; whether a certificate
/// is wanted goes with the number of planes.
fn closed(
    ways: Ways<'_>,
    (keys, scale): (Vec<(Flow, Path)>, f64),
    range: VoltageRange,
    (planes, certify): (usize, bool),
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    let mesh = ways.mesh();
    let flows: Vec<Flow> = keys.iter().map(|(flow, _)| *flow).collect();
    let plane = Plane { hop_cost: 1.0, low: scale, price: 0.0 };
    let master = Master::new(mesh, keys, &vec![plane; planes], progress);
    let low = scale * range.floor();
    let (best, solves) = (None, 0);
    let mut search = Search { ways, flows, master, scale, low, best, solves };
    for start in starts {
        let mut u: Vec<f64> = start.iter().map(|load| (load * scale).max(low)).collect();
        u.sort_by(|a, b| b.total_cmp(a));
        if u.len() == planes {
            search.probe_own(&u)?;
        }
    }
    search.probe_own(&vec![scale; planes])?;
    if search.best.is_none() {
        return Err(BoundError::PlanesCapacity);
    }
    if planes == 2 {
        let lower = two::close(&mut search, progress)?;
        let proof =
            certify.then(|| many::close(&mut search, planes, CERTIFIED, progress)).transpose()?;
        let certificate =
            proof.map(|(least, proof)| PlanesCertificate::of(proof, least.min(lower), scale));
        return finish(search, lower, certificate);
    }
    let (lower, proof) = many::close(&mut search, planes, MANY, progress)?;
    let certificate = certify.then(|| PlanesCertificate::of(proof, lower, scale));
    finish(search, lower, certificate)
}

/// The answer in the problem's own units.
fn finish(
    search: Search<'_>,
    lower: f64,
    certificate: Option<PlanesCertificate>,
) -> Result<PlanesBound, BoundError> {
    let scale = search.scale;
    let best = search.best.ok_or(BoundError::PlanesCapacity)?;
    let volume = scale * scale * scale;
    Ok(PlanesBound {
        lower: lower / volume,
        upper: best.power / volume,
        alphas: best.capacities.iter().map(|u| scale / u).collect(),
        loads: best
            .loads
            .iter()
            .map(|loads| loads.iter().map(|load| load / scale).collect())
            .collect(),
        routes: best.routes,
        solves: search.solves,
        certificate,
    })
}
