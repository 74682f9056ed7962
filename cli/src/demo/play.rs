//! One day: traffic through a forwarder while its state and what it costs are sampled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_host::energy::Rapl;
use ebb_host::processors::Processors;
use ebb_host::{Sysfs, clock, process};
use ebb_power::Basis;
use ebb_routerd::status::Status;
use ebb_traffic::{DayProfile, Pacer, Schedule, Start, Summary};
use ebb_units::{PacketsPerSecond, Time};

use super::account::{self, Model};
use crate::generator::{Generator, Progress, Sender, TestLink};
use crate::stage::{FLOWS, Forwarder, Plan, Stage, Subject};

/// Distance of the samples.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(200);
/// Packets that a generator which catches up may send at once per direction, and how much faster than
/// the day's busiest moment it may then be.
const CATCH_UP: (u32, f64) = (512, 1.25);
/// How long a generator may go on catching up after the day, and its share of the day's length.
const GRACE: (Duration, f64) = (Duration::from_secs(1), 0.1);
/// How long stragglers are waited for after the day.
const SETTLE: Duration = Duration::from_millis(200);
/// Packets that a late generator may catch up with per direction on a ramp; older ones are not sent.
const BACKLOG_MAX: u64 = 512;
/// Frames are handed over this often, as by a network card with interrupt moderation: otherwise
/// each packet would wake a sleeping worker by itself, which no network card does to its host.
pub const MODERATION: Duration = Duration::from_micros(100);
/// Length of the ramp that finds out what one worker carries.
const RAMP: Duration = Duration::from_secs(3);
/// Share of the measured capacity that the day's busiest minute asks for.
pub const PEAK_SHARE: f64 = 0.5;

/// The router's state at an instant of the day.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Seconds since the day began.
    pub at_s: f64,
    /// Seconds since the moment before.
    pub span_s: f64,
    /// Packets per second that the hosts send.
    pub offered_pps: f64,
    /// Packets per second that come out again.
    pub carried_pps: f64,
    /// Workers that receive; not a number where packets are forwarded in the kernel.
    pub cores: f64,
    /// Processors' worth of time that the whole machine is busy, with who sends and receives.
    pub machine: f64,
    /// Processors' worth of time that forwarding takes.
    pub cpus: f64,
    /// Power drawn.
    pub watts: f64,
    /// Mean latency, microseconds; not a number while nothing arrives.
    pub latency_us: f64,
    /// 99th percentile of the latency, microseconds.
    pub latency_p99_us: f64,
}

/// What came of one mode.
#[derive(Clone, Debug)]
pub struct Day {
    /// The series.
    pub mode: String,
    /// Worker threads.
    pub workers: usize,
    /// Processor time that forwarding took.
    pub cpu_seconds: f64,
    /// Processor time of the router's own threads.
    pub own_seconds: f64,
    /// Processor time that forwarding took in each part of the day.
    pub parts: Vec<f64>,
    /// Energy.
    pub joules: f64,
    /// `measured` or `modelled`.
    pub joules_basis: &'static str,
    /// The packets' fate.
    pub summary: Summary,
    /// Packets that the generator came too late to send.
    pub missed: u64,
    /// The router's own account at the end.
    pub status: Status,
    /// In time order.
    pub moments: Vec<Moment>,
}

/// Called with each new moment of a mode, the packets' books and the router's state.
pub type Watch<'a> = dyn FnMut(&Status, &[Moment], &Progress) + 'a;

/// Plays days.
pub struct Player<'a> {
    /// Addresses and flows.
    pub plan: Arc<Plan>,
    /// Where it plays.
    pub stage: &'a mut dyn Stage,
    /// Set when the user has had enough.
    pub stop: Arc<AtomicBool>,
    /// The day over a cable, where the whole machine's work is counted.
    pub alone: Option<Vec<Moment>>,
}

/// A series: its name, and who forwards.
pub type Series<'a> = (&'a str, Forwarder);

/// One router that polls, against which capacities are measured.
const POLL: Series<'_> = ("poll", Forwarder::Ebb { mode: "poll", path: "worker" });

