//! How many links must be on, by cuts: a bound for fabrics whose program of flows is too large.
//!
//! Whatever the routing, what leaves a set of switches needs as many links across its border as it
//! fills, rounded up, and never fewer than one. The sets are single switches, all that are within
//! some distance of one, and all that are nearer to one switch than to another (on a torus: halves).
//! A linear program over the links alone asks for the least total, and is given the rows that its
//! last answer breaks until none is.

use std::collections::BTreeSet;

use ebb_lp::{LpError, Program};
use ebb_scenario::Progress;

use crate::topology::{Link, Topology};

/// Rows added in a round, those that are broken most first.
const ROWS_MAX: usize = 200;
/// Less than this is rounding.
const NOTHING: f64 = 1e-7;

/// No choice of links that carries `demand` has fewer than this; `demand` as in
/// [`super::bound::fewest_links`].
///
/// # Errors
/// When more traffic crosses a border than all its links carry, or the solver gives up or is stopped.
///
/// # Panics
/// When `demand` does not have an entry for every pair of switches.
pub fn least_links(
    topology: &Topology,
    demand: &[f64],
    progress: &dyn Progress,
) -> Result<usize, LpError> {
    let count = topology.switches().len();
    assert_eq!(demand.len(), count * count, "an entry for every pair of switches");
    let links: Vec<(usize, usize)> =
        topology.links().map(|Link { a, b, .. }| (a.0.index(), b.0.index())).collect();
    let mut rows = rows(count, &links, demand);
    if rows.iter().any(|(across, needs)| across.len() < *needs) {
        return Err(LpError::Infeasible);
    }
    let mut program = Program::linear();
    program.stop_when(|| progress.stopped());
    let open: Vec<_> = links.iter().map(|_| program.column(1.0, 0.0, 1.0, &[])).collect();
    let mut found = vec![0.0; links.len()];
    let mut least = 0.0;
    loop {
        let lacks = |(across, needs): &(Vec<usize>, usize)| {
            *needs as f64 - across.iter().map(|link| found[*link]).sum::<f64>()
        };
        rows.sort_by(|a, b| lacks(b).total_cmp(&lacks(a)));
        let broken = rows.iter().take(ROWS_MAX).take_while(|row| lacks(row) > NOTHING).count();
        if broken == 0 {
            let whole = (least - 1e-6_f64).ceil() as usize;
            return Ok(whole.max(count.saturating_sub(1)));
        }
        for (across, needs) in rows.drain(..broken) {
            let entries: Vec<_> = across.iter().map(|link| (open[*link], 1.0)).collect();
            program.row(needs as f64, f64::INFINITY, &entries);
        }
        let solution = program.solve()?;
        least = solution.objective;
        found = open.iter().map(|column| solution.value(*column)).collect();
    }
}

/// The borders, each as the links across it and how many of them must be on.
fn rows(count: usize, links: &[(usize, usize)], demand: &[f64]) -> Vec<(Vec<usize>, usize)> {
    let away: Vec<Vec<usize>> = (0..count).map(|from| distances(count, links, from)).collect();
    let mut sets: BTreeSet<Vec<bool>> = BTreeSet::new();
    for from in 0..count {
        let reached = away[from].iter().copied().filter(|hops| *hops < usize::MAX);
        let far = reached.max().unwrap_or(0);
        for radius in 0..far {
            sets.insert(away[from].iter().map(|hops| *hops <= radius).collect());
        }
        for other in 0..count {
            sets.insert((0..count).map(|at| away[from][at] < away[other][at]).collect());
        }
    }
    let needs = |inside: &[bool]| {
        let (mut leaves, mut enters) = (0.0, 0.0);
        for (at, share) in demand.iter().enumerate() {
            match (inside[at / count], inside[at % count]) {
                (true, false) => leaves += share,
                (false, true) => enters += share,
                _ => {}
            }
        }
        ((f64::max(leaves, enters) - NOTHING).ceil() as usize).max(1)
    };
    let border = |inside: &Vec<bool>| {
        let crosses = |link: &usize| inside[links[*link].0] != inside[links[*link].1];
        let across: Vec<usize> = (0..links.len()).filter(crosses).collect();
        let parts = inside.contains(&true) && inside.contains(&false);
        parts.then(|| (across, needs(inside)))
    };
    sets.iter().filter_map(border).collect()
}

/// Hops from one switch to every other.
fn distances(count: usize, links: &[(usize, usize)], from: usize) -> Vec<usize> {
    let mut hops = vec![usize::MAX; count];
    hops[from] = 0;
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        for &(a, b) in links {
            let other = if a == at { b } else { a };
            if (a == at || b == at) && hops[other] == usize::MAX {
                hops[other] = hops[at] + 1;
                reached.push(other);
            }
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::Silent;

    use crate::regulator::bound::fewest_links;
    use crate::topology::{Builder, grid};

    fn even(count: usize, each: f64) -> Vec<f64> {
        let pair = |index: usize| if index / count == index % count { 0.0 } else { each };
        (0..count * count).map(pair).collect()
    }

    /// Cuts never ask for more than the program of flows finds.
    #[test]
    fn cuts_are_below_the_program_of_flows() {
        let torus = grid::torus(&[3, 3], 1).expect("a torus");
        for each in [0.01, 0.1, 0.2, 0.3] {
            let demand = even(9, each);
            let exact = fewest_links(&torus, &demand, 2000, &Silent).expect("fits");
            let least = least_links(&torus, &demand, &Silent).expect("fits");
            assert!((8..=exact.on.len()).contains(&least), "{each}: {least} of {exact:?}");
        }
        assert_eq!(least_links(&torus, &even(9, 0.8), &Silent), Err(LpError::Infeasible));
    }

    /// A fabric in two parts is none that carries anything between them.
    #[test]
    fn two_parts_are_out_of_reach_of_each_other() {
        let mut apart = Builder::new();
        apart.plain_switches(2, 1);
        let apart = apart.finish().expect("two switches");
        assert_eq!(least_links(&apart, &even(2, 0.1), &Silent), Err(LpError::Infeasible));
    }

    /// An 8 x 8 torus: little traffic needs a tree, and what fills the middle needs every link.
    #[test]
    fn an_eight_by_eight_torus_is_bounded() {
        let torus = grid::torus(&[8, 8], 1).expect("a torus");
        assert_eq!(least_links(&torus, &even(64, 0.0001), &Silent), Ok(63));
        // Half against half: 32 x 32 pairs over the border's 16 links.
        assert_eq!(least_links(&torus, &even(64, 16.0 / 1024.0), &Silent), Ok(128));
        let middling = least_links(&torus, &even(64, 0.01), &Silent).expect("fits");
        assert!((64..128).contains(&middling), "{middling}");
    }
}
