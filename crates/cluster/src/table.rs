//! The balancers' table: flow hash to back-end.

/// Slots of a steering table, a power of two: 1,024 back-ends get 16 each, so that the load of equals
/// differs by a sixteenth at most, of 16 by a thousandth.
pub const SLOTS: usize = 16_384;

/// A row number that stands for nobody.
const NOBODY: u16 = u16::MAX;

/// Which back-end each flow hash goes to.
///
/// Unlike Maglev's and rendezvous hashing's, the shares are exact (largest remainder) and the moves
/// the fewest that reach them: the table remembers where slots are, and gives away only what exceeds
/// a share. Balancers with different histories may send a flow different ways, which routers with the
/// same routes do not mind.
///
/// ```
/// use ebb_cluster::SteeringTable;
/// let mut table = SteeringTable::new(3);
/// assert_eq!(table.moves_to(&[1, 1, 0]).len(), 16_384);
/// table.settle(&[1, 1, 0]);
/// assert_eq!(table.share(0), 8192);
/// assert_eq!(table.moves_to(&[1, 1, 1]).len(), 16_384 / 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringTable {
    slots: Vec<u16>,
    rows: usize,
}

impl SteeringTable {
    /// A table for back-ends numbered 0 to `rows` - 1, at most 16,384, all slots nobody's.
    ///
    /// # Panics
    /// With more rows than slots.
    pub fn new(rows: usize) -> SteeringTable {
        SteeringTable::sized(rows, SLOTS)
    }

    /// The same with another number of slots, for simulations.
    ///
    /// # Panics
    /// With more rows than slots.
    pub fn sized(rows: usize, slots: usize) -> SteeringTable {
        assert!(rows <= slots && rows < usize::from(NOBODY), "more back-ends than slots");
        SteeringTable { slots: vec![NOBODY; slots], rows }
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Back-ends that it has room for.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The slot of a flow hash in a table of [`SLOTS`].
    pub fn slot(hash: u32) -> usize {
        hash as usize & (SLOTS - 1)
    }

    /// The back-end of a slot; `None` while it is nobody's.
    pub fn owner(&self, slot: usize) -> Option<u16> {
        Some(self.slots[slot]).filter(|row| *row != NOBODY)
    }

    /// Slots of a back-end.
    pub fn share(&self, row: u16) -> usize {
        self.slots.iter().filter(|owner| **owner == row).count()
    }

    /// Gives a slot to a back-end, or to nobody.
    pub fn give(&mut self, slot: usize, to: Option<u16>) {
        self.slots[slot] = to.unwrap_or(NOBODY);
    }

    /// The fewest changes, as (slot, new owner), after which every back-end's share follows its
    /// weight. With all weights 0 every slot becomes nobody's.
    ///
    /// # Panics
    /// When there is not one weight for each row.
    pub fn moves_to(&self, weights: &[u32]) -> Vec<(usize, Option<u16>)> {
        assert_eq!(weights.len(), self.rows, "a weight for each back-end");
        let held = self.shares();
        let quotas = quotas(weights, &held, self.slots.len());
        let mut room: Vec<usize> = quotas.clone();
        let mut homeless = Vec::new();
        for (slot, owner) in self.slots.iter().enumerate() {
            match room.get_mut(usize::from(*owner)) {
                Some(room) if *room > 0 => *room -= 1,
                _ => homeless.push(slot),
            }
        }
        // Round after round, so that what one gives away spreads over all that take.
        let mut takers: Vec<u16> =
            (0..self.rows as u16).filter(|row| room[usize::from(*row)] > 0).collect();
        let mut moves = Vec::with_capacity(homeless.len());
        let mut homeless = homeless.into_iter();
        while !takers.is_empty() {
            for row in &takers {
                let Some(slot) = homeless.next() else { return moves };
                room[usize::from(*row)] -= 1;
                moves.push((slot, Some(*row)));
            }
            takers.retain(|row| room[usize::from(*row)] > 0);
        }
        let orphans = homeless.filter(|slot| self.slots[*slot] != NOBODY);
        moves.extend(orphans.map(|slot| (slot, None)));
        moves
    }

    /// Makes all moves at once.
    pub fn settle(&mut self, weights: &[u32]) {
        for (slot, to) in self.moves_to(weights) {
            self.give(slot, to);
        }
    }

    /// Slots of each back-end.
    pub fn shares(&self) -> Vec<usize> {
        let mut held = vec![0; self.rows];
        for owner in &self.slots {
            if let Some(held) = held.get_mut(usize::from(*owner)) {
                *held += 1;
            }
        }
        held
    }
}

/// Slots of each by largest remainder; where remainders are equal, to whoever holds more already.
fn quotas(weights: &[u32], held: &[usize], slots: usize) -> Vec<usize> {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: &u32| u64::from(*weight) * slots as u64;
    let mut quotas: Vec<usize> =
        weights.iter().map(|weight| (exact(weight) / total) as usize).collect();
    let mut left = slots - quotas.iter().sum::<usize>();
    let mut order: Vec<usize> = (0..weights.len()).filter(|row| weights[*row] > 0).collect();
    let above = |row: usize| held[row].saturating_sub(quotas[row]).min(1);
    order.sort_by_key(|row| {
        let remainder = exact(&weights[*row]) % total;
        (core::cmp::Reverse(remainder), core::cmp::Reverse(above(*row)), *row)
    });
    for row in order {
        if left == 0 {
            break;
        }
        quotas[row] += 1;
        left -= 1;
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weights() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(0u32..5, 12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn shares_follow_weights_and_moves_are_the_fewest(before in weights(), after in weights()) {
            let mut table = SteeringTable::new(12);
            table.settle(&before);
            let held: Vec<usize> = (0..12).map(|row| table.share(row)).collect();
            let moves = table.moves_to(&after);
            table.settle(&after);
            let total: u32 = after.iter().sum();
            let mut excess = 0;
            for (row, weight) in after.iter().enumerate() {
                let share = table.share(row as u16);
                let exact = if total == 0 { 0.0 } else {
                    f64::from(*weight) / f64::from(total) * SLOTS as f64
                };
                prop_assert!((share as f64 - exact).abs() < 1.0, "{share} {exact}");
                excess += held[row].saturating_sub(share);
            }
            if before.iter().sum::<u32>() > 0 {
                prop_assert_eq!(moves.len(), excess, "nothing moves that need not");
            }
            prop_assert!(table.moves_to(&after).is_empty(), "settled is settled");
        }
    }

    #[test]
    fn one_of_a_thousand_goes_and_only_its_slots_move() {
        let mut table = SteeringTable::new(1024);
        let mut weights = vec![1; 1024];
        table.settle(&weights);
        assert!((0..1024).all(|row| table.share(row) == 16));
        weights[500] = 0;
        let moves = table.moves_to(&weights);
        assert_eq!(moves.len(), 16);
        assert!(moves.iter().all(|(slot, _)| table.owner(*slot) == Some(500)));
    }
}
