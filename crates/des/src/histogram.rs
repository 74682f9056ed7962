//! Quantiles of values by buckets of growing width.

/// Counts of non-negative whole values in buckets whose width grows with the value: quantiles are
/// right within 1 %, the mean, the least and the most come from the values themselves.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: hdrhistogram::Histogram<u64>,
    sum: u128,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// Without values.
    pub fn new() -> Histogram {
        let buckets = hdrhistogram::Histogram::new(2).expect("two digits are allowed");
        Histogram { buckets, sum: 0, least: u64::MAX, most: 0 }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times.
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        // Beyond half the range the buckets would not fit; nobody waits 292 years.
        self.buckets.record_n(value.min(u64::MAX / 2), n).expect("the buckets grow");
        self.sum += u128::from(value) * u128::from(n);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Their mean; `None` without values, as for all below.
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The least.
    pub fn min(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.least)
    }

    /// The most.
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.most)
    }

    /// The value that the share `quantile` (0 to 1) of all values does not exceed, within 1 %.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let value = self.buckets.value_at_quantile(quantile);
        (self.count() > 0).then(|| value.clamp(self.least, self.most))
    }

    /// Buckets with values: the highest value each holds and how many it counted.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let steps = self.buckets.iter_recorded();
        steps.map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.add(&other.buckets).expect("the buckets grow");
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_counted_has_no_figures() {
        let empty = Histogram::new();
        assert_eq!((empty.mean(), empty.min(), empty.max()), (None, None, None));
        assert_eq!(empty.quantile(0.5), None);
    }

    #[test]
    fn any_value_is_taken() {
        let mut histogram = Histogram::new();
        histogram.record(0);
        histogram.record(u64::MAX);
        assert_eq!((histogram.min(), histogram.max()), (Some(0), Some(u64::MAX)));
    }

    proptest! {
        #[test]
        fn quantiles_within_one_percent_also_after_merging(
            mut values in prop::collection::vec(0u64..10_000_000, 1..300),
            cut in any::<prop::sample::Index>(),
            quantile in 0.0f64..=1.0,
        ) {
            let (mut whole, mut part) = (Histogram::new(), Histogram::new());
            let (left, right) = values.split_at(cut.index(values.len()));
            left.iter().for_each(|&value| whole.record(value));
            right.iter().for_each(|&value| part.record(value));
            whole.merge(&part);
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (exact, ours) = (values[rank - 1] as f64, whole.quantile(quantile).expect("values") as f64);
            prop_assert!((ours - exact).abs() <= 0.01 * exact + 1.0, "{} for {}", ours, exact);
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((whole.mean().expect("values") - mean).abs() < 1e-6);
        }
    }
}
