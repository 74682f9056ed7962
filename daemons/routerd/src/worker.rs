//! One worker: a core's loop of receive, graph, transmit, decide and sleep.
//!
//! Owns its queue of every port; shares nothing on the fast path but single-writer counters. The
//! policy is consulted in line with receiving, as the interrupt handler does in Niccolini et al.
//! 2012 section 6.1; carrying a decision out is the governor's work.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::Duration;

use ebb_apps::route::finish_left;
use ebb_control::policies::Patience;
use ebb_control::{Action, Idle, Observation};
use ebb_graph::{Batch, DropReason, Exits, Graph, NodeId, Packet, Pool, PortId};
use ebb_host::clock;
use ebb_host::pulse::Pulse;
use ebb_host::wait::{Readiness, WaitSet};
use ebb_ports::{Port, PortCounters};
use ebb_units::Time;

use crate::mailbox::Owners;
use crate::moderation::{self, Asking};
use crate::shared::{KernelPacket, Order, PORTS_MAX, Shared, WorkerShared};
use crate::sleep_cost::SleepCost;
use crate::tap::CapturePoint;

/// How often a busy worker publishes what its ports count.
const TALLY_EVERY: Duration = Duration::from_millis(100);
/// A worker without a sign of life for so long stands still: the kernel gets its packets.
const PATIENCE: Duration = Duration::from_millis(750);
/// How soon a sleeping worker tries again to send what the kernel has not taken yet.
const TRANSMIT_RETRY: Duration = Duration::from_millis(1);

/// What a worker thread is made of.
pub struct Worker {
    index: usize,
    shared: Arc<Shared>,
    ports: Vec<Option<Box<dyn Port>>>,
    graph: Graph,
    entry: NodeId,
    exits: Exits,
    pool: Pool,
    batch: Batch,
    batch_max: usize,
    samples: Vec<(PortId, Time)>,
    order_seen: u64,
    /// Serial number of the [`Order::Drain`] that is not answered yet.
    drain: Option<u64>,
    /// Who owns which flows, as the last [`Order::Drain`] said.
    owners: Arc<Owners>,
    /// Since when it receives nothing because it was told so.
    held_since: Option<Time>,
    /// What the ports counted that were closed, by slot.
    closed: Vec<PortCounters>,
    broken: u64,
    used: usize,
    /// What the policy with this number wants of a worker whose queues are empty.
    when_empty: Option<(u64, Idle)>,
    tallied: Time,
    /// Packets came since the ports' counters were published.
    untallied: bool,
    /// Something was received that the ports have not been told the end of.
    unsettled: bool,
    /// Packets that the smallest of its receive rings holds.
    room: u32,
    /// What sleeping has cost so far.
    sleep_cost: SleepCost,
    patience: Patience,
    asking: Asking,
    /// What this worker saw in its latest round, for its patience.
    seen: Observation,
    wait_set: WaitSet,
    wait_owners: Vec<usize>,
    wait_fds: Vec<RawFd>,
    pulse: Pulse,
}

/// What one round saw.
struct Round {
    received: u32,
    queue_len: u32,
}

impl Worker {
    /// A worker with its queue of every port.
    pub fn new(
        index: usize,
        shared: Arc<Shared>,
        ports: Vec<Option<Box<dyn Port>>>,
        (graph, entry): (Graph, NodeId),
        pool: Pool,
        (batch_max, room): (usize, u32),
    ) -> Worker {
        let used = ports.len();
        // The first is the control thread's.
        let pulse = shared.pulses.of(1 + index);
        let mut ports = ports;
        ports.resize_with(PORTS_MAX, || None);
        Worker {
            index,
            shared,
            ports,
            graph,
            entry,
            exits: Exits::new(PORTS_MAX),
            pool,
            batch: Batch::new(),
            batch_max: batch_max.clamp(1, Batch::RECEIVE_MAX),
            samples: Vec::with_capacity(Batch::RECEIVE_MAX),
            order_seen: u64::MAX,
            drain: None,
            owners: Arc::default(),
            held_since: None,
            closed: vec![PortCounters::default(); PORTS_MAX],
            broken: 0,
            used,
            when_empty: None,
            tallied: Time::ZERO,
            untallied: false,
            unsettled: false,
            room,
            sleep_cost: SleepCost::default(),
            patience: Patience::new(Duration::ZERO),
            asking: Asking::default(),
            seen: Observation::default(),
            wait_set: WaitSet::new(),
            wait_owners: Vec::new(),
            wait_fds: Vec::new(),
            pulse,
        }
    }

