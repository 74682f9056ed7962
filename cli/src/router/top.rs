//! `ebb router top`.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use ebb_host::wait::{Readiness, WaitSet};
use ebb_report::spark_between;
use ebb_routerd::status::{Status, WorkerState};

use super::{Target, show};
use crate::generator::interrupt_signals;

/// Watch a running router
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router top                   until Ctrl-C or Enter
  ebb router top --every 0.5
  ebb router top --count 10 | cat  a line each time, without a terminal")]
pub struct Top {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
    /// Looks before it ends [default: none]
    #[arg(long)]
    count: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// Looks that a spark line remembers.
const MEMORY: usize = 60;

/// What a row shows of each look.
type Quantity = fn(&Look) -> f64;

/// One look at the router, as rates since the look before.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    received_pps: f64,
    forwarded_pps: f64,
    dropped_pps: f64,
    cores: f64,
    busy_cores: f64,
    watts: f64,
}

impl Top {
    /// Looks again and again.
    pub fn run(self) -> Result<ExitCode> {
        anyhow::ensure!(self.every >= 0.05, "--every must be at least 0.05");
        let mut signals = interrupt_signals()?;
        let mut client = self.target.connect()?;
        let live = std::io::stdout().is_terminal();
        let screen = live.then(Screen::enter).transpose()?;
        let keyboard = live && std::io::stdin().is_terminal();
        let mut looks = VecDeque::new();
        let mut before = client.status()?;
        let mut wait = WaitSet::new();
        wait.add(signals.fd());
        if keyboard {
            wait.add(std::io::stdin().as_raw_fd());
        }
        for _ in 0..self.count.unwrap_or(u64::MAX) {
            wait.wait(Some(Duration::from_secs_f64(self.every.min(3600.0))));
            if signals.take()?.is_some() || (keyboard && wait.readiness(1) != Readiness::Idle) {
                break;
            }
            let now = client.status()?;
            looks.push_back(look(&before, &now));
            if looks.len() > MEMORY {
                looks.pop_front();
            }
            let mut out = std::io::stdout().lock();
            if live {
                let body = panel(&before, &now, looks.make_contiguous());
                let lines: String = body.lines().map(|line| format!("{line}\x1b[K\n")).collect();
                write!(out, "\x1b[H{lines}\x1b[J")?;
            } else {
                writeln!(out, "{}", line(&looks[looks.len() - 1], &now))?;
            }
            out.flush()?;
            before = now;
        }
        drop(screen);
        Ok(ExitCode::SUCCESS)
    }
}

/// The terminal's second screen, until dropped.
struct Screen;

