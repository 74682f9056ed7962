//! Charts one line high.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A chart one line high, a character per value, from the lowest to the highest of them. What is
/// not finite is a space.
///
/// ```
/// assert_eq!(ebb_report::spark(&[0.0, 3.5, 7.0, f64::NAN, 7.0]), "▁▅█ █");
/// ```
pub fn spark(values: &[f64]) -> String {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    spark_between(values, low, finite().fold(f64::NEG_INFINITY, f64::max))
}

/// Like [`spark`], on a scale from `low` to `high`, so that several charts compare; values beyond
/// are drawn at its ends.
pub fn spark_between(values: &[f64], low: f64, high: f64) -> String {
    let bar = |value: &f64| {
        if !value.is_finite() {
            return ' ';
        }
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        BARS[(share.clamp(0.0, 1.0) * 7.0).round() as usize]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_compare_and_odd_values_do_not_panic() {
        assert_eq!(spark_between(&[-1.0, 0.0, 50.0, 100.0, 1e9], 0.0, 100.0), "▁▁▅██");
        assert_eq!(spark(&[2.0, 2.0]), "▁▁");
        assert_eq!(spark(&[]), "");
        assert_eq!(spark(&[f64::NAN, f64::INFINITY]), "  ");
    }
}
