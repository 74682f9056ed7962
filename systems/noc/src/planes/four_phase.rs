//! 2P-4PHASE (Li 2012, algorithm 3).

use super::mini::mini;
use super::state::State;

/// 2P-4PHASE (Li 2012, Algorithm 3): 2P-MINI, then bottleneck flows of the master plane and
/// after them all that remain on it, largest first, move to the slave plane where the total power
/// does not rise by it.
///
/// The printed algorithm calls the powers both P and Pw and leaves the set M undefined: M is read
/// as the flows that remain on the master plane. A flow whose move was refused is not tried again
/// in the same phase, though line 14 may be read so.
pub(super) fn four_phase(state: &mut State, slave: usize, floor: f64) {
    mini(state, slave, floor);
    let mut power = state.power();
    let mut done: Vec<bool> = state.plane.iter().map(|&plane| plane != 0).collect();
    let mut heads = vec![0; state.links()];
    while let Some(item) = state.largest_of_bottleneck(&done, &mut heads) {
        done[item] = true;
        power = try_shift(state, item, slave, power);
    }
    for at in 0..state.by_rate.len() {
        let item = state.by_rate[at];
        if state.plane[item] == 0 {
            power = try_shift(state, item, slave, power);
        }
    }
}

fn try_shift(state: &mut State, item: usize, slave: usize, power: f64) -> f64 {
    state.shift(item, slave);
    let after = state.power();
    if after > power {
        state.shift(item, 0);
        power
    } else {
        after
    }
}
