//! The packet-exact engine: every packet arrives, waits and leaves on its own.
//!
//! Between two instants at which anything else happens (a core begins a round, a hand-over takes
//! its next step, a sample is due) arrivals go into their queues in one tight loop, and a round
//! works off a batch in another; there is no calendar entry per packet.

mod clocks;
mod core;
mod handover;
mod plant;
mod ring;

use std::ops::{Deref, DerefMut};

use ebb_control::redirect::{ENTRIES, rebalance};
use ebb_control::{Idle, IdleDepth, OperatingPoint};
use ebb_des::{Rng, Seed};
use ebb_scenario::Progress;
use rand::distr::Distribution;
use rand_distr::Exp1;

use self::clocks::Turns;
use self::core::{Core, Order, Table, Waits};
use self::handover::Handover;
use self::ring::Waiting;
use crate::account::{Account, Doing};
use crate::engine::{Options, Recorder};
use crate::load::{Block, Load, Source};
use crate::machine::{Machine, Nap, PER_NANO, Picos, Service};
use crate::watch::Watch;

/// Never.
const NEVER: Picos = Picos::MAX;

/// The account, and who draws what goes into it.
pub(crate) struct Watched {
    account: Account,
    pub(crate) watch: Option<Box<Watch>>,
}

impl Deref for Watched {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.account
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut Account {
        &mut self.account
    }
}

/// The simulated router, packet by packet.
pub(crate) struct Exact<'a> {
    machine: &'a Machine,
    load: &'a Load,
    options: Options,
    progress: &'a dyn Progress,
    now: Picos,
    /// What the policy wants and the governor carries out.
    point: OperatingPoint,
    /// The frequency in force.
    frequency: u16,
    /// A frequency that will be in force.
    clock_change: Option<(Picos, u16)>,
    /// Turns of the governor of clocks per core.
    turns: Turns,
    table: Table,
    cores: Vec<Core>,
    /// Next round of each core.
    next: Vec<Picos>,
    service: Service,
    /// Time of a packet where all are alike.
    fixed_ps: Option<Picos>,
    service_random: Rng,
    source: Source,
    block: Block,
    /// The core whose round the policy is asked about.
    observer: Option<usize>,
    handover: Option<Handover>,
    begun: bool,
    warm: bool,
    sample_at: Picos,
    /// The earliest instant at which anything but a round happens.
    alarm: Picos,
    pub(crate) account: Watched,
    pub(crate) recorder: Recorder,
}

