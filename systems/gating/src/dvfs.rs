//! The other way to spend less while memory is slow: a lower clock and voltage (section 2.4).
//!
//! The machine runs at each operating point; intervals of as many instructions are then chosen from
//! the runs, as if a change took no time. A lower clock makes what is not memory slower.

use crate::machine::Epoch;
use crate::power::{Energy, Power};

/// Clocks as parts of the highest.
pub const POINTS: [f64; 5] = [1.0, 0.95, 0.9, 0.8, 0.6];
/// At most this slower, for the policy that predicts.
const SLOWER_MAX: f64 = 0.05;

/// Voltage as a part of the highest: 7.5 % less for each 20 % less of the clock.
pub fn voltage(clock: f64) -> f64 {
    1.0 - 0.075 * (1.0 - clock) / 0.2
}

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// By mu_mean: how bound to memory the interval before was; at most 5 % slower. Each clock has its share of
    /// the scale from bound to memory to bound to the core (Dhiman and Rosing 2007), so that only what is bound
    /// to memory is slowed down (section 2.5.1).
    Mean,
    /// The least energy-delay product of each interval, known beforehand.
    Oracle,
}

/// The choosers by name.
pub const CHOOSERS: [(&str, Chooser, &str); 2] = [
    (
        "dvfs-mean",
        Chooser::Mean,
        "clock by how memory-bound the last interval was, at most 5 % slower",
    ),
    ("dvfs-oracle", Chooser::Oracle, "clock by the least energy-delay product, known beforehand"),
];

fn energy(power: &Power, point: usize, epoch: &Epoch) -> Energy {
    let clock = POINTS[point];
    let square = voltage(clock) * voltage(clock);
    let kept = (1.0 + power.retention) * 1e-12;
    let (active, stalled) = ((epoch.time - epoch.stalled) as f64, epoch.stalled as f64);
    Energy {
        active: (power.leakage_w + power.dynamic_w * clock) * square * kept * active,
        stalled: power.leakage_w * square * kept * stalled,
        ..Energy::default()
    }
}

/// Energy of one core, and its time as one interval, that `chooser` controls. `runs` are the intervals at each of
/// [`POINTS`].
pub fn choose(chooser: Chooser, power: &Power, runs: &[&[Epoch]]) -> (Energy, Epoch) {
    let (mut sum, mut whole, mut point) = (Energy::default(), Epoch::default(), 0);
    for index in 0..runs[0].len() {
        let at = |point: usize| runs[point].get(index).copied().unwrap_or_default();
        if chooser == Chooser::Oracle {
            let product =
                |point: usize| energy(power, point, &at(point)).total() * at(point).time as f64;
            let best = |best: usize, other: usize| {
                if product(other) < product(best) { other } else { best }
            };
            point = (0..POINTS.len()).fold(0, best);
        }
        let (spent, epoch) = (energy(power, point, &at(point)), at(point));
        sum.active += spent.active;
        sum.stalled += spent.stalled;
        whole.time += epoch.time;
        whole.stalled += epoch.stalled;
        if chooser == Chooser::Mean {
            point = next(point, &epoch);
        }
    }
    (sum, whole)
}

/// The clock after an interval like `epoch`, seen at `point`: that of its class, unless it would be more than
/// 5 % slower than at the highest.
fn next(point: usize, epoch: &Epoch) -> usize {
    let active = (epoch.time - epoch.stalled) as f64 * POINTS[point];
    let whole = active + epoch.stalled as f64;
    let fits = |clock: f64| active * (1.0 / clock - 1.0) <= SLOWER_MAX * whole;
    let slowest = class(active, whole);
    (0..=slowest).rev().find(|point| fits(POINTS[*point])).unwrap_or(0)
}

/// The class of work that takes `active` of `whole` at the highest clock, 0 for that of the core: as many
/// equally wide ones as there are clocks.
fn class(active: f64, whole: f64) -> usize {
    let mu = if whole > 0.0 { active / whole } else { 1.0 };
    (((1.0 - mu) * POINTS.len() as f64) as usize).min(POINTS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Ps;

    #[test]
    fn work_keeps_its_clock_and_waiting_loses_it() {
        let power = Power { leakage_w: 1.0, dynamic_w: 1.0, retention: 0.0 };
        let runs = |active: f64, stalled: Ps| -> Vec<Vec<Epoch>> {
            let epoch = |clock: &f64| Epoch { time: (active / clock) as Ps + stalled, stalled };
            POINTS.iter().map(|clock| vec![epoch(clock); 3]).collect()
        };
        let chosen = |active, stalled, chooser| {
            let runs = runs(active, stalled);
            let slices: Vec<&[Epoch]> = runs.iter().map(Vec::as_slice).collect();
            let (energy, whole) = choose(chooser, &power, &slices);
            (energy, whole.time)
        };
        let (_, time) = chosen(1e9, 0, Chooser::Oracle);
        assert_eq!(time, 3_000_000_000);
        let (_, time) = chosen(1e9, 0, Chooser::Mean);
        assert_eq!(time, 3_000_000_000);
        let (energy, time) = chosen(1e8, 900_000_000, Chooser::Oracle);
        assert!(time > 3_100_000_000 && energy.total() < 3.3e-3 * 0.8, "{energy:?} {time}");
        let (_, slow) = chosen(1e8, 900_000_000, Chooser::Mean);
        assert!(slow < 3_150_000_000 && slow > 3_000_000_000, "{slow}");
    }

    /// Without classes whatever stalls 5 % of its time would be slowed by nearly 5 %: the mean slowdown of Figure
    /// 2.13, 1.0 %, would be 1.9 % by the profiles instead of 0.8 %.
    #[test]
    fn only_what_is_bound_to_memory_is_slowed_down() {
        let after = |stalled: Ps| next(0, &Epoch { time: 1_000_000, stalled });
        assert_eq!([0, 100_000, 190_000].map(after), [0, 0, 0]);
        assert_eq!([210_000, 500_000, 700_000, 990_000].map(after), [1, 1, 2, 4]);
        let fits = |stalled: f64| (1.0 - stalled) * (1.0 / 0.95 - 1.0) <= SLOWER_MAX;
        assert!(fits(0.1), "the limit alone would take the next clock");
    }

    #[test]
    fn voltages_are_those_of_the_paper() {
        assert_eq!([1.0, 0.8, 0.6].map(voltage), [1.0, 0.925, 0.85]);
    }
}
