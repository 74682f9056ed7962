//! How long a sleeper lets packets gather: any policy that halts, with a latency budget.

use core::time::Duration;

use ebb_units::Time;

use super::Settings;
use crate::{Action, Idle, Observation, Policy, RouterPolicy};

/// A sleep is worth it when what the wake-up costs is at most this part of it: 2 % of the time.
const WORTH: u64 = 50;
/// Packets that gather at the observed rate fill at most this part of a ring: the rest is for what
/// comes faster than observed, and for a machine that wakes the worker late.
const HEADROOM: f64 = 4.0;
/// The same where the kernel lets them gather: it does not wait for the worker to wake.
const HEADROOM_MODERATED: f64 = 2.0;
/// A budget has to bring so many packets: a sleep that a timer ends costs about as much as two that
/// a packet ends, for the timer has to be set and taken back.
const FEWEST: f64 = 2.0;
/// So many before the kernel begins to let them gather, each port's by themselves: two of each of two ports. It ends
/// when there are fewer than [`FEWEST`], so that chance does not switch it to and fro.
const FEWEST_MODERATED: f64 = 4.0;
/// Shorter sleeps than this are none: a timer alone takes microseconds.
const LEAST: Duration = Duration::from_micros(10);
/// The first sleep after one that a packet ended; each further one is at most twice the one before,
/// so that the rate is known over a time like that for which it is relied on.
const FIRST: Duration = Duration::from_micros(50);
/// The mean rate looks back so many budgets.
const MEMORY: u32 = 4;
/// What gathered in a sleep or a pause is worked off within so many times as long as that took, or so many
/// budgets; a queue that is still there after that is a queue.
const WORK_OFF: u32 = 4;
/// Between two rounds of a worker that has work lie microseconds; longer than this, and it was not let run.
const PAUSE: Duration = Duration::from_micros(500);
/// Longer pauses count as so long.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// The usual rate looks back so far: over several periods of a quota.
const USUAL: Duration = Duration::from_millis(50);

/// Lets packets gather before a worker wakes for them, within a latency budget.
///
/// Waking costs the same for one packet as for many. Where the wrapped policy says
/// [`Idle::Halt`] and at least two packets come in a budget, a worker therefore sleeps for a
/// while of its own choice instead of until the next packet:
///
/// - never longer than [`Settings::latency_budget_us`] less what the last sleeps were late by, so
///   that no packet waits longer for the sake of energy;
/// - no longer than it takes for the wake-up to cost 2 % of the time (where waking is cheap, packets
///   wait less);
/// - no longer than packets at the highest rate of late take to fill a quarter of the ring;
/// - no longer than twice the sleep before, the first 50 us;
/// - not at all after a sleep in which nothing came.
///
/// The wrapped policy does not see what gathered: it takes a queue for a lack of capacity. Nor does it see what
/// came while a worker with work was not let run, because a quota was used up, because something else ran on
/// its CPU or a hypervisor took the time, as far as that is what comes in such a time at the usual rate: another
/// core would not have had it sooner, and a step down before would count as failed.
pub struct Patient {
    policy: Box<RouterPolicy>,
    budget: Duration,
    workers: Vec<Patience>,
}

/// The patience of one worker. The live router's workers have one each and ask it without asking
/// the policy, for whose lock they would have to queue; simulations ask [`Patient`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    budget: Duration,
    seen_at: Option<Time>,
    /// Packets a second, the mean over a few budgets.
    rate: f64,
    /// The highest rate of late.
    peak: f64,
    /// Since when packets were counted for the next sample of `peak`, how many, and how many waited then.
    sampled: (Time, f64, f64),
    /// Packets a second, pauses included, the mean over a time up to [`USUAL`], and this time.
    usual: (f64, Duration),
    /// How late sleeps end at worst, in nanoseconds.
    late: u32,
    /// The last sleep with eyes shut; zero after one that a packet ended.
    span: Duration,
    /// It was told to gather and has not reported since.
    gathers: bool,
    /// The kernel lets packets gather: they come in bursts.
    moderated: bool,
    /// The last gathering brought nothing.
    in_vain: bool,
    /// What gathered and is being worked off, and until when that is taken for granted.
    backlog: (u32, Time),
}

impl Patient {
    /// `policy` with the budget of `settings`; the policy itself where there is none.
    pub fn with(policy: Box<RouterPolicy>, settings: &Settings) -> Box<RouterPolicy> {
        let budget = settings.latency_budget();
        if budget.is_zero() {
            return policy;
        }
        Box::new(Patient { policy, budget, workers: Vec::new() })
    }

    fn of(&mut self, worker: u16) -> &mut Patience {
        let index = usize::from(worker);
        if self.workers.len() <= index {
            self.workers.resize(index + 1, Patience::new(self.budget));
        }
        &mut self.workers[index]
    }
}

impl Patience {
    /// Without a budget, none.
    pub fn new(budget: Duration) -> Patience {
        Patience { budget, ..Patience::default() }
    }

    /// How long a packet may wait.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// What waits because it gathered in a sleep: no sign of too little capacity.
    pub fn gathered(&self, now: Time) -> u32 {
        if now < self.backlog.1 { self.backlog.0 } else { 0 }
    }

