//! What is proven about any number of planes whose voltages are in certain ratios: [`super::ray`] for
//! more than two.
//!
//! Let h(c, u) be the least sum over all planes of c_k x rate x hops when no link of plane k carries
//! more than u_k; the power is h at c_k = u_k^2. At fixed c, link prices y prove
//! h >= F - sum of u_k Y_k, where F is the sum of rate x distance under lengths c_k + y on the nearest
//! plane and Y_k the sum of the prices of plane k. At fixed u, h is concave in c and grows in proportion
//! with it: what is proven at several corners c^i proves, for c = sum of m_i c^i with m_i >= 0, the mean
//! sum of m_i (F_i - sum of u_k Y_ik).
//!
//! Along a ray of fixed ratios of the u_k that rises and then falls, so over a cell (a simplex of
//! corners, an interval of u_0) it is least at one of the two ends of the interval: where u_0 is at an
//! end, or where the last plane is at the lowest voltage. With plane p fixed at x on such an end and
//! corners scaled to c_p = 1, u_k / x is the root of the mean of c^j_k, which is nowhere above its tangent
//! and so above a mean of numbers rho_jk of the corners. What is left is quadratic in the m_i and nowhere
//! below the least of its Bernstein coefficients.

/// h >= `flows` - sum of u_k `worth[k]` at the costs of its corner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) flows: f64,
    pub(super) worth: Vec<f64>,
    /// The prices that prove it, of each link of each plane.
    pub(super) prices: Vec<Vec<f64>>,
}

impl Line {
    pub(super) fn at(&self, u: &[f64]) -> f64 {
        self.flows - self.worth.iter().zip(u).map(|(worth, u)| worth * u).sum::<f64>()
    }
}

/// A corner: costs of a hop, 1 on plane 0, and all that is proven there.
#[derive(Clone, Debug)]
pub(super) struct Corner {
    pub(super) costs: Vec<f64>,
    pub(super) lines: Vec<Line>,
}

impl Corner {
    /// The capacity of a plane, that of plane 0 being 1.
    pub(super) fn ratio(&self, plane: usize) -> f64 {
        self.costs[plane].sqrt()
    }

    fn best_at(&self, u: &[f64]) -> f64 {
        self.lines.iter().map(|line| line.at(u)).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The lines that are highest at a place, best first.
    fn highest(&self, u: &[f64], count: usize) -> impl Iterator<Item = usize> + use<> {
        let mut ranked: Vec<(f64, usize)> =
            self.lines.iter().enumerate().map(|(at, line)| (line.at(u), at)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().take(count).map(|(_, at)| at)
    }
}

/// Capacities: those whose ratios lie in the simplex of some corners, plane 0's from `u.0` to `u.1`,
/// none below `floor`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) corners: Vec<usize>,
    pub(super) u: (f64, f64),
    pub(super) floor: f64,
}

/// Shares of each line of each corner of a cell.
pub(super) type Weights = Vec<Vec<(usize, f64)>>;

/// Lines of a corner that are tried together.
const LINES: usize = 5;

/// One end of a cell: plane `plane` has the capacity `u`.
#[derive(Clone, Copy, Debug)]
struct End {
    plane: usize,
    u: f64,
}

impl Cell {
    /// Whether the last plane stays below the floor everywhere.
    pub(super) fn is_empty(&self, all: &[Corner]) -> bool {
        self.u.1 * self.last_ratio(all).1 < self.floor * (1.0 - 1e-14)
    }

    /// The least and greatest ratio of the last plane.
    fn last_ratio(&self, all: &[Corner]) -> (f64, f64) {
        let last = all[self.corners[0]].costs.len() - 1;
        let ratios = self.corners.iter().map(|&corner| all[corner].ratio(last));
        ratios.fold((f64::INFINITY, 0.0), |(low, high), at| (at.min(low), at.max(high)))
    }

    /// Where the least lies, given that the power along a ray rises and then falls.
    fn ends(&self, all: &[Corner]) -> Vec<End> {
        let (low, high) = self.last_ratio(all);
        let last = all[self.corners[0]].costs.len() - 1;
        let mut ends = vec![End { plane: 0, u: self.u.1 }];
        if self.u.0 * high >= self.floor {
            ends.push(End { plane: 0, u: self.u.0 });
        }
        if self.u.0 * low < self.floor {
            ends.push(End { plane: last, u: self.floor });
        }
        ends
    }

