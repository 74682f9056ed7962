//! `ebb traffic`: test traffic between any two interfaces.

pub(crate) mod capacity;
mod captured;
mod next_hop;
mod rate;
mod receive;
mod send;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use ebb_traffic::Summary;
use ebb_units::Time;
use serde::Serialize;
use tracing::info;

use crate::generator::{
    AfXdpLink, FrameSource, Generator, SocketLink, TestLink, interrupt_signals, on_interrupt,
};

/// How long stragglers are waited for at the end.
const SETTLE: Duration = Duration::from_millis(300);
/// Exit status of `--strict` when packets were lost.
const LOST: u8 = 3;
/// Exit status when less could be sent than was asked.
const FELL_SHORT: u8 = 4;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send numbered, time-stamped packets of many flows at a given rate
    Send(Box<send::SendArgs>),
    /// Receive test packets and count loss, reordering, duplicates and latency
    Receive(receive::Receive),
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Send(command) => command.run(),
            Command::Receive(command) => command.run(),
        }
    }
}

/// How an interface is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Through {
    /// AF_XDP, or a packet socket if AF_XDP is not possible
    #[default]
    Auto,
    /// An AF_XDP socket; the kernel does not receive the interface's packets
    Afxdp,
    /// A packet socket; the kernel receives the packets too
    Packet,
}

/// Opens interfaces, all in the same way, and says how.
fn open(names: &[&str], through: Through) -> Result<(Vec<Box<dyn TestLink>>, &'static str)> {
    if through != Through::Packet {
        let frames = FrameSource::new(names.len() as u32);
        let open = |name: &&str| AfXdpLink::open(name, &frames);
        match names.iter().map(open).collect::<Result<Vec<_>, _>>() {
            Ok(links) => {
                let links = links.into_iter().map(|link| Box::new(link) as Box<dyn TestLink>);
                return Ok((links.collect(), "af_xdp"));
            }
            Err(error) if through == Through::Afxdp => return Err(error.into()),
            Err(error) => {
                info!(code = "EBB-E001", "using a packet socket instead of AF_XDP: {error}")
            }
        }
    }
    let mut links: Vec<Box<dyn TestLink>> = Vec::new();
    for name in names {
        let link = SocketLink::open(name).with_context(|| {
            format!("cannot open interface {name}: run as root or with CAP_NET_RAW")
        })?;
        links.push(Box::new(link));
    }
    Ok((links, "af_packet"))
}

/// Nanoseconds since 1970: agrees between hosts as well as their clocks do.
fn wall_clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_nanos(since.as_nanos() as u64)
}

/// What a command reports at its end.
#[derive(Debug, Serialize)]
struct Outcome {
    transport: &'static str,
    seconds: f64,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
}

/// Runs `generator` for at most `seconds` with a line of progress each second, ending early at
/// Ctrl-C, and returns how long it took.
fn drive(generator: &mut Generator, seconds: Option<f64>, quiet: bool) -> Result<f64> {
    let signals = interrupt_signals().context("cannot handle signals")?;
    let progress = generator.progress();
    let stop = progress.clone();
    on_interrupt(signals, move || stop.stop.store(true, Relaxed))?;
    let end = seconds.map_or(Time::NEVER, |span| wall_clock() + Duration::from_secs_f64(span));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut sent, mut received) = (0, 0);
            while !done.load(Relaxed) {
                std::thread::park_timeout(Duration::from_secs(1));
                let now = (progress.sent.load(Relaxed), progress.received.load(Relaxed));
                if !quiet && !done.load(Relaxed) {
                    let (out, back) = (now.0 - sent, now.1 - received);
                    eprintln!("sent {out:>9} /s   received {back:>9} /s");
                }
                (sent, received) = now;
            }
        });
        let result = generator.run(end, SETTLE);
        done.store(true, Relaxed);
        watch.thread().unpark();
        result
    })
    .context("the interface failed")?;
    Ok(generator.ran().as_secs_f64())
}

/// Prints an outcome and chooses the exit status.
fn report(outcome: &Outcome, json: bool, strict: bool) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(outcome)?)?;
    } else {
        write!(out, "{}", text(outcome))?;
    }
    let lost = strict && outcome.summary.lost + outcome.summary.reordered > 0;
    Ok(if lost { ExitCode::from(LOST) } else { ExitCode::SUCCESS })
}

fn text(outcome: &Outcome) -> String {
    let (summary, mut out) = (&outcome.summary, String::new());
    let share = |count: u64| 100.0 * count as f64 / summary.sent.max(1) as f64;
    let per_second = |count: u64| count as f64 / outcome.seconds.max(1e-9);
    let latency = &summary.latency_us;
    let mut line = |name: &str, value: String| {
        writeln!(out, "{name:<12} {value}").expect("writing to memory");
    };
    line("transport", format!("{} for {:.2} s", outcome.transport, outcome.seconds));
    let bits = outcome.bytes_sent.map(|bytes| {
        let bits = rate::wire_bits(summary.sent as f64, bytes as f64) / outcome.seconds.max(1e-9);
        format!(", {} on the wire", rate::bit_rate(bits))
    });
    let bits = bits.unwrap_or_default();
    line("sent", format!("{} packets, {:.0} /s{bits}", summary.sent, per_second(summary.sent)));
    if summary.received > 0 || outcome.bytes_sent.is_none() {
        let flows = format!("{} flow{}", summary.flows, if summary.flows == 1 { "" } else { "s" });
        line("received", format!("{} packets of {flows}", summary.received));
        line("lost", format!("{} ({:.4} %)", summary.lost, share(summary.lost)));
        line("reordered", format!("{}", summary.reordered));
        line("duplicated", format!("{}", summary.duplicated));
        line(
            "latency",
            format!(
                "min {:.1}  mean {:.1}  p50 {:.1}  p99 {:.1}  max {:.1} us",
                latency.min, latency.mean, latency.p50, latency.p99, latency.max
            ),
        );
    }
    if summary.strangers > 0 {
        line("strangers", format!("{} test packets of unexpected flows", summary.strangers));
    }
    if summary.backwards > 0 {
        let note = "packets arrived before they were sent: the clocks differ, latency is invalid";
        line("clocks", format!("{} {note}", summary.backwards));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_traffic::Latency;

    #[test]
    fn an_outcome_says_what_happened_to_the_packets() {
        let latency_us = Latency { min: 1.0, mean: 2.5, p50: 2.0, p99: 9.0, max: 10.0 };
        let summary = Summary {
            sent: 1000,
            received: 990,
            lost: 10,
            backwards: 1,
            flows: 4,
            latency_us,
            ..Summary::default()
        };
        let outcome = Outcome { transport: "af_packet", seconds: 2.0, summary, bytes_sent: None };
        let text = text(&outcome);
        assert!(text.contains("lost         10 (1.0000 %)"), "{text}");
        assert!(text.contains("sent         1000 packets, 500 /s"), "{text}");
        assert!(text.contains("clocks differ"), "{text}");
        let json = serde_json::to_value(&outcome).expect("JSON");
        assert_eq!(json["lost"], 10);
        assert_eq!(json["latency_us"]["p99"], 9.0);
    }
}