impl Player<'_> {
    /// What one polling worker carries with this generator beside it, packets per second: the
    /// highest rate at which nearly all that was offered came out again.
    ///
    /// Offered more than that, the machine carries far less: the kernel then spends the
    /// generator's CPU on packets that are lost. So a first ramp up to `top` finds where that
    /// begins, and a second one, which ends shortly above, what is carried below.
    ///
    /// # Errors
    /// When the router or a link fails.
    pub fn capacity(&mut self, top: PacketsPerSecond) -> Result<PacketsPerSecond> {
        let mut best = 0.0f64;
        let mut end = top.0;
        for _ in 0..2 {
            let ramp = Schedule::ramp(PacketsPerSecond(end / 100.0), PacketsPerSecond(end), RAMP);
            let day = self.day(POLL, &ramp, None, &mut |_, _, _| {})?;
            best = best.max(carried(&day.moments));
            end = (1.5 * best).clamp(top.0 / 100.0, top.0);
        }
        anyhow::ensure!(best > 0.0 || self.stop.load(Relaxed), "no packet came through the router");
        Ok(PacketsPerSecond(best))
    }

    /// A day of `span`. Every series is sent the same packets: a generator that comes late,
    /// as it does beside a router on the same processors, catches up.
    ///
    /// # Errors
    /// When the router or a link fails.
    pub fn profile(
        &mut self,
        series: Series<'_>,
        profile: DayProfile,
        peak: PacketsPerSecond,
        span: Duration,
        watch: &mut Watch<'_>,
    ) -> Result<Day> {
        let day = Schedule::day(profile, peak, span);
        self.day(series, &day, Some(PacketsPerSecond(peak.0 * CATCH_UP.1)), watch)
    }

    /// `rate_max` is how fast what is late may follow; without it, it is left out.
    fn day(
        &mut self,
        series: Series<'_>,
        schedule: &Schedule,
        rate_max: Option<PacketsPerSecond>,
        watch: &mut Watch<'_>,
    ) -> Result<Day> {
        let (mut subject, links) = self.stage.start(series.1)?;
        let result = self.observe(series, (schedule, rate_max), subject.as_mut(), links, watch);
        let stopped = subject.stop();
        let day = result?;
        stopped?;
        Ok(day)
    }

    fn observe(
        &self,
        (name, forwarder): Series<'_>,
        (schedule, rate_max): (&Schedule, Option<PacketsPerSecond>),
        subject: &mut dyn Subject,
        links: Vec<Box<dyn TestLink>>,
        watch: &mut Watch<'_>,
    ) -> Result<Day> {
        let start = clock::monotonic() + Duration::from_millis(50);
        let mut generator = self.generator(schedule, rate_max, links, start);
        let progress = generator.progress();
        let end = start + schedule.span();
        let grace = GRACE.0.max(schedule.span().mul_f64(GRACE.1));
        let last = if rate_max.is_some() { end + grace } else { end };
        let cpu = self.plan.generator_cpu;
        let run = move || -> io::Result<Generator> {
            // An unpinned generator is slower, not wrong.
            _ = process::pin_to(cpu);
            process::precise_timers();
            generator.run(last, SETTLE)?;
            Ok(generator)
        };
        let begin = (subject.cpu_time()?, subject.status()?);
        let mut eye =
            Eye::open(start, self.alone.as_deref(), self.plan.cpus("napi").len(), begin.0)?;
        let thread = std::thread::Builder::new().name("ebb-generator".into()).spawn(run)?;
        let mut moments = Vec::new();
        let mut due = Instant::now() + SAMPLE_EVERY;
        let mut failure = None;
        while !thread.is_finished() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due += SAMPLE_EVERY;
            if self.stop.load(Relaxed) {
                progress.stop.store(true, Relaxed);
            }
            match eye.look(subject, &progress) {
                Ok((moment, status)) => {
                    if clock::monotonic() <= end + SAMPLE_EVERY / 2 {
                        moments.push(moment);
                    }
                    watch(&status, &moments, &progress);
                }
                Err(error) => {
                    progress.stop.store(true, Relaxed);
                    failure = Some(error);
                    break;
                }
            }
        }
        let generator =
            thread.join().expect("the generator does not panic").context("a link failed")?;
        if let Some(error) = failure {
            return Err(error.context(format!("{name} failed")));
        }
        let (cpu, status) = (subject.cpu_time()?, subject.status()?);
        let summary = generator.summary(true);
        let span_s = schedule.span().as_secs_f64();
        let sum = |value: fn(&Moment) -> f64| {
            moments.iter().map(|moment| value(moment) * moment.span_s).sum::<f64>()
        };
        let whole = self.alone.is_some();
        let own = (cpu - begin.0).as_secs_f64();
        let joules = status.energy.joules - begin.1.energy.joules;
        Ok(Day {
            mode: name.to_owned(),
            workers: match forwarder {
                Forwarder::Ebb { mode, .. } => self.plan.cpus(mode).len(),
                Forwarder::Kernel | Forwarder::Cable => 0,
            },
            cpu_seconds: if whole { sum(|moment| moment.cpus) } else { own },
            own_seconds: own,
            parts: account::parts(&moments, span_s).to_vec(),
            joules: if whole { sum(|moment| moment.watts) } else { joules },
            joules_basis: if whole { eye.basis() } else { status.energy.basis }.name(),
            missed: (2 * (schedule.packets() / 2.0) as u64).saturating_sub(summary.sent),
            summary,
            status,
            moments,
        })
    }

    /// Half of the schedule's packets from each side.
    fn generator(
        &self,
        schedule: &Schedule,
        rate_max: Option<PacketsPerSecond>,
        links: Vec<Box<dyn TestLink>>,
        start: Time,
    ) -> Generator {
        let half = schedule.scaled(0.5);
        let pace = || match rate_max {
            Some(rate) => {
                let rate = PacketsPerSecond(rate.0 / 2.0);
                Pacer::catching_up(half.clone(), start, rate, CATCH_UP.0)
            }
            None => Pacer::new(half.clone(), start, BACKLOG_MAX),
        };
        let sender =
            |side| Sender { link: side, stream: self.plan.stream(side), pace: Box::new(pace()) };
        Generator::new(links, vec![sender(0), sender(1)], 2 * FLOWS, Start::Zero)
            .with_moderation(MODERATION)
            .with_rest()
    }
}

