//! Bounded load: slots leave a back-end that is nearly full while others have room.
//!
//! Shares by weight make the utilisation of back-ends equal where flows are many and small. Where a few
//! carry most, some back-end overflows beside others that are half idle. As in consistent hashing with
//! bounded loads (Mirrokni, Thorup, Zadimoghaddam, SODA 2018) what exceeds a bound goes to whoever has
//! room; here the bound is on measured packets, and whole slots move, so that flows stay together.

use crate::table::SteeringTable;

/// Nothing moves while the fullest back-end is asked for less than this share of its capacity.
const BUSY: f64 = 0.8;
/// The fullest may be asked for this much of the mean utilisation.
const ABOVE: f64 = 1.25;
/// The emptiest is to be asked for this much of it at least. Together: with one above 90 %, the mean is
/// above 72 %, or it gives away; and then nobody stays under 50 %.
const BELOW: f64 = 0.7;
/// Beyond this share of its capacity the fullest may be asked for a tenth more than the mean only.
const FULL: f64 = 0.9;
/// Moves go on until the fullest and the emptiest are within this of the mean, for hysteresis.
const NEAR: f64 = 0.05;

/// Weights in proportion to capacities, the largest 1,000,000.
///
/// ```
/// assert_eq!(ebb_cluster::weights_of(&[50e3, 200e3]), [250_000, 1_000_000]);
/// ```
pub fn weights_of(capacities: &[f64]) -> Vec<u32> {
    let most = capacities.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    capacities.iter().map(|one| (one / most * 1e6).round().max(1.0) as u32).collect()
}

/// One back-end's part: its load, and its slots that have some, the heaviest last.
struct Part {
    load: f64,
    capacity: f64,
    slots: Vec<(usize, f64)>,
}

impl Part {
    fn used(&self) -> f64 {
        self.load / self.capacity
    }

    fn with(&self, more: f64) -> f64 {
        (self.load + more) / self.capacity
    }
}

/// Slots that are to move, with their new owner: none while no back-end is busy or all are about as
/// busy. `loads` is what each slot is asked for, `capacities` what each row carries, in the same unit; rows of
/// capacity 0 take no part. A slot that alone is more than anybody's room stays.
///
/// # Panics
/// When there is not one load for each slot and one capacity for each row.
pub fn relief(table: &SteeringTable, loads: &[f64], capacities: &[f64]) -> Vec<(usize, u16)> {
    assert_eq!((loads.len(), capacities.len()), (table.len(), table.rows()), "one for each");
    let part = |capacity: &f64| Part { load: 0.0, capacity: *capacity, slots: Vec::new() };
    let mut parts: Vec<Part> = capacities.iter().map(part).collect();
    for (slot, load) in loads.iter().enumerate().filter(|(_, load)| **load > 0.0) {
        if let Some(row) = table.owner(slot) {
            let part = &mut parts[usize::from(row)];
            part.load += load;
            part.slots.push((slot, *load));
        }
    }
    let rows: Vec<usize> = (0..parts.len()).filter(|row| parts[*row].capacity > 0.0).collect();
    let capacity: f64 = rows.iter().map(|row| parts[*row].capacity).sum();
    let mean = rows.iter().map(|row| parts[*row].load).sum::<f64>() / capacity;
    let ends = |parts: &[Part]| {
        let by = |a: &&usize, b: &&usize| parts[**a].used().total_cmp(&parts[**b].used());
        Some((*rows.iter().max_by(by)?, *rows.iter().min_by(by)?))
    };
    let Some((full, empty)) = ends(&parts) else { return Vec::new() };
    let (most, least) = (parts[full].used(), parts[empty].used());
    let bound = (ABOVE * mean).min(FULL.max(mean * (1.0 + 2.0 * NEAR)));
    if most < BUSY || most <= bound && least >= BELOW * mean {
        return Vec::new();
    }
    for part in &mut parts {
        part.slots.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    }
    let mut moves = Vec::new();
    while let Some((from, to)) = ends(&parts) {
        let (most, least) = (parts[from].used(), parts[to].used());
        if most <= mean * (1.0 + NEAR) && least >= mean * (1.0 - NEAR) {
            break;
        }
        let Some((at, to)) = next(&parts, &rows, (from, to), mean) else { break };
        let (slot, load) = parts[from].slots.remove(at);
        parts[from].load -= load;
        parts[to].load += load;
        moves.push((slot, to as u16));
    }
    moves
}