    /// Takes in what a round brought; to be called for each, of this worker alone.
    pub fn observe(&mut self, now: Time, seen: &Observation) {
        let budget = self.budget;
        if budget.is_zero() {
            return;
        }
        let gap = self.seen_at.map_or(Duration::ZERO, |before| now.since(before));
        let rested = std::mem::take(&mut self.gathers);
        if rested {
            self.in_vain = seen.received == 0 && seen.own_queue_len == 0;
            // A late end of the machine's making must not end all patience.
            let late = seen.late_nanos.min(budget.as_nanos() as u32 / 2);
            self.late = late.max(self.late - self.late / 64);
            self.backlog = (seen.own_queue_len, now + budget.max(gap.min(PAUSE_MAX)) * WORK_OFF);
        } else if gap > PAUSE {
            let gap = gap.min(PAUSE_MAX);
            self.backlog = ((self.usual.0 * gap.as_secs_f64()) as u32, now + gap * WORK_OFF);
        }
        self.backlog.0 = self.backlog.0.min(seen.own_queue_len);
        let Some(before) = self.seen_at.replace(now) else {
            self.sampled = (now, 0.0, f64::from(seen.own_queue_len));
            return;
        };
        let span = now.since(before).as_secs_f64();
        if span > 0.0 {
            let share = span / (span + (budget * MEMORY).as_secs_f64());
            self.rate += (f64::from(seen.received) / span - self.rate) * share;
        } else {
            self.rate += f64::from(seen.received) / (budget * MEMORY).as_secs_f64();
        }
        let (since, count, waited) = self.sampled;
        let (span, count) = (now.since(since), count + f64::from(seen.received));
        self.sampled = (since, count, waited);
        // Those that the kernel has let gather come as fast as it copies them, each port's by themselves.
        let least = if self.moderated { budget } else { budget / 4 };
        if span >= least && (rested || !self.moderated || span >= budget * WORK_OFF) {
            // What waits behind the batch has come as well, what waited before has not come since.
            let came = count + f64::from(seen.own_queue_len) - waited;
            self.peak = (came / span.as_secs_f64()).max(self.peak * 15.0 / 16.0);
            let (usual, known) = self.usual;
            let share = span.as_secs_f64() / (span + known).as_secs_f64();
            let usual = usual + (count / span.as_secs_f64() - usual) * share;
            self.usual = (usual, (span + known).min(USUAL));
            self.sampled = (now, 0.0, f64::from(seen.own_queue_len));
        }
    }

    /// How a worker sleeps whose policy says [`Idle::Halt`]: until a packet, or a while of its own.
    pub fn rest(&mut self, seen: &Observation) -> Idle {
        self.moderated = false;
        let last = std::mem::take(&mut self.span);
        if !self.brings(FEWEST) || std::mem::take(&mut self.in_vain) {
            return Idle::Halt;
        }
        let asked = self.budget.saturating_sub(Duration::from_nanos(u64::from(self.late)));
        let span = self.longest(seen, asked, HEADROOM).min((last * 2).max(FIRST));
        if span < LEAST {
            return Idle::Halt;
        }
        (self.gathers, self.span) = (true, span);
        Idle::Gather { nanos: span.as_nanos() as u32 }
    }

    /// How long from one look at the queues to the next the kernel should let packets gather; `None`
    /// where so few come that each is worth it, or so many that there is no time.
    ///
    /// `work`: how long the worker is awake each time. The budget is for what comes later: until then it would
    /// have waited anyway.
    pub fn moderation(&self, seen: &Observation, work: Duration) -> Option<Duration> {
        let span = self.longest(seen, self.budget + work.min(self.budget), HEADROOM_MODERATED);
        let fewest = if self.moderated { FEWEST } else { FEWEST_MODERATED };
        (self.brings(fewest) && span >= LEAST).then_some(span)
    }

    /// The worker sleeps until packets have gathered without its doing: what it finds then is no
    /// sign of too little capacity.
    pub fn rest_moderated(&mut self) {
        (self.gathers, self.moderated) = (true, true);
        (self.span, self.in_vain) = (Duration::ZERO, false);
    }

    /// Whether a budget brings so many packets.
    fn brings(&self, packets: f64) -> bool {
        self.rate * self.budget.as_secs_f64() >= packets
    }

    /// The longest that packets may gather at present, at most `asked`.
    fn longest(&self, seen: &Observation, asked: Duration, headroom: f64) -> Duration {
        let mut span = asked;
        if seen.wake_nanos > 0 {
            span = span.min(Duration::from_nanos(u64::from(seen.wake_nanos) * WORTH));
        }
        if seen.room > 0 {
            let fills = f64::from(seen.room) / headroom / self.peak.max(self.rate);
            span = span.min(Duration::from_secs_f64(fills.min(1.0)));
        }
        span
    }
}

impl Policy for Patient {
    type Observation = Observation;
    type Action = Action;

    fn decide(&mut self, now: Time, seen: &Observation) -> Action {
        self.of(seen.worker).observe(now, seen);
        let gathered = self.workers.iter().map(|worker| worker.gathered(now)).max();
        let queue_len = seen.queue_len.saturating_sub(gathered.unwrap_or(0));
        let mut action = self.policy.decide(now, &Observation { queue_len, ..*seen });
        if action.idle == Idle::Halt {
            action.idle = self.of(seen.worker).rest(seen);
        }
        action
    }

    fn next_at(&self) -> Option<Time> {
        self.policy.next_at()
    }
}
