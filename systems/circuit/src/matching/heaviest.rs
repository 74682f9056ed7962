//! Assignments of greatest sum (Kuhn 1955).

use super::FREE;

/// Assignments of greatest sum (Kuhn 1955; shortest augmenting paths after Jonker and Volgenant
/// 1987): first every input that can takes an output that is worth the most to it above its price,
/// then the others search. Outputs keep their prices from one matrix to the next: the more alike
/// the matrices, the less is left to search for.
#[derive(Clone, Debug)]
pub(super) struct Exact {
    price: Vec<f64>,
    worth: Vec<f64>,
    mates: Vec<usize>,
    owner: Vec<usize>,
    state: State,
}

impl Exact {
    pub(super) fn new(ports: usize) -> Exact {
        Exact {
            price: vec![0.0; ports],
            worth: vec![0.0; ports],
            mates: vec![FREE; ports],
            owner: vec![FREE; ports],
            state: State {
                far: vec![0.0; ports],
                via: vec![FREE; ports],
                open: Vec::new(),
                closed: Vec::new(),
            },
        }
    }

    /// Of this matrix, row by row.
    pub(super) fn assign(&mut self, matrix: &[f64]) -> &[usize] {
        let ports = self.mates.len();
        let kept = self.mates.clone();
        let found = self.first(matrix, &kept);
        // Any prices are right to begin with, for every output is taken in the end: those that
        // leave less to search for.
        let learnt = std::mem::replace(&mut self.price, vec![0.0; ports]);
        if found < ports && self.first(matrix, &kept) <= found {
            self.price = learnt;
            self.first(matrix, &kept);
        }
        for from in 0..ports {
            if self.mates[from] == FREE {
                search(
                    ports,
                    matrix,
                    from,
                    (&mut self.worth, &mut self.price),
                    (&mut self.mates, &mut self.owner),
                    &mut self.state,
                );
            }
        }
        &self.mates
    }

    /// Gives inputs free outputs that are worth the most to them at these prices, their mates of
    /// before where these still are, and returns how many have one. From then on
    /// `worth[from] + price[to]` is never less than the entry.
    fn first(&mut self, matrix: &[f64], kept: &[usize]) -> usize {
        let ports = self.mates.len();
        self.mates.fill(FREE);
        self.owner.fill(FREE);
        for (from, row) in matrix.chunks_exact(ports.max(1)).enumerate() {
            let values = row.iter().zip(&self.price).map(|(entry, price)| entry - price);
            self.worth[from] = values.fold(f64::NEG_INFINITY, f64::max);
        }
        let best = |exact: &Exact, from: usize, to: usize| {
            exact.owner[to] == FREE
                && matrix[from * ports + to] - exact.price[to] >= exact.worth[from]
        };
        for (from, kept) in kept.iter().enumerate() {
            if *kept != FREE && best(self, from, *kept) {
                (self.mates[from], self.owner[*kept]) = (*kept, from);
            }
        }
        for from in 0..ports {
            if self.mates[from] == FREE {
                let free = (0..ports).find(|to| best(self, from, *to));
                if let Some(to) = free {
                    (self.mates[from], self.owner[to]) = (to, from);
                }
            }
        }
        self.mates.iter().filter(|to| **to != FREE).count()
    }
}

#[derive(Clone, Debug)]
struct State {
    /// Least loss on a way to each output.
    far: Vec<f64>,
    /// The input before it on that way.
    via: Vec<usize>,
    open: Vec<usize>,
    closed: Vec<usize>,
}

/// The way of least loss from a free input to a free output; Dijkstra's algorithm on the losses
/// `worth[from] + price[to] - entry`, which are never negative.
fn search(
    ports: usize,
    matrix: &[f64],
    first: usize,
    (worth, price): (&mut [f64], &mut [f64]),
    (mates, owner): (&mut [usize], &mut [usize]),
    state: &mut State,
) {
    state.far.fill(f64::INFINITY);
    state.closed.clear();
    state.open.clear();
    state.open.extend(0..ports);
    let (mut row, mut loss) = (first, 0.0);
    let last = loop {
        let entries = &matrix[row * ports..][..ports];
        let (mut at, mut least) = (0, f64::INFINITY);
        for (position, &to) in state.open.iter().enumerate() {
            let far = loss + worth[row] + price[to] - entries[to];
            if far < state.far[to] {
                (state.far[to], state.via[to]) = (far, row);
            }
            let far = state.far[to];
            if far < least || (far == least && owner[to] == FREE) {
                (at, least) = (position, far);
            }
        }
        let to = state.open.swap_remove(at);
        loss = least;
        if owner[to] == FREE {
            break to;
        }
        state.closed.push(to);
        row = owner[to];
    };
    worth[first] -= loss;
    for &to in &state.closed {
        let gain = loss - state.far[to];
        price[to] += gain;
        worth[owner[to]] -= gain;
    }
    let mut to = last;
    loop {
        let from = state.via[to];
        owner[to] = from;
        let had = std::mem::replace(&mut mates[from], to);
        if had == FREE {
            return;
        }
        to = had;
    }
}
