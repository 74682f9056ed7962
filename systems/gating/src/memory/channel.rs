//! One channel: its queues, its banks, and a scheduler that takes what is ready first, then what
//! came first (FR-FCFS; Rixner et al. 2000).
//!
//! Time goes from decision to decision. A decision takes one request out of a queue and fixes all its
//! commands; the next is made as late as the data bus allows, so that requests which come meanwhile
//! can still go first, and early enough that banks work at the same time.

use std::collections::VecDeque;

use super::bank::Rank;
use super::command::{Command, Order};
use super::timing::{MemorySettings, Ps, Timing};
use super::{Answer, Request, Row};

/// From this age on, ps, the oldest read goes before reads of open rows.
const PATIENCE: Ps = 1_000_000;
/// Clocks for which it is kept whether a command is sent: more than commands of one decision are apart.
const SLOTS: usize = 1024;

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DramAddress {
    pub(super) rank: usize,
    pub(super) bank: usize,
    pub(super) row: u64,
}

type Waiting = (Request, DramAddress);

pub(super) struct Channel {
    timing: Timing,
    open_page: bool,
    capacity: [usize; 2],
    drain: [usize; 2],
    /// Requests that come later, by time; of the same time those handed in first.
    inbox: VecDeque<Waiting>,
    reads: Vec<Waiting>,
    writes: Vec<Waiting>,
    draining: bool,
    clock: Ps,
    ranks: Vec<Rank>,
    bus_free: Ps,
    bus_rank: usize,
    columns: Columns,
    groups: usize,
    /// The last command of each clock modulo their number.
    slots: Box<[Ps; SLOTS]>,
    pub(super) commands: Option<Vec<Command>>,
    pub(super) counts: ChannelCounts,
    seen: Ps,
    /// Whether the first of the inbox waits for room.
    full: bool,
}

/// The last column accesses.
#[derive(Clone, Default)]
struct Columns {
    /// When, anywhere; `None` before the first.
    last: Option<Ps>,
    /// When, in each group of each rank.
    groups: Vec<Option<Ps>>,
    /// End of written data, in each group of each rank.
    written: Vec<Option<Ps>>,
    /// The last read.
    read: Option<Ps>,
}

/// What a channel did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Reads by what their row was: open, closed, another one open.
    pub rows: [u64; 3],
    /// Writes done.
    pub writes: u64,
    /// Refreshes.
    pub refreshes: u64,
    /// Sum of the times reads waited in the queue, ps.
    pub waited: u64,
    /// Integral of the read queue's length over time, ps.
    pub length: u64,
    /// Time the data bus was busy, ps.
    pub bus: u64,
}

impl Channel {
    pub(super) fn new(settings: &MemorySettings) -> Channel {
        let timing = Timing::of(settings);
        let rank = |index| Rank::new(settings, &timing, index);
        Channel {
            open_page: settings.open_page,
            capacity: [settings.reads, settings.writes],
            drain: [settings.drain_from, settings.drain_to],
            inbox: VecDeque::with_capacity(64),
            reads: Vec::new(),
            writes: Vec::new(),
            draining: false,
            clock: 0,
            ranks: (0..settings.ranks).map(rank).collect(),
            bus_free: 0,
            bus_rank: 0,
            columns: Columns {
                groups: vec![None; settings.ranks * settings.groups],
                written: vec![None; settings.ranks * settings.groups],
                ..Columns::default()
            },
            groups: settings.groups,
            slots: Box::new([Ps::MAX; SLOTS]),
            commands: None,
            counts: ChannelCounts::default(),
            seen: 0,
            full: false,
            timing,
        }
    }

    pub(super) fn submit(&mut self, request: Request, place: DramAddress) {
        // They come nearly in order: from the end it is not far to where they belong.
        let earlier =
            self.inbox.iter().rev().take_while(|(later, _)| later.at > request.at).count();
        if earlier == 0 {
            self.inbox.push_back((request, place));
        } else {
            self.inbox.insert(self.inbox.len() - earlier, (request, place));
        }
    }

    /// When it decides next; `None` while it has nothing to do.
    #[inline]
    pub(super) fn next(&self) -> Option<Ps> {
        let idle = self.reads.is_empty() && self.writes.len() > self.drain[1];
        let work = !self.reads.is_empty() || self.draining || idle;
        if work {
            return Some(self.clock);
        }
        self.inbox.front().map(|(request, _)| self.clock.max(request.at))
    }

