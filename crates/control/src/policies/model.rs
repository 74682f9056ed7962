//! The policy `model`: operating points chosen from a fitted model (Bolla et al. 2009).

use core::time::Duration;

use ebb_units::{PacketsPerSecond, Time};

use super::{PointCost, Points, SURGE, Settings};
use crate::{Action, Idle, IdleDepth, Limits, Observation, OperatingPoint, Policy};

pub(super) const NAME: &str = "model";
pub(super) const HELP: &str =
    "the cheapest cores and frequency that carry the load with headroom, by a fitted power model";

/// By how much the load is taken to exceed a capacity that let the queues grow.
const GROWTH: f64 = 1.5;

/// Chooses operating points from a fitted model: the "green optimization" that Bolla et al. 2009
/// (section VI) left as future work, on line.
///
/// - The load is the packets received in a window of half of [`Settings::hold_ms`], together with
///   what the queues grew by.
/// - *Up*: as soon as a window's load with headroom exceeds the point's capacity, to the cheapest
///   point that carries it.
/// - *Override*: when more than [`Settings::count_up`] samples in a row found a queue above
///   [`Settings::queue_high`], the estimate lags behind: at once to a point of half as much more
///   capacity, to the largest when a queue is sixteen times that long. The point that failed, and
///   any smaller, is not used again for a time that doubles with each failure from twice `hold_ms`
///   to [`Settings::hold_max_ms`], unless the load falls below half of what it was then. A queue that
///   shrinks after a change is left to.
/// - *Down*: when the highest load of the last `hold_ms` at least, with headroom and hysteresis,
///   fits a cheaper point, and the saving since the last change would have paid for waking the
///   difference again (rent until renting has cost as much as buying), or `hold_max_ms` passed.
///
/// Active cores sleep in C1 (Niccolini et al. 2012, section 5, guideline 3).
#[derive(Clone, Debug)]
pub struct Model {
    points: Points,
    settings: Settings,
    /// The cheapest point without load.
    rest: PointCost,
    point: PointCost,
    begun: bool,
    changed_at: Time,
    sampled_at: Time,
    /// Samples in a row above `queue_high`.
    high: u32,
    /// The queue when the samples in a row last were too many.
    overflow_len: u32,
    window: Window,
    peak: Peak,
    floor: Option<Floor>,
}

/// Packets since some moment.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Time,
    packets: f64,
    queue_len: u32,
}

/// The highest load over the last one to two hold times.
#[derive(Clone, Copy, Debug)]
struct Peak {
    since: Time,
    present: f64,
    past: f64,
}

/// A capacity that did not do.
#[derive(Clone, Copy, Debug)]
struct Floor {
    capacity: f64,
    /// The highest load by estimate when it failed.
    load: f64,
    until: Time,
    hold: Duration,
}

impl Model {
    /// Chooses among those of `points` that lie within `limits`, and among
    /// [`Points::published`] when none does. Starts with everything powered, for nothing is known
    /// of the load.
    pub fn new(limits: Limits, settings: &Settings, points: &Points) -> Model {
        let points = points.within(limits).unwrap_or_else(|| Points::published(limits));
        Model {
            rest: *points.cheapest(PacketsPerSecond(0.0)),
            point: *points.largest(),
            points,
            settings: *settings,
            begun: false,
            changed_at: Time::ZERO,
            sampled_at: Time::ZERO,
            high: 0,
            overflow_len: 0,
            window: Window { began: Time::ZERO, packets: 0.0, queue_len: 0 },
            peak: Peak { since: Time::ZERO, present: 0.0, past: 0.0 },
            floor: None,
        }
    }

    /// The point in use.
    pub fn point(&self) -> &PointCost {
        &self.point
    }

    /// The first decision: what came before it says nothing.
    fn begin(&mut self, now: Time, queue_len: u32) {
        self.begun = true;
        self.changed_at = now;
        self.window = Window { began: now, packets: 0.0, queue_len };
        self.peak.since = now;
    }

    fn window_len(&self) -> Duration {
        (self.settings.hold() / 2).max(self.settings.sample())
    }

    /// Closes the window that is over and acts on its load.
    fn estimate(&mut self, now: Time, seen: &Observation) {
        let Window { began, packets, queue_len } = self.window;
        let grown = seen.queue_len.saturating_sub(queue_len);
        let waiting = f64::from(grown) * f64::from(self.point.cores);
        let load = (packets + waiting) / now.since(began).as_secs_f64();
        self.window = Window { began: now, packets: 0.0, queue_len: seen.queue_len };
        self.peak.add(now, load, self.settings.hold());
        let needed = load * self.settings.model.headroom();
        if needed > self.point.capacity.0 {
            self.change(now, *self.cheapest(load, needed));
        } else if seen.queue_len <= self.settings.queue_high {
            self.lower(now, load);
        }
    }