    /// Works until told to stop; gives every frame back before it returns. `inherited`: another
    /// process receives from the ports until the worker is told to run.
    pub fn run(mut self, inherited: bool) {
        let shared = self.shared.clone();
        let mine = &shared.workers[self.index];
        self.pulse.begin(PATIENCE);
        if !inherited {
            self.ports.iter_mut().flatten().for_each(|port| open(port, &mut self.pool));
        }
        loop {
            self.pulse.beat();
            if mine.inbox_full.load(Acquire) {
                self.take_inbox(mine);
            }
            let (order, serial) = mine.mailbox.order();
            if serial != self.order_seen {
                self.order_seen = serial;
                mine.mailbox.bell().drain();
                self.begin(order, serial, mine);
            }
            match order {
                Order::Stop => break,
                Order::Hold | Order::Retire => self.hold(mine),
                Order::Run | Order::Drain => self.active_round(mine),
                Order::Park => self.parked_round(mine),
            }
        }
        self.close(mine);
        self.pulse.end();
        mine.mailbox.answer(self.order_seen);
    }

    fn active_round(&mut self, mine: &WorkerShared) {
        let now = clock::monotonic();
        let round = self.round(now, mine);
        self.observe_sleep(now, &round, mine);
        self.finish_drain(mine);
        if self.drain.is_some() {
            return;
        }
        match self.decide(now, &round) {
            Idle::Poll => {
                if self.asking.goes_on(now, &self.shared.moderation, &mine.wish) {
                    self.shared.control.ring();
                }
            }
            Idle::Halt => {
                self.prepare_idle();
                self.rest(now, mine);
            }
            // No live policy says so by itself.
            Idle::Gather { .. } => {}
        }
    }

    /// Sleeps: until a packet comes, or until several have gathered. The kernel lets them gather where
    /// it can, for that takes no timer of the worker's; elsewhere the worker shuts its eyes.
    fn rest(&mut self, now: Time, mine: &WorkerShared) {
        let deadline = self.next_deadline();
        if self.shared.moderation.is_possible() {
            let room = self.sleep_cost.room(self.room.min(moderation::QUEUE_LEN));
            let seen = Observation { room, ..self.seen };
            let wish = self.patience.moderation(&seen, self.sleep_cost.work());
            let wish = wish.map(|span| self.sleep_cost.told(span));
            if self.asking.rests(now, &self.shared.moderation, &mine.wish, wish) {
                self.shared.control.ring();
            }
            if !self.shared.moderation.holds().is_zero() {
                self.patience.rest_moderated();
                return self.sleep(mine, deadline, true);
            }
        }
        match self.patience.rest(&self.seen) {
            Idle::Gather { nanos } => {
                self.gather(mine, Duration::from_nanos(u64::from(nanos)), deadline);
            }
            _ => self.sleep(mine, deadline, true),
        }
    }

    /// Shows its patience what came, and others the queue without what gathered in a sleep.
    fn observe_sleep(&mut self, now: Time, round: &Round, mine: &WorkerShared) {
        let budget = self.shared.latency_budget();
        if budget != self.patience.budget() {
            self.patience = Patience::new(budget);
        }
        self.seen = Observation {
            queue_len: round.queue_len,
            own_queue_len: round.queue_len,
            received: round.received,
            worker: self.index as u16,
            room: self.room,
            late_nanos: self.sleep_cost.late_nanos,
            wake_nanos: self.sleep_cost.wake_nanos,
        };
        self.patience.observe(now, &self.seen);
        let queue_len = round.queue_len.saturating_sub(self.patience.gathered(now));
        mine.counters.queue_len.store(queue_len, Relaxed);
    }

    fn parked_round(&mut self, mine: &WorkerShared) {
        let now = clock::monotonic();
        let round = self.round(now, mine);
        mine.counters.queue_len.store(0, Relaxed);
        mine.wish.forget();
        if round.received == 0 && round.queue_len == 0 {
            let deadline = self.graph.poll_at();
            self.prepare_idle();
            self.sleep(mine, deadline, true);
        }
    }

    /// Nobody receives for a while.
    fn prepare_idle(&mut self) {
        self.ports[..self.used]
            .iter_mut()
            .flatten()
            .for_each(|port| port.prepare_idle(&mut self.pool));
    }