    /// Decides; the answer if it was on a read.
    pub(super) fn step(&mut self, out: &mut Vec<Answer>) {
        let Some(now) = self.next() else { return };
        self.clock = now;
        self.admit(now, out);
        if self.writes.len() >= self.drain[0] {
            self.draining = true;
        } else if self.writes.len() <= self.drain[1] {
            self.draining = false;
        }
        let write = self.draining || (self.reads.is_empty() && self.writes.len() > self.drain[1]);
        self.refresh(now);
        if write {
            let chosen = self.choose(&self.writes, now);
            let (request, place) = self.writes.remove(chosen);
            self.commit(now, request, place);
            self.counts.writes += 1;
        } else if !self.reads.is_empty() {
            let chosen = self.choose(&self.reads, now);
            let (request, place) = self.reads.remove(chosen);
            self.counts.waited += now - request.at.max(request.admitted);
            let answer = self.commit(now, request, place);
            self.counts.rows[answer.row as usize] += 1;
            out.push(answer);
        }
    }

    fn admit(&mut self, now: Ps, out: &mut Vec<Answer>) {
        self.counts.length += self.reads.len() as u64 * (now - self.seen);
        self.seen = now;
        while let Some((mut request, place)) = self.inbox.front().copied() {
            let at = request.at;
            let queue = if request.write { &mut self.writes } else { &mut self.reads };
            let full = at <= now && queue.len() >= self.capacity[usize::from(request.write)];
            let waited = std::mem::replace(&mut self.full, full);
            if at > now || full {
                break;
            }
            self.inbox.pop_front();
            request.admitted = now;
            // A request that found no room is admitted when it does.
            let admitted = if waited { now } else { at };
            if !request.write {
                let written = self.writes.iter().any(|(_, other)| *other == place);
                let bank = &mut self.ranks[place.rank].banks[place.bank];
                request.told = admitted;
                let soon = (written, self.open_page);
                request.bound = bank.admit(place.row, soon, admitted, &self.timing);
            }
            let written = self.writes.iter().any(|(write, _)| write.line == request.line);
            if !request.write && written {
                let done = now + self.timing.cl + self.timing.burst;
                out.push(Answer {
                    id: request.id,
                    at,
                    told: now,
                    bound: done,
                    decided: now,
                    least: done,
                    done,
                    row: Row::Open,
                });
                self.counts.rows[0] += 1;
            } else if !(request.write && written) {
                let queue = if request.write { &mut self.writes } else { &mut self.reads };
                queue.push((request, place));
            }
        }
    }

    /// The oldest whose row is open; the oldest where there is none, or when it has waited long.
    fn choose(&self, queue: &[Waiting], now: Ps) -> usize {
        if now - queue[0].0.at.min(now) > PATIENCE {
            return 0;
        }
        let open =
            |(_, place): &Waiting| self.ranks[place.rank].banks[place.bank].open == Some(place.row);
        queue.iter().position(open).unwrap_or(0)
    }

    /// Refreshes the ranks whose time has come.
    fn refresh(&mut self, now: Ps) {
        for index in 0..self.ranks.len() {
            while self.ranks[index].refresh_at <= now {
                let (closing, from) = self.ranks[index].refresh_from();
                if closing {
                    let at = self.slot(from);
                    self.note(at, Order::PrechargeAll, index, 0, 0);
                    let at = self.slot(at + self.timing.rp);
                    self.refreshed(index, at);
                } else {
                    let at = self.slot(from);
                    self.refreshed(index, at);
                }
            }
        }
    }

    fn refreshed(&mut self, rank: usize, at: Ps) {
        self.note(at, Order::Refresh, rank, 0, 0);
        self.ranks[rank].refreshed(at, &self.timing);
        self.counts.refreshes += 1;
    }