    fn cheapest(&self, load: f64, needed: f64) -> &PointCost {
        self.points.cheapest_for(PacketsPerSecond(load), PacketsPerSecond(needed))
    }

    fn lower(&mut self, now: Time, load: f64) {
        let model = &self.settings.model;
        let calm = self.peak.highest() * model.headroom() * model.hysteresis();
        self.floor = self.floor.filter(|floor| self.peak.highest() >= floor.load / 2.0);
        let held = self.floor.filter(|floor| now < floor.until);
        // The smallest number above what failed, so that a point of just that capacity is not it.
        let needed = held.map_or(calm, |floor| calm.max(floor.capacity.next_up()));
        let point = *self.cheapest(load, needed);
        let load = PacketsPerSecond(load);
        let saved = self.point.watts(load) - point.watts(load);
        let cheaper = saved.0 > 0.0 || (saved.0 == 0.0 && point.full.0 < self.point.full.0);
        if point.capacity.0 < needed || !cheaper {
            return;
        }
        let steps = f64::from(self.point.cores.abs_diff(point.cores).max(1));
        let since = now.since(self.changed_at);
        let paid = (saved * since).0 >= self.points.wake().0 * steps;
        if since >= self.settings.hold() && (paid || since >= self.settings.hold_max()) {
            self.change(now, point);
        }
    }

    /// Queues grow although the estimate says that the load fits.
    fn overflow(&mut self, now: Time, seen: &Observation) {
        let failed = self.point.capacity.0;
        let settings = &self.settings;
        let recent = self.floor.filter(|floor| now.since(floor.until) <= settings.hold_max());
        let hold = recent.map_or(settings.hold(), |floor| floor.hold) * 2;
        let hold = hold.min(settings.hold_max());
        let load = self.peak.highest();
        self.floor = Some(Floor { capacity: failed, load, until: now + hold, hold });
        let surge = seen.queue_len / SURGE >= settings.queue_high.max(1);
        let needed = if surge { f64::INFINITY } else { failed * GROWTH };
        self.change(now, *self.cheapest(needed.min(failed * GROWTH), needed));
    }

    /// Moves to `point`, where a new window begins.
    fn change(&mut self, now: Time, point: PointCost) {
        if point != self.point {
            self.point = point;
            self.changed_at = now;
            self.high = 0;
            self.window = Window { began: now, packets: 0.0, ..self.window };
        }
    }
}

impl Peak {
    fn add(&mut self, now: Time, load: f64, hold: Duration) {
        if now.since(self.since) >= hold {
            // After a silence longer than the hold nothing of the past counts.
            let stale = now.since(self.since) >= hold * 2;
            self.past = if stale { 0.0 } else { self.present };
            self.present = 0.0;
            self.since = now;
        }
        self.present = self.present.max(load);
    }

    fn highest(&self) -> f64 {
        self.present.max(self.past)
    }
}

impl Policy for Model {
    type Observation = Observation;
    type Action = Action;

    fn decide(&mut self, now: Time, seen: &Observation) -> Action {
        self.sampled_at = now;
        if !self.begun {
            self.begin(now, seen.queue_len);
        }
        self.window.packets += f64::from(seen.received);
        if seen.queue_len > self.settings.queue_high {
            self.high += 1;
        } else {
            self.high = 0;
        }
        if self.high > self.settings.count_up {
            self.high = 0;
            let drains = seen.queue_len < self.overflow_len;
            if !drains || now.since(self.changed_at) >= self.settings.hold() {
                self.overflow(now, seen);
            }
            self.overflow_len = seen.queue_len;
        } else if now.since(self.window.began) >= self.window_len() {
            self.estimate(now, seen);
        }
        let PointCost { cores, frequency, .. } = self.point;
        let point = OperatingPoint { cores, frequency, depth: IdleDepth::Shallow };
        let idle = if seen.own_queue_len == 0 { Idle::Halt } else { Idle::Poll };
        Action { point, idle }
    }

    /// The end of the window; none at the point that is cheapest without load, so that an idle
    /// router has no timer of ours.
    fn next_at(&self) -> Option<Time> {
        let end = self.window.began + self.window_len();
        (self.point != self.rest).then(|| end.max(self.sampled_at + self.settings.sample()))
    }
}
