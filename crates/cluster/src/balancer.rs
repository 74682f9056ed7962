//! What a balancer decides about its steering table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::{Acknowledgement, ClusterPlan, Power};
use crate::relief::relief;
use crate::table::SteeringTable;

/// What a balancer decides about its table: shares follow the plan and health, planned moves wait until
/// what is on its way through the old back-end has come out, others do not.
///
/// The rows of the table are the back-ends by name, in ascending order of names.
#[derive(Clone, Debug)]
pub struct Balancer {
    names: Vec<String>,
    weights: Vec<u32>,
    table: SteeringTable,
    plan: ClusterPlan,
    dead: BTreeSet<u16>,
    /// Slots on their way, by the row they leave, each with where it goes.
    moving: BTreeMap<u16, Vec<(usize, u16)>>,
    /// Rows that have slots and should have none.
    leaving: BTreeSet<u16>,
    /// Rows that may get flows, and the slots of each after the last relief: its weight while these stay the same.
    relieved: Option<(Vec<bool>, Vec<u32>)>,
}

/// What is to be done for the table to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Hold what comes for these slots back, send a marker after what is on its way through `from`, and
    /// call [`Balancer::drained`] when it has come out.
    Drain {
        /// The row that the slots leave.
        from: u16,
        /// The slots.
        slots: Vec<usize>,
    },
    /// These slots have a new owner, in the table already: release what is held.
    Settled {
        /// The slots.
        slots: Vec<usize>,
    },
}

impl Balancer {
    /// For back-ends with weights.
    pub fn new(weights: &BTreeMap<String, u32>) -> Balancer {
        Balancer::sized(weights, crate::SLOTS)
    }

    /// The same with another number of slots, for simulations.
    pub fn sized(weights: &BTreeMap<String, u32>, slots: usize) -> Balancer {
        Balancer {
            names: weights.keys().cloned().collect(),
            weights: weights.values().copied().collect(),
            table: SteeringTable::sized(weights.len(), slots),
            plan: ClusterPlan::default(),
            // Nobody is alive until a probe has come back.
            dead: (0..weights.len() as u16).collect(),
            moving: BTreeMap::new(),
            leaving: BTreeSet::new(),
            relieved: None,
        }
    }

    /// Takes over other weights, in the order of names.
    ///
    /// # Panics
    /// When there is not one for each back-end.
    pub fn reweigh(&mut self, weights: Vec<u32>) -> Vec<Move> {
        assert_eq!(weights.len(), self.names.len(), "a weight for each back-end");
        if weights == self.weights {
            return Vec::new();
        }
        (self.weights, self.relieved) = (weights, None);
        self.replan()
    }

    /// Moves slots away from a back-end that is nearly full while another has room ([`relief`]), by what
    /// slots were asked for and back-ends carry. Nothing while other moves are on their way.
    pub fn relieve(&mut self, loads: &[f64], capacities: &[f64]) -> Vec<Move> {
        let usable: Vec<bool> = (0..self.names.len()).map(|row| self.usable(row as u16)).collect();
        let owned = |slot| self.table.owner(slot).is_some_and(|row| usable[usize::from(row)]);
        if !self.moving.is_empty() || !(0..self.table.len()).all(owned) {
            return Vec::new();
        }
        let carries = capacities.iter().zip(&usable);
        let carries: Vec<f64> =
            carries.map(|(capacity, usable)| if *usable { *capacity } else { 0.0 }).collect();
        let moves = relief(&self.table, loads, &carries);
        if moves.is_empty() {
            return Vec::new();
        }
        let mut slots = self.table.shares();
        for (slot, to) in moves {
            let from = self.table.owner(slot).expect("all are owned");
            slots[usize::from(from)] -= 1;
            slots[usize::from(to)] += 1;
            self.moving.entry(from).or_default().push((slot, to));
        }
        self.relieved = Some((usable, slots.into_iter().map(|slots| slots as u32).collect()));
        let drain = |(from, moving): (&u16, &Vec<(usize, u16)>)| Move::Drain {
            from: *from,
            slots: moving.iter().map(|(slot, _)| *slot).collect(),
        };
        self.moving.iter().map(drain).collect()
    }

