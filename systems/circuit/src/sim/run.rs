//! The simulator.

use ebb_des::{Rng, Seed};
use ebb_report::Timeline;
use ebb_scenario::Progress;
use rand::Rng as _;

use super::watch::Watch;
use super::{Congestion, Flow, Nic, Scenario, Source};
use crate::schedulers::{self, Scheduler};
use crate::tokens::Purse;
use crate::{Demand, Window};

/// What became of the frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Frames that hosts put into queues.
    pub offered: u64,
    /// That they wanted to send but no queue took.
    pub refused: u64,
    /// That arrived over a circuit.
    pub delivered: u64,
    /// That arrived over the packet switch.
    pub by_packets: u64,
    /// Whose light did not meet its circuit.
    pub lost: u64,
    /// Of these, on days whose sync frames went wrong.
    pub lost_to_jitter: u64,
    /// Still in queues at the end.
    pub queued: u64,
    /// Simulated time, s.
    pub seconds: f64,
    /// Days that passed.
    pub days: u64,
    /// Joules of all ends of circuits that stay lit.
    pub lit_j: f64,
    /// The same where they sleep through days on which nothing waits.
    pub sleeping_j: f64,
    /// What happened when, if that was asked for.
    pub timeline: Option<Timeline<Vec<u8>>>,
}

impl Outcome {
    /// Share of the frames handed to circuits that were lost.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / (self.delivered + self.lost).max(1) as f64
    }

    /// Mean rate that a rack receives.
    pub fn goodput_gbps(&self, scenario: &Scenario) -> f64 {
        let bits = (self.delivered + self.by_packets) as f64 * scenario.frame_bytes as f64 * 8.0;
        bits / self.seconds / scenario.racks as f64 / 1e9
    }
}

/// One queue. Of 10,000 racks there are a hundred million: what only connections need is not here.
#[derive(Clone, Debug)]
struct Queue {
    frames: u64,
    /// Of what arrives, what is no whole frame yet.
    part: f64,
    seen_ns: f64,
}

/// The connection that feeds a queue.
#[derive(Clone, Debug)]
struct Feed {
    flow: Flow,
    /// Segments that reached the far end and are not yet known to the sender.
    unacknowledged: u64,
    sent_at_s: f64,
}

/// The next days, each with its length in ns and its circuits.
type Week = Box<dyn Iterator<Item = (f64, Vec<usize>)>>;

struct Fabric<'a> {
    scenario: &'a Scenario,
    queues: Vec<Queue>,
    /// One for each queue, or none.
    feeds: Vec<Feed>,
    nics: Vec<Nic>,
    rng: Rng,
    out: Outcome,
    lit_ns: f64,
    wakings: u64,
    packet_credit: Vec<f64>,
    /// Frames that each rack's hosts could have made by a time, ns, and have not.
    made: Vec<(f64, f64)>,
    capacity: u64,
    watch: Option<Watch>,
}

/// Simulates.
pub fn run(scenario: &Scenario, seed: u64, progress: &dyn Progress) -> Outcome {
    let mut fabric = Fabric::new(scenario, seed);
    let end_ns = scenario.duration_ms * 1e6;
    let scheduler = schedulers::by_name(&scenario.scheduler).expect("checked with the scenario");
    let mut now_ns = 0.0;
    while now_ns < end_ns && !progress.stopped() {
        for (day_ns, matching) in fabric.week(scheduler, now_ns) {
            now_ns += 1e3 * scenario.night_us;
            if now_ns >= end_ns {
                break;
            }
            fabric.day(now_ns, day_ns, &matching);
            now_ns += day_ns;
        }
        progress.at((now_ns / end_ns).min(1.0), "days");
    }
    fabric.finish(now_ns)
}

