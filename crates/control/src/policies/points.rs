//! The operating points from which a policy chooses, with what each carries and draws.

use ebb_units::{Joules, PacketsPerSecond, Watts};
use serde::{Deserialize, Serialize};

use crate::Limits;

/// What one operating point carries and draws, for one kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointCost {
    /// Active cores, at least one.
    pub cores: u16,
    /// Index into the ascending table of frequencies.
    pub frequency: u16,
    /// The most packets per second that it forwards.
    pub capacity: PacketsPerSecond,
    /// Power without traffic, its cores asleep.
    pub idle: Watts,
    /// Power at capacity.
    pub full: Watts,
}

impl PointCost {
    /// Power under `load`, between [`PointCost::idle`] and [`PointCost::full`]: of the way from one
    /// to the other `s (2 - s)` at the share `s` of the capacity, because a core that sleeps
    /// whenever it can is awake for longer than its packets take, the more often the less it has to
    /// do (Niccolini et al. 2012, figure 11; the measured form of Bolla et al. bends the same way).
    pub fn watts(&self, load: PacketsPerSecond) -> Watts {
        let share = (load.0 / self.capacity.0).clamp(0.0, 1.0);
        self.idle + (self.full - self.idle) * (share * (2.0 - share))
    }
}

/// The operating points that a policy may choose from: a fitted model as plain figures.
///
/// ```
/// use ebb_control::policies::{PointCost, Points};
/// use ebb_units::{Joules, PacketsPerSecond, Watts};
/// let point = |cores, mpps: f64, full| PointCost {
///     cores,
///     frequency: 0,
///     capacity: PacketsPerSecond(mpps * 1e6),
///     idle: Watts(100.0 + 2.0 * f64::from(cores)),
///     full: Watts(full),
/// };
/// let points = Points::new(vec![point(2, 3.8, 120.0), point(1, 2.0, 110.0)], Joules(0.001))?;
/// assert_eq!(points.cheapest(PacketsPerSecond(1.9e6)).cores, 1);
/// assert_eq!(points.cheapest(PacketsPerSecond(2.1e6)).cores, 2);
/// assert_eq!(points.cheapest(PacketsPerSecond(9e9)).cores, 2, "the largest there is");
/// # Ok::<(), ebb_control::policies::PointsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Points {
    /// Ascending in capacity, not empty.
    points: Vec<PointCost>,
    wake: Joules,
}

/// [`Points`] before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    points: Vec<PointCost>,
    wake: Joules,
}

/// A table that describes no machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PointsError {
    /// Nothing to choose from.
    #[error("there is no operating point; add at least one")]
    Empty,
    /// A figure of a point is impossible.
    #[error(
        "`{field}` of the point with {cores} cores at frequency {frequency} is {value}; {remedy}"
    )]
    Value {
        /// Active cores of the point.
        cores: u16,
        /// Its frequency's index.
        frequency: u16,
        /// The field at fault.
        field: &'static str,
        /// What it holds.
        value: f64,
        /// What would do.
        remedy: &'static str,
    },
    /// The same cores and frequency again.
    #[error("the point with {cores} cores at frequency {frequency} is listed twice")]
    Twice {
        /// Active cores of the point.
        cores: u16,
        /// Its frequency's index.
        frequency: u16,
    },
    /// No energy.
    #[error("`wake` is {0}; expected a finite number of joules of 0 or more")]
    Wake(f64),
}

impl Points {
    /// A table of these points; `wake` is the energy of waking one core or changing the frequency.
    ///
    /// # Errors
    /// When there is no point, one is listed twice, or a figure is impossible.
    pub fn new(mut points: Vec<PointCost>, wake: Joules) -> Result<Points, PointsError> {
        if points.is_empty() {
            return Err(PointsError::Empty);
        }
        if !(wake.0.is_finite() && wake.0 >= 0.0) {
            return Err(PointsError::Wake(wake.0));
        }
        points.iter().try_for_each(check)?;
        points.sort_by_key(|point| (point.cores, point.frequency));
        let same = |pair: &[PointCost]| {
            (pair[0].cores, pair[0].frequency) == (pair[1].cores, pair[1].frequency)
        };
        if let Some(pair) = points.windows(2).find(|pair| same(pair)) {
            let PointCost { cores, frequency, .. } = pair[0];
            return Err(PointsError::Twice { cores, frequency });
        }
        points.sort_by(|one, other| one.capacity.0.total_cmp(&other.capacity.0));
        Ok(Points { points, wake })
    }

