//! One worker's meter: counts the packets that leave into its flow cache, and ends flows.
//!
//! Neighbours: `cache` holds the flows, `lane` takes what ended to the exporter. Reads no clock; shares
//! nothing that is written but the lane.

use core::time::Duration;
use std::sync::Arc;

use ebb_graph::Packet;
use ebb_units::Time;

use super::Metering;
use super::cache::{Cache, Places, Room};
use super::flow::{self, Delta, EndReason, PACKETS_MAX, Record, Seen, Words, ms_of};
use super::lane::{Lane, Sums};
use super::select::Selection;
use crate::application::Observer;

/// Buckets with flows that one step of the sweep looks at, and buckets in all.
const STEP_FLOWS: usize = 128;
const STEP_BUCKETS: usize = 1 << 16;

/// Steps in a turn at most, of who comes less often than steps are due.
const STEPS_MAX: u32 = 1 << 12;

/// How long a connection that has ended is kept, for what still comes of it.
const LINGER: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Meter {
    cache: Cache,
    lane: Arc<Lane>,
    active_ms: u32,
    idle_ms: u32,
    linger_ms: u32,
    selection: Selection,
    sampling: u32,
    /// Packets until the next that is taken.
    skip: u32,
    seen: Vec<(Seen, Places)>,
    sums: Sums,
    sweep: Sweep,
}

/// Looks for flows to end, a few at a time, in rounds.
struct Sweep {
    /// How long a round takes.
    round: Duration,
    bucket: usize,
    at: Option<Time>,
}

impl Meter {
    pub(super) fn new(metering: &Metering, lane: Arc<Lane>) -> Meter {
        let ms = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
        // A flow is reported when a quarter more than its timeout has passed, at the latest.
        let least = metering.idle.min(metering.active).min(4 * LINGER);
        Meter {
            cache: Cache::new(metering.flows, metering.seed),
            lane,
            active_ms: ms(metering.active),
            idle_ms: ms(metering.idle),
            linger_ms: ms(LINGER.min(metering.idle)),
            selection: metering.selection.clone(),
            sampling: metering.sampling.max(1),
            skip: 0,
            seen: Vec::with_capacity(2 * ebb_graph::Batch::RECEIVE_MAX),
            sums: Sums::default(),
            sweep: Sweep { round: least / 4, bucket: 0, at: None },
        }
    }

    /// Reads the packets that are to be counted.
    fn look(&mut self, packets: &[Packet]) {
        if !self.selection.is_all() {
            return self.look_for_selected(packets);
        }
        for packet in packets {
            if self.skip > 0 {
                self.skip -= 1;
                self.sums.unsampled += 1;
                continue;
            }
            self.skip = self.sampling - 1;
            match Seen::of(packet) {
                Some(seen) => self.seen.push((seen, self.cache.places(&seen.key))),
                None => self.sums.other += 1,
            }
        }
    }

    /// The same where only some flows are counted: one of so many of their packets is taken.
    fn look_for_selected(&mut self, packets: &[Packet]) {
        for packet in packets {
            match Seen::of(packet) {
                None => self.sums.other += 1,
                Some(seen) if !self.selection.has(&seen.key) => self.sums.unselected += 1,
                Some(_) if self.skip > 0 => {
                    self.skip -= 1;
                    self.sums.unsampled += 1;
                }
                Some(seen) => {
                    self.skip = self.sampling - 1;
                    self.seen.push((seen, self.cache.places(&seen.key)));
                }
            }
        }
    }

    fn count(&mut self, now_ms: u32) {
        let mut seen = std::mem::take(&mut self.seen);
        seen.iter_mut().for_each(|(_, places)| self.cache.prefetch(places));
        for (seen, places) in &seen {
            self.sums.packets += 1;
            self.sums.bytes += u64::from(seen.bytes);
            match self.cache.find(&seen.key, places) {
                Some(place) => self.go_on(place, seen, now_ms),
                None => self.begin(seen.begin(now_ms), places, now_ms),
            }
        }
        self.seen = seen;
        self.seen.clear();
    }

    #[inline]
    fn go_on(&mut self, place: usize, seen: &Seen, now_ms: u32) {
        if let Some(reason) = self.over(self.cache.at(place), now_ms, seen.opens()) {
            let more = |words: &mut Words| seen.add_to(words, now_ms);
            return self.begin_again(place, reason, seen.begin(now_ms), more);
        }
        seen.add_to(self.cache.at_mut(place), now_ms);
    }

    /// Whether a flow's record ends before a packet that comes now.
    #[inline]
    fn over(&self, words: &flow::Words, now_ms: u32, opens: bool) -> Option<EndReason> {
        if now_ms.wrapping_sub(flow::last_ms(words)) >= self.idle_ms {
            return Some(EndReason::Idle);
        }
        let age = now_ms.wrapping_sub(flow::first_ms(words));
        if age >= self.active_ms || flow::packets(words) >= PACKETS_MAX {
            return Some(EndReason::Active);
        }
        (opens && flow::has_ended(words)).then_some(EndReason::Ended)
    }

    /// Reports a flow and begins the next of the same key. Where the lane is full the record goes on: counted
    /// later is better than not at all.
    #[cold]
    fn begin_again(
        &mut self,
        place: usize,
        reason: EndReason,
        next: Words,
        more: impl FnOnce(&mut Words),
    ) {
        let record = Record::new(*self.cache.at(place), reason);
        match self.lane.offer(record, &mut self.sums) {
            Ok(()) => {
                *self.cache.at_mut(place) = next;
                self.sums.begun += 1;
            }
            Err(_) => more(self.cache.at_mut(place)),
        }
    }

