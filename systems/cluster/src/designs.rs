//! The designs of section 8.3: by price, by capacity, by power, by the peak, by the whole day.

use ebb_scenario::Progress;

use crate::catalogue::Group;
use crate::demand::Levels;
use crate::fleet::Fleet;
use crate::goal::{Goal, SearchLimits, goal};

/// Names and what they go by, in the order of the source; the optimum owns whatever each sample asks.
pub const DESIGNS: [(&str, &str); 6] = [
    ("design-i", "the most capacity for the price"),
    ("design-ii", "the largest capacity of a server"),
    ("design-iii", "the most capacity for the power"),
    ("design-iv", "the least power at the peak"),
    ("design-v", "the least energy over all samples, then the least price, within the budget"),
    ("optimum", "the least energy with any number of servers, at its least price"),
];

/// Servers that a design chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// One of [`DESIGNS`].
    pub name: &'static str,
    /// How many of each group.
    pub counts: Vec<u32>,
    /// How far the energy can be above the least under the design's own rule, relative.
    pub proof_gap: f64,
    /// Whether the price is proven least where the rule asks for the least.
    pub cheapest: bool,
}

/// Servers by one figure of merit: the best group until the peak is carried, the next best where
/// there are too few of it (section 8.2.2).
fn greedy(fleet: &Fleet, peak_mbps: f64, merit: impl Fn(&Group) -> f64) -> Option<Vec<u32>> {
    let mut order: Vec<usize> = (0..fleet.groups.len()).collect();
    order.sort_by(|a, b| merit(&fleet.groups[*b]).total_cmp(&merit(&fleet.groups[*a])));
    let useful = fleet.useful(peak_mbps);
    let mut counts = vec![0; fleet.groups.len()];
    for index in order {
        while counts[index] < useful[index] {
            if fleet.carries(&counts, peak_mbps) {
                return Some(counts);
            }
            counts[index] += 1;
        }
    }
    fleet.carries(&counts, peak_mbps).then_some(counts)
}

/// Every design, in the order of [`DESIGNS`]. The budget binds IV and V, as in the source.
///
/// `None` when the servers there are, or the budget buys, do not carry the peak.
pub fn designs(
    fleet: &Fleet,
    levels: &Levels,
    budget: f64,
    limits: SearchLimits,
    progress: &dyn Progress,
) -> Option<Vec<Design>> {
    let peak = *levels.mbps.last()?;
    let only_peak = Levels { mbps: vec![peak], seconds: vec![1.0] };
    let plain = |counts| Goal { counts, gap: 0.0, cheapest: true };
    let found = [
        greedy(fleet, peak, Group::mbps_per_price).map(plain),
        greedy(fleet, peak, |group| group.capacity_mbps).map(plain),
        greedy(fleet, peak, Group::mbps_per_watt).map(plain),
        goal(fleet, &only_peak, budget, limits, progress),
        goal(fleet, levels, budget, limits, progress),
        goal(fleet, levels, f64::INFINITY, limits, progress),
    ];
    let named = DESIGNS.iter().zip(found).map(|((name, _), found)| {
        found.map(|Goal { counts, gap, cheapest }| Design {
            name,
            counts,
            proof_gap: gap,
            cheapest,
        })
    });
    named.collect()
}
