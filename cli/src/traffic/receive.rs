//! `ebb traffic receive`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_traffic::Start;

use super::{Outcome, Through, drive, open, report, wall_clock};
use crate::generator::Generator;

/// Receive test packets and count loss, reordering, duplicates and latency
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb traffic receive eth2                        until Ctrl-C, then the summary
  ebb traffic receive eth2 --expect 1000000 --strict --json
  ebb traffic receive eth2 --seconds 30 --through packet

Lost packets are gaps in each flow's sequence numbers; with --expect, all that are missing from the
packets sent. Latency is as exact as the clocks of sender and receiver agree.")]
pub struct Receive {
    /// Interface to receive on
    interface: String,
    /// Expect flows 0 to N-1
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    /// Number of packets sent, to count losses at the end too; stops when all have arrived
    #[arg(long, value_name = "PACKETS")]
    expect: Option<u64>,
    /// Stop after this many packets
    #[arg(long)]
    count: Option<u64>,
    /// Stop after this many seconds [default: at Ctrl-C]
    #[arg(long)]
    seconds: Option<f64>,
    /// How to access the interface
    #[arg(long, value_enum, default_value_t = Through::Auto)]
    through: Through,
    /// Exit with status 3 when a packet was lost or reordered
    #[arg(long)]
    strict: bool,
    /// Print the result as JSON, without progress
    #[arg(long)]
    json: bool,
}

impl Receive {
    /// Receives until the count, the time or Ctrl-C ends it.
    pub fn run(self) -> Result<ExitCode> {
        let (links, transport) = open(&[&self.interface], self.through)?;
        let start = if self.expect.is_some() { Start::Zero } else { Start::FirstSeen };
        let receive_max = self.count.or(self.expect).unwrap_or(u64::MAX);
        let mut generator = Generator::new(links, Vec::new(), self.flows, start)
            .with_clock(wall_clock)
            .with_receive_max(receive_max);
        let seconds = drive(&mut generator, self.seconds, self.json)?;
        let mut summary = generator.summary(false);
        if let Some(expected) = self.expect {
            summary.sent = expected;
            summary.lost = expected.saturating_sub(summary.received);
        }
        report(&Outcome { transport, seconds, summary, bytes_sent: None }, self.json, self.strict)
    }
}
