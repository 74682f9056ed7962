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
