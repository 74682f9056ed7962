//! The controller: `ebb ocs control`. It sees how much waits in the racks' queues, plans circuits
//! and announces them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ebb_host::process;
use ebb_host::signals::{Signal, Signals};
use ebb_ports::PacketSocket;
use ebb_system_circuit::schedulers::{self, Scheduler};
use ebb_system_circuit::{Demand, Window};

use crate::api::{self, Shared};
use crate::clock::now_ns;
use crate::config::{Controller, OcsConfig};
use crate::status::ControlStatus;
use crate::sync::{self, Announced, Circuits, DAYS_MAX, Frame, RACKS_MAX, SyncError};

/// Its address on the control network.
const MAC: [u8; 6] = [0x02, 0xeb, 2, 0, 0, 0];

/// Runs until told to stop.
///
/// # Errors
/// When the configuration is wrong, the interface is missing, or rights are.
pub fn run(path: &Path) -> Result<()> {
    let config = OcsConfig::load(path)?;
    let mut signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let shared: Arc<Shared<ControlStatus>> = Arc::new(Shared::new());
    let _socket = api::serve(&config.controller.socket, None, shared.clone())?;
    let name = &config.controller.control;
    let mut socket = PacketSocket::open(name).with_context(|| format!("interface {name}"))?;
    let started = now_ns();
    let epoch = (started >> 16) as u32 ^ std::process::id();
    let rate_bps = (config.ocs.link_mbps * 1e6) as u64;
    let mut planner = Planner::new(&config.controller, rate_bps, epoch, started);
    process::name_thread("ebb-control");
    // Milliseconds of days are announced ahead, but a controller that is late for longer is missed.
    // It goes before a switch on the same processor too, which would not let it in while there is work.
    crate::tor::place(None, false);
    process::before_others(2);
    while !shared.stopped() {
        let now = now_ns();
        listen(&mut socket, &mut planner);
        let frame = planner.announce(now);
        socket.stage(|buffer| sync::write(&frame, MAC, buffer));
        // Nobody hears a network that is down.
        _ = socket.flush();
        planner.status.uptime_seconds = (now - started) as f64 * 1e-9;
        shared.show(planner.status.clone());
        while let Some(signal) = signals.take()? {
            if signal != Signal::SIGHUP {
                shared.stop();
            }
        }
        std::thread::sleep(Duration::from_nanos((config.controller.announce_us * 1e3) as u64));
    }
    Ok(())
}

fn listen(socket: &mut PacketSocket, planner: &mut Planner) {
    let heard = socket.receive(|bytes| match sync::read(bytes) {
        Ok(Frame::Report { rack, waiting }) => planner.report(rack, &waiting),
        // Another controller's.
        Ok(Frame::Sync { .. }) | Err(SyncError::Foreign) => {}
        Err(_) => planner.status.malformed += 1,
    });
    // An interface that is down hears nothing.
    drop(heard);
}

/// What it decides, without clock and socket.
struct Planner {
    controller: Controller,
    rate_bps: u64,
    epoch: u32,
    scheduler: &'static dyn Scheduler,
    waiting: [[u64; RACKS_MAX]; RACKS_MAX],
    days: VecDeque<Announced>,
    number: u32,
    begin_ns: u64,
    status: ControlStatus,
}

impl Planner {
    fn new(controller: &Controller, rate_bps: u64, epoch: u32, now_ns: u64) -> Planner {
        let scheduler = schedulers::by_name(&controller.scheduler).expect("checked when read");
        Planner {
            controller: controller.clone(),
            rate_bps,
            epoch,
            scheduler,
            waiting: [[0; RACKS_MAX]; RACKS_MAX],
            days: VecDeque::new(),
            number: 0,
            begin_ns: now_ns + (controller.lead_ms * 1e6) as u64,
            status: ControlStatus::default(),
        }
    }

    fn report(&mut self, rack: u8, waiting: &[u64; RACKS_MAX]) {
        self.status.reports += 1;
        self.waiting[usize::from(rack)] = *waiting;
    }

    /// The next frame.
    fn announce(&mut self, now_ns: u64) -> Frame {
        while self
            .days
            .front()
            .is_some_and(|day| day.begin_ns + u64::from(day.duration_ns) <= now_ns)
        {
            self.days.pop_front();
        }
        let lead_ns = (self.controller.lead_ms * 1e6) as u64;
        // After a long sleep the past is not announced.
        self.begin_ns = self.begin_ns.max(now_ns);
        while self.begin_ns < now_ns + lead_ns || self.days.is_empty() {
            self.plan_week();
        }
        let up = self.days.front().is_some_and(|day| day.begin_ns <= now_ns);
        self.status.sent += 1;
        Frame::Sync {
            epoch: self.epoch,
            sent_ns: now_ns,
            circuits: if up { Circuits::Up } else { Circuits::Down },
            racks: self.controller.racks,
            days: self.days.iter().take(DAYS_MAX).copied().collect(),
        }
    }

    fn plan_week(&mut self) {
        let racks = usize::from(self.controller.racks);
        let (day_ns, night_ns) =
            ((self.controller.day_us * 1e3) as u64, (self.controller.night_us * 1e3) as u64);
        if self.scheduler.name() != "round-robin" {
            let started = now_ns();
            let days = self.schedule(racks, day_ns, night_ns);
            self.status.schedule_us = (now_ns() - started) as f64 * 1e-3;
            if !days.is_empty() {
                return days
                    .into_iter()
                    .for_each(|(ns, matching)| self.add(ns, night_ns, &matching));
            }
        }
        for _ in 1..racks {
            // The rule of the rotation that holds when the controller falls silent.
            let shift = 1 + self.number as usize % (racks - 1);
            let matching: Vec<usize> = (0..racks).map(|from| (from + shift) % racks).collect();
            self.add(day_ns, night_ns, &matching);
        }
    }