/// The next slot of `from`, by its place, and where it goes: the heaviest that brings both ends nearer to the
/// mean, or else one after which nobody is as full as `from` is.
fn next(
    parts: &[Part],
    rows: &[usize],
    (from, to): (usize, usize),
    mean: f64,
) -> Option<(usize, usize)> {
    let (full, empty) = (&parts[from], &parts[to]);
    let room = (full.load - mean * full.capacity).min(mean * empty.capacity - empty.load);
    let fits = full.slots.partition_point(|(_, load)| *load <= room);
    if let Some(heaviest) = fits.checked_sub(1) {
        return Some((heaviest, to));
    }
    let most = full.used();
    let ends = [0, full.slots.len().checked_sub(1)?];
    ends.into_iter().find_map(|at| {
        let load = full.slots[at].1;
        let others = rows.iter().copied().filter(|row| *row != from);
        let best = others.min_by(|a, b| parts[*a].with(load).total_cmp(&parts[*b].with(load)))?;
        (parts[best].with(load) < most * (1.0 - NEAR)).then_some((at, best))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn used(table: &SteeringTable, loads: &[f64], capacities: &[f64]) -> Vec<f64> {
        let mut used = vec![0.0; capacities.len()];
        for (slot, load) in loads.iter().enumerate() {
            let row = usize::from(table.owner(slot).expect("an owner"));
            used[row] += load / capacities[row];
        }
        used
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Back-ends of 1:4, flows of Pareto rates: while no slot is more than a twentieth of the weakest
        /// back-end, nobody is above 90 % while another is under 50 %.
        #[test]
        fn nobody_is_nearly_full_while_another_is_half_idle(
            weak in 1usize..6, strong in 1usize..6, busy in 0.2f64..0.98,
            tails in prop::collection::vec(1e-3f64..1.0, 4096),
        ) {
            let mut capacities = vec![1.0; weak];
            capacities.resize(weak + strong, 4.0);
            let mut table = SteeringTable::sized(weak + strong, 4096);
            table.settle(&weights_of(&capacities));
            let drawn: Vec<f64> = tails.iter().map(|part| part.powf(-1.0 / 1.1)).collect();
            let total: f64 = drawn.iter().sum();
            let scale = busy * capacities.iter().sum::<f64>() / total;
            // The slots of the first back-end are the heaviest of all, as nothing but chance forbids.
            let mut loads: Vec<f64> = drawn.iter().map(|rate| (rate * scale).min(0.05)).collect();
            loads.sort_by(|a, b| b.total_cmp(a));
            let mut order: Vec<usize> = (0..4096).collect();
            order.sort_by_key(|slot| table.owner(*slot));
            let mut by_slot = vec![0.0; 4096];
            order.iter().zip(loads).for_each(|(slot, load)| by_slot[*slot] = load);
            for (slot, to) in relief(&table, &by_slot, &capacities) {
                table.give(slot, Some(to));
            }
            let used = used(&table, &by_slot, &capacities);
            let most = used.iter().copied().fold(0.0, f64::max);
            let least = used.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(most <= 0.9 || least >= 0.5, "{used:?}");
            prop_assert!(relief(&table, &by_slot, &capacities).is_empty(), "settled is settled");
        }
    }

    #[test]
    fn a_flow_that_is_too_much_for_the_weak_goes_to_the_strong_and_one_for_nobody_stays() {
        let mut table = SteeringTable::sized(2, 8);
        let capacities = [1.0, 4.0];
        table.settle(&weights_of(&capacities));
        let weak = (0..8).find(|slot| table.owner(*slot) == Some(0)).expect("a slot");
        let mut loads = vec![0.0; 8];
        loads[weak] = 1.5;
        assert_eq!(relief(&table, &loads, &capacities), [(weak, 1)]);
        assert!(relief(&table, &loads, &[1.0, 0.0]).is_empty(), "there is nobody else");
        let strong = (0..8).find(|slot| table.owner(*slot) == Some(1)).expect("a slot");
        (loads[weak], loads[strong]) = (0.0, 9.0);
        assert!(relief(&table, &loads, &capacities).is_empty());
    }

    #[test]
    fn a_quiet_cluster_is_left_alone() {
        let mut table = SteeringTable::sized(2, 8);
        table.settle(&[1, 1]);
        let loads: Vec<f64> =
            (0..8).map(|slot| f64::from(u8::from(table.owner(slot) == Some(0)))).collect();
        assert!(relief(&table, &loads, &[5.1, 5.1]).is_empty());
        assert_eq!(relief(&table, &loads, &[4.9, 4.9]).len(), 2);
    }
}