/// Share of what was offered that must come out for a rate to count as carried.
const CARRIED: f64 = 0.97;

/// The highest rate of a ramp that was carried. A sample in which a backlog drains shows more than
/// was offered and counts as what was offered.
fn carried(moments: &[Moment]) -> f64 {
    let carries = |moment: &&Moment| moment.carried_pps >= CARRIED * moment.offered_pps;
    let rate = |moment: &Moment| moment.carried_pps.min(moment.offered_pps);
    let most = moments.iter().filter(carries).map(rate).fold(0.0, f64::max);
    // A machine that never keeps up still carries something.
    let least = moments.iter().map(rate).fold(0.0, f64::max) / 2.0;
    most.max(least)
}

/// Turns counters into rates.
struct Eye<'a> {
    start: Time,
    last: Time,
    cpu: Duration,
    sent: u64,
    received: u64,
    machine: Processors,
    alone: Option<&'a [Moment]>,
    model: Model,
    meter: Option<(Rapl, f64)>,
}

impl Eye<'_> {
    /// `cores` of the machine may forward at most; the forwarder's threads have used `cpu` until now.
    fn open(start: Time, alone: Option<&[Moment]>, cores: usize, cpu: Duration) -> Result<Eye<'_>> {
        Ok(Eye {
            start,
            last: clock::monotonic(),
            cpu,
            sent: 0,
            received: 0,
            machine: Processors::now()?,
            alone,
            model: Model::new(cores),
            meter: Rapl::open(&Sysfs::new("/")).ok().map(|rapl| (rapl, 0.0)),
        })
    }

    /// Where the whole machine's power comes from.
    fn basis(&self) -> Basis {
        if self.meter.is_some() { Basis::Measured } else { Basis::Modelled }
    }

    fn look(&mut self, subject: &mut dyn Subject, progress: &Progress) -> Result<(Moment, Status)> {
        let status = subject.status()?;
        let cpu = subject.cpu_time()?;
        let (now, machine) = (clock::monotonic(), Processors::now()?);
        let span = (now - self.last).as_secs_f64().max(1e-3);
        let at_s = (now - self.start).as_secs_f64();
        let (sent, received) = (progress.sent.load(Relaxed), progress.received.load(Relaxed));
        let latency = progress.last().map(|sample| sample.latency_us).filter(|us| us.mean > 0.0);
        let own = cpu.saturating_sub(self.cpu).as_secs_f64() / span;
        let busy = machine.busy_since(&self.machine).as_secs_f64() / span;
        let offered_pps = (sent - self.sent) as f64 / span;
        let (cpus, watts) = match self.alone {
            None => (own, status.energy.watts),
            Some(alone) => {
                let cpus = busy - account::at(alone, at_s, |moment| moment.machine);
                (cpus, self.watts(&status, (cpus, own), offered_pps, span))
            }
        };
        let moment = Moment {
            at_s,
            span_s: span,
            offered_pps,
            carried_pps: (received - self.received) as f64 / span,
            cores: match account::forwards_in_kernel(&status) {
                true => f64::NAN,
                false => status.point.cores.into(),
            },
            machine: busy,
            cpus,
            watts,
            latency_us: latency.map_or(f64::NAN, |us| us.mean),
            latency_p99_us: latency.map_or(f64::NAN, |us| us.p99),
        };
        (self.last, self.cpu, self.sent, self.received) = (now, cpu, sent, received);
        self.machine = machine;
        Ok((moment, status))
    }

    /// The whole machine's power since the last look.
    fn watts(&mut self, status: &Status, (cpus, own): (f64, f64), offered: f64, span: f64) -> f64 {
        let Some((rapl, before)) = &mut self.meter else {
            return self.model.watts(status, cpus, own, offered);
        };
        let Ok(joules) = rapl.energy() else { return f64::NAN };
        (joules.0 - std::mem::replace(before, joules.0)) / span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overload_leaves_is_not_what_a_worker_carries() {
        let of = |rates: &[(f64, f64)]| {
            let moment = |(offered_pps, carried_pps): &(f64, f64)| Moment {
                offered_pps: *offered_pps,
                carried_pps: *carried_pps,
                ..Moment::default()
            };
            carried(&rates.iter().map(moment).collect::<Vec<_>>())
        };
        let collapse = [(1.0, 1.0), (3.0, 2.95), (5.0, 4.9), (7.0, 2.0), (9.0, 0.7), (9.5, 0.6)];
        assert_eq!(of(&collapse), 4.9);
        assert_eq!(of(&[(5.0, 9.0)]), 5.0, "a backlog that drains");
        assert_eq!(of(&[(9.0, 3.0)]), 1.5, "a machine that never keeps up");
        assert_eq!(of(&[]), 0.0);
    }
}
