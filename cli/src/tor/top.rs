//! `ebb tor top`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_tord::api;
use ebb_tord::status::{EDGES_NS, TorStatus};

use crate::watch::Watch;

#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    watch: Watch,
    /// The switch's status socket
    #[arg(short, long, value_name = "PATH", default_value = "/run/ebb/tor.sock")]
    socket: PathBuf,
}

impl Top {
    /// Looks again and again.
    pub(super) fn run(self) -> Result<ExitCode> {
        self.watch.run(|| api::status(&self.socket), panel)
    }
}

/// How often the thread did not look at its clock for so long.
fn still(status: &TorStatus) -> u64 {
    let first = EDGES_NS.partition_point(|edge| *edge < 20_000) + 1;
    status.looks.iter().skip(first).sum()
}

/// Who vouches for sync frames.
fn seals(status: &TorStatus) -> String {
    if !status.sealed {
        return "sync frames are not sealed (token_file is not set): for laboratories".to_owned();
    }
    format!("sealed: {} forged, {} replayed", status.sync.forged, status.sync.replayed)
}

fn panel(before: &TorStatus, now: &TorStatus) -> String {
    let span = (now.uptime_seconds - before.uptime_seconds).max(1e-3);
    let source = match now.source {
        Some(ebb_tord::plan::Source::Controller) => "the controller's days",
        Some(ebb_tord::plan::Source::Rotation) => "fixed rotation: no controller",
        _ => "packet path: no circuits known",
    };
    let busy = 100.0 * (now.cpu_seconds - before.cpu_seconds) / span;
    let sync = now.sync;
    let stood = (still(now) - still(before).min(still(now))) as f64 / span;
    let mut text = format!(
        "{source}, up {:.0} s, thread {busy:.0} % busy, stood still for 20 us or longer {stood:.0} times/s\n\
         sync: {} accepted, {} days missed, {} late, {} malformed, {} contradicting, {} stepped\n\
         {}\n\
         rack   sent/s  Mb/s  packets/s  received/s  waiting kB  days left %  requeued  full\n",
        now.uptime_seconds,
        sync.accepted,
        sync.missed,
        sync.late,
        sync.malformed,
        sync.contradicting,
        sync.stepped,
        seals(now),
    );
    for (old, new) in before.racks.iter().zip(&now.racks) {
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / span;
        let waiting: u64 = new.waiting_bytes.iter().sum();
        _ = writeln!(
            text,
            "{:>4} {:>8.0} {:>5.0} {:>10.0} {:>11.0} {:>11} {:>12.0} {:>9} {:>5}",
            new.rack,
            rate(old.sent, new.sent),
            rate(old.sent_bytes, new.sent_bytes) * 8e-6,
            rate(old.sent_by_packets, new.sent_by_packets),
            rate(old.received, new.received),
            waiting / 1000,
            100.0 * rate(old.days_left, new.days_left) / rate(old.days, new.days).max(1e-9),
            new.requeued,
            new.dropped_full,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_tord::status::RackStatus;

    #[test]
    fn the_panel_shows_rates_and_where_days_come_from() {
        let rack =
            |sent| RackStatus { rack: 2, sent, sent_bytes: 1000 * sent, ..Default::default() };
        let status = |seconds, sent| TorStatus {
            uptime_seconds: seconds,
            racks: vec![rack(sent)],
            looks: vec![sent; 13],
            ..TorStatus::default()
        };
        let text = panel(&status(1.0, 1000), &status(2.0, 3000));
        assert!(text.contains("packet path: no circuits known"), "{text}");
        // Five of the thirteen classes begin at 20 us or later.
        assert!(text.contains("stood still for 20 us or longer 10000 times/s"), "{text}");
        assert!(text.contains("   2     2000    16"), "{text}");
    }
}
