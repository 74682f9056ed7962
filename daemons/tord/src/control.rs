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
use tracing::warn;

use crate::api::{self, Shared};
use crate::clock::{now_ns, since_1970_ns};
use crate::config::{Controller, OcsConfig};
use crate::optical::{ScpiSwitch, Setter};
use crate::reopen::LINKS_EVERY_NS;
use crate::seal::Sealer;
use crate::status::ControlStatus;
use crate::sync::{
    self, Announced, Circuits, DAY_NS_MAX, Frame, Heard, RACKS_MAX, SyncError, days_max,
};
use crate::timebase::Timebase;

/// Its address on the control network.
const MAC: [u8; 6] = [0x02, 0xeb, 2, 0, 0, 0];
/// A report counts while the frame that it names was sent no longer ago, and what it said is planned
/// for no longer, ns.
const REPORT_NS_MAX: u64 = 1_000_000_000;

/// Runs until told to stop.
///
/// # Errors
/// When the configuration is wrong, the interface is missing, or rights are.
pub fn run(path: &Path) -> Result<()> {
    let config = OcsConfig::load(path)?;
    let keys = config.controller_keys()?;
    crate::tor::warn_of_strangers(&keys, "controller");
    let mut signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let shared: Arc<Shared<ControlStatus>> = Arc::new(Shared::new());
    let _socket = api::serve(&config.controller.socket, None, shared.clone())?;
    let name = &config.controller.control;
    let mut socket = PacketSocket::open(name).with_context(|| format!("interface {name}"))?;
    let started = now_ns();
    let mut links_at = started;
    let epoch = (started >> 16) as u32 ^ std::process::id();
    let rate_bps = (config.ocs.link_mbps * 1e6) as u64;
    let mut planner = Planner::new(&config.controller, rate_bps, epoch, started);
    let mut sealer = Sealer::new(keys, since_1970_ns());
    let mut timebase = Timebase::open("controller.ptp", config.controller.ptp.as_deref())?;
    if let Some(switch) = &config.controller.switch {
        let switch = ScpiSwitch::new(switch.clone(), config.controller.racks);
        planner.setter = Some(Setter::start(Box::new(switch))?);
    }
    process::name_thread("ebb-control");
    // Milliseconds of days are announced ahead, but a controller that is late for longer is missed.
    // It goes before a switch on the same processor too, which would not let it in while there is work.
    crate::tor::place(None, false);
    process::before_others(2);
    while !shared.stopped() {
        let now = now_ns();
        listen(&mut socket, &mut planner, &mut sealer, now);
        let mut frame = planner.announce(now);
        if planner.speaks() {
            timebase.sent(&mut frame);
            socket.stage(|buffer| sync::write(&frame, MAC, &mut sealer, buffer));
            // Nobody hears a network that is down.
            _ = socket.flush();
        }
        planner.status.uptime_seconds = (now - started) as f64 * 1e-9;
        planner.status.sealed = sealer.keys().exist();
        planner.status.clock = timebase.status();
        planner.status.switch = planner.setter.as_ref().map(Setter::status);
        shared.show(planner.status.clone());
        while let Some(signal) = signals.take()? {
            match signal {
                Signal::SIGHUP => shared.ask_reload(),
                _ => shared.stop(),
            }
        }
        if now >= links_at {
            links_at = now + LINKS_EVERY_NS;
            if let Ok(Some(renewed)) = socket.renewed() {
                socket = renewed;
            }
        }
        shared.reload(|| reload(path, &mut sealer, &mut planner.status));
        std::thread::sleep(Duration::from_nanos((config.controller.announce_us * 1e3) as u64));
    }
    Ok(())
}

/// Takes over the keys; the rest needs a restart.
fn reload(path: &Path, sealer: &mut Sealer, status: &mut ControlStatus) -> Result<&'static str> {
    let keys = OcsConfig::load(path)?.controller_keys()?;
    if keys != *sealer.keys() {
        crate::tor::warn_of_strangers(&keys, "controller");
        sealer.set_keys(keys);
    }
    status.reloads += 1;
    Ok("only its keys take effect, other changes need a restart")
}

