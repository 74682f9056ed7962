//! The lowest of many lines, each over a range of the same ascending points (Li and Chao's tree).

/// Lines `a + b x` over the points `x`.
pub(crate) struct Envelope<'a> {
    points: &'a [f64],
    tree: Vec<(f64, f64)>,
}

const NONE: (f64, f64) = (f64::INFINITY, 0.0);

fn value((a, b): (f64, f64), x: f64) -> f64 {
    a + b * x
}

impl<'a> Envelope<'a> {
    pub(crate) fn over(points: &'a [f64]) -> Envelope<'a> {
        let size = points.len().next_power_of_two().max(1) * 2;
        Envelope { points, tree: vec![NONE; size] }
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    /// Adds a line over the points `from..to`.
    pub(crate) fn insert(&mut self, from: usize, to: usize, line: (f64, f64)) {
        let to = to.min(self.points.len());
        if from < to {
            self.insert_at(1, 0, self.leaves(), from, to, line);
        }
    }

    fn insert_at(
        &mut self,
        node: usize,
        low: usize,
        high: usize,
        from: usize,
        to: usize,
        line: (f64, f64),
    ) {
        let middle = usize::midpoint(low, high);
        if from <= low && high <= to {
            self.settle(node, low, high, line);
            return;
        }
        if from < middle {
            self.insert_at(2 * node, low, middle, from, to, line);
        }
        if to > middle {
            self.insert_at(2 * node + 1, middle, high, from, to, line);
        }
    }

    /// Keeps the lower of two lines at the middle, and sends the other to where it may be lower.
    fn settle(&mut self, mut node: usize, mut low: usize, mut high: usize, mut line: (f64, f64)) {
        let x = |index: usize, points: &[f64]| points[index.min(points.len() - 1)];
        loop {
            let middle = usize::midpoint(low, high);
            let here = &mut self.tree[node];
            if value(line, x(middle, self.points)) < value(*here, x(middle, self.points)) {
                core::mem::swap(&mut line, here);
            }
            let here = *here;
            if high - low == 1 || line.0 == f64::INFINITY {
                return;
            }
            if value(line, x(low, self.points)) < value(here, x(low, self.points)) {
                (node, high) = (2 * node, middle);
            } else if value(line, x(high - 1, self.points)) < value(here, x(high - 1, self.points))
            {
                (node, low) = (2 * node + 1, middle);
            } else {
                return;
            }
        }
    }

    /// The lowest value at each point; infinite where there is no line.
    pub(crate) fn values(&self) -> Vec<f64> {
        let leaves = self.leaves();
        let lowest = |(index, x): (usize, &f64)| {
            let mut node = leaves + index;
            let mut best = f64::INFINITY;
            while node > 0 {
                let line = self.tree[node];
                if line.0 < f64::INFINITY {
                    best = best.min(value(line, *x));
                }
                node /= 2;
            }
            best
        };
        self.points.iter().enumerate().map(lowest).collect()
    }
}
