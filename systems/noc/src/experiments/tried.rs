//! What the thesis leaves open, tried in many ways instead of guessed: how Adaptive orders flows of
//! equal rate, and how the tasks of the MPEG4 decoder lie on the mesh.

use ebb_des::Seed;
use ebb_report::{Context, ExperimentError};
use rand::Rng as _;
use rand::seq::SliceRandom;

use super::{allocation, plans};
use crate::routing::adaptive_in_order;
use crate::{Mesh, Pattern, Problem, Routes, routing};

/// Least and most of what was tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) tried: u64,
}

impl Range {
    fn of(values: &[f64]) -> Range {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Range { least, most, tried: values.len() as u64 }
    }
}

/// By how many percent Adaptive's power is below that of 2P-ES on a 5 x 5 mesh with orders of equal
/// flows, and of equally full links, that are drawn. Both take shortest paths, so that the fullest
/// links decide.
pub(super) fn orders(pattern: Pattern, context: &Context<'_>) -> Result<Range, ExperimentError> {
    let mesh = Mesh::new(5, 5).map_err(ExperimentError::from_error)?;
    let seed = Seed(context.seed);
    let traffic = pattern.traffic(&mesh, &mut seed.stream("traffic"));
    let fullest = |routes: &Routes| routes.loads(&mesh).into_iter().fold(0.0, f64::max);
    let even = routing::routing("2p-es").ok_or_else(|| ExperimentError("no 2P-ES".to_owned()))?;
    let even = even.route(&mesh, &traffic, seed).map_err(ExperimentError::from_error)?;
    let even = fullest(&even);
    let mut flows: Vec<_> = traffic.flows().collect();
    let below = |order| {
        let mut rng = seed.nth(order).stream("order");
        flows.shuffle(&mut rng);
        let routes = adaptive_in_order(&mesh, flows.clone(), &mut || rng.random());
        let fullest = fullest(&routes.map_err(ExperimentError::from_error)?);
        Ok(100.0 * (1.0 - (fullest / even).powi(2)))
    };
    let orders = if context.quick { 10 } else { 1_000 };
    let below: Result<Vec<f64>, ExperimentError> = (0..orders).map(below).collect();
    Ok(Range::of(&below?))
}

/// No DVFS over 2P-4PHASE for mappings of a task graph that are drawn; `problem` has the best one.
pub(super) fn mappings(problem: &Problem, context: &Context<'_>) -> Result<Range, ExperimentError> {
    let mut problem = Problem { bound: false, ..problem.clone() };
    let best = plans(&problem, context, 1)?.swap_remove(0);
    let tasks: Vec<String> = best.mapping.unwrap_or_default().into_keys().collect();
    let mesh = problem.topology().map_err(ExperimentError::from_error)?;
    let mut tiles: Vec<usize> = (0..mesh.nodes()).collect();
    let factor = |draw| {
        tiles.shuffle(&mut Seed(context.seed).nth(draw).stream("mapping"));
        problem.mapping = tasks.iter().cloned().zip(tiles.iter().copied()).collect();
        let plan = plans(&problem, context, 1)?.swap_remove(0);
        Ok(allocation(&plan, "2p-4phase").map_or(f64::NAN, |part| 1.0 / part))
    };
    let draws = if context.quick { 5 } else { 200 };
    let factors: Result<Vec<f64>, ExperimentError> = (0..draws).map(factor).collect();
    Ok(Range::of(&factors?))
}
