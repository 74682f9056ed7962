//! r_max(f) and γ(n) from what was forwarded of what was offered.

use std::collections::{BTreeMap, BTreeSet};

use ebb_units::Hertz;
use nalgebra::{DMatrix, DVector};

use super::{FitError, Sample};

/// A load proves a capacity when it exceeds it by this factor.
const BEYOND: f64 = 1.02;

/// Throughput of one core at each frequency and gain of each number of cores.
#[derive(Debug)]
pub(super) struct Capacities {
    pub(super) r_max: BTreeMap<Hertz, f64>,
    pub(super) gamma: BTreeMap<u16, f64>,
}

impl Capacities {
    /// Eq. 10 for all cores together.
    pub(super) fn of(&self, sample: &Sample) -> f64 {
        self.gamma[&sample.cores] * self.r_max[&sample.frequency]
    }
}

/// Mean of what was forwarded where more was offered than that, and how many samples show it.
///
/// The capacity is the value that minimises the squares of `forwarded - min(offered, capacity)`
/// (eq. 6): if the k largest offers are above it, it is the mean of what was forwarded of these.
/// `None` when no offer exceeds it clearly.
fn saturation(mut group: Vec<(f64, f64)>) -> Option<(f64, f64)> {
    group.sort_by(|a, b| b.0.total_cmp(&a.0));
    let lost = |(offered, forwarded): &(f64, f64)| (offered - forwarded).powi(2);
    let mut rest: f64 = group.iter().map(lost).sum();
    let (mut mean, mut spread, mut count) = (0.0, 0.0, 0.0);
    let mut best = (rest, 0.0, 0.0);
    for (index, sample) in group.iter().enumerate() {
        rest = (rest - lost(sample)).max(0.0);
        count += 1.0;
        let step = sample.1 - mean;
        mean += step / count;
        spread += step * (sample.1 - mean);
        let next = group.get(index + 1).map_or(0.0, |next| next.0);
        let parts_here = mean < sample.0 && mean >= next;
        if parts_here && spread + rest < best.0 {
            best = (spread + rest, mean, count);
        }
    }
    let (_, capacity, count) = best;
    let offered_most = group.first()?.0;
    (count > 0.0 && capacity > 0.0 && offered_most > BEYOND * capacity).then_some((capacity, count))
}

/// Fits `ln capacity = ln r_max(f) + ln γ(n)`, γ(1) = 1, weighted by the number of samples.
pub(super) fn fit(samples: &[Sample]) -> Result<Capacities, FitError> {
    let mut groups: BTreeMap<(Hertz, u16), Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let group = groups.entry((sample.frequency, sample.cores)).or_default();
        group.push((sample.offered.0, sample.forwarded.0));
    }
    let frequencies: BTreeSet<Hertz> = groups.keys().map(|key| key.0).collect();
    let cores: BTreeSet<u16> = groups.keys().map(|key| key.1).collect();
    let saturated: Vec<(Hertz, u16, f64, f64)> = groups
        .into_iter()
        .filter_map(|((f, n), group)| saturation(group).map(|(top, count)| (f, n, top, count)))
        .collect();
    let missing = undetermined(&frequencies, &cores, &saturated);
    if !missing.is_empty() {
        return Err(FitError::Missing(missing));
    }
    let columns = frequencies.len() + cores.len() - 1;
    let place = |f: &Hertz| frequencies.iter().position(|have| have == f).expect("one of them");
    let gain = |n: &u16| cores.iter().position(|have| have == n).expect("one of them");
    let (mut left, mut right) =
        (DMatrix::zeros(saturated.len(), columns), DVector::zeros(saturated.len()));
    for (row, (f, n, top, count)) in saturated.iter().enumerate() {
        let weight = count.sqrt();
        left[(row, place(f))] = weight;
        if *n != 1 {
            left[(row, frequencies.len() + gain(n) - 1)] = weight;
        }
        right[row] = weight * top.ln();
    }
    let solved = left.svd(true, true).solve(&right, 1e-12).map_err(FitError::Algebra)?;
    let gamma = |(index, n): (usize, &u16)| {
        let gain = index.checked_sub(1).map_or(0.0, |index| solved[frequencies.len() + index]);
        (*n, gain.exp())
    };
    Ok(Capacities {
        r_max: frequencies.iter().zip(solved.iter()).map(|(f, x)| (*f, x.exp())).collect(),
        gamma: cores.iter().enumerate().map(gamma).collect(),
    })
}

/// Frequencies and numbers of cores whose capacity follows from no chain of saturated samples
/// that begins with one core.
fn undetermined(
    frequencies: &BTreeSet<Hertz>,
    cores: &BTreeSet<u16>,
    saturated: &[(Hertz, u16, f64, f64)],
) -> Vec<String> {
    if !cores.contains(&1) {
        return vec!["samples with 1 core, the reference for several".to_owned()];
    }
    let (mut reached_f, mut reached_n) = (BTreeSet::new(), BTreeSet::from([1]));
    loop {
        let before = (reached_f.len(), reached_n.len());
        for (f, n, ..) in saturated {
            if reached_f.contains(f) || reached_n.contains(n) {
                reached_f.insert(*f);
                reached_n.insert(*n);
            }
        }
        if before == (reached_f.len(), reached_n.len()) {
            break;
        }
    }
    let overload = "a load above the capacity (offer at least 5 % more than is forwarded)";
    let clocks = frequencies.difference(&reached_f).map(|f| {
        format!("at {f}: {overload}, with 1 core or a number of cores saturated elsewhere too")
    });
    let counts = cores.difference(&reached_n).map(|n| format!("with {n} cores: {overload}"));
    clocks.chain(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_forwarding_stops_to_follow() {
        let group =
            [0.0, 40.0, 80.0, 99.0, 120.0, 150.0].map(|offered: f64| (offered, offered.min(100.0)));
        assert_eq!(saturation(group.to_vec()), Some((100.0, 2.0)));
        let below = [0.0, 50.0, 101.0].map(|offered: f64| (offered, offered.min(100.0)));
        assert_eq!(saturation(below.to_vec()), None, "1 % may be the counting");
        assert_eq!(saturation(vec![(50.0, 50.0)]), None);
    }
}
