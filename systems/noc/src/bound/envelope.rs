//! Supporting lines of g(u), and the least u^2 g(u) that they leave possible.
//!
//! g(u), the least sum of rate x hops when no link carries more than u, is convex, piecewise
//! linear and falling. Each set of link prices w >= 0 gives a line below it (duality of eqs.
//! 6.4-6.6): g(u) >= a - b u with a = sum of rate x distance under lengths 1 + w, b = sum of w.
//! Along a line, u^2 (a - b u) rises and then falls, so the least value over an interval of the
//! envelope of several lines lies at an end of one of its pieces.

/// g(u) >= `at_zero` - `slope` u for every u.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) at_zero: f64,
    pub(super) slope: f64,
}

impl Line {
    pub(super) fn at(self, u: f64) -> f64 {
        self.at_zero - self.slope * u
    }
}

/// A place where the lines permit the least power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lowest {
    pub(super) u: f64,
    pub(super) power: f64,
    /// Which line is highest just right of `u`.
    pub(super) line: usize,
}

/// The least u^2 x (highest line at u) over `low..=high`. There must be a line.
pub(super) fn lowest(lines: &[Line], low: f64, high: f64) -> Lowest {
    let mut u = low;
    let mut at = highest(lines, low);
    let mut best = candidate(lines, at, u);
    while u < high {
        let next = crossing(lines, at, u).filter(|&(there, _)| there < high);
        match next {
            Some((there, line)) => (u, at) = (there, line),
            None => u = high,
        }
        let here = candidate(lines, at, u);
        if here.power < best.power {
            best = here;
        }
    }
    best
}

fn candidate(lines: &[Line], line: usize, u: f64) -> Lowest {
    Lowest { u, power: u * u * lines[line].at(u), line }
}

/// The line that is highest at `u`, the flattest of equals.
fn highest(lines: &[Line], u: f64) -> usize {
    let mut best = 0;
    for (at, line) in lines.iter().enumerate().skip(1) {
        let (here, there) = (line.at(u), lines[best].at(u));
        if here > there || (here == there && line.slope < lines[best].slope) {
            best = at;
        }
    }
    best
}

/// Where the first flatter line overtakes the line `at` right of `u`, and which.
fn crossing(lines: &[Line], at: usize, u: f64) -> Option<(f64, usize)> {
    let here = lines[at];
    let mut first: Option<(f64, usize)> = None;
    for (other, line) in lines.iter().enumerate() {
        if line.slope < here.slope {
            let meet = ((here.at_zero - line.at_zero) / (here.slope - line.slope)).max(u);
            let sooner = first.is_none_or(|(best, which)| {
                meet < best || (meet == best && line.slope < lines[which].slope)
            });
            if sooner {
                first = Some((meet, other));
            }
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lowest_place_of_two_lines_is_where_they_meet_or_an_end() {
        let lines = [Line { at_zero: 10.0, slope: 0.0 }, Line { at_zero: 20.0, slope: 20.0 }];
        let found = lowest(&lines, 0.4, 1.0);
        assert!(found.u == 0.4 && (found.power - 0.16 * 12.0).abs() < 1e-12);
        let steep = [Line { at_zero: 10.0, slope: 0.0 }, Line { at_zero: 60.0, slope: 100.0 }];
        let found = lowest(&steep, 0.4, 1.0);
        assert_eq!((found.u, found.power, found.line), (0.5, 2.5, 0));
    }

    proptest! {
        /// No place between the ends is lower than what the walk found.
        #[test]
        fn nothing_lies_lower(
            raw in proptest::collection::vec((0.0..50.0f64, 0.0..60.0f64), 1..8),
            low in 0.1..0.5f64,
        ) {
            let mut lines: Vec<Line> = vec![Line { at_zero: 5.0, slope: 0.0 }];
            lines.extend(raw.iter().map(|&(at_zero, slope)| Line { at_zero, slope }));
            let found = lowest(&lines, low, 1.0);
            let envelope = |u: f64| lines.iter().map(|line| line.at(u)).fold(f64::MIN, f64::max);
            for step in 0..=1000 {
                let u = low + (1.0 - low) * f64::from(step) / 1000.0;
                prop_assert!(u * u * envelope(u) >= found.power * (1.0 - 1e-12));
            }
            prop_assert!((found.u * found.u * envelope(found.u) - found.power).abs() < 1e-9);
        }
    }
}
