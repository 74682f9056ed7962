//! Means of proofs: any mean of lower bounds is a lower bound, and along a ridge where several are
//! equal it is flat where each alone falls off.

use ebb_lp::Program;

/// Numbers in a game are within this: what is beyond decides nothing.
const WIDE: f64 = 1e5;

/// The solution of a matrix game. `groups[group][proof][row]` is what a proof of a group adds to each
/// of several numbers; the answer is a share of each proof, those of a group 1 together, that makes
/// the least of the numbers greatest. `None` where the solver finds none.
pub(super) fn best_means(groups: &[&[Vec<f64>]]) -> Option<Vec<Vec<f64>>> {
    let first = groups.iter().filter_map(|group| group.first());
    let scale = first.flatten().map(|value| value.abs()).fold(0.0, f64::max);
    if scale <= 0.0 || !scale.is_finite() {
        return None;
    }
    let mut game = Program::linear();
    let worth = game.column(-1.0, f64::NEG_INFINITY, f64::INFINITY, &[]);
    let rows: Vec<_> = (0..groups[0].first()?.len())
        .map(|_| game.row(0.0, f64::INFINITY, &[(worth, -1.0)]))
        .collect();
    let mut columns = |group: &&[Vec<f64>]| {
        let one = game.row(1.0, 1.0, &[]);
        let column = |values: &Vec<f64>| {
            let values = values.iter().map(|value| (value / scale).clamp(-WIDE, WIDE));
            let mut entries: Vec<_> = rows.iter().copied().zip(values).collect();
            entries.push((one, 1.0));
            game.column(0.0, 0.0, 1.0, &entries)
        };
        group.iter().map(column).collect::<Vec<_>>()
    };
    let columns: Vec<Vec<_>> = groups.iter().map(&mut columns).collect();
    let solution = game.solve().ok()?;
    let share = |&column: &ebb_lp::Column| solution.value(column).max(0.0);
    Some(columns.iter().map(|group| group.iter().map(share).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::best_means;

    #[test]
    fn the_mean_is_flat_where_each_alone_falls_off() {
        let ridge = [vec![2.0, 0.0], vec![0.0, 1.0]];
        let parts = best_means(&[&ridge]).expect("solved");
        assert!((parts[0][0] - 1.0 / 3.0).abs() < 1e-9, "{parts:?}");
        let (one, other) = ([vec![1.0, 0.0]], [vec![0.0, 1.0], vec![0.0, 3.0]]);
        let parts = best_means(&[&one, &other]).expect("solved");
        assert!(
            (parts[0][0] - 1.0).abs() < 1e-9 && (parts[1].iter().sum::<f64>() - 1.0).abs() < 1e-9
        );
    }
}