    /// Days for what waits: as long a week as the rotation's.
    fn schedule(&self, racks: usize, day_ns: u64, night_ns: u64) -> Vec<(u64, Vec<usize>)> {
        let week_ns = (racks as u64 - 1) * (day_ns + night_ns);
        let bytes: Vec<u64> =
            (0..racks * racks).map(|pair| self.waiting[pair / racks][pair % racks]).collect();
        let link = week_ns as f64 * self.rate_bps as f64 / 8e9;
        let Ok(demand) = Demand::from_queues(racks, &bytes, link) else { return Vec::new() };
        let window = Window { length: 1.0, delta: night_ns as f64 / week_ns as f64 };
        let schedule = self.scheduler.schedule(&demand, window);
        let days = schedule.days.into_iter();
        let days = days.map(|day| ((day.duration * week_ns as f64) as u64, day.matching));
        // Shorter ones do not fit a frame.
        days.filter(|(ns, _)| *ns >= day_ns / 4).collect()
    }

    fn add(&mut self, duration_ns: u64, night_ns: u64, matching: &[usize]) {
        let output = |input: usize| match matching.get(input) {
            Some(to) if *to != input => *to as u8,
            _ => Announced::DARK,
        };
        let begin_ns = self.begin_ns + night_ns;
        self.days.push_back(Announced {
            number: self.number,
            duration_ns: duration_ns as u32,
            begin_ns,
            outputs: std::array::from_fn(output),
        });
        self.status.days += 1;
        self.number = self.number.wrapping_add(1);
        self.begin_ns = begin_ns + duration_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Clock, Phase, Plan};

    fn planner(scheduler: &str) -> Planner {
        let text = crate::config::OCS_EXAMPLE
            .replace("racks = 2", "racks = 4")
            .replace("\"round-robin\"", &format!("\"{scheduler}\""));
        let config = OcsConfig::parse("ocs.toml", &text).expect("a configuration");
        Planner::new(&config.controller, 10_000_000_000, 7, 1_000_000_000)
    }

    /// A rack that hears every frame always knows what comes.
    #[test]
    fn announcements_leave_no_gap() {
        for scheduler in ["round-robin", "eclipse"] {
            let mut planner = planner(scheduler);
            planner.report(0, &std::array::from_fn(|to| if to == 2 { 400_000 } else { 0 }));
            let mut plan = Plan::new(Clock::Shared, 0);
            let mut buffer = [0; 1024];
            for step in 0..200u64 {
                let now = 1_000_000_000 + step * 1_000_000;
                let frame = planner.announce(now);
                let len = sync::write(&frame, MAC, &mut buffer);
                plan.hear(now, &sync::read(&buffer[..len]).expect("sound"));
                plan.turn(now);
                if step > 6 {
                    let known = (0..10).all(|part| plan.at(now + part * 100_000) != Phase::Unknown);
                    assert!(known, "{scheduler} at step {step}");
                }
            }
            assert_eq!(plan.counters().contradicting, 0);
            assert_eq!(plan.counters().missed, 0);
        }
    }

    /// Nothing, one row, everything at once: days go on without a gap, and each fits its frame.
    #[test]
    fn days_go_on_whatever_queues_are_reported() {
        let reports: [[u64; 4]; 3] = [[0; 4], [0, 1_000_000, 2_000_000, 3_000_000], [u64::MAX; 4]];
        for scheduler in schedulers::ALL.iter().map(|known| known.name()) {
            for (kind, report) in reports.iter().enumerate() {
                let mut planner = planner(scheduler);
                // Of one rack, or, where all queues are endless, of all.
                for rack in 0..if kind == 2 { 4 } else { 1 } {
                    let of =
                        |to: usize| report.get(to).copied().filter(|_| to != usize::from(rack));
                    planner.report(rack, &std::array::from_fn(|to| of(to).unwrap_or(0)));
                }
                let mut plan = Plan::new(Clock::Shared, 0);
                let mut buffer = [0; 1024];
                for step in 0..30u64 {
                    let now = 1_000_000_000 + step * 1_000_000;
                    let len = sync::write(&planner.announce(now), MAC, &mut buffer);
                    plan.hear(now, &sync::read(&buffer[..len]).expect("sound"));
                    plan.turn(now);
                    let known = step < 6 || plan.at(now) != Phase::Unknown;
                    assert!(known, "{scheduler}, report {kind}, step {step}");
                }
                assert_eq!(plan.counters().contradicting, 0, "{scheduler}, report {kind}");
            }
        }
    }

    #[test]
    fn a_long_queue_gets_its_circuit() {
        let mut planner = planner("eclipse");
        planner.report(0, &std::array::from_fn(|to| if to == 2 { 900_000 } else { 0 }));
        let Frame::Sync { days, .. } = planner.announce(1_000_000_000) else { unreachable!() };
        assert_eq!(days[0].outputs[0], 2);
        assert!(days[0].duration_ns > 300_000, "{}", days[0].duration_ns);
    }
}
