//! The goal program (Li 2012, eqs. 8.1 to 8.8).

use ebb_lp::{Column, LpError, Program};
use ebb_scenario::Progress;

use crate::demand::Levels;
use crate::error::ClusterError;
use crate::fleet::Fleet;
use crate::goal::Goal;

/// Relative gap at which the solver stops.
const GAP: f64 = 1e-6;
/// Nodes of its search tree.
const NODES_MAX: u32 = 200_000;

/// The program's columns.
struct Columns {
    /// N_k.
    owned: Vec<Column>,
    /// How many N_k alpha_t there are, one for each group and level.
    #[cfg_attr(not(test), expect(dead_code))]
    on: usize,
}

/// The goal program, written out (Li 2012, eqs. 8.1 to 8.8) with a whole number for each group and
/// level, and solved twice: for the energy, then for the price at that energy. Servers whose power
/// follows their load have a column for their load beside it.
///
/// It grows with levels times groups, and its proof with much more: for tens of levels.
///
/// # Errors
/// When it has no solution, the solver gives up or is stopped, or a server more is to be on than needed, which the
/// published program does not know.
pub fn program(
    fleet: &Fleet,
    levels: &Levels,
    budget: f64,
    progress: &dyn Progress,
) -> Result<Goal, ClusterError> {
    if fleet.spare {
        return Err(ClusterError::Solver("it does not support `spare`: remove it".to_owned()));
    }
    let said = |error| match error {
        LpError::Interrupted => ClusterError::Stopped,
        other => ClusterError::Solver(other.to_string()),
    };
    let (mut energy, _) = written(fleet, levels, budget, None);
    energy.stop_when(|| progress.stopped());
    let first = energy.solve().map_err(said)?;
    let joules = first.objective * (1.0 + 2.0 * GAP);
    let (mut price, columns) = written(fleet, levels, budget, Some(joules));
    price.stop_when(|| progress.stopped());
    let second = price.solve().map_err(said)?;
    let counts = columns.owned.iter().map(|column| second.value(*column).round() as u32);
    Ok(Goal { counts: counts.collect(), gap: first.gap, cheapest: second.proven })
}

fn written(
    fleet: &Fleet,
    levels: &Levels,
    budget: f64,
    joules: Option<f64>,
) -> (Program<'static>, Columns) {
    let mut program = Program::integer(GAP, NODES_MAX);
    let peak = levels.mbps.last().copied().unwrap_or(0.0);
    let useful = fleet.useful(peak);
    let groups = || fleet.groups.iter().zip(&useful);
    let weight = |watts: f64| if joules.is_some() { 0.0 } else { watts };
    let cost = |price: f64| if joules.is_some() { price } else { 0.0 };
    let owned: Vec<Column> = groups()
        .map(|(group, most)| program.integer_column(cost(group.price), 0.0, f64::from(*most), &[]))
        .collect();
    let prices: Vec<(Column, f64)> =
        owned.iter().zip(&fleet.groups).map(|(column, group)| (*column, group.price)).collect();
    // Eq. 8.3.
    program.row(f64::NEG_INFINITY, budget.min(1e15), &prices);
    let mut on = 0;
    let mut energy = Vec::new();
    for (mbps, seconds) in levels.mbps.iter().zip(&levels.seconds) {
        let mut carried = Vec::new();
        for ((group, most), owned) in groups().zip(&owned) {
            let (idle, slope) = (group.idle_w * seconds, group.slope() * seconds);
            let count = program.integer_column(weight(idle), 0.0, f64::from(*most), &[]);
            let load = program.column(weight(slope), 0.0, f64::INFINITY, &[]);
            // Eq. 8.4, and no server beyond its capacity.
            program.row(f64::NEG_INFINITY, 0.0, &[(count, 1.0), (*owned, -1.0)]);
            let full = group.capacity_mbps;
            program.row(f64::NEG_INFINITY, 0.0, &[(load, 1.0), (count, -full)]);
            energy.extend([(count, idle), (load, slope)]);
            carried.push((load, 1.0));
            on += 1;
        }
        // Eq. 8.2.
        program.row(*mbps, f64::INFINITY, &carried);
    }
    if let Some(joules) = joules {
        // Eq. 8.8.
        program.row(f64::NEG_INFINITY, joules, &energy);
    }
    (program, Columns { owned, on })
}

/// How many whole numbers the program of these has.
#[cfg(test)]
pub(crate) fn whole_numbers(fleet: &Fleet, levels: &Levels) -> usize {
    let (_, columns) = written(fleet, levels, f64::INFINITY, None);
    columns.owned.len() + columns.on
}
