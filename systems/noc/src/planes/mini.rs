//! 2P-MINI (Li 2012, algorithm 2).

use super::state::State;

/// 2P-MINI (Li 2012, Algorithm 2): as much as fits below the load 1/alpha_max moves to the slave
/// plane `slave`, which then runs at its lowest voltage: bottleneck flows of the master first,
/// then all others, largest first.
pub(super) fn mini(state: &mut State, slave: usize, floor: f64) {
    let mut done: Vec<bool> = state.plane.iter().map(|&plane| plane != 0).collect();
    let mut heads = vec![0; state.links()];
    while let Some(item) = state.largest_of_bottleneck(&done, &mut heads) {
        done[item] = true;
        try_shift(state, item, slave, floor);
    }
    for at in 0..state.by_rate.len() {
        let item = state.by_rate[at];
        if !done[item] {
            try_shift(state, item, slave, floor);
        }
    }
}

fn try_shift(state: &mut State, item: usize, slave: usize, floor: f64) {
    state.shift(item, slave);
    if state.fullest(slave) > floor * (1.0 + 1e-12) {
        state.shift(item, 0);
    }
}