fn listen(socket: &mut PacketSocket, planner: &mut Planner, sealer: &mut Sealer, now_ns: u64) {
    let heard = socket.receive(|bytes| match sync::read(bytes, sealer.keys()) {
        Ok(heard) => planner.hear(now_ns, &heard, sealer),
        Err(SyncError::Foreign) => {}
        Err(SyncError::Seal) => planner.status.forged += 1,
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
    /// When each rack reported.
    reported_ns: [u64; RACKS_MAX],
    /// Each rack's last report: the frame that it named, and its own number.
    last: [(u64, u64); RACKS_MAX],
    days: VecDeque<Announced>,
    number: u32,
    begin_ns: u64,
    /// What sets a real switch.
    setter: Option<Setter>,
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
            reported_ns: [0; RACKS_MAX],
            last: [(0, 0); RACKS_MAX],
            days: VecDeque::new(),
            number: 0,
            begin_ns: now_ns + (controller.lead_ms * 1e6) as u64,
            setter: None,
            status: ControlStatus::default(),
        }
    }

    /// Takes note of a frame from the control network; only racks' matter.
    fn hear(&mut self, now_ns: u64, heard: &Heard, sealer: &mut Sealer) {
        let Frame::Report { rack, heard: named, waiting } = &heard.frame else { return };
        if heard.sealed && !self.is_news(*rack, *named, heard.sequence, sealer) {
            self.status.replayed += 1;
            return;
        }
        self.report(now_ns, *rack, waiting);
    }

    /// Whether a sealed report was not heard before: it names a recent frame of ours, and comes after
    /// the rack's last one.
    fn is_news(&mut self, rack: u8, named: u64, sequence: u64, sealer: &mut Sealer) -> bool {
        if sealer.overtake(named) {
            // Of our run before, or of another controller: its word would be believed, not ours.
            warn!(
                rack,
                code = "EBB-T003",
                "racks received frames with later numbers than this controller's clock gives: \
                continuing after them"
            );
            return false;
        }
        let recent = (REPORT_NS_MAX as f64 / (self.controller.announce_us * 1e3)).max(16.0) as u64;
        let last = &mut self.last[usize::from(rack)];
        let is_news = sealer.sequence() - named <= recent && (named, sequence) > *last;
        if is_news {
            *last = (named, sequence);
        }
        is_news
    }

    fn report(&mut self, now_ns: u64, rack: u8, waiting: &[u64; RACKS_MAX]) {
        self.status.reports += 1;
        self.waiting[usize::from(rack)] = *waiting;
        self.reported_ns[usize::from(rack)] = now_ns;
    }

    /// Whether racks are told of circuits. A switch that makes none is asked on, and racks take the packet path, as they
    /// do when nobody tells them anything.
    fn speaks(&self) -> bool {
        !self.setter.as_ref().is_some_and(Setter::is_failing)
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
            self.plan_week(now_ns);
        }
        let up = self.days.front().is_some_and(|day| day.begin_ns <= now_ns);
        self.status.sent += u64::from(self.speaks());
        Frame::Sync {
            epoch: self.epoch,
            sent_ns: now_ns,
            circuits: if up { Circuits::Up } else { Circuits::Down },
            racks: self.controller.racks,
            days: self.days.iter().take(days_max(self.controller.racks)).copied().collect(),
        }
    }

    fn plan_week(&mut self, now_ns: u64) {
        let racks = usize::from(self.controller.racks);
        let (day_ns, night_ns) =
            ((self.controller.day_us * 1e3) as u64, (self.controller.night_us * 1e3) as u64);
        if self.scheduler.name() != "round-robin" {
            for (waiting, reported_ns) in self.waiting.iter_mut().zip(self.reported_ns) {
                // A rack that says nothing any more waits for nothing.
                if now_ns > reported_ns + REPORT_NS_MAX {
                    *waiting = [0; RACKS_MAX];
                }
            }
            let started = crate::clock::now_ns();
            let days = self.schedule(racks, day_ns, night_ns);
            self.status.schedule_us = (crate::clock::now_ns() - started) as f64 * 1e-3;
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
        // What a longer one would carry is planned again.
        let duration_ns = duration_ns.min(DAY_NS_MAX);
        let day = Announced {
            number: self.number,
            duration_ns: duration_ns as u32,
            begin_ns,
            outputs: std::array::from_fn(output),
        };
        if let Some(setter) = &self.setter {
            // Where there is no room, that counts as failed.
            _ = setter.announce(self.begin_ns, &day);
        }
        self.days.push_back(day);
        self.status.days += 1;
        self.number = self.number.wrapping_add(1);
        self.begin_ns = begin_ns + duration_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Clock, Phase, Plan};
    use crate::seal::Keys;

    fn planner(scheduler: &str) -> Planner {
        let text = crate::config::OCS_EXAMPLE
            .replace("racks = 2", "racks = 4")
            .replace("\"round-robin\"", &format!("\"{scheduler}\""));
        let config = OcsConfig::parse("ocs.toml", &text).expect("a configuration");
        Planner::new(&config.controller, 10_000_000_000, 7, 1_000_000_000)
    }

    fn sealer() -> Sealer {
        Sealer::new(Keys::parse("a token that nobody knows").expect("a key"), 1_000)
    }

    /// Repeated, of long ago, of somebody without a key, from a rack whose word was counted already:
    /// no such report changes what is planned.
    #[test]
    fn a_report_counts_once_and_only_while_it_is_fresh() {
        let mut planner = planner("eclipse");
        let (mut ours, mut racks) = (sealer(), sealer());
        let mut report = |heard: u64| {
            let mut buffer = [0; 1000];
            let frame = Frame::Report { rack: 1, heard, waiting: [heard; RACKS_MAX] };
            let len = sync::write(&frame, [2; 6], &mut racks, &mut buffer);
            sync::read(&buffer[..len], racks.keys()).expect("sealed")
        };
        let (unheard, early, late) = (report(0), report(1_900), report(2_000));
        ours.overtake(2_000);
        let mut counted = |report: &Heard| {
            let before = planner.status.reports;
            planner.hear(0, report, &mut ours);
            planner.status.reports > before
        };
        assert!(!counted(&unheard), "who heard nothing may repeat anything");
        assert!(counted(&early) && counted(&late));
        assert!(!counted(&early) && !counted(&late), "repeated");
        assert!(!counted(&report(900)), "names a frame of a second ago and more");
        assert!(counted(&report(2_000)), "the next of the same rack");
        // Racks have heard an earlier run whose clock was ahead.
        assert!(!counted(&report(9_000)));
        assert_eq!(ours.sequence(), 9_000, "it goes on above that");
        assert_eq!((planner.status.replayed, planner.waiting[1][0]), (5, 2_000));
    }

    /// A rack that died is not planned for.
    #[test]
    fn reports_age() {
        let mut planner = planner("eclipse");
        planner.report(
            1_000_000_000,
            0,
            &std::array::from_fn(|to| if to == 2 { 900_000 } else { 0 }),
        );
        planner.announce(2_500_000_000);
        assert_eq!(planner.waiting[0][2], 0);
    }

    /// A switch out of order: racks are not told of circuits that it does not make.
    #[test]
    fn nobody_is_told_of_circuits_that_are_not_made() {
        struct Broken;
        impl crate::optical::OpticalSwitch for Broken {
            fn connect(&mut self, _circuits: &[(u8, u8)]) -> std::io::Result<()> {
                Err(std::io::Error::other("out of order"))
            }
        }
        let mut planner = planner("round-robin");
        assert!(planner.speaks());
        planner.setter = Some(Setter::start(Box::new(Broken)).expect("a thread"));
        let begun = ebb_host::clock::monotonic();
        while planner.speaks() {
            planner.announce(crate::clock::now_ns());
            assert!(ebb_host::clock::monotonic().since(begun) < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(planner.setter.as_ref().is_some_and(|setter| setter.status().failed >= 3));
    }

    /// A rack that hears every frame always knows what comes.
    #[test]
    fn announcements_leave_no_gap() {
        for scheduler in ["round-robin", "eclipse"] {
            let mut planner = planner(scheduler);
            planner.report(
                1_000_000_000,
                0,
                &std::array::from_fn(|to| if to == 2 { 400_000 } else { 0 }),
            );
            let mut plan = Plan::new(Clock::Shared, 0);
            let mut sealer = sealer();
            let mut buffer = [0; 1024];
            for step in 0..200u64 {
                let now = 1_000_000_000 + step * 1_000_000;
                let frame = planner.announce(now);
                let len = sync::write(&frame, MAC, &mut sealer, &mut buffer);
                plan.hear(now, &sync::read(&buffer[..len], sealer.keys()).expect("sound"));
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
                    planner.report(
                        1_000_000_000,
                        rack,
                        &std::array::from_fn(|to| of(to).unwrap_or(0)),
                    );
                }
                let mut plan = Plan::new(Clock::Shared, 0);
                let mut sealer = sealer();
                let mut buffer = [0; 1024];
                for step in 0..30u64 {
                    let now = 1_000_000_000 + step * 1_000_000;
                    let frame = planner.announce(now);
                    let len = sync::write(&frame, MAC, &mut sealer, &mut buffer);
                    plan.hear(now, &sync::read(&buffer[..len], sealer.keys()).expect("sound"));
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
        planner.report(
            1_000_000_000,
            0,
            &std::array::from_fn(|to| if to == 2 { 900_000 } else { 0 }),
        );
        let Frame::Sync { days, .. } = planner.announce(1_000_000_000) else { unreachable!() };
        assert_eq!(days[0].outputs[0], 2);
        assert!(days[0].duration_ns > 300_000, "{}", days[0].duration_ns);
    }
}
