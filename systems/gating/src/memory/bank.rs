//! Banks and what binds those of a rank.

use super::timing::{MemorySettings, Ps, Timing};

/// One bank: its row, and from when on each command can be.
#[derive(Clone, Debug, Default)]
pub(super) struct Bank {
    pub(super) open: Option<u64>,
    pub(super) activate_at: Ps,
    pub(super) precharge_at: Ps,
    pub(super) column_at: Ps,
    /// By the counter of section 2.3.4: when the misses that it has admitted are done at the earliest.
    idle_at: Ps,
    /// Rows that they open, and when the first data of each can be there.
    coming: Vec<(u64, Ps)>,
}

impl Bank {
    /// Admits a read of `row` at `at`: the earliest end of its data, the channel not regarded.
    ///
    /// The bank serves what its open row has first, then misses in the order of their coming, and reads
    /// before writes: a read waits at least for the misses before it, unless one of them, what is open, or a
    /// write that waits has its row (`soon`). Open pages have to be closed for it (`close`).
    pub(super) fn admit(
        &mut self,
        row: u64,
        (soon, close): (bool, bool),
        at: Ps,
        timing: &Timing,
    ) -> Ps {
        let hit = timing.cl + timing.burst;
        self.coming.retain(|(_, done)| *done > at);
        if let Some((_, done)) = self.coming.iter().find(|(coming, _)| *coming == row) {
            return (*done).max(at + hit);
        }
        if self.open == Some(row) || soon {
            return at + hit;
        }
        let closing = (close && self.open.is_some()) || self.idle_at > at;
        let close = if closing { timing.rp } else { 0 };
        self.idle_at = self.idle_at.max(at) + close + timing.rcd + hit;
        self.coming.push((row, self.idle_at));
        self.idle_at
    }
}

/// The banks of a rank.
pub(super) struct Rank {
    pub(super) banks: Vec<Bank>,
    groups: usize,
    /// The last activation in each group.
    last: Vec<Option<Ps>>,
    /// The last four.
    four: [Option<Ps>; 4],
    oldest: usize,
    pub(super) refresh_at: Ps,
}

impl Rank {
    /// Refreshes of ranks are spread over the interval.
    pub(super) fn new(settings: &MemorySettings, timing: &Timing, index: usize) -> Rank {
        let spread = timing.refi * index as u64 / settings.ranks as u64;
        Rank {
            banks: vec![Bank::default(); settings.banks],
            groups: settings.groups,
            last: vec![None; settings.groups],
            four: [None; 4],
            oldest: 0,
            refresh_at: timing.refi + spread,
        }
    }

    pub(super) fn group(&self, bank: usize) -> usize {
        bank % self.groups
    }

    /// The earliest activation of `bank`.
    pub(super) fn activate_from(&self, bank: usize, timing: &Timing) -> Ps {
        let mut at = self.banks[bank].activate_at;
        for (group, last) in self.last.iter().enumerate() {
            let Some(last) = last else { continue };
            at = at.max(last + timing.rrd[usize::from(group == self.group(bank))]);
        }
        self.four[self.oldest].map_or(at, |fourth| at.max(fourth + timing.faw))
    }

    pub(super) fn activated(&mut self, bank: usize, row: u64, at: Ps, timing: &Timing) {
        let group = self.group(bank);
        self.last[group] = Some(at);
        self.four[self.oldest] = Some(at);
        self.oldest = (self.oldest + 1) % 4;
        let bank = &mut self.banks[bank];
        bank.open = Some(row);
        bank.precharge_at = at + timing.ras;
        bank.column_at = at + timing.rcd;
    }

    /// After a column access, which may close the row by itself.
    pub(super) fn accessed(
        &mut self,
        bank: usize,
        column: Ps,
        done: Ps,
        write: bool,
        closing: bool,
        timing: &Timing,
    ) {
        let bank = &mut self.banks[bank];
        let held = if write { done + timing.wr } else { column + timing.rtp };
        bank.precharge_at = bank.precharge_at.max(held);
        if closing {
            bank.open = None;
            bank.activate_at = bank.precharge_at + timing.rp;
        }
    }

    /// Whether rows have to be closed for the refresh that is due, and from when on they, or without
    /// them the refresh, can be.
    pub(super) fn refresh_from(&self) -> (bool, Ps) {
        let closing = self.banks.iter().any(|bank| bank.open.is_some());
        let ready = |bank: &Bank| if bank.open.is_some() { bank.precharge_at } else { 0 };
        let close = self.banks.iter().map(ready).max().unwrap_or(0).max(self.refresh_at);
        let idle =
            self.banks.iter().map(|bank| if bank.open.is_none() { bank.activate_at } else { 0 });
        let idle = idle.max().unwrap_or(0);
        (closing, if closing { close.max(idle) } else { self.refresh_at.max(idle) })
    }

    pub(super) fn refreshed(&mut self, at: Ps, timing: &Timing) {
        for bank in &mut self.banks {
            bank.open = None;
            bank.activate_at = bank.activate_at.max(at + timing.rfc);
        }
        self.refresh_at += timing.refi;
    }
}