    fn begin(&mut self, first: Words, places: &Places, now_ms: u32) {
        let place = match self.cache.room(places, now_ms) {
            Room::Free(place) => place,
            Room::Taken(place) => {
                let record = Record::new(self.cache.take(place), EndReason::Evicted);
                if let Err(record) = self.lane.offer(record, &mut self.sums) {
                    self.sums.lost.add(&record);
                }
                place
            }
        };
        self.cache.put(place, places, first);
        self.sums.begun += 1;
    }

    /// Counts packets that were counted elsewhere into their flow.
    pub(super) fn add(&mut self, delta: &Delta) {
        let words = &delta.words;
        if !self.selection.is_all() && !self.selection.has(delta.key()) {
            self.sums.unselected += u64::from(flow::packets(words));
            return;
        }
        self.sums.packets += u64::from(flow::packets(words));
        self.sums.bytes += words[7] >> 16;
        let (first_ms, places) = (flow::first_ms(words), self.cache.places(delta.key()));
        let Some(place) = self.cache.find(delta.key(), &places) else {
            return self.begin(*words, &places, first_ms);
        };
        let known = self.cache.at(place);
        // Two clocks of the kernel's may differ by a tick.
        let at_ms = flow::later(first_ms, flow::last_ms(known));
        let too_many = u64::from(flow::packets(known)) + u64::from(flow::packets(words));
        let over = self
            .over(known, at_ms, delta.opens())
            .or((too_many >= u64::from(PACKETS_MAX)).then_some(EndReason::Active));
        match over {
            Some(reason) => {
                self.begin_again(place, reason, *words, |known| delta.add_to(known));
            }
            None => delta.add_to(self.cache.at_mut(place)),
        }
    }

    /// Packets and bytes of no flow that is known.
    pub(super) fn lose(&mut self, packets: u64, bytes: u64) {
        self.sums.packets += packets;
        self.sums.bytes += bytes;
        self.sums.lost.packets += packets;
        self.sums.lost.bytes += bytes;
    }

    /// What an observer does when it is shown packets, and when its time comes.
    pub(super) fn turn(&mut self, now: Time) {
        if self.sweep.at.is_none() && self.cache.len() > 0 {
            self.sweep.at = Some(now + self.pause());
        }
        // Each step once: who comes late makes up for it in the next turns.
        let mut steps = 0;
        while steps < STEPS_MAX && self.sweep.at.is_some_and(|at| at <= now) {
            let at = self.sweep.at.expect("due");
            self.step(now);
            self.sweep.at = (self.cache.len() > 0).then(|| at + self.pause());
            steps += 1;
        }
        if self.sweep.at.is_some_and(|at| at <= now) {
            self.sweep.at = Some(now);
        }
        self.lane.publish(&mut self.sums);
    }

    /// One step of the sweep; false when the lane is full.
    fn sweep(&mut self, now_ms: u32) -> bool {
        let (mut looked, mut passed) = (0, 0);
        while looked < STEP_FLOWS
            && passed < STEP_BUCKETS
            && self.sweep.bucket < self.cache.buckets()
        {
            let bucket = self.sweep.bucket;
            passed += 1;
            if !self.cache.is_empty(bucket) {
                looked += 1;
                for place in self.cache.taken(bucket) {
                    if !self.end_if_due(place, now_ms) {
                        return false;
                    }
                }
            }
            self.sweep.bucket += 1;
        }
        true
    }

    /// One step; behind the last one comes the first again.
    fn step(&mut self, now: Time) {
        self.sweep(ms_of(now.as_nanos()));
        if self.sweep.bucket >= self.cache.buckets() {
            self.sweep.bucket = 0;
        }
    }

    fn end_if_due(&mut self, place: usize, now_ms: u32) -> bool {
        let words = self.cache.at(place);
        let silent = now_ms.wrapping_sub(flow::last_ms(words));
        let reason = match self.over(words, now_ms, false) {
            Some(reason) => reason,
            None if flow::has_ended(words) && silent >= self.linger_ms => EndReason::Ended,
            None => return true,
        };
        if self.lane.offer(Record::new(*words, reason), &mut self.sums).is_err() {
            return false;
        }
        self.cache.take(place);
        true
    }

    /// When the sweep goes on: its steps are spread over the round.
    fn pause(&self) -> Duration {
        let (flows, buckets) = (self.cache.len(), self.cache.buckets());
        let steps = flows.min(buckets).div_ceil(STEP_FLOWS).max(buckets.div_ceil(STEP_BUCKETS));
        self.sweep.round / u32::try_from(steps.max(1)).unwrap_or(u32::MAX)
    }
}

impl Observer for Meter {
    fn observe(&mut self, now: Time, packets: &[Packet]) {
        self.look(packets);
        self.count(ms_of(now.as_nanos()));
        if self.sweep.at.is_none() && self.cache.len() > 0 {
            self.sweep.at = Some(now + self.pause());
        }
        self.lane.publish(&mut self.sums);
    }

    fn poll_at(&self) -> Option<Time> {
        self.sweep.at
    }

    fn poll(&mut self, now: Time) {
        if self.sweep.at.is_none_or(|at| at > now) {
            return;
        }
        self.step(now);
        self.sweep.at = (self.cache.len() > 0).then(|| now + self.pause());
        self.lane.publish(&mut self.sums);
    }

    /// What is left when the worker ends, or another program has its packets, is reported too.
    fn retire(&mut self) {
        let buckets = 0..self.cache.buckets();
        let places: Vec<usize> = buckets.flat_map(|bucket| self.cache.taken(bucket)).collect();
        let records =
            places.into_iter().map(|place| Record::new(self.cache.take(place), EndReason::Forced));
        self.lane.leave(records.collect(), &mut self.sums);
        self.sweep.at = None;
        self.lane.publish(&mut self.sums);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.retire();
    }
}
