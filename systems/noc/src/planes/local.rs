//! Local search over the planes of single flows.

use rand::Rng as _;

use super::state::State;

/// Rounds of local search after the first, each from a disturbed copy of the best.
const ROUNDS: usize = 12;
/// Items looked at in all rounds together.
const LOOKS_MAX: usize = 3_000_000;

/// Local search: single flows move to whichever plane makes the total power least, until none
/// does; then some flows of the best allocation are thrown elsewhere and it begins again.
pub(super) fn local(state: &mut State, random: &mut ebb_des::Rng) {
    let mut looks = 0;
    descend(state, &mut looks);
    let (mut best, mut least) = (state.plane.clone(), state.power());
    for _ in 0..ROUNDS {
        if looks > LOOKS_MAX || state.items.is_empty() {
            break;
        }
        let throws = (state.items.len() / 20).max(2);
        for _ in 0..throws {
            let item = random.random_range(0..state.items.len());
            let plane = random.random_range(0..state.planes());
            shift(state, item, plane);
        }
        descend(state, &mut looks);
        if state.power() < least {
            (best, least) = (state.plane.clone(), state.power());
        } else {
            restore(state, &best);
        }
    }
    restore(state, &best);
}

fn restore(state: &mut State, planes: &[usize]) {
    for (item, &plane) in planes.iter().enumerate() {
        shift(state, item, plane);
    }
}

fn shift(state: &mut State, item: usize, plane: usize) {
    if state.plane[item] != plane {
        state.shift(item, plane);
    }
}

fn descend(state: &mut State, looks: &mut usize) {
    let mut power = state.power();
    let mut improved = true;
    while improved && *looks <= LOOKS_MAX {
        improved = false;
        for at in 0..state.by_rate.len() {
            *looks += 1;
            let item = state.by_rate[at];
            let home = state.plane[item];
            let mut best = (power, home);
            for plane in 0..state.planes() {
                if plane != home {
                    shift(state, item, plane);
                    let here = state.power();
                    if here < best.0 * (1.0 - 1e-12) {
                        best = (here, plane);
                    }
                }
            }
            shift(state, item, best.1);
            improved |= best.1 != home;
            power = best.0;
        }
    }
}