    /// The capacities at u_0 = `u` and shares `m` of the corners.
    fn place(&self, all: &[Corner], m: &[f64], u: f64) -> Vec<f64> {
        let planes = all[self.corners[0]].costs.len();
        let cost = |plane: usize| -> f64 {
            self.corners.iter().zip(m).map(|(&corner, m)| m * all[corner].costs[plane]).sum()
        };
        (0..planes).map(|plane| u * cost(plane).sqrt()).collect()
    }

    fn middle(&self, all: &[Corner]) -> Vec<f64> {
        let even = vec![1.0 / self.corners.len() as f64; self.corners.len()];
        let from = self.u.0.max((self.floor / self.last_ratio(all).1).min(self.u.1));
        self.place(all, &even, (from + self.u.1) / 2.0)
    }

    /// The place where what is proven so far permits least among some: its shares of the corners,
    /// its capacities and the power there.
    pub(super) fn low_place(&self, all: &[Corner]) -> (Vec<f64>, Vec<f64>, f64) {
        let count = self.corners.len();
        let mut shares = vec![vec![1.0 / count as f64; count]];
        for a in 0..count {
            for b in a..count {
                let mut m = vec![0.0; count];
                m[a] += 0.5;
                m[b] += 0.5;
                shares.push(m);
            }
        }
        let mut best: Option<(Vec<f64>, Vec<f64>, f64)> = None;
        for m in shares {
            let ratio = *self.place(all, &m, 1.0).last().expect("there is a plane");
            let from = self.u.0.max((self.floor / ratio).min(self.u.1));
            for u in [from, (from + self.u.1) / 2.0, self.u.1] {
                let place = self.place(all, &m, u);
                let proven = |(&corner, m): (&usize, &f64)| {
                    if *m > 0.0 { m * all[corner].best_at(&place) } else { 0.0 }
                };
                let power = u * u * self.corners.iter().zip(&m).map(proven).sum::<f64>();
                if best.as_ref().is_none_or(|(_, _, least)| power < *least) {
                    best = Some((m.clone(), place, power));
                }
            }
        }
        best.expect("there are places")
    }

    /// For each chosen line of each corner, what it adds to each Bernstein coefficient of each end.
    fn coefficients(&self, all: &[Corner], chosen: &[Vec<usize>]) -> Vec<Vec<Vec<f64>>> {
        let count = self.corners.len();
        let mut added: Vec<Vec<Vec<f64>>> =
            chosen.iter().map(|lines| vec![Vec::new(); lines.len()]).collect();
        for End { plane, u } in self.ends(all) {
            let costs: Vec<Vec<f64>> = self
                .corners
                .iter()
                .map(|&corner| {
                    let costs = &all[corner].costs;
                    costs.iter().map(|cost| cost / costs[plane]).collect()
                })
                .collect();
            let roots = tangents(&costs);
            for (at, lines) in chosen.iter().enumerate() {
                let scale = 1.0 / all[self.corners[at]].costs[plane];
                for (which, &line) in lines.iter().enumerate() {
                    let line = &all[self.corners[at]].lines[line];
                    let value = |other: usize| {
                        let worth: f64 =
                            line.worth.iter().zip(&roots[other]).map(|(y, root)| y * root).sum();
                        u * u * scale * (line.flows - u * worth)
                    };
                    for a in 0..count {
                        for b in a..count {
                            added[at][which].push(match (a == at, b == at) {
                                (true, true) => value(at),
                                (true, false) => value(b) / 2.0,
                                (false, true) => value(a) / 2.0,
                                (false, false) => 0.0,
                            });
                        }
                    }
                }
            }
        }
        added
    }

