use super::FREE;

/// The assignment of greatest sum (Kuhn 1955; shortest augmenting paths after Jonker and
/// Volgenant 1987): first every input that can takes an output whose entry is worth the most to
/// it, then the others search.
pub(super) fn exact(ports: usize, matrix: &[f64]) -> Vec<usize> {
    let mut price = vec![0.0; ports];
    let mut worth: Vec<f64> = matrix
        .chunks_exact(ports.max(1))
        .map(|row| row.iter().copied().fold(0.0, f64::max))
        .collect();
    let mut mates = vec![FREE; ports];
    let mut owner = vec![FREE; ports];
    for from in 0..ports {
        let row = &matrix[from * ports..][..ports];
        let free = (0..ports).find(|to| owner[*to] == FREE && row[*to] >= worth[from]);
        if let Some(to) = free {
            (mates[from], owner[to]) = (to, from);
        }
    }
    let mut state = State {
        far: vec![0.0; ports],
        via: vec![FREE; ports],
        open: Vec::new(),
        closed: Vec::new(),
    };
    for from in 0..ports {
        if mates[from] == FREE {
            search(
                ports,
                matrix,
                from,
                (&mut worth, &mut price),
                (&mut mates, &mut owner),
                &mut state,
            );
        }
    }
    mates
}

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
