//! `ebb router replay`.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_routerd::config::Config;
use ebb_routerd::replay::{ReplayOptions, ReplayReport, run};

/// Send captures through the data plane, without privileges, and count the results
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router replay -c router.toml --in eth1=in.pcap --out eth2=out.pcap
  ebb router replay -c router.toml --in eth1=a.pcap --in eth2=b.pcapng --json
  ebb router replay -c router.toml --in eth1=elsewhere.pcap --any-mac

Addresses, routes and neighbours come from the configuration. Counters always add up: received is
forwarded, to_kernel and dropped together.")]
pub struct Replay {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Capture that a port receives (.pcap or .pcapng); repeat for other ports
    #[arg(long = "in", value_name = "PORT=FILE", required = true, value_parser = parse_pair)]
    inputs: Vec<(String, PathBuf)>,
    /// Capture file (.pcap or .pcapng) to write with the packets that a port transmits; repeat for other ports
    #[arg(long = "out", value_name = "PORT=FILE", value_parser = parse_pair)]
    outputs: Vec<(String, PathBuf)>,
    /// Capture file (.pcap or .pcapng) to write with the packets that the kernel would get
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Accept packets to any MAC address, for captures of other machines
    #[arg(long)]
    any_mac: bool,
    /// Print the counters as JSON
    #[arg(long)]
    json: bool,
}

impl Replay {
    /// Replays and prints the counters.
    pub fn run(self) -> Result<ExitCode> {
        let config = Config::load(&self.config)?;
        let options = ReplayOptions {
            inputs: self.inputs,
            outputs: self.outputs,
            kernel: self.kernel,
            any_mac: self.any_mac,
        };
        let report = run(&config, &options)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        } else {
            write!(out, "{}", text(&report))?;
        }
        let whole = report.incomplete.is_empty();
        for problem in report.notes.iter().chain(&report.incomplete) {
            eprintln!("ebb: {problem}");
        }
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn text(report: &ReplayReport) -> String {
    let mut out = String::new();
    let mut line = |name: &str, count: u64| {
        writeln!(out, "{name:<28}{count:>12}").expect("writing to memory");
    };
    line("received", report.received);
    line("forwarded", report.forwarded);
    line("to_kernel", report.to_kernel);
    line("dropped", report.dropped.values().sum());
    for (reason, count) in &report.dropped {
        line(&format!("  {reason}"), *count);
    }
    line("ICMP errors sent", report.originated);
    for (name, port) in &report.ports {
        line(&format!("{name} received"), port.received);
        line(&format!("{name} transmitted"), port.transmitted);
    }
    out
}

fn parse_pair(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((port, file)) if !port.is_empty() && !file.is_empty() => {
            Ok((port.to_owned(), file.into()))
        }
        _ => Err("expected PORT=FILE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_split_at_the_first_sign() {
        assert_eq!(parse_pair("eth1=a=b.pcap"), Ok(("eth1".into(), "a=b.pcap".into())));
        for bad in ["eth1", "=a", "eth1=", ""] {
            assert!(parse_pair(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_fate_has_a_line() {
        let report = ReplayReport {
            received: 5,
            forwarded: 2,
            dropped: [("no_route", 3)].into(),
            ..ReplayReport::default()
        };
        let text = text(&report);
        assert!(text.contains("dropped                                3\n"), "{text}");
        assert!(text.contains("  no_route                             3\n"), "{text}");
    }
}