    /// What the corners' lines prove about every place of the cell, and by which shares of them: those
    /// that `game` finds best. What is returned holds for any answer of it.
    pub(super) fn bound(&self, all: &[Corner], known: f64, game: Game) -> (f64, Weights) {
        let middle = self.middle(all);
        let chosen: Vec<Vec<usize>> = self
            .corners
            .iter()
            .map(|&corner| {
                let mut lines: Vec<usize> = all[corner].highest(&middle, LINES).collect();
                for End { plane, u } in self.ends(all) {
                    let here: Vec<f64> = middle.iter().map(|at| at * u / middle[plane]).collect();
                    let more: Vec<usize> = all[corner].highest(&here, 2).collect();
                    lines.extend(
                        more.into_iter().filter(|line| !lines.contains(line)).collect::<Vec<_>>(),
                    );
                }
                lines
            })
            .collect();
        let added = self.coefficients(all, &chosen);
        let least = |weights: &[Vec<f64>]| {
            let rows = added[0][0].len();
            (0..rows)
                .map(|row| {
                    let group = |(lines, parts): (&Vec<Vec<f64>>, &Vec<f64>)| -> f64 {
                        lines.iter().zip(parts).map(|(line, part)| part * line[row]).sum()
                    };
                    added.iter().zip(weights).map(group).sum::<f64>()
                })
                .fold(f64::INFINITY, f64::min)
        };
        let alone: Vec<Vec<f64>> = chosen
            .iter()
            .map(|lines| (0..lines.len()).map(|at| f64::from(u8::from(at == 0))).collect())
            .collect();
        let mut best = (least(&alone), alone);
        if best.0 < known {
            let groups: Vec<&[Vec<f64>]> = added.iter().map(Vec::as_slice).collect();
            if let Some(mut parts) = game(&groups) {
                for group in &mut parts {
                    let total: f64 = group.iter().sum();
                    group.iter_mut().for_each(|part| *part /= total);
                }
                let mixed = least(&parts);
                if mixed.is_finite() && mixed > best.0 {
                    best = (mixed, parts);
                }
            }
        }
        let weights = chosen.into_iter().zip(best.1).map(|(lines, parts)| {
            lines.into_iter().zip(parts).filter(|(_, part)| *part > 0.0).collect()
        });
        (best.0, weights.collect())
    }
}

/// For each corner and plane a number whose mean over corners is nowhere below the root of the mean of
/// `costs`: the tangent in the middle.
fn tangents(costs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let planes = costs[0].len();
    let mean =
        |plane: usize| costs.iter().map(|corner| corner[plane]).sum::<f64>() / costs.len() as f64;
    let means: Vec<f64> = (0..planes).map(mean).collect();
    let tangent = |(cost, mean): (&f64, &f64)| (cost + mean) / (2.0 * mean.sqrt());
    costs.iter().map(|corner| corner.iter().zip(&means).map(tangent).collect()).collect()
}

/// Given what each line of each corner adds to each of several numbers, the parts of each corner's lines
/// whose mean makes the least of these numbers greatest.
pub(super) type Game = fn(&[&[Vec<f64>]]) -> Option<Vec<Vec<f64>>>;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No place of a cell lies below its bound.
        #[test]
        fn no_place_lies_below_the_bound(
            raw in proptest::collection::vec((1.0..9.0f64, 0.0..9.0f64, 0.0..9.0f64, 0.0..9.0f64), 6),
            ratios in proptest::collection::vec((0.2..1.0f64, 0.2..1.0f64), 3),
            ends in (0.05..1.0f64, 0.05..1.0f64),
            floor in 0.01..0.4f64,
            inside in proptest::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64), 60),
        ) {
            let corner = |at: usize| {
                let (a, b) = ratios[at];
                let lines = raw[2 * at..2 * at + 2].iter().map(|&(flows, x, y, z)| {
                    Line { flows, worth: vec![x, y, z], prices: Vec::new() }
                });
                Corner { costs: vec![1.0, a.max(b).powi(2), a.min(b).powi(2)], lines: lines.collect() }
            };
            let all: Vec<Corner> = (0..3).map(corner).collect();
            let u = (ends.0.min(ends.1), ends.0.max(ends.1));
            let cell = Cell { corners: vec![0, 1, 2], u, floor };
            if cell.is_empty(&all) {
                return Ok(());
            }
            let even: Game = |groups| {
                let same = |group: &&[Vec<f64>]| vec![1.0; group.len()];
                Some(groups.iter().map(same).collect())
            };
            let (bound, weights) = cell.bound(&all, f64::INFINITY, even);
            for (a, b, along) in inside {
                let (a, b) = if a + b > 1.0 { (1.0 - a, 1.0 - b) } else { (a, b) };
                let m = [a, b, 1.0 - a - b];
                let place = cell.place(&all, &m, u.0 + along * (u.1 - u.0));
                if place[2] < floor {
                    continue;
                }
                let proven = |corner: usize| -> f64 {
                    let line = |&(line, part): &(usize, f64)| part * all[corner].lines[line].at(&place);
                    weights[corner].iter().map(line).sum()
                };
                let here: f64 = (0..3).map(|corner| m[corner] * proven(corner)).sum();
                prop_assert!(place[0] * place[0] * here >= bound - 1e-9 * bound.abs() - 1e-12);
            }
        }
    }
}
