//! Which of the two paths forwards: the kernel's program or workers, whoever costs less for the load that is there.

use std::time::Duration;

use ebb_units::Time;

/// The other path has to cost less than this share of the present one.
const WORTH: f64 = 0.9;
/// For so long.
const HOLD: Duration = Duration::from_secs(2);
/// A path that has just been taken is kept so long, unless it does not carry the load.
const STAY: Duration = Duration::from_secs(10);

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The kernel's program.
    Kernel,
    /// Workers.
    Worker,
}

/// Chooses, with hysteresis in cost and time.
#[derive(Clone, Debug)]
pub struct PathChoice {
    path: Path,
    taken_at: Option<Time>,
    cheaper_since: Option<Time>,
}

impl PathChoice {
    /// Begins with a path.
    pub fn new(path: Path) -> PathChoice {
        PathChoice { path, taken_at: None, cheaper_since: None }
    }

    /// The path from now on. `kernel` and `worker`: what the present load costs by either, in whatever unit; none where
    /// the path does not carry it.
    pub fn decide(&mut self, now: Time, kernel: Option<f64>, worker: Option<f64>) -> Path {
        let (present, other, others) = match self.path {
            Path::Kernel => (kernel, worker, Path::Worker),
            Path::Worker => (worker, kernel, Path::Kernel),
        };
        let (carries, better) = match (present, other) {
            (Some(present), Some(other)) => (true, other < WORTH * present),
            (present, other) => (present.is_some(), present.is_none() && other.is_some()),
        };
        if !better {
            self.cheaper_since = None;
            return self.path;
        }
        let held = now.since(*self.cheaper_since.get_or_insert(now)) >= HOLD;
        let stays = self.taken_at.is_some_and(|at| now.since(at) < STAY);
        if !carries || held && !stays {
            (self.path, self.taken_at, self.cheaper_since) = (others, Some(now), None);
        }
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decides once a second; the path after each.
    fn after(
        choice: &mut PathChoice,
        begin: u64,
        costs: &[(Option<f64>, Option<f64>)],
    ) -> Vec<Path> {
        let at = |second: usize| Time::from_nanos((begin + second as u64) * 1_000_000_000);
        let steps = costs.iter().enumerate();
        steps
            .map(|(second, (kernel, worker))| choice.decide(at(second), *kernel, *worker))
            .collect()
    }

    #[test]
    fn the_cheaper_path_is_taken_after_a_while_and_kept_for_longer() {
        let mut choice = PathChoice::new(Path::Kernel);
        let cheap = [(Some(1.0), Some(0.8)); 3];
        assert_eq!(after(&mut choice, 0, &cheap), [Path::Kernel, Path::Kernel, Path::Worker]);
        let back = after(&mut choice, 3, &[(Some(0.5), Some(0.8)); 12]);
        assert_eq!(back.iter().filter(|path| **path == Path::Worker).count(), 9, "{back:?}");
    }

    #[test]
    fn a_path_that_carries_no_more_is_left_at_once() {
        let mut choice = PathChoice::new(Path::Kernel);
        assert_eq!(after(&mut choice, 0, &[(None, Some(9.0))]), [Path::Worker]);
        assert_eq!(after(&mut choice, 1, &[(Some(0.1), None)]), [Path::Kernel]);
        assert_eq!(after(&mut choice, 2, &[(None, None); 5]), [Path::Kernel; 5]);
    }

    proptest! {
        /// Costs that differ by less than a tenth never change the path, and no noise changes it more often than every ten
        /// seconds.
        #[test]
        fn noise_changes_nothing_often(noise in prop::collection::vec(0.5..2.0_f64, 120)) {
            let mut choice = PathChoice::new(Path::Worker);
            let costs: Vec<_> = noise.iter().map(|cost| (Some(*cost), Some(1.0))).collect();
            let paths = after(&mut choice, 0, &costs);
            let changes: Vec<usize> = (1..120).filter(|at| paths[*at] != paths[at - 1]).collect();
            prop_assert!(changes.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{changes:?}");
            let mut choice = PathChoice::new(Path::Worker);
            let near: Vec<_> = noise.iter().map(|cost| (Some(0.95 + cost / 40.0), Some(1.0))).collect();
            prop_assert!(after(&mut choice, 0, &near).iter().all(|path| *path == Path::Worker));
        }
    }
}
