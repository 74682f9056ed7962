//! The policy `powersave` (Niccolini et al. 2012, section 6.1).

use core::time::Duration;

use ebb_units::Time;

use super::{SURGE, Settings};
use crate::{Action, Idle, IdleDepth, Limits, Observation, OperatingPoint, Policy};

pub(super) const NAME: &str = "powersave";
pub(super) const HELP: &str = "as few cores as the queues allow, then the lowest frequency, \
    asleep while the queues are empty";

/// The adaptation algorithm of Niccolini et al. 2012, section 6.1.
///
/// The pseudocode, as we read it (circulating copies have lost its loop header, the reset after
/// `c_h > c_up`, and confuse `l` with `1`):
///
/// ```text
/// for (;;) {
///     qlen, batch = input(batch_len);
///     if (qlen > q_h) {
///         c_l = 0; c_h++;
///         if (c_h > c_up) { c_h = 0; <add one core, if all are on, raise frequency> }
///     } else if (qlen < q_l) {
///         c_l++; c_h = 0;
///         if (c_l > c_down) { c_l = 0; <decrease frequency, if at min remove one core> }
///     } else { c_h = c_l = 0; }
///     process(batch);
///     if (qlen == 0) halt();
/// }
/// ```
///
/// `qlen` is what waits behind the batch just taken, and the longest queue among the active cores
/// decides about capacity; a core halts when its own queue is empty. Active cores sleep in C1
/// (section 5, guideline 3), the others as deep as they can.
///
/// # What is ours
/// Any load that the cores can carry leaves the queues nearly empty, so the published algorithm
/// takes capacity away every `c_down` samples until the load no longer fits, gives it back, and so
/// on for ever. Unless [`Settings::as_published`] is set,
///
/// - a step down also needs the queue to have been low for [`Settings::hold_ms`];
/// - a step down that is answered by a step up within [`Settings::hold_max_ms`] has *failed*: it,
///   and any below it, is not tried again for a time that doubles with each failure, from twice
///   `hold_ms` to `hold_max_ms`. Tried again, it must last as long before a step leads further
///   down, for near capacity a queue fills slowly; then the failure is forgotten.
///
/// Under constant load failures therefore become rarer until there is one in `hold_max_ms`: with
/// the defaults eight in the first five seconds, and then one in five seconds, for a millisecond
/// or less each. A step up is never delayed;
/// - a queue sixteen times [`Settings::queue_high`] long (with the defaults a quarter of a ring of
///   2,048) is about to overflow: cores are doubled at once, for each change of cores takes as long
///   as it takes the slowest of them to send what it has; once all are on, the frequency is highest.
#[derive(Clone, Debug)]
pub struct PowerSave {
    limits: Limits,
    settings: Settings,
    point: OperatingPoint,
    /// `c_h`.
    high: u32,
    /// `c_l`.
    low: u32,
    /// When the present run of low samples began.
    low_since: Time,
    sampled_at: Time,
    /// When capacity was last taken away, if it has not been added since.
    lowered_at: Option<Time>,
    /// The step that failed last.
    failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The operating point that could not carry the load.
    rung: u32,
    /// How long nothing leads there or lower.
    hold: Duration,
    at: Time,
}