impl<'a> Exact<'a> {
    /// A router at time 0 with empty queues.
    pub(crate) fn new(
        machine: &'a Machine,
        load: &'a Load,
        options: Options,
        seed: Seed,
        progress: &'a dyn Progress,
    ) -> Exact<'a> {
        let mut source = Source::new(load, seed);
        let mut block = Block::default();
        source.fill(load, &mut block);
        let core = |number| Core::new(number, options.queue_len, options.parked);
        let cores: Vec<Core> = (0..machine.cores).map(core).collect();
        let timeline = options.timelines.begin();
        let watch = timeline.map(|timeline| Box::new(Watch::new(timeline, machine.cores)));
        let mut exact = Exact {
            machine,
            load,
            options,
            progress,
            now: 0,
            point: OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow },
            frequency: 0,
            clock_change: None,
            turns: Turns::new(options.clock_ps),
            table: [0; ENTRIES],
            next: vec![NEVER; cores.len()],
            cores,
            service: machine.service(1, 0),
            fixed_ps: None,
            service_random: seed.stream("service"),
            source,
            block,
            observer: None,
            handover: None,
            begun: false,
            warm: load.warm_ps == 0,
            sample_at: options.sample_ps,
            alarm: 0,
            account: Watched { account: Account::new(0), watch },
            recorder: Recorder::new(load.flows.len()),
        };
        exact.set_alarm();
        exact
    }

    /// The operating point in force at the start, without the cost of a change.
    fn begin(&mut self, point: OperatingPoint, idle: Idle) {
        self.begun = true;
        self.point = point;
        self.frequency = point.frequency;
        self.reset_clocks();
        self.table = rebalance(&self.table, point.cores);
        self.refresh();
        for index in 0..self.cores.len() {
            if index < usize::from(point.cores) {
                self.cores[index].order = Order::Run;
                self.rest(index, idle);
            }
        }
        self.show();
    }

    /// Recomputes what depends on cores and frequency in force.
    fn refresh(&mut self) {
        self.service = self.machine.service(self.point.cores, self.frequency);
        let exact = |len| self.service.of(len);
        self.fixed_ps = self.load.sizes.only().filter(|_| !self.options.exponential).map(exact);
    }

    fn set_alarm(&mut self) {
        let clock = self.clock_change.map_or(NEVER, |(at, _)| at);
        let step = self.handover.as_ref().map_or(NEVER, |handover| handover.alarm());
        let warm = if self.warm { NEVER } else { self.load.warm_ps };
        self.alarm = clock
            .min(step)
            .min(self.turns.alarm())
            .min(warm)
            .min(self.sample_at)
            .min(self.load.end_ps);
    }

    /// Puts every arrival until `horizon` into its queue. An arrival that starts a core before
    /// that shortens the horizon; returns it.
    fn dispatch(&mut self, mut horizon: Picos) -> Picos {
        loop {
            let at = self.block.at[self.block.next];
            if at > horizon {
                if at != NEVER || self.block.at.len() == 1 {
                    return horizon;
                }
                self.source.fill(self.load, &mut self.block);
                continue;
            }
            let index = self.block.next;
            self.block.next += 1;
            let flow = self.block.flow[index];
            let target = usize::from(self.table[usize::from(self.load.flows.entry(flow))]);
            let core = &mut self.cores[target];
            self.recorder.counts.arrived += 1;
            if !core.queue.push(Waiting { at, flow, bytes: self.block.bytes[index] }) {
                self.recorder.counts.lost += 1;
            } else if core.waits != Waits::No {
                horizon = horizon.min(self.start(target, at));
            }
        }
    }

    /// An arrival at `at` finds its core idle; returns when its round begins.
    fn start(&mut self, index: usize, at: Picos) -> Picos {
        let core = &mut self.cores[index];
        if core.order == Order::Hold {
            return NEVER;
        }
        let begins = match (core.waits, core.doing) {
            (Waits::Asleep, Doing::Nap(nap)) => {
                let awake = at + self.machine.delivery_ps + self.machine.nap(nap).exit_ps;
                core.wake(at, awake);
                self.recorder.wakeups += 1;
                awake + self.machine.interrupt(self.clock(index))
            }
            _ => {
                core.waits = Waits::No;
                at
            }
        };
        self.next[index] = begins;
        begins
    }

    /// A core receives a batch, or finds its queue empty. Returns whether the policy is asked.
    fn round(&mut self, index: usize) -> bool {
        self.next[index] = NEVER;
        if self.cores[index].owes_answer && self.answers(index) {
            return false;
        }
        let core = &mut self.cores[index];
        let count = core.queue.len().min(self.options.batch);
        core.unreported += count;
        core.shown = core.queue.len() - count;
        let shown = core.shown;
        core.waits = Waits::No;
        if let Some(left) = &mut core.drain {
            *left = left.saturating_sub(count);
        }
        if count > 0 {
            core.switch(self.now, Doing::Work, &mut self.account);
            self.next[index] = self.work(index, count);
        } else {
            core.switch(self.now, Doing::Spin, &mut self.account);
            core.waits = Waits::Spinning;
        }
        if let Some(watch) = &mut self.account.watch {
            watch.batch(index as u16, self.now, count, shown);
        }
        let core = &self.cores[index];
        if core.order == Order::Park {
            if count == 0 {
                self.rest(index, Idle::Halt);
            }
            return false;
        }
        self.handover.is_none()
    }

    /// Works off `count` packets; returns when the last has left.
    fn work(&mut self, index: usize, count: u32) -> Picos {
        let (mut done, mut bytes, mut latencies) = (self.now, 0, 0);
        let pipeline = self.machine.pipeline_ps;
        let (service, fixed_ps) = self.service_on(index);
        let queue = &mut self.cores[index].queue;
        for _ in 0..count {
            let packet = queue.pop();
            done += match fixed_ps {
                Some(picos) => picos,
                None => {
                    let mean = service.of(packet.bytes);
                    if self.options.exponential {
                        let units: f64 = Exp1.sample(&mut self.service_random);
                        (mean as f64 * units) as Picos
                    } else {
                        mean
                    }
                }
            };
            let latency = done - packet.at + pipeline;
            bytes += u64::from(packet.bytes);
            latencies += latency;
            self.recorder.deliver(packet.flow, packet.at, done, latency);
        }
        let clock = &mut self.cores[index].clock;
        clock.packets += u64::from(count);
        clock.bytes += bytes;
        self.recorder.delivered(u64::from(count), bytes, latencies);
        self.account.carried(bytes as f64 * 8.0);
        done
    }

    /// A core whose queue is empty does what the policy said.
    fn rest(&mut self, index: usize, idle: Idle) {
        let core = &mut self.cores[index];
        let halts = idle != Idle::Poll || core.order == Order::Park;
        let gathers = match idle {
            Idle::Gather { nanos } => Some(Picos::from(nanos) * PER_NANO),
            _ => None,
        };
        if halts {
            let nap = match core.order {
                Order::Park => self.options.parked,
                _ => {
                    let expected = gathers.unwrap_or(core.guess_ps);
                    self.options.nap(self.machine, self.point.depth, expected)
                }
            };
            core.sleep(self.now, nap, &mut self.account);
            if let Some(span) = gathers.filter(|_| core.order != Order::Park) {
                self.gather(index, nap, span);
            }
        } else {
            core.switch(self.now, Doing::Spin, &mut self.account);
            core.waits = Waits::Spinning;
        }
    }

    /// Sleeps for `span` whatever comes; the timer wakes the core as a packet would.
    fn gather(&mut self, index: usize, nap: Nap, span: Picos) {
        let core = &mut self.cores[index];
        let ends = self.now + span;
        let awake = ends + self.machine.nap(nap).exit_ps;
        core.wake(ends, awake);
        self.recorder.wakeups += 1;
        self.next[index] = awake + self.machine.interrupt(self.clock(index));
    }

    /// Packets in queues and in work.
    pub(crate) fn queued(&self) -> u64 {
        let waiting = |core: &Core| u64::from(core.queue.len());
        self.cores.iter().map(waiting).sum()
    }

    /// Brings the account up to now at the frequency that was in force.
    fn settle(&mut self) {
        for core in &mut self.cores {
            core.pass(self.now, &mut self.account);
        }
        self.account.close(self.machine, self.frequency, self.now);
        let clock = self.mean_clock();
        self.recorder.held(self.now, self.point.cores, clock);
    }

    /// Tells who draws what is in force from now on.
    fn show(&mut self) {
        let (now, cores, clock) = (self.now, self.point.cores, self.mean_clock());
        let step = self.handover.as_ref().map(Handover::step);
        if let Some(watch) = &mut self.account.watch {
            watch.point(now, cores, clock);
            watch.step(now, step);
        }
    }

    /// Everything that is due at the alarm.
    fn ring(&mut self) {
        if let Some((at, frequency)) = self.clock_change
            && at <= self.now
        {
            self.settle();
            self.frequency = frequency;
            self.reset_clocks();
            self.clock_change = None;
            self.refresh();
        }
        self.turn_clocks();
        self.advance_handover();
        if !self.warm && self.load.warm_ps <= self.now {
            self.settle();
            self.warm = true;
            self.recorder.reset(self.now, self.queued());
            self.account.account = Account::new(self.now);
            if let Some(watch) = &mut self.account.watch {
                watch.reported_from(self.now);
            }
        }
        if self.sample_at <= self.now || self.now >= self.load.end_ps {
            self.sample();
        }
        self.set_alarm();
        self.show();
    }

    fn sample(&mut self) {
        self.settle();
        let clock = self.mean_clock();
        let longest = self.cores.iter().map(|core| core.queue.len()).max().unwrap_or(0);
        if self.warm {
            self.recorder.sample(self.now, &self.account, (self.point.cores, clock), longest);
        }
        self.sample_at = self.now + self.options.sample_ps;
        self.progress.at(self.now as f64 / self.load.end_ps as f64, "packets");
    }
}