    /// Receives from every port once, runs the graph, and transmits what came out.
    fn round(&mut self, now: Time, mine: &WorkerShared) -> Round {
        let mut round = Round { received: 0, queue_len: 0 };
        let mut most = 0;
        if now.since(self.tallied) >= TALLY_EVERY {
            self.tally(now, mine);
        }
        for index in 0..self.used {
            let Some(port) = self.ports[index].as_mut() else { continue };
            let count = port.receive(&mut self.pool, &mut self.batch, self.batch_max);
            if count == 0 {
                continue;
            }
            round.received += count as u32;
            most = most.max(count as u32);
            round.queue_len += port.queue_len();
            let mut bytes = 0;
            for packet in self.batch.iter_mut() {
                packet.input = PortId(index as u8);
                if packet.flags & Packet::UNFINISHED != 0 {
                    packet.flags |= Packet::LEFT;
                }
                bytes += packet.data().len() as u64;
            }
            mine.ports[index].bytes[0].add(bytes);
            if self.shared.tap.wants(index, CapturePoint::Received) {
                self.shared.tap.copy(index, CapturePoint::Received, now, self.batch.iter());
            }
            self.graph.run(now, self.entry, &mut self.batch, &mut self.exits);
        }
        if self.graph.poll_at().is_some_and(|at| at <= now) {
            self.graph.poll(now, &mut self.exits);
        }
        if round.received > 0 {
            self.untallied = true;
            self.sleep_cost.came(round.received, most);
            mine.counters.received.add(u64::from(round.received));
            mine.counters.batches.add(1);
        }
        self.empty_exits(mine);
        self.unsettled |= round.received > 0;
        let ports = &mut self.ports[..self.used];
        if self.unsettled && ports.iter().flatten().all(|port| port.transmit_pending() == 0) {
            self.unsettled = false;
            ports.iter_mut().flatten().for_each(|port| port.settle());
        }
        round
    }

    /// Publishes what the ports count.
    fn tally(&mut self, now: Time, mine: &WorkerShared) {
        self.tallied = now;
        self.untallied = false;
        mine.frames_free.store(self.pool.len() as u64, Relaxed);
        for ((port, closed), tally) in self.ports.iter().zip(&self.closed).zip(&mine.ports) {
            if let Some(port) = port {
                tally.set(&closed.and(&port.counters()));
            }
        }
    }

    fn empty_exits(&mut self, mine: &WorkerShared) {
        for index in 0..self.used {
            if !self.exits.transmit[index].is_empty() {
                self.transmit(index, mine);
            }
        }
        if !self.exits.kernel.is_empty() {
            self.hand_to_kernel(mine);
        }
        if !self.exits.dropped.is_empty() {
            self.drop_all(mine);
        }
        if !self.samples.is_empty() {
            let sent = clock::monotonic();
            for (port, received) in self.samples.drain(..) {
                let nanos = sent.since(received).as_nanos() as u64;
                let mut histogram = mine.latency[usize::from(port.0)].lock().expect("latency");
                histogram.saturating_record(nanos);
            }
        }
    }

    fn transmit(&mut self, index: usize, mine: &WorkerShared) {
        let batch = &mut self.exits.transmit[index];
        let Some(port) = self.ports[index].as_mut() else {
            for packet in batch.drain(..) {
                self.exits.dropped.push(with_reason(packet, DropReason::LinkDown));
            }
            return;
        };
        let captured = self.shared.tap.wants(index, CapturePoint::Transmitted);
        if captured || !port.finishes_checksums() {
            batch.iter_mut().for_each(finish_left);
        }
        if captured {
            let now = clock::monotonic();
            self.shared.tap.copy(index, CapturePoint::Transmitted, now, batch.iter());
        }
        if self.shared.tap.wants_dropped() {
            // A packet that was answered with an ICMP error has become this error.
            let errors = batch.iter().filter(|packet| packet.flags & Packet::ORIGINATED != 0);
            self.shared.tap.copy_dropped(clock::monotonic(), errors);
        }
        let (offered, mut originated, mut bytes) = (batch.len() as u64, 0, 0);
        for packet in batch.iter() {
            bytes += packet.data().len() as u64;
            originated += u64::from(packet.flags & Packet::ORIGINATED != 0);
            if packet.rx_time != Time::ZERO {
                self.samples.push((packet.input, packet.rx_time));
            }
        }
        port.transmit(&mut self.pool, batch);
        let mut refused_originated = 0;
        let refused = batch.len() as u64;
        for packet in batch.drain(..) {
            bytes -= packet.data().len() as u64;
            refused_originated += u64::from(packet.flags & Packet::ORIGINATED != 0);
            self.exits.dropped.push(with_reason(packet, DropReason::TransmitFull));
        }
        mine.ports[index].bytes[1].add(bytes);
        let sent_originated = originated - refused_originated;
        mine.counters.originated.add(sent_originated);
        mine.counters.forwarded.add(offered - refused - sent_originated);
        if port.flush().is_err() {
            self.shared.faults.fetch_or(1 << index, Relaxed);
        }
    }

