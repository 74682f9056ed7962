//! Which back-ends forward, and when what was on its way through one has come out.

use std::collections::VecDeque;
use std::time::Duration;

use ebb_cluster::{Detector, Echoes, Liveness};
use ebb_graph::Packet;
use ebb_units::Time;

use super::super::probe::{Foreign, Probe};
use super::{Found, Plane, Probing};

/// Frames held back by one drain at most, shared by the workers; then it ends without its marker.
const HELD_MAX: usize = 8192;
/// Markers are sent again after this.
const MARK_AGAIN: Duration = Duration::from_millis(5);
/// A drain ends without its marker after this.
const DRAIN_MAX: Duration = Duration::from_millis(200);
/// An answer to a probe is waited for so long at least: a back-end with full queues is slow, not dead.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A back-end whose flows go elsewhere, packets of which wait until what went before has come out.
pub(super) struct Drain {
    number: u64,
    /// Pairs of sides whose marker is still on its way, a bit each.
    pending: u32,
    begun: Time,
    marked: Time,
    /// What waits, with its side.
    pub(super) held: VecDeque<(usize, Packet)>,
}

impl Drain {
    /// Number `number`, from 1, of a balancer with so many sides.
    pub(super) fn new(number: u64, sides: usize, now: Time) -> Drain {
        let pending = (1 << (sides * sides)) - 1;
        Drain { number, pending, begun: now, marked: now, held: VecDeque::new() }
    }
}

/// A back-end that is probed.
pub(super) struct Watched {
    /// By the side that probes enter by.
    detectors: Vec<Detector>,
    /// By pair of sides.
    echoes: Vec<Echoes>,
    heard: Time,
    probed: Time,
    alive: bool,
}

impl Watched {
    /// One of which nothing has been heard.
    pub(super) fn new(sides: usize, probing: Probing, now: Time) -> Watched {
        let Probing { interval, misses } = probing;
        let echoes = Echoes::new((interval * misses.max(1)).max(ANSWER_MAX));
        Watched {
            detectors: vec![Detector::new(interval, misses, now); sides],
            echoes: vec![echoes; sides * sides],
            heard: now,
            probed: Time::ZERO,
            alive: false,
        }
    }
}

impl Plane {
    /// Sends the markers of a drain that have not come back behind everything that went before.
    pub(super) fn mark(&mut self, from: u16, now: Time) {
        let drain = &self.drains[&from];
        let (number, pending) = (drain.number, drain.pending);
        for pair in 0..(self.topology.sides.len() * self.topology.sides.len()) as u16 {
            if pending >> pair & 1 == 1 {
                self.send_probe(from, pair, number, now);
            }
        }
    }

    fn send_probe(&mut self, row: u16, pair: u16, drain: u64, now: Time) {
        let number = self.watched[usize::from(row)].echoes[usize::from(pair)].send();
        let worker = self.worker.number() as u16;
        let probe = Probe { row, pair, worker, drain, number, sent: now };
        let side = usize::from(pair) / self.topology.sides.len();
        let frame = self.seal.frame(&probe, &self.topology);
        self.send_made(2 * side + 1, &frame);
    }

    /// Something came to where probes come back to, from a back-end on the segment of a side.
    pub(super) fn came_back(&mut self, side: usize, packet: Packet, now: Time) {
        match self.seal.read(&self.topology, side, packet.data()) {
            Ok(probe) if usize::from(probe.worker) != self.worker.number() => {
                return self.hand(probe.worker.into(), 2 * side + 1, packet);
            }
            Ok(probe) => self.answered(probe, now),
            Err(Foreign::Other) => self.counters.ignored += 1,
            Err(Foreign::Forged) => self.counters.probes_refused += 1,
        }
        self.pool.put(packet.into_frame());
    }

    fn answered(&mut self, probe: Probe, now: Time) {
        let Probe { row, pair, drain, number, sent, .. } = probe;
        let watched = &mut self.watched[usize::from(row)];
        if !watched.echoes[usize::from(pair)].take(number, sent, now) {
            self.counters.probes_refused += 1;
            return;
        }
        if drain == 0 {
            watched.heard = now;
            watched.detectors[usize::from(pair) / self.topology.sides.len()].answered(now);
            return;
        }
        let Some(open) = self.drains.get_mut(&row).filter(|open| open.number == drain) else {
            return;
        };
        open.pending &= !(1 << pair);
        if open.pending == 0 {
            self.counters.drains += 1;
            self.end_drain(row, now);
        }
    }

    fn end_drain(&mut self, from: u16, now: Time) {
        let Some(drain) = self.drains.remove(&from) else { return };
        let moves = self.logic.drained(from);
        self.carry_out(moves, drain.held, now);
    }

    /// Probes, looks who is silent, ends drains that take too long.
    pub(super) fn tend_back_ends(&mut self, now: Time) {
        for row in 0..self.watched.len() as u16 {
            match self.worker.is_first() {
                true => self.watch(row, now),
                false => self.learn(row, self.worker.alive(row), now),
            }
        }
        let held_max = self.worker.share(HELD_MAX);
        let late: Vec<(u16, bool)> = self
            .drains
            .iter()
            .filter_map(|(row, drain)| {
                let over = now.since(drain.begun) >= DRAIN_MAX || drain.held.len() > held_max;
                (over || now.since(drain.marked) >= MARK_AGAIN).then_some((*row, over))
            })
            .collect();
        for (row, over) in late {
            if over {
                self.counters.drains_cut += 1;
                self.end_drain(row, now);
            } else {
                self.drains.get_mut(&row).expect("just seen").marked = now;
                self.mark(row, now);
            }
        }
    }

    fn watch(&mut self, row: u16, now: Time) {
        let sides = self.topology.sides.len();
        let present = self.present().contains(&row);
        let watched = &mut self.watched[usize::from(row)];
        let due = present && now.since(watched.probed) >= self.probing.interval;
        if due {
            watched.probed = now;
        }
        watched.detectors.iter_mut().for_each(|one| _ = one.look(now));
        if !present {
            // Whoever comes back proves itself anew.
            let Probing { interval, misses } = self.probing;
            watched.detectors.fill_with(|| Detector::new(interval, misses, now));
        }
        let probed = self.probing.misses > 0;
        let heard_of = watched.detectors.iter().all(|one| one.state() == Liveness::Alive);
        let alive = if probed { heard_of } else { present };
        let (heard, before) = (watched.heard, watched.alive);
        if due && probed {
            for from in 0..sides as u16 {
                let to = (from + 1) % sides as u16;
                self.send_probe(row, from * sides as u16 + to, 0, now);
            }
        }
        if alive != before && present {
            self.found.push(Found { at: now, row, dead: !alive, heard });
        }
        self.worker.set_alive(row, alive);
        self.learn(row, alive, now);
    }

    /// Takes note whether a back-end forwards.
    fn learn(&mut self, row: u16, alive: bool, now: Time) {
        if std::mem::replace(&mut self.watched[usize::from(row)].alive, alive) != alive {
            let held = if alive { None } else { self.drains.remove(&row) };
            let moves = self.logic.found(row, !alive);
            self.carry_out(moves, held.map(|drain| drain.held).unwrap_or_default(), now);
        }
    }
}
