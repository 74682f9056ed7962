//! The best allocation of whole flows at given voltages: an integer linear program.
//!
//! With every plane's voltage given, a flow on plane k costs rate x hops / alpha_k^2 and no link of the
//! plane carries more than 1 / alpha_k. What is left is which flow goes where.

use ebb_lp::{LpError, Program};
use ebb_scenario::Progress;

use super::state::Item;

/// Relative gap at which the search ends.
const GAP: f64 = 1e-6;
/// Links may carry this much more than their capacity, relatively: rounding.
const SLACK: f64 = 1e-9;

/// An allocation at given voltages, and how far it may be from the best.
pub(super) struct Fixed {
    /// The plane of each item.
    pub(super) plane: Vec<usize>,
    /// No allocation at these voltages needs less.
    pub(super) lower: f64,
}

/// Finds it; `None` where nothing fits. `capacities` are what links of each plane carry, 1 / alpha;
/// `nodes_max` bounds the search.
pub(super) fn fixed(
    items: &[Item],
    links: usize,
    capacities: &[f64],
    nodes_max: u32,
    progress: &dyn Progress,
) -> Result<Option<Fixed>, LpError> {
    let mut margin = 0.0;
    let mut lower = None;
    // The solver lets rows be a little overfull. What it finds so is a bound but no allocation.
    loop {
        let (plane, bound) = match solve(items, links, capacities, (margin, nodes_max), progress) {
            Err(LpError::Infeasible) if lower.is_none() => return Ok(None),
            other => other?,
        };
        let lower = *lower.get_or_insert(bound);
        if fits(items, links, capacities, &plane) {
            return Ok(Some(Fixed { plane, lower }));
        }
        margin = if margin == 0.0 { 1e-7 } else { margin * 10.0 };
        if margin > 1e-3 {
            return Ok(None);
        }
    }
}

fn fits(items: &[Item], links: usize, capacities: &[f64], plane: &[usize]) -> bool {
    let mut loads = vec![0.0; links * capacities.len()];
    for (item, &plane) in items.iter().zip(plane) {
        item.path.iter().for_each(|&link| loads[plane * links + link] += item.rate);
    }
    let full = |(at, load): (usize, &f64)| *load <= capacities[at / links] * (1.0 + SLACK);
    loads.iter().enumerate().all(full)
}

/// The allocation that the solver finds with capacities less the share `margin`, and its bound.
fn solve(
    items: &[Item],
    links: usize,
    capacities: &[f64],
    (margin, nodes_max): (f64, u32),
    progress: &dyn Progress,
) -> Result<(Vec<usize>, f64), LpError> {
    let mut program = Program::integer(GAP, nodes_max);
    program.stop_when(|| progress.stopped());
    let none = f64::NEG_INFINITY;
    // In units of a plane's capacity, so that the solver's tolerance is relative.
    let rows: Vec<Vec<_>> = capacities
        .iter()
        .map(|_| (0..links).map(|_| program.row(none, 1.0 - margin, &[])).collect())
        .collect();
    let mut columns = Vec::with_capacity(items.len());
    for item in items {
        let one = program.row(1.0, 1.0, &[]);
        let on = |(plane, capacity): (usize, &f64)| {
            let used = item.path.iter().map(|&link| (rows[plane][link], item.rate / capacity));
            let entries: Vec<_> = used.chain([(one, 1.0)]).collect();
            program.integer_column(item.weight() * capacity * capacity, 0.0, 1.0, &entries)
        };
        let on: Vec<_> = capacities.iter().enumerate().map(on).collect();
        columns.push(on);
    }
    let solution = program.solve()?;
    let value = |column: &ebb_lp::Column| solution.value(*column);
    let plane = columns.iter().map(|on| {
        let most = (0..on.len()).max_by(|&a, &b| value(&on[a]).total_cmp(&value(&on[b])));
        most.unwrap_or(0)
    });
    let bound = solution.objective * (1.0 - solution.gap.clamp(0.0, 1.0));
    Ok((plane.collect(), bound))
}
