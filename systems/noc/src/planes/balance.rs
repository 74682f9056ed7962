//! 2P-BALANCE (Li 2012, algorithm 1).

use super::state::State;

/// 2P-BALANCE (Li 2012, Algorithm 1): bottleneck flows of the master plane, largest first, move
/// to the slave plane while it stays the less loaded one.
pub(super) fn balance(state: &mut State) {
    let mut done = vec![false; state.items.len()];
    let mut heads = vec![0; state.links()];
    while let Some(item) = state.largest_of_bottleneck(&done, &mut heads) {
        done[item] = true;
        state.shift(item, 1);
        if state.fullest(0) < state.fullest(1) {
            state.shift(item, 0);
        }
    }
}