    fn hand_to_kernel(&mut self, mine: &WorkerShared) {
        let mut handed = 0;
        for mut packet in self.exits.kernel.drain(..) {
            finish_left(&mut packet);
            let originated = packet.flags & Packet::ORIGINATED != 0;
            let parcel = KernelPacket { input: packet.input, packet };
            match self.shared.kernel.push(parcel) {
                Ok(()) if originated => mine.counters.originated.add(1),
                Ok(()) => handed += 1,
                Err(refused) => {
                    self.exits.dropped.push(with_reason(refused.packet, DropReason::KernelFull));
                }
            }
        }
        mine.counters.to_kernel.add(handed);
        self.shared.injection.ring();
    }

    fn drop_all(&mut self, mine: &WorkerShared) {
        if self.shared.tap.wants_dropped() {
            self.exits.dropped.iter_mut().for_each(finish_left);
            self.shared.tap.copy_dropped(clock::monotonic(), self.exits.dropped.iter());
        }
        for packet in self.exits.dropped.drain(..) {
            if packet.flags & Packet::ORIGINATED != 0 {
                mine.counters.originated_dropped.add(1);
            } else {
                mine.counters.dropped[packet.reason as usize].add(1);
            }
            self.pool.put(packet.into_frame());
        }
    }

    /// What to do after a round. The policy is consulted by the worker with the longest queue,
    /// once a batch, so that a queue counts as often as it was looked at, by however many workers;
    /// the others know what it thinks of empty queues and touch nothing that is shared and written.
    fn decide(&mut self, now: Time, round: &Round) -> Idle {
        if self.shared.changing.load(Acquire) {
            return Idle::Poll;
        }
        let policy = self.shared.policies.load(Relaxed);
        let known = self.when_empty.filter(|(learned, _)| *learned == policy);
        let idle = match known {
            Some((_, idle)) if round.queue_len == 0 => idle,
            _ => Idle::Poll,
        };
        if known.is_some() && !self.shared.observer.is(self.index, now) {
            return idle;
        }
        let Ok(mut policy_state) = self.shared.policy_state.try_lock() else { return idle };
        let queue_len = self.shared.observer.elect(&self.shared.workers, self.index, now);
        if queue_len > round.queue_len {
            return idle;
        }
        let total = self.shared.workers.iter().map(|worker| worker.counters.received.get()).sum();
        let received =
            u64::wrapping_sub(total, std::mem::replace(&mut policy_state.reported, total));
        let received = u32::try_from(received).unwrap_or(u32::MAX);
        let own_queue_len = round.queue_len;
        let seen = Observation { queue_len, own_queue_len, received, ..Observation::default() };
        let Action { point, idle } = policy_state.policy.decide(now, &seen);
        if round.queue_len == 0 {
            self.when_empty = Some((policy, idle));
        }
        if point != policy_state.wanted {
            policy_state.wanted = point;
            self.shared.changing.store(true, SeqCst);
            self.shared.governor.ring();
        }
        idle
    }

    /// When something is due although no packet comes. Worker 0 is always active and keeps the
    /// policy's time for all.
    fn next_deadline(&self) -> Option<Time> {
        let policy = if self.index == 0 {
            self.shared.policy_state.lock().expect("policy").policy.next_at()
        } else {
            None
        };
        [self.graph.poll_at(), policy].into_iter().flatten().min()
    }

    /// Lets packets gather, as interrupt moderation does.
    fn gather(&mut self, mine: &WorkerShared, span: Duration, deadline: Option<Time>) {
        let until = clock::monotonic() + span;
        let earlier = deadline.filter(|at| *at < until);
        self.sleep(mine, Some(earlier.unwrap_or(until)), false);
        if earlier.is_none() {
            let late = clock::monotonic().since(until).as_nanos();
            self.sleep_cost.late_nanos = u32::try_from(late).unwrap_or(u32::MAX);
        }
    }