    fn commit(&mut self, now: Ps, request: Request, place: DramAddress) -> Answer {
        let DramAddress { rank, bank, row } = place;
        let timing = &self.timing;
        let (ready, conflict) = {
            let bank = &self.ranks[rank].banks[bank];
            (bank.open == Some(row), bank.open.is_some())
        };
        let hit = timing.cl + timing.burst;
        let (kind, least) = match (ready, conflict) {
            (true, _) => (Row::Open, hit),
            (false, false) => (Row::Closed, timing.rcd + hit),
            (false, true) => (Row::Other, timing.rp + timing.rcd + hit),
        };
        let mut first = None;
        if !ready {
            if conflict {
                let at = self.slot(now.max(self.ranks[rank].banks[bank].precharge_at));
                self.note(at, Order::Precharge, rank, bank, row);
                self.ranks[rank].banks[bank].activate_at = at + self.timing.rp;
                first = Some(at);
            }
            let at = now.max(self.ranks[rank].activate_from(bank, &self.timing));
            let at = self.slot(at);
            self.note(at, Order::Activate, rank, bank, row);
            self.ranks[rank].activated(bank, row, at, &self.timing);
            first = first.or(Some(at));
        }
        let column = self.column(now, &request, place);
        let group = self.ranks[rank].group(bank);
        let open = self.open_page || self.wanted(place);
        let order = match (request.write, open) {
            (false, true) => Order::Read,
            (false, false) => Order::ReadClosing,
            (true, true) => Order::Write,
            (true, false) => Order::WriteClosing,
        };
        self.note(column, order, rank, bank, row);
        let data = column + if request.write { self.timing.cwl } else { self.timing.cl };
        let done = data + self.timing.burst;
        self.columns.last = Some(column);
        self.columns.groups[rank * self.groups + group] = Some(column);
        if request.write {
            self.columns.written[rank * self.groups + group] = Some(done);
        } else {
            self.columns.read = Some(column);
        }
        self.ranks[rank].accessed(bank, column, done, request.write, !open, &self.timing);
        (self.bus_free, self.bus_rank) = (done, rank);
        self.counts.bus += self.timing.burst;
        let ahead = self.timing.rp + self.timing.rcd + hit;
        let next = first.unwrap_or(column).min(column);
        self.clock =
            (now.max(next.min(now + ahead)) + self.timing.ck).max(done.saturating_sub(ahead));
        let Request { id, at, told, bound, .. } = request;
        Answer { id, at, told, bound, decided: now, least: now + least, done, row: kind }
    }

    /// When the column access can be.
    fn column(&mut self, now: Ps, request: &Request, place: DramAddress) -> Ps {
        let DramAddress { rank, bank, .. } = place;
        let (timing, group) = (&self.timing, self.ranks[rank].group(bank));
        let latency = if request.write { timing.cwl } else { timing.cl };
        let mut at = now.max(self.ranks[rank].banks[bank].column_at);
        let same = rank * self.groups + group;
        if let Some(last) = self.columns.last {
            at = at.max(last + timing.ccd[0]);
        }
        if let Some(last) = self.columns.groups[same] {
            at = at.max(last + timing.ccd[1]);
        }
        if request.write {
            if let Some(read) = self.columns.read {
                let turn = read + timing.cl + timing.burst + 2 * timing.ck;
                at = at.max(turn.saturating_sub(timing.cwl));
            }
        } else {
            let first = rank * self.groups;
            let written = &self.columns.written[first..first + self.groups];
            for (index, written) in written.iter().enumerate() {
                let Some(written) = written else { continue };
                at = at.max(written + timing.wtr[usize::from(index == group)]);
            }
        }
        let gap = if rank == self.bus_rank { 0 } else { timing.rtrs };
        at = at.max((self.bus_free + gap).saturating_sub(latency));
        self.slot(at)
    }

    /// Whether another request waits for the same row.
    fn wanted(&self, place: DramAddress) -> bool {
        self.reads.iter().chain(&self.writes).any(|(_, other)| *other == place)
    }

    /// The first clock from `at` on at which no other command is sent.
    fn slot(&mut self, at: Ps) -> Ps {
        let ck = self.timing.ck;
        let mut clock = at.div_ceil(ck);
        while self.slots[clock as usize % SLOTS] == clock {
            clock += 1;
        }
        self.slots[clock as usize % SLOTS] = clock;
        clock * ck
    }

    #[inline]
    fn note(&mut self, at: Ps, order: Order, rank: usize, bank: usize, row: u64) {
        if let Some(commands) = &mut self.commands {
            commands.push(Command { at, order, rank, bank, row });
        }
    }
}
