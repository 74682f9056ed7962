//! The fewest links that carry a traffic matrix: what no regulator can beat.
//!
//! A mixed-integer program: a variable for each link, on or off, and flows by source that may split
//! at will, so that no routing function can do with fewer. All switches stay joined: where the
//! traffic of the first switch does not reach every other, a flow from it that uses no capacity must.

use ebb_lp::{LpError, Program};
use ebb_scenario::Progress;

use crate::topology::{Link, Topology};

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Links of the best choice found, numbered as in [`Topology::links`].
    pub on: Vec<usize>,
    /// No choice has fewer links than this.
    pub at_least: usize,
    /// Whether the choice is proved the best.
    pub proven: bool,
}

/// Finds it. `demand` is by pair of switches, row after row, as a share of a link's capacity;
/// `nodes_max` bounds the search.
///
/// # Errors
/// When the traffic does not fit even with every link, or the solver gives up without a choice or is stopped.
///
/// # Panics
/// When `demand` does not have an entry for every pair of switches.
pub fn fewest_links(
    topology: &Topology,
    demand: &[f64],
    nodes_max: u32,
    progress: &dyn Progress,
) -> Result<Bound, LpError> {
    let count = topology.switches().len();
    assert_eq!(demand.len(), count * count, "an entry for every pair of switches");
    let links: Vec<Link> = topology.links().collect();
    let mut program = Program::integer(1e-6, nodes_max);
    program.stop_when(|| progress.stopped());
    let open: Vec<_> = links.iter().map(|_| program.integer_column(1.0, 0.0, 1.0, &[])).collect();
    let none = f64::NEG_INFINITY;
    let capacity: Vec<[_; 2]> =
        open.iter().map(|open| [0; 2].map(|_| program.row(none, 0.0, &[(*open, -1.0)]))).collect();
    let reached = (1..count).all(|to| demand[to] > 0.0);
    // The last one joins: from the first switch, of no use to the traffic.
    for source in 0..count + usize::from(!reached) {
        let joins = source == count;
        let source = if joins { 0 } else { source };
        let wants = |to: usize| {
            if joins { 1.0 / count as f64 } else { demand[source * count + to] }
        };
        let total: f64 = (0..count).filter(|to| *to != source).map(wants).sum();
        if total == 0.0 {
            continue;
        }
        let balance: Vec<_> = (0..count)
            .map(|at| {
                let net = if at == source { -total } else { wants(at) };
                program.row(net, net, &[])
            })
            .collect();
        for (index, link) in links.iter().enumerate() {
            let ends = [(link.a.0.index(), link.b.0.index()), (link.b.0.index(), link.a.0.index())];
            for (direction, (from, to)) in ends.into_iter().enumerate() {
                let flow = program.column(
                    0.0,
                    0.0,
                    f64::INFINITY,
                    &[
                        (balance[from], -1.0),
                        (balance[to], 1.0),
                        (capacity[index][direction], if joins { 0.0 } else { 1.0 }),
                    ],
                );
                // A closed link carries nothing of any source: tightens the relaxation.
                program.row(
                    none,
                    0.0,
                    &[(flow, 1.0), (open[index], -if joins { total } else { total.min(1.0) })],
                );
            }
        }
    }
    let solution = program.solve()?;
    let on = (0..links.len()).filter(|link| solution.value(open[*link]) > 0.5).collect::<Vec<_>>();
    let bound = solution.objective * (1.0 - solution.gap.clamp(0.0, 1.0));
    let tree = count.saturating_sub(1);
    let at_least = if solution.proven { on.len() } else { (bound - 1e-6).ceil() as usize };
    Ok(Bound { at_least: at_least.max(tree), proven: solution.proven || on.len() == tree, on })
}

#[cfg(test)]
mod tests {
    use ebb_scenario::Silent;

    use super::*;
    use crate::topology::grid;

    fn even(count: usize, each: f64) -> Vec<f64> {
        let pair = |index: usize| if index / count == index % count { 0.0 } else { each };
        (0..count * count).map(pair).collect()
    }

    #[test]
    fn little_traffic_needs_a_tree_and_much_needs_the_ring() {
        let ring = grid::torus(&[5], 1).expect("a ring");
        let light = fewest_links(&ring, &even(5, 0.01), 1000, &Silent).expect("feasible");
        assert_eq!((light.on.len(), light.at_least, light.proven), (4, 4, true));
        // A path of five carries 2 * 3 pairs over its middle; a ring never more than 3.
        let heavy = fewest_links(&ring, &even(5, 0.25), 1000, &Silent).expect("feasible");
        assert_eq!((heavy.on.len(), heavy.proven), (5, true));
        assert_eq!(fewest_links(&ring, &even(5, 0.5), 1000, &Silent), Err(LpError::Infeasible));
        // Capacity is not stretched: a thousandth more than a link carries does not fit.
        let mut pair = vec![0.0; 25];
        pair[1] = 2.0005;
        assert_eq!(fewest_links(&ring, &pair, 1000, &Silent), Err(LpError::Infeasible));
        pair[1] = 1.9995;
        assert_eq!(fewest_links(&ring, &pair, 1000, &Silent).expect("fits").on.len(), 5);
    }
}