    /// Sleeps until an order, a packet (if `packets`) or `deadline`.
    fn sleep(&mut self, mine: &WorkerShared, deadline: Option<Time>, packets: bool) {
        self.wait_set.clear();
        self.wait_owners.clear();
        self.wait_set.add(mine.mailbox.bell().fd());
        let mut deadline = deadline;
        if self.untallied {
            let due = self.tallied + TALLY_EVERY;
            deadline = Some(deadline.map_or(due, |at| at.min(due)));
        }
        if packets && !self.prepare_ports(&mut deadline) {
            return;
        }
        if mine.mailbox.order().1 != self.order_seen || mine.inbox_full.load(Acquire) {
            return;
        }
        mine.frames_free.store(self.pool.len() as u64, Relaxed);
        mine.counters.queue_len.store(0, Relaxed);
        let asleep = clock::monotonic();
        self.sleep_cost.sleeps(asleep, self.patience.budget());
        mine.counters.asleep_since.store(asleep.as_nanos(), Relaxed);
        self.wait(deadline.map(|at| at.since(asleep)));
        mine.counters.asleep_since.store(0, Relaxed);
        let woke = clock::monotonic();
        self.sleep_cost.wakes(woke, self.shared.moderation.holds());
        mine.counters.slept(woke.since(asleep).as_nanos() as u64);
        mine.counters.wakeups.add(1);
        if self.wait_set.readiness(0) == Readiness::Readable {
            mine.mailbox.bell().drain();
        }
        for (position, index) in self.wait_owners.iter().enumerate() {
            if self.wait_set.readiness(position + 1) == Readiness::Broken {
                self.broken |= 1 << index;
                self.shared.faults.fetch_or(1 << index, Relaxed);
                self.shared.control.ring();
            }
        }
    }

    /// Sleeps, and now and then looks what that costs: two system calls more.
    fn wait(&mut self, span: Option<Duration>) {
        self.pulse.sleeps(true);
        if self.sleep_cost.samples() {
            let before = clock::thread_cpu();
            self.wait_set.wait(span);
            self.sleep_cost.cost(clock::thread_cpu().since(before));
        } else {
            self.wait_set.wait(span);
        }
        self.pulse.sleeps(false);
    }

    /// Adds the ports' descriptors to the wait set; false when a packet is there already.
    fn prepare_ports(&mut self, deadline: &mut Option<Time>) -> bool {
        for (index, port) in self.ports[..self.used].iter_mut().enumerate() {
            let Some(port) = port.as_mut().filter(|_| self.broken & 1 << index == 0) else {
                continue;
            };
            if port.transmit_pending() > 0 && port.flush().is_ok() && port.transmit_pending() > 0 {
                let soon = clock::monotonic() + TRANSMIT_RETRY;
                *deadline = Some(deadline.map_or(soon, |at| at.min(soon)));
            }
            if !port.prepare_wait() {
                return false;
            }
            port.wait_fds(&mut self.wait_fds);
            for fd in self.wait_fds.drain(..) {
                self.wait_set.add(fd);
                self.wait_owners.push(index);
            }
        }
        true
    }

    fn take_inbox(&mut self, mine: &WorkerShared) {
        mine.inbox_full.store(false, SeqCst);
        for (id, port) in mine.inbox.lock().expect("inbox").drain(..) {
            let index = usize::from(id.0);
            let port = port.map(|mut port| {
                open(&mut port, &mut self.pool);
                port
            });
            if let Some(mut old) = std::mem::replace(&mut self.ports[index], port) {
                old.close(&mut self.pool);
                self.closed[index] = self.closed[index].and(&old.counters());
                mine.ports[index].set(&self.closed[index]);
            }
            self.broken &= !(1 << id.0);
            self.used = self.used.max(usize::from(id.0) + 1);
        }
    }

    fn close(&mut self, mine: &WorkerShared) {
        mine.counters.queue_len.store(0, Relaxed);
        for port in self.ports.iter_mut().flatten() {
            _ = port.flush();
            port.close(&mut self.pool);
        }
        self.tally(clock::monotonic(), mine);
    }
}

/// Has a port take packets in: the first order may be to hold, and what comes meanwhile has to find
/// frames.
fn open(port: &mut Box<dyn Port>, pool: &mut Pool) {
    let received = port.receive(pool, &mut Batch::new(), 0);
    debug_assert_eq!(received, 0, "asked for none");
}

fn with_reason(mut packet: Packet, reason: DropReason) -> Packet {
    packet.reason = reason;
    packet
}

mod orders;
#[cfg(test)]
mod tests;
