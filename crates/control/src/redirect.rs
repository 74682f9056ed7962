//! The redirect table: 128 entries that map flow hashes to workers (Niccolini et al. 2012,
//! section 6.2).

/// Entries of a redirect table; the seven low bits of the flow hash choose one.
pub const ENTRIES: usize = 128;

/// A redirect table: the worker of each entry.
pub type Table = [u8; ENTRIES];

/// The table that spreads all entries over workers `0..active` and changes as few entries of
/// `current` as that needs; loads differ by at most one entry.
pub fn rebalance(current: &Table, active: u16) -> Table {
    let active = usize::from(active.max(1)).min(ENTRIES);
    let mut load = vec![0usize; active];
    let mut table = *current;
    let mut homeless = Vec::new();
    let (floor, extra) = (ENTRIES / active, ENTRIES % active);
    let mut above = 0;
    for (index, worker) in current.iter().map(|worker| usize::from(*worker)).enumerate() {
        let keep =
            worker < active && (load[worker] < floor || (load[worker] == floor && above < extra));
        if keep {
            load[worker] += 1;
            above += usize::from(load[worker] == floor + 1);
        } else {
            homeless.push(index);
        }
    }
    for index in homeless {
        let worker = (0..active).min_by_key(|worker| load[*worker]).expect("at least one worker");
        load[worker] += 1;
        table[index] = worker as u8;
    }
    table
}

/// A set of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Workers([u128; 2]);

impl Workers {
    fn insert(&mut self, worker: u8) {
        self.0[usize::from(worker / 128)] |= 1 << (worker % 128);
    }

    /// Whether `worker` is one of them.
    pub fn contains(&self, worker: u8) -> bool {
        self.0[usize::from(worker / 128)] >> (worker % 128) & 1 == 1
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|half| half.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 2]
    }

    /// Them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|worker| self.contains(*worker))
    }
}

/// The workers that give entries away when `new` follows `old`: their queues are drained before
/// the others start, so that no flow is reordered.
pub fn losers(old: &Table, new: &Table) -> Workers {
    let mut workers = Workers::default();
    old.iter().zip(new).filter(|(old, new)| old != new).for_each(|(old, _)| workers.insert(*old));
    workers
}

/// The workers that are given entries when `new` follows `old`.
pub fn gainers(old: &Table, new: &Table) -> Workers {
    losers(new, old)
}

/// Ports that make the same change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What they hold.
    pub old: Table,
    /// What they are to hold.
    pub new: Table,
    /// Their numbers.
    pub ports: Vec<usize>,
}

/// What leads each port to `active` workers: first the change of the table `in_force`, then those of ports that
/// hold another, because they refused earlier. They change from what they hold, and so with other workers. Ports
/// without a table of their own (`None`) change nothing.
pub fn changes(in_force: &Table, present: &[Option<Table>], active: u16) -> Vec<Change> {
    let change = |old: Table| Change { old, new: rebalance(&old, active), ports: Vec::new() };
    let mut changes = vec![change(*in_force)];
    for (port, held) in present.iter().enumerate() {
        let Some(held) = held else { continue };
        let same = changes.iter().position(|change| change.old == *held);
        let index = same.unwrap_or_else(|| {
            changes.push(change(*held));
            changes.len() - 1
        });
        changes[index].ports.push(port);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn loads(table: &Table) -> [usize; 256] {
        let mut loads = [0; 256];
        table.iter().for_each(|worker| loads[usize::from(*worker)] += 1);
        loads
    }

    fn changed(old: &Table, new: &Table) -> usize {
        old.iter().zip(new).filter(|(old, new)| old != new).count()
    }

    /// Every balanced table gives `extra` workers one entry more than the others; the most entries
    /// stay when those are the workers that have more already.
    fn fewest_changes(table: &Table, active: usize) -> usize {
        let loads = loads(table);
        let (floor, extra) = (ENTRIES / active, ENTRIES % active);
        let kept: usize = loads[..active].iter().map(|load| (*load).min(floor)).sum();
        let above = loads[..active].iter().filter(|load| **load > floor).count();
        ENTRIES - kept - above.min(extra)
    }

    fn any_table(workers: u8) -> impl Strategy<Value = Table> {
        prop::collection::vec(0..workers, ENTRIES)
            .prop_map(|entries| entries.try_into().expect("as many entries"))
    }

    #[test]
    fn ports_that_hold_the_same_change_alike() {
        let mut other = [0; ENTRIES];
        other[3] = 1;
        let present = [Some([0; ENTRIES]), None, Some(other), Some([0; ENTRIES]), Some(other)];
        let changes = changes(&[0; ENTRIES], &present, 2);
        let ports: Vec<&[usize]> = changes.iter().map(|change| &change.ports[..]).collect();
        assert_eq!(ports, [&[0, 3][..], &[2, 4]]);
        assert_eq!(changes[1].new, rebalance(&other, 2));
    }

    proptest! {
        #[test]
        fn balanced_minimal_and_stable(
            table in (1..=200u8).prop_flat_map(any_table),
            active in 1..=128u16,
        ) {
            let new = rebalance(&table, active);
            let loads = loads(&new);
            let (used, unused) = loads.split_at(usize::from(active));
            let spread = used.iter().max().expect("some") - used.iter().min().expect("some");
            prop_assert!(spread <= 1);
            prop_assert!(unused.iter().all(|load| *load == 0));
            prop_assert_eq!(changed(&table, &new), fewest_changes(&table, usize::from(active)));
            prop_assert_eq!(rebalance(&new, active), new);
        }

        #[test]
        fn who_loses_and_who_gains(old in any_table(200), new in any_table(200)) {
            let (lost, gained) = (losers(&old, &new), gainers(&old, &new));
            for worker in 0..=u8::MAX {
                let has = |table: &Table, at: usize| table[at] == worker;
                let loses = (0..ENTRIES).any(|at| has(&old, at) && !has(&new, at));
                let gains = (0..ENTRIES).any(|at| has(&new, at) && !has(&old, at));
                prop_assert_eq!((lost.contains(worker), gained.contains(worker)), (loses, gains));
            }
            prop_assert_eq!(lost.iter().count(), lost.len());
        }
    }

    #[test]
    fn one_more_worker_takes_its_share_and_no_more() {
        let one = rebalance(&[0; ENTRIES], 1);
        assert_eq!(one, [0; ENTRIES]);
        let two = rebalance(&one, 2);
        assert_eq!(changed(&one, &two), 64);
        assert_eq!(losers(&one, &two).iter().collect::<Vec<_>>(), [0]);
        assert_eq!(gainers(&one, &two).iter().collect::<Vec<_>>(), [1]);
        assert!(losers(&two, &two).is_empty());
    }

    #[test]
    fn more_workers_than_entries_and_none_at_all() {
        assert_eq!(loads(&rebalance(&[0; ENTRIES], u16::MAX))[..ENTRIES], [1; ENTRIES]);
        assert_eq!(rebalance(&[7; ENTRIES], 0), [0; ENTRIES]);
    }
}
