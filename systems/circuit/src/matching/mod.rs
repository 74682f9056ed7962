//! Matchings of inputs to outputs: any perfect one, one whose least entry is greatest, one whose
//! sum is greatest.

mod bidding;
mod bits;
mod heaviest;

pub use bits::Bipartite;

/// An input or output without a partner.
pub const FREE: usize = usize::MAX;

/// Up to this number of ports the heaviest matching is exactly that. Beyond it is sought by bidding, whose sum is at least
/// that of the best less one part in `bidding::STEPS` of the heaviest entry per port.
pub const EXACT_MAX: usize = 128;

/// Seeks permutations whose entries sum to the most: exactly up to 128 ports, nearly beyond. What it
/// learns of a matrix makes it quicker at the next that is like it.
#[derive(Clone, Debug)]
pub struct Heaviest {
    ports: usize,
    exact: heaviest::Exact,
}

impl Heaviest {
    /// For matrices of so many ports.
    pub fn new(ports: usize) -> Heaviest {
        Heaviest { ports, exact: heaviest::Exact::new(ports) }
    }

    /// The permutation of this matrix and its sum. Entries are 0 or more, row by row.
    pub fn of(&mut self, matrix: &[f64]) -> (Vec<usize>, f64) {
        let mut mates = if self.ports <= EXACT_MAX {
            self.exact.assign(matrix).to_vec()
        } else {
            bidding::near(self.ports, matrix)
        };
        complete(&mut mates);
        let entries = mates.iter().enumerate();
        let sum = entries.map(|(from, to)| matrix[from * self.ports + to]).sum();
        (mates, sum)
    }
}

/// [`Heaviest::of`] a single matrix.
pub fn heaviest(ports: usize, matrix: &[f64]) -> (Vec<usize>, f64) {
    Heaviest::new(ports).of(matrix)
}

/// Gives inputs without a partner the outputs that are left, not their own where that can be.
pub fn complete(mates: &mut [usize]) {
    let mut taken = vec![false; mates.len()];
    mates.iter().filter(|to| **to != FREE).for_each(|to| taken[*to] = true);
    let mut left: Vec<usize> = (0..mates.len()).filter(|to| !taken[*to]).collect();
    for (from, mate) in mates.iter_mut().enumerate() {
        if *mate == FREE {
            let at = left.iter().position(|to| *to != from).unwrap_or(0);
            *mate = left.swap_remove(at);
        }
    }
}

/// A permutation of positive entries only, beginning with the pairs of `start` that still are;
/// `None` if there is none.
pub fn perfect(ports: usize, matrix: &[f64], at_least: f64, start: &[usize]) -> Option<Vec<usize>> {
    let mut graph = Bipartite::new(ports);
    graph.fill(matrix, at_least);
    let mut mates = start.to_vec();
    graph.perfect(&mut mates).then_some(mates)
}

