//! How servers that are on share a load.

use crate::catalogue::Group;
use crate::demand::Levels;
use crate::envelope::Envelope;

/// Rounding does not decide whether servers carry a load.
const SLACK: f64 = 1e-12;

/// How servers are run: those that are on share the load so that they draw least together.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// What there is to choose from.
    pub groups: Vec<Group>,
    /// One server more is on than the load needs, so that any may fail.
    pub spare: bool,
}

impl Fleet {
    /// The largest load that so many of each carry.
    pub fn carries_mbps(&self, counts: &[u32]) -> f64 {
        let pairs = || self.groups.iter().zip(counts);
        let all: f64 = pairs().map(|(group, count)| group.capacity_mbps * f64::from(*count)).sum();
        let owned = pairs().filter(|(_, count)| **count > 0);
        let largest = owned.map(|(group, _)| group.capacity_mbps).fold(0.0, f64::max);
        if self.spare { all - largest } else { all }
    }

    /// Whether so many of each carry a load.
    pub fn carries(&self, counts: &[u32], mbps: f64) -> bool {
        self.carries_mbps(counts) >= mbps * (1.0 - SLACK)
    }

    /// What so many of each cost.
    pub fn price(&self, counts: &[u32]) -> f64 {
        self.groups.iter().zip(counts).map(|(group, count)| group.price * f64::from(*count)).sum()
    }

    /// More of a group than this are of no use up to `peak_mbps`.
    pub fn useful(&self, peak_mbps: f64) -> Vec<u32> {
        let spare = u32::from(self.spare);
        let enough = |group: &Group| {
            let needed = (peak_mbps / group.capacity_mbps * (1.0 - SLACK)).ceil();
            let useful = (needed as u32).saturating_add(spare);
            group.available.map_or(useful, |available| available.min(useful))
        };
        self.groups.iter().map(enough).collect()
    }

    /// The least power at each level with so many of each, any of which may be off; infinite where
    /// they do not carry it.
    ///
    /// At the least power all servers but one are off or full: of two that are neither, the one whose
    /// power rises faster hands load to the other. So each level is carried by a set of full servers
    /// and one more, and over the loads that such a set covers its power is a line. Sets that carry no
    /// more than another and draw no less are left out.
    pub fn powers(&self, counts: &[u32], levels: &Levels) -> Vec<f64> {
        let mut envelope = Envelope::over(&levels.mbps);
        if levels.mbps.is_empty() {
            return Vec::new();
        }
        if !self.spare {
            self.insert(&mut envelope, counts, levels, 0.0);
            return envelope.values();
        }
        // The spare is as large as the largest that is on, and idles.
        for (index, spare) in self.groups.iter().enumerate().filter(|(at, _)| counts[*at] > 0) {
            let smaller = |(at, (group, count)): (usize, (&Group, &u32))| match at {
                _ if at == index => count - 1,
                _ if group.capacity_mbps <= spare.capacity_mbps => *count,
                _ => 0,
            };
            let pairs = self.groups.iter().zip(counts).enumerate();
            let rest: Vec<u32> = pairs.map(smaller).collect();
            self.insert(&mut envelope, &rest, levels, spare.idle_w);
        }
        envelope.values()
    }

    fn insert(&self, envelope: &mut Envelope<'_>, counts: &[u32], levels: &Levels, base_w: f64) {
        let peak = levels.mbps[levels.mbps.len() - 1];
        for (index, last) in self.groups.iter().enumerate().filter(|(at, _)| counts[*at] > 0) {
            let mut others = counts.to_vec();
            others[index] -= 1;
            for (capacity, power) in self.full_sets(&others, peak) {
                let to = (capacity + last.capacity_mbps) * (1.0 + SLACK);
                let from = levels.mbps.partition_point(|mbps| *mbps <= capacity);
                let to = levels.mbps.partition_point(|mbps| *mbps <= to);
                let start = base_w + power + last.idle_w - last.slope() * capacity;
                envelope.insert(from, to, (start, last.slope()));
            }
        }
    }

    /// Capacity and power of the sets of full servers below `peak` that no other set beats.
    fn full_sets(&self, counts: &[u32], peak: f64) -> Vec<(f64, f64)> {
        let mut sets = vec![(0.0, 0.0)];
        for (group, count) in self.groups.iter().zip(counts).filter(|(_, count)| **count > 0) {
            let mut more = Vec::with_capacity(sets.len() * (*count as usize + 1));
            for number in 0..=*count {
                let number = f64::from(number);
                let (capacity, power) = (number * group.capacity_mbps, number * group.full_w);
                let added = sets.iter().map(|set| (set.0 + capacity, set.1 + power));
                more.extend(added.filter(|set| set.0 < peak));
            }
            sets = undominated(more);
        }
        sets
    }

    /// The energy, in joules, of carrying the levels with so many of each; infinite where they do not.
    pub fn joules(&self, counts: &[u32], levels: &Levels) -> f64 {
        let powers = self.powers(counts, levels);
        powers.iter().zip(&levels.seconds).map(|(power, seconds)| power * seconds).sum()
    }

    /// The least price of servers that carry a load; `None` where the catalogue has too few.
    pub fn least_price(&self, mbps: f64) -> Option<f64> {
        let enough = self.useful(mbps);
        let need = mbps * (1.0 - SLACK);
        let cheapest = |counts: &[u32], base: f64| -> Option<f64> {
            let mut sets = vec![(0.0, base)];
            for (group, count) in self.groups.iter().zip(counts) {
                let mut more = Vec::with_capacity(sets.len() * (*count as usize + 1));
                for number in (0..=*count).map(f64::from) {
                    let (capacity, price) = (number * group.capacity_mbps, number * group.price);
                    more.extend(
                        sets.iter().map(|set| ((set.0 + capacity).min(need), set.1 + price)),
                    );
                }
                sets = undominated(more);
            }
            sets.last().filter(|set| set.0 >= need).map(|set| set.1)
        };
        if !self.spare {
            return cheapest(&enough, 0.0);
        }
        let with_spare = |(index, spare): (usize, &Group)| {
            let limit = |(at, count): (usize, &u32)| match at {
                _ if at == index => count.saturating_sub(1),
                _ if self.groups[at].capacity_mbps <= spare.capacity_mbps => *count,
                _ => 0,
            };
            let rest: Vec<u32> = enough.iter().enumerate().map(limit).collect();
            if enough[index] == 0 { None } else { cheapest(&rest, spare.price) }
        };
        let prices = self.groups.iter().enumerate().filter_map(with_spare);
        prices.reduce(f64::min)
    }
}

/// The points than which no other has at least as much of the first and at most as much of the
/// second; ascending.
fn undominated(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let mut least = f64::INFINITY;
    points.retain(|point| {
        let keep = point.1 < least;
        least = least.min(point.1);
        keep
    });
    points.reverse();
    points
}
