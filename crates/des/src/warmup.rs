//! Where a run's transient ends (MSER-5).

use crate::Summary;

/// Values that are averaged into one before they are looked at.
const BATCH: usize = 5;

/// How many of the first values of a run still differ from its steady state, by MSER-5 (White 1997):
/// as many as leave the narrowest confidence interval of the mean of the rest, in steps of five.
///
/// `None` where fewer than 50 values are there, and where the answer is in the second half: the run is
/// too short to tell.
///
/// ```
/// let mut power_w = vec![260.0; 30];
/// power_w.extend((0..170).map(|index| 130.0 + f64::from(index % 5)));
/// assert_eq!(ebb_des::mser5(&power_w), Some(30));
/// ```
pub fn mser5(values: &[f64]) -> Option<usize> {
    let means: Vec<f64> =
        values.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if means.len() < 10 {
        return None;
    }
    // From the end, so that each cut adds one value. The last few tell nothing about their spread.
    let mut rest = Summary::new();
    let mut best = (f64::INFINITY, 0);
    for (cut, mean) in means.iter().enumerate().rev() {
        rest.push(*mean);
        let count = rest.count() as f64;
        let error = rest.variance() * (count - 1.0) / (count * count);
        if rest.count() >= BATCH as u64 && error <= best.0 {
            best = (error, cut);
        }
    }
    (best.1 <= means.len() / 2).then_some(best.1 * BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use rand::Rng as _;

    #[test]
    fn noise_alone_has_no_warm_up() {
        let mut rng = Seed(3).stream("noise");
        let noise: Vec<f64> = (0..400).map(|_| rng.random::<f64>()).collect();
        assert!(mser5(&noise).expect("long enough") <= 40, "{:?}", mser5(&noise));
    }

    #[test]
    fn a_falling_start_is_cut_off() {
        let mut rng = Seed(4).stream("noise");
        let value = |index: i32, noise: f64| 100.0 * (-f64::from(index) / 20.0).exp() + noise;
        let values: Vec<f64> = (0..400).map(|index| value(index, rng.random::<f64>())).collect();
        let cut = mser5(&values).expect("long enough");
        assert!((60..=140).contains(&cut), "{cut}");
    }

    #[test]
    fn a_run_that_never_settles_is_too_short() {
        let rising: Vec<f64> = (0..400).map(f64::from).collect();
        assert_eq!(mser5(&rising), None);
        assert_eq!(mser5(&[1.0; 20]), None);
        assert_eq!(mser5(&[1.0; 100]), Some(0));
    }
}
