//! How a worker carries orders out, and what it hands over with them.

use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use ebb_host::clock;

use super::Worker;
use crate::mailbox::Transfer;
use crate::shared::{Order, WorkerShared};

/// How long a draining worker waits for its transmit rings to empty.
const FLUSH_PATIENCE: Duration = Duration::from_millis(100);

/// How long a worker that holds looks for the end of it before it sleeps: a hand-over takes some tens
/// of microseconds, and waking up as much again.
const HOLD_LOOK: Duration = Duration::from_micros(200);

/// Looks between two readings of the clock.
const LOOKS: u32 = 64;

impl Worker {
    /// Begins to carry an order out.
    pub(super) fn begin(&mut self, order: Order, serial: u64, mine: &WorkerShared) {
        if order == Order::Retire {
            // Rings and frames are another process's.
            self.graph.retire();
            return mine.mailbox.answer(serial);
        }
        self.drain = None;
        self.take_state(mine);
        self.note_interruption(order, serial, mine);
        match order {
            Order::Drain => {
                self.ports.iter_mut().flatten().for_each(|port| port.mark());
                self.drain = Some(serial);
            }
            // Once that is answered the rings may be another process's.
            Order::Hold => {
                self.prepare_idle();
                mine.mailbox.answer(serial);
                // What is left to be told would end each sleep at once.
                self.tally(clock::monotonic(), mine);
            }
            Order::Run | Order::Park => mine.mailbox.answer(serial),
            Order::Stop | Order::Retire => {}
        }
    }

    /// Takes what came with an order: held packets and state of flows that are its own now, before it
    /// receives any more of them. What it gave up and nobody took is its own again.
    fn take_state(&mut self, mine: &WorkerShared) {
        let own = mine.mailbox.take_back();
        let message = mine.mailbox.take();
        if let Some(owners) = message.owners {
            self.owners = owners;
        }
        let state = own.and(message.state);
        if !state.is_empty() {
            self.graph.take_over(clock::monotonic(), state, &mut self.exits);
            self.empty_exits(mine);
        }
    }

    /// Held packets and state of flows that are others' now.
    fn give_up(&mut self) -> Vec<Transfer> {
        if !self.graph.has_state() {
            return Vec::new();
        }
        let (own, owners, graph) = (self.index, &self.owners, &mut self.graph);
        let others = (0..self.shared.workers.len()).filter(|other| *other != own);
        let given = others.map(|other| {
            (other, graph.give_up(&mut |port, hash| owners.of(own, port, hash) == other))
        });
        given.filter(|(_, state)| !state.is_empty()).collect()
    }

    /// Records how long it received nothing, once it is told to go on. A worker that begins by holding
    /// waits for another process, not for a hand-over.
    fn note_interruption(&mut self, order: Order, serial: u64, mine: &WorkerShared) {
        let now = clock::monotonic();
        match (order, self.held_since) {
            (Order::Hold, None) if serial > 0 => self.held_since = Some(now),
            (Order::Run | Order::Drain | Order::Park, Some(since)) => {
                self.held_since = None;
                let nanos = now.since(since).as_nanos() as u64;
                mine.interruption.lock().expect("interruption").saturating_record(nanos);
            }
            _ => {}
        }
    }

    /// Waits for the next order and receives nothing.
    pub(super) fn hold(&mut self, mine: &WorkerShared) {
        let until = clock::monotonic() + HOLD_LOOK;
        while clock::monotonic() < until {
            for _ in 0..LOOKS {
                if mine.mailbox.order().1 != self.order_seen || mine.inbox_full.load(Acquire) {
                    return;
                }
                std::hint::spin_loop();
            }
            // The governor may have no other CPU than this one.
            std::thread::yield_now();
        }
        self.sleep(mine, None, false);
    }

    /// Answers a drain order once everything that waited when it came has been sent.
    pub(super) fn finish_drain(&mut self, mine: &WorkerShared) {
        let Some(serial) = self.drain else { return };
        if self.ports.iter().flatten().any(|port| port.marked() > 0) {
            return;
        }
        let begun = clock::monotonic();
        while self.ports.iter().flatten().any(|port| port.transmit_pending() > 0) {
            self.ports.iter_mut().flatten().for_each(|port| _ = port.flush());
            let waited = clock::monotonic().since(begun);
            if waited > FLUSH_PATIENCE {
                break;
            }
            if waited > Duration::from_micros(50) {
                std::thread::yield_now();
            }
        }
        self.drain = None;
        mine.mailbox.answer_with(serial, self.give_up());
    }
}