    /// The row of a back-end.
    pub fn row(&self, name: &str) -> Option<u16> {
        self.names.binary_search_by(|other| other.as_str().cmp(name)).ok().map(|row| row as u16)
    }

    /// The back-end of a row.
    pub fn name(&self, row: u16) -> &str {
        &self.names[usize::from(row)]
    }

    /// The table.
    pub fn table(&self) -> &SteeringTable {
        &self.table
    }

    /// The plan it follows.
    pub fn plan(&self) -> &ClusterPlan {
        &self.plan
    }

    /// What to tell the store, but for load and beat, which a [`crate::Carrier`] adds. Slots that are still on their
    /// way away from a back-end count as its own: only once they have settled is the version acknowledged.
    pub fn acknowledgement(&self) -> Acknowledgement {
        let dead = self.dead.iter().map(|row| self.names[usize::from(*row)].clone());
        let dead = Arc::new(dead.collect());
        let version = if self.leaving.is_empty() { self.plan.version } else { self.earlier() };
        Acknowledgement { version, dead, ..Acknowledgement::default() }
    }

    /// The version before the first in which one of those that slots are leaving was to drain.
    fn earlier(&self) -> u64 {
        let entry = |row: &u16| self.plan.entries.get(self.name(*row));
        let since = self.leaving.iter().filter_map(entry);
        since.map(|entry| entry.since).min().map_or(0, |since| since.saturating_sub(1))
    }

    fn power(&self, row: u16) -> Power {
        self.plan.power(self.name(row))
    }

    /// Of all rows: the plan's names are in the rows' order, and one walk finds all.
    fn powers(&self) -> Vec<Power> {
        let mut entries = self.plan.entries.iter().peekable();
        let power = |name: &String| {
            while entries.next_if(|(other, _)| *other < name).is_some() {}
            entries.next_if(|(other, _)| *other == name).map_or(Power::Off, |(_, one)| one.power)
        };
        self.names.iter().map(power).collect()
    }

    /// Follows a plan; an older one is passed over.
    pub fn follow(&mut self, plan: &ClusterPlan) -> Vec<Move> {
        if plan.version <= self.plan.version {
            return Vec::new();
        }
        self.plan = plan.clone();
        self.replan()
    }

    /// Learns that a back-end does not forward, or does again.
    pub fn found(&mut self, row: u16, dead: bool) -> Vec<Move> {
        let changed = if dead { self.dead.insert(row) } else { self.dead.remove(&row) };
        if !changed {
            return Vec::new();
        }
        let mut moves = if dead { self.drained(row) } else { Vec::new() };
        moves.extend(self.replan());
        moves
    }

    /// What was on its way through `from` has come out: its slots get their new owners.
    pub fn drained(&mut self, from: u16) -> Vec<Move> {
        let Some(moving) = self.moving.remove(&from) else { return Vec::new() };
        let mut slots = Vec::with_capacity(moving.len());
        for (slot, to) in moving {
            // Its new owner may have gone meanwhile; the plan below finds another.
            self.table.give(slot, Some(to).filter(|to| self.usable(*to)));
            slots.push(slot);
        }
        let mut moves = vec![Move::Settled { slots }];
        moves.extend(self.replan());
        moves
    }

    /// Whether a back-end may get flows.
    pub fn usable(&self, row: u16) -> bool {
        self.power(row) == Power::On && !self.dead.contains(&row)
    }

