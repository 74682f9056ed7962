//! The schedule of least energy over a load.

use core::time::Duration;

use ebb_units::{Joules, PacketsPerSecond, Watts};

use super::{Grid, State, Switching};

/// A state for each slot, and what that costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The states, in the order of the slots.
    pub states: Vec<State>,
    /// Energy of all slots and of the changes between them; entering the first is free.
    pub energy: Joules,
}

impl Schedule {
    /// The active cores of each slot.
    pub fn cores(&self) -> impl Iterator<Item = u16> + '_ {
        self.states.iter().map(|state| state.cores)
    }
}

/// The schedule of least energy: in every slot a state of `grid` that [`Grid::allows`] the load,
/// drawing what `watts` says of (cores, frequency, load), with the energy of `switching` between
/// slots.
///
/// Exact, by dynamic programming forwards over the slots: the least energy to be in a state is
/// that to have been in the best former state and to have switched. Waking cores and retuning cost
/// apart from each other, so the best former state is found by relaxing first over frequencies and
/// then along the cores: time grows with slots × states, not with the square of the states.
pub fn solve(
    grid: &Grid,
    loads: &[PacketsPerSecond],
    slot: Duration,
    switching: &Switching,
    watts: impl Fn(u16, u16, PacketsPerSecond) -> Watts,
) -> Schedule {
    let count = grid.states.len();
    let seconds = slot.as_secs_f64();
    let mut best = vec![0.0; count];
    let mut former = Vec::with_capacity(loads.len());
    for (index, load) in loads.iter().enumerate() {
        let from = if index == 0 { identity(count) } else { relax(grid, switching, &mut best) };
        former.push(from);
        for (state, best) in grid.states.iter().zip(&mut best) {
            let drawn = watts(state.cores, state.frequency, *load).0 * seconds;
            *best += if grid.allows(state, *load) { drawn } else { f64::INFINITY };
        }
    }
    trace_back(grid, &best, &former)
}

/// The energy of `states` under `loads` by the same rules; `None` when a slot has a state that its
/// load does not allow, or the lengths differ.
pub fn energy(
    grid: &Grid,
    states: &[State],
    loads: &[PacketsPerSecond],
    slot: Duration,
    switching: &Switching,
    watts: impl Fn(u16, u16, PacketsPerSecond) -> Watts,
) -> Option<Joules> {
    let allowed = |(state, load): (&State, &PacketsPerSecond)| grid.allows(state, *load);
    if states.len() != loads.len() || !states.iter().zip(loads).all(allowed) {
        return None;
    }
    let drawn: Joules = states
        .iter()
        .zip(loads)
        .map(|(state, load)| watts(state.cores, state.frequency, *load) * slot)
        .sum();
    let switched: Joules =
        states.windows(2).map(|pair| switching.between(&pair[0], &pair[1])).sum();
    Some(drawn + switched)
}

fn identity(count: usize) -> Vec<u16> {
    (0..count).map(|state| state as u16).collect()
}

/// Turns the least energy to have been in each state into the least to be in it after switching;
/// returns the state each came from.
fn relax(grid: &Grid, switching: &Switching, best: &mut [f64]) -> Vec<u16> {
    let width = usize::from(grid.frequencies);
    let mut from = identity(best.len());
    for row in 0..usize::from(grid.cores) {
        let cells = row * width..(row + 1) * width;
        let cheapest = cells.clone().min_by(|a, b| best[*a].total_cmp(&best[*b]));
        let cheapest = cheapest.expect("give at least one frequency");
        let retuned = best[cheapest] + switching.retune.0;
        for cell in cells {
            if retuned < best[cell] {
                (best[cell], from[cell]) = (retuned, cheapest as u16);
            }
        }
    }
    let rows = usize::from(grid.cores);
    let mut step = |to: usize, of: usize, cost: f64| {
        for column in 0..width {
            let (to, of) = (to * width + column, of * width + column);
            if best[of] + cost < best[to] {
                (best[to], from[to]) = (best[of] + cost, from[of]);
            }
        }
    };
    (1..rows).for_each(|row| step(row, row - 1, switching.wake.0));
    (1..rows).rev().for_each(|row| step(row - 1, row, 0.0));
    from
}

fn trace_back(grid: &Grid, best: &[f64], former: &[Vec<u16>]) -> Schedule {
    let last = (0..best.len()).min_by(|a, b| best[*a].total_cmp(&best[*b]));
    let mut state = last.expect("a grid has states");
    let energy = Joules(best[state]);
    let mut states = Vec::with_capacity(former.len());
    for from in former.iter().rev() {
        states.push(grid.states[state]);
        state = usize::from(from[state]);
    }
    states.reverse();
    Schedule { states, energy }
}