impl PowerSave {
    /// Starts with one core at the lowest frequency.
    pub fn new(limits: Limits, settings: &Settings) -> PowerSave {
        PowerSave {
            limits,
            settings: *settings,
            point: OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow },
            high: 0,
            low: 0,
            low_since: Time::ZERO,
            sampled_at: Time::ZERO,
            lowered_at: None,
            failure: None,
        }
    }

    /// The same at an operating point that is in force already, as far as the limits allow it.
    pub fn at(mut self, point: OperatingPoint) -> PowerSave {
        self.point.cores = point.cores.clamp(1, self.limits.cores.max(1));
        self.point.frequency = point.frequency.min(self.limits.frequencies.saturating_sub(1));
        self
    }

    /// The counters `(c_h, c_l)`.
    pub fn counters(&self) -> (u32, u32) {
        (self.high, self.low)
    }

    /// The operating point as a rung of the ladder: cores first, then frequencies, 0 the lowest.
    fn rung(&self) -> u32 {
        u32::from(self.point.cores - 1) + u32::from(self.point.frequency)
    }

    fn sample(&mut self, now: Time, queue_len: u32) {
        if queue_len > self.settings.queue_high {
            self.low = 0;
            self.high += 1;
            if self.surges(queue_len) {
                self.high = 0;
                self.raise(now, self.point.cores.saturating_mul(2), self.limits.frequencies);
            } else if self.high > self.settings.count_up {
                self.high = 0;
                self.raise(now, self.point.cores + 1, self.point.frequency + 2);
            }
        } else if queue_len < self.settings.queue_low {
            self.high = 0;
            if self.low == 0 {
                self.low_since = now;
            }
            self.low = self.low.saturating_add(1);
            if self.low > self.settings.count_down && now >= self.lowers_at() {
                self.low = 0;
                self.lower(now);
            }
        } else {
            self.high = 0;
            self.low = 0;
        }
    }

    fn surges(&self, queue_len: u32) -> bool {
        !self.settings.as_published
            && queue_len > self.settings.queue_high.max(1).saturating_mul(SURGE)
    }

    /// Up to `cores` cores, or, if all are on, up to the last of `frequencies` frequencies.
    fn raise(&mut self, now: Time, cores: u16, frequencies: u16) {
        let failed = self.rung();
        if self.point.cores < self.limits.cores {
            self.point.cores = cores.min(self.limits.cores);
        } else if self.point.frequency + 1 < self.limits.frequencies {
            self.point.frequency = frequencies.min(self.limits.frequencies) - 1;
        } else {
            return;
        }
        let answers =
            self.lowered_at.take().is_some_and(|at| now.since(at) <= self.settings.hold_max());
        if answers {
            let last = self.failure.map_or(self.settings.hold(), |failure| failure.hold);
            let hold = (last * 2).min(self.settings.hold_max());
            self.failure = Some(Failure { rung: failed, hold, at: now });
        }
    }

    fn lower(&mut self, now: Time) {
        let survived = self.rung();
        if self.point.frequency > 0 {
            self.point.frequency -= 1;
        } else if self.point.cores > 1 {
            self.point.cores -= 1;
        } else {
            return;
        }
        self.lowered_at = Some(now);
        self.failure = self.failure.filter(|failure| failure.rung < survived);
    }

    /// When the next step down is due if the queue stays low.
    fn lowers_at(&self) -> Time {
        if self.settings.as_published {
            return self.low_since;
        }
        let held = self.low_since + self.settings.hold();
        match self.failure {
            Some(failure) if self.rung() <= failure.rung => {
                held.max(self.lowered_at.unwrap_or(failure.at) + failure.hold)
            }
            Some(failure) if self.rung() == failure.rung + 1 => held.max(failure.at + failure.hold),
            _ => held,
        }
    }
}

impl Policy for PowerSave {
    type Observation = Observation;
    type Action = Action;

    fn decide(&mut self, now: Time, seen: &Observation) -> Action {
        self.sampled_at = now;
        self.sample(now, seen.queue_len);
        let idle = if seen.own_queue_len == 0 { Idle::Halt } else { Idle::Poll };
        Action { point: self.point, idle }
    }

    /// The next sample that silence would not bring; none at the lowest point, so that an idle
    /// router has no timer of ours.
    fn next_at(&self) -> Option<Time> {
        let sample = self.sampled_at + self.settings.sample();
        let waits_only = self.low > self.settings.count_down;
        let next = if waits_only { sample.max(self.lowers_at()) } else { sample };
        (self.rung() > 0).then_some(next)
    }
}
