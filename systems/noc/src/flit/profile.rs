//! A load that changes over time.

use std::sync::Arc;

/// The part of a tile's rate that is offered, from given cycles of the processing elements on.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile(Arc<[(u64, f64)]>);

impl Profile {
    /// From each cycle on that part of the rate; before the first one all of it.
    ///
    /// # Panics
    /// When cycles do not ascend, or a part is not from 0 to 1.
    pub fn new(steps: &[(u64, f64)]) -> Profile {
        assert!(steps.is_sorted_by(|a, b| a.0 < b.0), "cycles ascend");
        assert!(steps.iter().all(|(_, part)| (0.0..=1.0).contains(part)), "parts of a rate");
        Profile(steps.into())
    }

    /// The part in a cycle.
    pub fn part(&self, cycle: u64) -> f64 {
        let at = self.0.partition_point(|(from, _)| *from <= cycle);
        if at == 0 { 1.0 } else { self.0[at - 1].1 }
    }

    /// Whether nothing is offered from a cycle on.
    pub(super) fn is_over(&self, cycle: u64) -> bool {
        self.0.last().is_some_and(|(from, part)| *part == 0.0 && *from <= cycle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_until_the_next() {
        let profile = Profile::new(&[(10, 0.5), (20, 0.0)]);
        assert_eq!(
            [0, 9, 10, 19, 20, 99].map(|cycle| profile.part(cycle)),
            [1.0, 1.0, 0.5, 0.5, 0.0, 0.0]
        );
        assert_eq!([19, 20].map(|cycle| profile.is_over(cycle)), [false, true]);
    }
}
