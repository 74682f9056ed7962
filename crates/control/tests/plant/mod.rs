//! A router small enough to reason about: cores with a queue each, a service rate per frequency,
//! packets in bursts at a constant mean rate. Deterministic.

use core::convert::Infallible;
use core::time::Duration;

use ebb_control::{Action, Idle, IdleDepth, Limits, Observation, OperatingPoint, Plant};
use ebb_units::{Joules, Time};

/// Packets a queue holds.
const RING: f64 = 2048.0;
/// Between the first packet and the worker that was asleep.
const WAKE: f64 = 5e-6;
/// What receiving costs beside the packets.
const OVERHEAD: f64 = 0.5e-6;

pub struct Router {
    pub limits: Limits,
    /// Mean arrivals, packets per second.
    pub load: f64,
    /// Packets that arrive together.
    pub burst: f64,
    pub lost: f64,
    pub point: OperatingPoint,
    /// Every change of the operating point.
    pub changes: Vec<(Time, OperatingPoint)>,
    pub observations: u64,
    queues: Vec<f64>,
    /// Arrived, but not yet a whole burst.
    gathering: f64,
    batch: f64,
    idle: Idle,
    /// The longest sleep with eyes shut.
    pub gathered_max: u32,
    /// Sleeps of either kind.
    pub sleeps: u64,
    /// Worker 0 is not let run: how often, and for how long, in seconds.
    pub pauses: Option<(f64, f64)>,
    paused_at: f64,
    now: f64,
}

impl Router {
    pub fn new(limits: Limits, load: f64) -> Router {
        Router {
            limits,
            load,
            burst: 1.0,
            lost: 0.0,
            point: OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow },
            changes: Vec::new(),
            observations: 0,
            queues: vec![0.0; usize::from(limits.cores)],
            gathering: 0.0,
            batch: 0.0,
            idle: Idle::Poll,
            gathered_max: 0,
            sleeps: 0,
            pauses: None,
            paused_at: 0.0,
            now: 0.0,
        }
    }

    /// Packets per second of one core: the rate grows by 70 % over the frequencies.
    pub fn core_rate(&self, frequency: u16) -> f64 {
        let steps = f64::from(self.limits.frequencies.max(2) - 1);
        1e6 * (1.0 + 0.7 * f64::from(frequency) / steps)
    }

    /// Packets per second the router carries at a rung of the ladder.
    pub fn capacity(&self, rung: u16) -> f64 {
        let cores = (rung + 1).min(self.limits.cores);
        f64::from(cores) * self.core_rate(rung + 1 - cores)
    }

    pub fn top(&self) -> u16 {
        self.limits.cores + self.limits.frequencies - 2
    }

    pub fn rung(&self) -> u16 {
        self.point.cores - 1 + self.point.frequency
    }

    fn advance(&mut self, span: f64) {
        self.now += span;
        self.gathering += self.load * span;
        let arrived = (self.gathering / self.burst).floor() * self.burst;
        self.gathering -= arrived;
        let active = usize::from(self.point.cores);
        let served = self.core_rate(self.point.frequency) * span;
        for (core, queue) in self.queues.iter_mut().enumerate() {
            if core < active {
                *queue += arrived / active as f64;
            }
            if core > 0 {
                *queue = (*queue - served).max(0.0);
            }
            self.lost += (*queue - RING).max(0.0);
            *queue = queue.min(RING);
        }
    }

    /// Seconds until worker 0 has a packet.
    fn until_packet(&self) -> f64 {
        let share = f64::from(self.point.cores);
        let bursts = ((1.0 - self.queues[0]) * share / self.burst).ceil().max(1.0);
        let missing = bursts * self.burst - self.gathering;
        if self.load > 0.0 { missing.max(0.0) / self.load + 1e-9 } else { f64::INFINITY }
    }
}

impl Plant for Router {
    type Observation = Observation;
    type Action = Action;
    type Error = Infallible;

    fn now(&self) -> Time {
        Time::from_secs_f64(self.now)
    }

    fn observe(&mut self) -> Observation {
        self.observations += 1;
        self.batch = self.queues[0].floor().min(64.0);
        self.queues[0] -= self.batch;
        let active = &self.queues[..usize::from(self.point.cores)];
        Observation {
            queue_len: active.iter().copied().fold(0.0, f64::max) as u32,
            own_queue_len: active[0] as u32,
            received: self.batch as u32,
            room: RING as u32,
            ..Observation::default()
        }
    }

    fn apply(&mut self, action: &Action) -> Result<(), Infallible> {
        if action.point != self.point {
            self.changes.push((self.now(), action.point));
        }
        self.point = action.point;
        self.idle = action.idle;
        Ok(())
    }

    fn run_until(&mut self, until: Time) -> Result<(), Infallible> {
        self.advance(OVERHEAD + self.batch / self.core_rate(self.point.frequency));
        let left = (until.as_secs_f64() - self.now).max(0.0);
        match self.idle {
            Idle::Halt if self.queues[0] < 1.0 => {
                self.sleeps += 1;
                self.advance((self.until_packet() + WAKE).min(left));
            }
            Idle::Gather { nanos } => {
                self.sleeps += 1;
                self.gathered_max = self.gathered_max.max(nanos);
                self.advance((f64::from(nanos) * 1e-9 + WAKE).min(left));
            }
            _ => {}
        }
        if let Some((every, length)) = self.pauses
            && self.now >= self.paused_at + every
        {
            self.paused_at = self.now;
            self.advance(length.min((until.as_secs_f64() - self.now).max(0.0)));
        }
        // Times are whole nanoseconds: never stop just short of one.
        if until.since(self.now()) <= Duration::from_nanos(1) {
            self.now = self.now.max(until.as_secs_f64() + 0.5e-9);
        }
        Ok(())
    }

    fn energy(&mut self) -> Result<Joules, Infallible> {
        Ok(Joules(0.0))
    }
}