impl Screen {
    fn enter() -> std::io::Result<Screen> {
        let mut out = std::io::stdout().lock();
        write!(out, "\x1b[?1049h\x1b[?25l\x1b[2J")?;
        out.flush()?;
        Ok(Screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = std::io::stdout().lock();
        // A terminal that is gone needs no restoring.
        _ = write!(out, "\x1b[?25h\x1b[?1049l");
        _ = out.flush();
    }
}

fn look(before: &Status, now: &Status) -> Look {
    let span = (now.uptime_seconds - before.uptime_seconds).max(1e-3);
    let (old, new) = (before.packets(), now.packets());
    let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / span;
    let busy = |status: &Status| status.workers.iter().map(|w| w.busy_seconds).sum::<f64>();
    Look {
        received_pps: rate(old.received, new.received),
        forwarded_pps: rate(old.forwarded, new.forwarded),
        dropped_pps: rate(old.dropped_total(), new.dropped_total()),
        cores: f64::from(now.point.cores),
        busy_cores: ((busy(now) - busy(before)) / span).max(0.0),
        watts: now.energy.watts,
    }
}

fn line(look: &Look, status: &Status) -> String {
    format!(
        "{:>8.0} s  received {:>9.0} /s  forwarded {:>9.0} /s  dropped {:>7.0} /s  cores {}  \
         busy {:.2}  {:.1} W {}",
        status.uptime_seconds,
        look.received_pps,
        look.forwarded_pps,
        look.dropped_pps,
        look.cores,
        look.busy_cores,
        look.watts,
        status.energy.basis.name(),
    )
}

fn panel(before: &Status, status: &Status, looks: &[Look]) -> String {
    let now = looks.last().copied().unwrap_or_default();
    let mut out = show::headline(status);
    out.push('\n');
    let peak = |value: Quantity| looks.iter().map(value).fold(1.0, f64::max);
    let cores = f64::from(status.point.cores_max);
    let rows: [(&str, Quantity, f64, String); 6] = [
        ("received", |l| l.received_pps, peak(|l| l.received_pps), rate(now.received_pps)),
        ("forwarded", |l| l.forwarded_pps, peak(|l| l.received_pps), rate(now.forwarded_pps)),
        ("dropped", |l| l.dropped_pps, peak(|l| l.received_pps), rate(now.dropped_pps)),
        ("cores on", |l| l.cores, cores, format!("{}", now.cores)),
        ("cores busy", |l| l.busy_cores, cores, format!("{:.2}", now.busy_cores)),
        ("power", |l| l.watts, peak(|l| l.watts), format!("{:.1} W", now.watts)),
    ];
    for (name, value, top, words) in rows {
        let spark = spark_between(&looks.iter().map(value).collect::<Vec<_>>(), 0.0, top);
        writeln!(out, "{name:<11}{words:>12}  {spark}").expect("writing to memory");
    }
    out.push('\n');
    for (index, (worker, old)) in status.workers.iter().zip(&before.workers).enumerate() {
        let span = (status.uptime_seconds - before.uptime_seconds).max(1e-3);
        let busy = ((worker.busy_seconds - old.busy_seconds) / span).clamp(0.0, 1.0);
        let pps = worker.packets.received.saturating_sub(old.packets.received) as f64 / span;
        let bar = if worker.state == WorkerState::Parked {
            "parked".to_owned()
        } else {
            "█".repeat((busy * 20.0).round() as usize)
        };
        let cpu = worker.cpu.map_or("-".into(), |cpu| cpu.to_string());
        writeln!(
            out,
            "worker {index:<3} cpu {cpu:<4} {:>11}  {bar:<20} {:>4.0} %",
            rate(pps),
            busy * 100.0
        )
        .expect("writing to memory");
    }
    let latency = &status.latency;
    if latency.count > 0 {
        writeln!(
            out,
            "\nlatency since the start: mean {:.1}  p50 {:.1}  p99 {:.1} us",
            latency.mean_us, latency.p50_us, latency.p99_us
        )
        .expect("writing to memory");
    }
    out
}

fn rate(pps: f64) -> String {
    match pps {
        pps if pps >= 1e6 => format!("{:.2} Mpps", pps / 1e6),
        pps if pps >= 1e4 => format!("{:.0} kpps", pps / 1e3),
        pps => format!("{pps:.0} pps"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_routerd::status::{Packets, Worker};

    #[test]
    fn rates_are_differences_over_the_routers_own_time() {
        let worker = |received, busy_seconds| Worker {
            packets: Packets { received, forwarded: received, ..Packets::default() },
            busy_seconds,
            ..Worker::default()
        };
        let status = |uptime_seconds, received, busy| Status {
            uptime_seconds,
            workers: vec![worker(received, busy)],
            ..Status::default()
        };
        let (before, now) = (status(10.0, 1000, 1.0), status(12.0, 41_000, 2.0));
        let look = look(&before, &now);
        assert_eq!(look.received_pps, 20_000.0);
        assert_eq!(look.busy_cores, 0.5);
        let text = panel(&before, &now, &[look]);
        assert!(text.contains("20 kpps"), "{text}");
        assert!(text.contains("50 %"), "{text}");
    }
}