    /// Figures for a machine that nobody measured: the shape of the server of Niccolini et al.
    /// 2012 (19 and 29 million packets of 64 bytes a second with twelve cores at the lowest and
    /// highest frequency, sections 3 and 5; 115 W, 1.5 W a core in C1, 12.25 W a core that never
    /// sleeps, table 1 and section 3), spread evenly over `limits`.
    pub fn published(limits: Limits) -> Points {
        let steps = f64::from(limits.frequencies.max(2) - 1);
        let (low, high) = (19e6 / 12.0, 29e6 / 12.0);
        let mut points = Vec::new();
        for cores in 1..=limits.cores.max(1) {
            for frequency in 0..limits.frequencies.max(1) {
                let share = f64::from(frequency) / steps;
                let clock = if limits.frequencies > 1 { (1.6 + 1.7 * share) / 3.3 } else { 1.0 };
                let cores_f = f64::from(cores);
                points.push(PointCost {
                    cores,
                    frequency,
                    capacity: PacketsPerSecond(cores_f * (low + (high - low) * share)),
                    idle: Watts(115.0 + 1.5 * cores_f),
                    full: Watts(115.0 + (1.5 + 10.75 * clock) * cores_f),
                });
            }
        }
        Points::new(points, Joules(0.001)).expect("a table of the kind it describes")
    }

    /// The points within `limits`; `None` if there are none.
    pub fn within(&self, limits: Limits) -> Option<Points> {
        let fits = |point: &&PointCost| {
            point.cores <= limits.cores && point.frequency < limits.frequencies
        };
        let points: Vec<PointCost> = self.points.iter().filter(fits).copied().collect();
        (!points.is_empty()).then_some(Points { points, wake: self.wake })
    }

    /// The cheapest point whose capacity is not below `load`, judged by its power under `load`;
    /// the one of largest capacity when none is. Of equals, the one that draws less at capacity.
    pub fn cheapest(&self, load: PacketsPerSecond) -> &PointCost {
        self.cheapest_for(load, load)
    }

    /// The cheapest point at `load` among those that carry `needed`.
    pub fn cheapest_for(&self, load: PacketsPerSecond, needed: PacketsPerSecond) -> &PointCost {
        let carries = |point: &&PointCost| point.capacity.0 >= needed.0;
        let watts = |point: &PointCost| point.watts(load).0;
        self.points
            .iter()
            .filter(carries)
            .min_by(|one, other| {
                let tie = || one.full.0.total_cmp(&other.full.0);
                watts(one).total_cmp(&watts(other)).then_with(tie)
            })
            .unwrap_or_else(|| self.largest())
    }

    /// The point of largest capacity.
    pub fn largest(&self) -> &PointCost {
        self.points.last().expect("never empty")
    }

    /// Every point, ascending in capacity.
    pub fn iter(&self) -> impl Iterator<Item = &PointCost> {
        self.points.iter()
    }

    /// The energy of waking one core or changing the frequency.
    pub fn wake(&self) -> Joules {
        self.wake
    }
}

impl TryFrom<Raw> for Points {
    type Error = PointsError;

    fn try_from(raw: Raw) -> Result<Points, PointsError> {
        Points::new(raw.points, raw.wake)
    }
}