/// A permutation whose least entry is as large as can be, within one part in 10,000, beginning the
/// search at `most`, and its least entry; `None` if all permutations have an entry of 0.
pub fn bottleneck(
    ports: usize,
    matrix: &[f64],
    most: f64,
    start: &[usize],
) -> Option<(Vec<usize>, f64)> {
    let mut graph = Bipartite::new(ports);
    let least = |mates: &[usize]| {
        let entries = mates.iter().enumerate().map(|(from, to)| matrix[from * ports + to]);
        entries.fold(f64::INFINITY, f64::min)
    };
    let mut attempt = |at_least: f64, start: &[usize]| {
        graph.fill(matrix, at_least);
        let mut mates = start.to_vec();
        graph.perfect(&mut mates).then(|| (least(&mates), mates))
    };
    let (mut low, mut best) = attempt(f64::MIN_POSITIVE, start)?;
    let mut high = most * (1.0 + 1e-12);
    while high - low > 1e-4 * high {
        // By ratios while they are large: most searches end near the last value.
        let middle = if high > 4.0 * low {
            (high * low).sqrt().max(high / 16.0)
        } else {
            (low + high) / 2.0
        };
        match attempt(middle, &best) {
            Some((value, mates)) => (low, best) = (value, mates),
            None => high = middle,
        }
    }
    Some((best, low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn permutations(ports: usize) -> Vec<Vec<usize>> {
        if ports == 0 {
            return vec![Vec::new()];
        }
        let shorter = permutations(ports - 1);
        let insert = |order: &Vec<usize>, at: usize| {
            let mut order = order.clone();
            order.insert(at, ports - 1);
            order
        };
        shorter.iter().flat_map(|order| (0..ports).map(move |at| insert(order, at))).collect()
    }

    fn matrices() -> impl Strategy<Value = (usize, Vec<f64>)> {
        (1usize..=5).prop_flat_map(|ports| {
            let entry = prop_oneof![Just(0.0), 0.01..1.0f64, Just(0.5)];
            (Just(ports), proptest::collection::vec(entry, ports * ports))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn all_kinds_agree_with_trying_everything((ports, matrix) in matrices()) {
            let entries = |order: &[usize]| -> Vec<f64> {
                order.iter().enumerate().map(|(from, to)| matrix[from * ports + to]).collect()
            };
            let all: Vec<Vec<f64>> = permutations(ports).iter().map(|order| entries(order)).collect();
            let most = all.iter().map(|entries| entries.iter().sum::<f64>()).fold(0.0, f64::max);
            prop_assert!((heaviest(ports, &matrix).1 - most).abs() < 1e-9);
            let mut near = bidding::near(ports, &matrix);
            complete(&mut near);
            let near: f64 = entries(&near).iter().sum();
            let top = matrix.iter().copied().fold(0.0, f64::max);
            prop_assert!(near >= most - ports as f64 * top / bidding::STEPS - 1e-9, "{near} of {most}");
            let least = |entries: &Vec<f64>| entries.iter().copied().fold(f64::INFINITY, f64::min);
            let widest = all.iter().map(least).fold(0.0, f64::max);
            let start = vec![FREE; ports];
            match bottleneck(ports, &matrix, 1.0, &start) {
                Some((_, value)) => prop_assert!(value > 0.0 && value >= widest * 0.9998),
                None => prop_assert_eq!(widest, 0.0),
            }
            let found = perfect(ports, &matrix, 0.4, &start);
            prop_assert_eq!(found.is_some(), widest >= 0.4);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// What was learnt of matrices before changes no sum.
        #[test]
        fn a_search_that_has_seen_others_finds_as_much(
            ports in 1usize..=24,
            draws in proptest::collection::vec(prop_oneof![Just(0.0), 0.01..1.0f64, Just(0.5)], 24 * 24),
            lengths in proptest::collection::vec(0.05..1.0f64, 1..12),
        ) {
            let mut left: Vec<f64> = draws[..ports * ports].to_vec();
            let mut search = Heaviest::new(ports);
            for length in lengths {
                let clipped: Vec<f64> = left.iter().map(|left| left.min(length)).collect();
                let (mates, sum) = search.of(&clipped);
                prop_assert!((sum - heaviest(ports, &clipped).1).abs() < 1e-9);
                for (from, to) in mates.iter().enumerate() {
                    left[from * ports + to] = (left[from * ports + to] - length).max(0.0);
                }
            }
        }
    }

    #[test]
    fn a_larger_matrix_by_bidding_is_a_permutation() {
        let ports = 200;
        let matrix: Vec<f64> = (0..ports * ports).map(|at| ((at * 7919) % 1009) as f64).collect();
        let (mates, sum) = heaviest(ports, &matrix);
        let mut sorted = mates.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..ports).collect::<Vec<_>>());
        assert!(sum >= 0.97 * 1008.0 * ports as f64, "{sum}");
    }
}
