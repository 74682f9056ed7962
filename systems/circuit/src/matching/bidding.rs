//! Assignment by auction (Bertsekas 1988).

use super::FREE;

/// Bids rise by at least this part of the greatest entry.
pub(super) const STEPS: f64 = 200.0;

/// An assignment by auction (Bertsekas 1988): inputs without an output bid for the one that is
/// worth most to them above its price, by as much as it is better than their second choice and a
/// step; those to whom nothing is worth its price stay without. Its sum is at most a step per
/// input below the greatest, because nobody prefers another output by more than that.
pub(super) fn near(ports: usize, matrix: &[f64]) -> Vec<usize> {
    let most = matrix.iter().copied().fold(0.0, f64::max);
    let mut mates = vec![FREE; ports];
    if most <= 0.0 {
        return mates;
    }
    let step = most / STEPS;
    let edges: Vec<Vec<(usize, f64)>> = matrix
        .chunks_exact(ports)
        .map(|row| {
            let edges = row.iter().enumerate().filter(|(_, entry)| **entry > 0.0);
            edges.map(|(to, entry)| (to, *entry)).collect()
        })
        .collect();
    let mut price = vec![0.0; ports];
    let mut owner = vec![FREE; ports];
    let mut waiting: Vec<usize> = (0..ports).rev().collect();
    while let Some(from) = waiting.pop() {
        let (mut best, mut first, mut second) = (FREE, 0.0, 0.0);
        for &(to, entry) in &edges[from] {
            let value = entry - price[to];
            if value > first {
                (second, first, best) = (first, value, to);
            } else if value > second {
                second = value;
            }
        }
        if best == FREE {
            continue;
        }
        price[best] += first - second + step;
        let before = std::mem::replace(&mut owner[best], from);
        mates[from] = best;
        if before != FREE {
            mates[before] = FREE;
            waiting.push(before);
        }
    }
    mates
}