fn check(point: &PointCost) -> Result<(), PointsError> {
    let PointCost { cores, frequency, capacity, idle, full } = *point;
    let fault =
        |field, value, remedy| Err(PointsError::Value { cores, frequency, field, value, remedy });
    if cores == 0 {
        return fault("cores", 0.0, "expected at least one core");
    }
    if !(capacity.0.is_finite() && capacity.0 > 0.0) {
        return fault("capacity", capacity.0, "expected packets per second above 0");
    }
    if !(idle.0.is_finite() && idle.0 >= 0.0) {
        return fault("idle", idle.0, "expected 0 or more watts");
    }
    if !(full.0.is_finite() && full.0 >= idle.0) {
        return fault("full", full.0, "expected at least the watts without traffic");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(cores: u16, capacity: f64, idle: f64, full: f64) -> PointCost {
        let capacity = PacketsPerSecond(capacity);
        PointCost { cores, frequency: 0, capacity, idle: Watts(idle), full: Watts(full) }
    }

    #[test]
    fn impossible_tables_are_refused_with_the_field() {
        let wake = Joules(0.0);
        assert_eq!(Points::new(vec![], wake), Err(PointsError::Empty));
        for (bad, field) in [
            (point(0, 1.0, 1.0, 1.0), "cores"),
            (point(1, 0.0, 1.0, 1.0), "capacity"),
            (point(1, f64::NAN, 1.0, 1.0), "capacity"),
            (point(1, 1.0, -1.0, 1.0), "idle"),
            (point(1, 1.0, 2.0, 1.0), "full"),
        ] {
            let message = Points::new(vec![bad], wake).expect_err(field).to_string();
            assert!(message.contains(&format!("`{field}`")), "{message}");
        }
        let good = point(1, 1.0, 1.0, 1.0);
        let twice = PointsError::Twice { cores: 1, frequency: 0 };
        assert_eq!(Points::new(vec![good, good], wake), Err(twice));
        assert!(Points::new(vec![good], Joules(f64::NAN)).is_err());
    }

    #[test]
    fn a_table_read_from_a_file_is_checked_too() {
        let text = serde_json::to_string(&Points::published(Limits { cores: 2, frequencies: 2 }))
            .expect("serializable");
        let back: Points = serde_json::from_str(&text).expect("readable");
        assert_eq!(back.iter().count(), 4);
        let text = r#"{"points": [], "wake": 0.0}"#;
        let error = serde_json::from_str::<Points>(text).expect_err("empty").to_string();
        assert!(error.contains("no operating point"), "{error}");
    }

    #[test]
    fn the_published_machine_and_a_part_of_it() {
        let points = Points::published(Limits { cores: 12, frequencies: 14 });
        let largest = points.largest();
        assert_eq!((largest.cores, largest.frequency), (12, 13));
        assert!((largest.capacity.0 - 29e6).abs() < 1.0 && (largest.full.0 - 262.0).abs() < 1e-9);
        let part = points.within(Limits { cores: 3, frequencies: 1 }).expect("some");
        assert_eq!(part.iter().count(), 3);
        assert_eq!(points.within(Limits { cores: 0, frequencies: 1 }), None);
    }

    proptest! {
        /// What is chosen carries the load if anything does, and nothing that does is cheaper.
        #[test]
        fn the_cheapest_carries_and_is_cheapest(
            raw in prop::collection::vec((1f64..100.0, 0f64..50.0, 0f64..50.0), 1..12),
            load in 0f64..120.0,
        ) {
            let points = raw.iter().zip(1u16..).map(|((capacity, idle, more), cores)| {
                point(cores, *capacity, *idle, idle + more)
            });
            let points = Points::new(points.collect(), Joules(0.0)).expect("good");
            let load = PacketsPerSecond(load);
            let chosen = points.cheapest(load);
            let able: Vec<_> = points.iter().filter(|point| point.capacity.0 >= load.0).collect();
            if able.is_empty() {
                prop_assert_eq!(chosen, points.largest());
            } else {
                prop_assert!(chosen.capacity.0 >= load.0);
                prop_assert!(able.iter().all(|p| p.watts(load).0 >= chosen.watts(load).0));
            }
        }
    }
}