    /// Plans towards the shares that plan and health ask for, beginning with what is not on its way.
    fn replan(&mut self) -> Vec<Move> {
        let powers = self.powers();
        let mut usable: Vec<bool> = powers.iter().map(|power| *power == Power::On).collect();
        self.dead.iter().for_each(|row| usable[usize::from(*row)] = false);
        let weight = |(usable, weight): (&bool, &u32)| if *usable { *weight } else { 0 };
        let shares: Vec<u32> = match &self.relieved {
            Some((same, slots)) if *same == usable => slots.clone(),
            _ => usable.iter().zip(&self.weights).map(weight).collect(),
        };
        self.relieved = self.relieved.take().filter(|(same, _)| *same == usable);
        let mut busy = vec![false; self.table.len()];
        self.moving.values().flatten().for_each(|(slot, _)| busy[*slot] = true);
        let mut at_once = Vec::new();
        let mut drains: BTreeMap<u16, Vec<(usize, u16)>> = BTreeMap::new();
        for (slot, to) in self.table.moves_to(&shares) {
            if busy[slot] {
                continue;
            }
            match (self.table.owner(slot), to) {
                (Some(from), Some(to)) if !self.dead.contains(&from) => {
                    drains.entry(from).or_default().push((slot, to));
                }
                // With nobody to go to, flows stay where they still are forwarded.
                (Some(from), None) if !self.dead.contains(&from) => {}
                (_, to) => {
                    self.table.give(slot, to);
                    at_once.push(slot);
                }
            }
        }
        let mut moves = Vec::new();
        if !at_once.is_empty() {
            moves.push(Move::Settled { slots: at_once });
        }
        for (from, slots) in drains {
            // One drain of a back-end at a time: the rest follows when it has come out.
            if let std::collections::btree_map::Entry::Vacant(place) = self.moving.entry(from) {
                let held = slots.iter().map(|(slot, _)| *slot).collect();
                place.insert(slots);
                moves.push(Move::Drain { from, slots: held });
            }
        }
        let held = self.table.shares();
        let leaving = |row: &usize| held[*row] > 0 && powers[*row] != Power::On;
        self.leaving = (0..held.len()).filter(leaving).map(|row| row as u16).collect();
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Entry;
    use crate::table::SLOTS;

    fn plan(version: u64, powers: [Power; 3]) -> ClusterPlan {
        let entry = |(row, power)| (format!("r{row}"), Entry { power, since: version });
        ClusterPlan {
            version,
            entries: powers.into_iter().enumerate().map(entry).collect(),
            speaker: None,
        }
    }

    fn balancer() -> Balancer {
        let weights = (0..3).map(|row| (format!("r{row}"), 1)).collect();
        let mut balancer = Balancer::new(&weights);
        (0..3).for_each(|row| drop(balancer.found(row, false)));
        balancer
    }

    use Power::{Draining, Off, On};

    #[test]
    fn planned_moves_wait_and_are_acknowledged_when_done() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, On, Off]));
        assert_eq!((balancer.table().share(0), balancer.acknowledgement().version), (8192, 1));
        let moves = balancer.follow(&plan(2, [Draining, On, Off]));
        let [Move::Drain { from: 0, slots }] = &moves[..] else { panic!("{moves:?}") };
        assert_eq!((slots.len(), balancer.table().share(0)), (8192, 8192));
        assert_eq!(balancer.acknowledgement().version, 1, "flows still go to it");
        let settled = balancer.drained(0);
        assert!(matches!(&settled[..], [Move::Settled { slots }] if slots.len() == 8192));
        assert_eq!((balancer.table().share(1), balancer.acknowledgement().version), (SLOTS, 2));
        assert!(balancer.follow(&plan(1, [On, On, On])).is_empty(), "older plans are passed over");
    }

    #[test]
    fn the_dead_are_left_at_once() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, On, On]));
        let moves = balancer.found(2, true);
        assert!(moves.iter().all(|step| matches!(step, Move::Settled { .. })), "{moves:?}");
        assert_eq!((balancer.table().share(2), balancer.table().share(0)), (0, SLOTS / 2));
        assert_eq!(balancer.acknowledgement().dead.len(), 1);
        let back = balancer.found(2, false);
        assert!(back.iter().all(|step| matches!(step, Move::Drain { .. })), "{back:?}");
    }

    #[test]
    fn one_that_dies_while_it_drains_is_done_draining() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, On, On]));
        balancer.follow(&plan(2, [Draining, On, On]));
        balancer.found(0, true);
        assert_eq!((balancer.table().share(0), balancer.acknowledgement().version), (0, 2));
    }

    /// What is on its way to a back-end that is told to drain meanwhile never arrives there.
    #[test]
    fn nothing_moves_to_one_that_drains() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, On, Off]));
        balancer.follow(&plan(2, [On, On, On]));
        balancer.follow(&plan(3, [On, On, Draining]));
        assert_eq!(balancer.acknowledgement().version, 3);
        balancer.drained(0);
        balancer.drained(1);
        assert_eq!((balancer.table().share(2), balancer.table().share(0)), (0, SLOTS / 2));
    }

    /// The only one that could take over is dead: flows stay with the one that drains, and it is not
    /// acknowledged.
    #[test]
    fn nobody_is_left_before_there_is_somebody_else() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, On, Off]));
        balancer.found(1, true);
        assert!(balancer.follow(&plan(2, [Draining, On, Off])).is_empty());
        assert_eq!((balancer.table().share(0), balancer.acknowledgement().version), (SLOTS, 1));
        assert!(matches!(balancer.found(1, false)[..], [Move::Drain { from: 0, .. }]));
        balancer.drained(0);
        assert_eq!(balancer.acknowledgement().version, 2);
    }

    /// A relief moves just the slots that weigh, waits for what is on its way, and holds until somebody comes
    /// or goes.
    #[test]
    fn a_relief_holds_until_somebody_comes_or_goes() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, On, Off]));
        let mine = |slot: usize| balancer.table().owner(slot) == Some(0);
        let loads: Vec<f64> = (0..SLOTS).map(|slot| f64::from(u8::from(mine(slot)))).collect();
        let capacities = [9000.0; 3];
        let moves = balancer.relieve(&loads, &capacities);
        let [Move::Drain { from: 0, slots }] = &moves[..] else { panic!("{moves:?}") };
        assert!((3800..4200).contains(&slots.len()), "{}", slots.len());
        let moved = slots.clone();
        assert!(balancer.relieve(&loads, &capacities).is_empty(), "it is at it");
        let settled = balancer.drained(0);
        assert!(matches!(&settled[..], [Move::Settled { slots }] if *slots == moved), "no more");
        assert_eq!(balancer.table().share(0), 8192 - moved.len());
        assert!(balancer.relieve(&loads, &capacities).is_empty(), "relieved");
        balancer.follow(&plan(2, [On, On, On]));
        (0..3).for_each(|row| drop(balancer.drained(row)));
        let shares = (0..3).map(|row| balancer.table().share(row));
        assert!(shares.into_iter().all(|share| share.abs_diff(SLOTS / 3) <= 1));
    }

    #[test]
    fn other_weights_are_taken_over_by_drains() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, On, Off]));
        let moves = balancer.reweigh(vec![1, 3, 1]);
        assert!(matches!(&moves[..], [Move::Drain { from: 0, slots }] if slots.len() == 4096));
        balancer.drained(0);
        assert_eq!(balancer.table().share(1), SLOTS / 4 * 3);
        assert!(balancer.reweigh(vec![1, 3, 1]).is_empty());
    }

    #[test]
    fn with_nobody_left_slots_are_nobodys() {
        let mut balancer = balancer();
        balancer.follow(&plan(1, [On, Off, Off]));
        balancer.found(0, true);
        assert_eq!(balancer.table().owner(5), None);
        balancer.found(0, false);
        assert_eq!(balancer.table().owner(5), Some(0));
    }
}