impl<'a> Fabric<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Fabric<'a> {
        let racks = scenario.racks;
        let capacity = scenario.queue_bytes / scenario.frame_bytes;
        let congestion = match scenario.source {
            Source::Udp => None,
            Source::Reno => Some(Congestion::Reno),
            Source::Cubic => Some(Congestion::Cubic),
        };
        let day_frames = scenario.day_us * scenario.rate_gbps * 125.0 / scenario.frame_bytes as f64;
        // "So that at least two days worth of packets can saturate each connection" (4.4.2).
        let window_max = (2.0 * day_frames).max(4.0);
        let feed = congestion.map(|congestion| Feed {
            flow: Flow::new(congestion, window_max),
            unacknowledged: 0,
            sent_at_s: 0.0,
        });
        Fabric {
            scenario,
            queues: vec![Queue { frames: 0, part: 0.0, seen_ns: 0.0 }; racks * racks],
            feeds: feed.map_or_else(Vec::new, |feed| vec![feed; racks * racks]),
            nics: vec![Nic::new(scenario.card, scenario.rate_gbps); racks],
            rng: Seed(seed).stream("fabric"),
            out: Outcome::default(),
            lit_ns: 0.0,
            wakings: 0,
            packet_credit: vec![0.0; racks],
            made: vec![(0.0, 0.0); racks],
            capacity,
            watch: scenario.output.begin().map(|timeline| Watch::new(timeline, racks)),
        }
    }

    /// The next days, each with its length in ns.
    fn week(&mut self, scheduler: &dyn Scheduler, now_ns: f64) -> Week {
        let (racks, scenario) = (self.scenario.racks, self.scenario);
        let day_ns = 1e3 * scenario.day_us;
        // One day at a time: the whole rotation of many racks is as much as all their queues.
        let rotation =
            move |shift| (day_ns, (0..racks).map(|from| (from + shift) % racks).collect());
        if scheduler.name() == "round-robin" {
            return Box::new((1..racks).map(rotation));
        }
        for pair in 0..racks * racks {
            if pair / racks != pair % racks {
                self.arrive(pair / racks, pair % racks, now_ns);
            }
        }
        let week_us = (racks - 1) as f64 * (scenario.day_us + scenario.night_us);
        let window = Window { length: 1.0, delta: scenario.night_us / week_us };
        let bytes: Vec<u64> =
            self.queues.iter().map(|queue| queue.frames * scenario.frame_bytes).collect();
        let link_bytes = week_us * scenario.rate_gbps * 125.0;
        let demand = Demand::from_queues(racks, &bytes, link_bytes).expect("counts of bytes");
        let schedule = scheduler.schedule(&demand, window);
        if schedule.days.is_empty() {
            return Box::new((1..racks).map(rotation));
        }
        let days = schedule.days.into_iter();
        Box::new(days.map(move |day| (day.duration * week_us * 1e3, day.matching)))
    }

    fn day(&mut self, now_ns: f64, day_ns: f64, matching: &[usize]) {
        self.out.days += 1;
        for (from, &to) in matching.iter().enumerate() {
            if from == to {
                continue;
            }
            self.arrive(from, to, now_ns);
            if self.queues[from * self.scenario.racks + to].frames > 0 {
                self.lit_ns += day_ns;
                self.wakings += 1;
            }
            let delay_ns = self.sync_delay(day_ns);
            let before = [self.out.delivered, self.out.lost];
            self.send(from, to, (now_ns, day_ns), delay_ns);
            if let Some(watch) = &mut self.watch {
                let frames = [self.out.delivered - before[0], self.out.lost - before[1]];
                watch.circuit((now_ns, day_ns), from, to, frames);
            }
        }
        if self.scenario.packet_gbps > 0.0 {
            self.send_packets(now_ns, day_ns, matching);
        }
        if let Some(watch) = &mut self.watch {
            let racks = self.scenario.racks;
            let night_ns = 1e3 * self.scenario.night_us;
            let waiting =
                self.queues.chunks(racks).map(|own| own.iter().map(|queue| queue.frames).sum());
            watch.day(now_ns, day_ns, night_ns, waiting, self.out.by_packets);
        }
    }

    /// Adds what came for a queue since it was last looked at.
    fn arrive(&mut self, from: usize, to: usize, now_ns: f64) {
        let racks = self.scenario.racks;
        let index = from * racks + to;
        let frame_bits = self.scenario.frame_bytes as f64 * 8.0;
        let space = self.capacity.saturating_sub(self.queues[index].frames);
        let queue = &mut self.queues[index];
        let wanted = match self.feeds.get_mut(index) {
            None => {
                let even = (1.0 - self.scenario.hot_share) / (racks - 1) as f64;
                let hot = if to == 0 && from != 0 { self.scenario.hot_share } else { 0.0 };
                let rate = self.scenario.host_gbps * (even + hot);
                queue.part += (now_ns - queue.seen_ns) * rate / frame_bits;
                let whole = queue.part.floor();
                queue.part -= whole;
                whole as u64
            }
            Some(Feed { flow, unacknowledged, sent_at_s }) => {
                let (now_s, acked) = (now_ns * 1e-9, std::mem::take(unacknowledged));
                if acked > 0 {
                    flow.acknowledged(acked, now_s - *sent_at_s, now_s);
                }
                flow.allowance(now_s)
            }
        };
        queue.seen_ns = now_ns;
        let mut taken = wanted.min(space);
        let feed = self.feeds.get_mut(index);
        let fed = feed.is_some();
        if let Some(Feed { flow, .. }) = feed {
            // The processor that runs the connections makes so many frames, whichever they are of; what windows or
            // queues did not take for the length of a rotation it cannot make up for.
            let (made, seen_ns) = &mut self.made[from];
            let per_ns = self.scenario.host_gbps / frame_bits;
            let slot_ns = 1e3 * (self.scenario.day_us + self.scenario.night_us);
            let most = racks as f64 * slot_ns * per_ns;
            *made = (*made + (now_ns - *seen_ns).max(0.0) * per_ns).min(most.max(1.0));
            *seen_ns = now_ns;
            taken = taken.min(*made as u64);
            *made -= taken as f64;
            flow.sent(taken);
        }
        queue.frames += taken;
        if !fed {
            self.out.refused += wanted - taken;
        }
        self.out.offered += taken;
    }

    /// How much later than the day its sync frame is taken note of; the whole day where never.
    fn sync_delay(&mut self, day_ns: f64) -> f64 {
        let jitter = self.scenario.jitter;
        let draw: f64 = self.rng.random();
        if draw < jitter.together {
            return f64::INFINITY;
        }
        if draw < jitter.together + jitter.slow {
            let [low, high] = jitter.slow_us;
            return 1e3 * self.rng.random_range(low..high);
        }
        if draw < jitter.together + jitter.slow + jitter.late {
            let [low, high] = jitter.late_us;
            let late_ns = 1e3 * self.rng.random_range(low..high);
            return if late_ns > day_ns { f64::INFINITY } else { late_ns };
        }
        0.0
    }

    /// A day of one queue. `delay_ns` after its begin the rack believes in it; with a delay of
    /// infinity its frames are sent when another circuit stands.
    fn send(&mut self, from: usize, to: usize, (now_ns, day_ns): (f64, f64), delay_ns: f64) {
        let scenario = self.scenario;
        let astray = delay_ns.is_infinite();
        let frame = scenario.frame_bytes;
        let rate_bps = (scenario.rate_gbps * 1e9) as u64;
        let last_ns = (day_ns - 1e3 * scenario.guard_us).max(0.0);
        // The guard is as long as the card's delay: what it shortens cannot be carried either.
        let mut purse = Purse::new(scenario.tokens, last_ns as u64, rate_bps, scenario.ahead_bytes);
        let intake_ns = frame as f64 * 8.0 / scenario.card.intake_gbps;
        let pace_ns = frame as f64 * 8.0 / scenario.rate_gbps;
        let mut into_ns = if astray { 0.0 } else { delay_ns };
        let (mut arrived, mut lost) = (0, 0);
        while into_ns <= last_ns && self.queues[from * scenario.racks + to].frames > 0 {
            if purse.left(into_ns as u64) < frame {
                if scenario.tokens != crate::tokens::Tokens::Pacing {
                    break;
                }
                into_ns += pace_ns;
                continue;
            }
            purse.spend(frame);
            self.queues[from * scenario.racks + to].frames -= 1;
            let (begin, end) = self.nics[from].send(now_ns + into_ns, frame, &mut self.rng);
            let meets = begin >= now_ns && end <= now_ns + day_ns && !astray;
            arrived += u64::from(meets);
            lost += u64::from(!meets);
            into_ns += intake_ns;
        }
        self.out.delivered += arrived;
        self.out.lost += lost;
        if delay_ns > 0.0 {
            self.out.lost_to_jitter += lost;
        }
        if let Some(feed) = self.feeds.get_mut(from * scenario.racks + to) {
            let now_s = (now_ns + day_ns) * 1e-9;
            if lost > 0 {
                feed.flow.lost(lost, arrived, now_s);
            }
            feed.unacknowledged += arrived;
            if arrived > 0 {
                feed.sent_at_s = now_s;
            }
        }
    }

    /// The packet switch takes from the fullest queue that has no circuit, rack by rack.
    fn send_packets(&mut self, now_ns: f64, day_ns: f64, matching: &[usize]) {
        let (racks, frame) = (self.scenario.racks, self.scenario.frame_bytes);
        let span_ns = day_ns + 1e3 * self.scenario.night_us;
        for (from, connected) in matching.iter().enumerate() {
            self.packet_credit[from] += span_ns * self.scenario.packet_gbps / 8.0;
            let others = (0..racks).filter(|to| *to != from && to != connected);
            let fullest = others.max_by_key(|to| self.queues[from * racks + to].frames);
            let Some(to) = fullest else { continue };
            self.arrive(from, to, now_ns);
            let can = (self.packet_credit[from] / frame as f64) as u64;
            let queue = &mut self.queues[from * racks + to];
            let taken = can.min(queue.frames);
            queue.frames -= taken;
            if let Some(feed) = self.feeds.get_mut(from * racks + to) {
                feed.unacknowledged += taken;
            }
            self.packet_credit[from] -= (taken * frame) as f64;
            // What was not needed cannot be saved up for longer than a day.
            self.packet_credit[from] =
                self.packet_credit[from].min(span_ns * self.scenario.packet_gbps / 8.0);
            self.out.by_packets += taken;
        }
    }

    fn finish(mut self, now_ns: f64) -> Outcome {
        let out = &mut self.out;
        out.seconds = now_ns * 1e-9;
        out.timeline = self.watch.take().map(Watch::finish);
        out.queued = self.queues.iter().map(|queue| queue.frames).sum();
        let racks = self.scenario.racks as f64;
        let light = self.scenario.light;
        out.lit_j = racks * light.awake_w * out.seconds;
        let (lit_s, wakings) = (self.lit_ns * 1e-9 / racks, self.wakings as f64 / racks);
        out.sleeping_j = racks * light.joules(out.seconds, lit_s, wakings);
        let accounted = out.delivered + out.by_packets + out.lost + out.queued;
        assert_eq!(out.offered, accounted, "frames are conserved");
        self.out
    }
}
