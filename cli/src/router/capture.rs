//! `ebb router capture`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebb_host::{clock, pcap};
use ebb_ports::capture_file::{self, Direction, Interface};
use ebb_units::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Target;

/// Copy packets that a running router receives into a capture file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router capture eth1 -w eth1.pcap --count 1000
  ebb router capture eth1 -w - --count 20 | tcpdump -nr -
  ebb router capture eth1 -w dns.pcapng udp port 53
  ebb router capture eth1 -w out.pcap --transmitted
  ebb router capture eth1 -w lost.pcap --dropped=no_route

The workers copy packets as they receive them, because tcpdump does not see packets of AF_XDP. Under
load some copies are missed; no packet is lost.")]
pub struct Capture {
    /// The router's port
    port: String,
    /// Capture file to write: .pcap, or .pcapng with the port's name, filter and direction; - for standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Packets to copy
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Stop after this many seconds even with fewer packets
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Copy packets as they leave through the port instead
    #[arg(long, conflicts_with = "dropped")]
    transmitted: bool,
    /// Copy packets that the port received and the router dropped instead: for one reason, for example
    /// no_route, or for all. A packet that was answered with an ICMP error appears as this error
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    dropped: Option<String>,
    /// Only packets that match this filter of tcpdump's (pcap-filter(7)); needs libpcap
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// Most packets asked for at once.
const TURN_MAX: u32 = 1000;

#[derive(Deserialize)]
struct Answer {
    packets: Vec<Copied>,
    missed: u64,
}

#[derive(Deserialize)]
struct Copied {
    time_ns: u64,
    frame: String,
}

impl Capture {
    /// Asks for packets until there are enough.
    pub fn run(self) -> Result<ExitCode> {
        let what = self.what()?;
        let mut client = self.target.connect()?;
        let stdout = self.write.as_os_str() == "-";
        let path = if stdout { PathBuf::from("/dev/stdout") } else { self.write.clone() };
        let boot = boot_time();
        let end = clock::monotonic() + Duration::from_secs_f64(self.seconds.clamp(0.0, 1e6));
        let (mut left, mut missed) = (self.count, 0);
        let mut ask = |left: u32| -> Result<Answer> {
            let mut ask = what.clone();
            ask["count"] = json!(left.min(TURN_MAX));
            let ask = json!({ "capture": ask });
            Ok(serde_json::from_value(client.request(&ask)?)?)
        };
        // A router that declines leaves no file behind, nor an older one empty.
        let mut first = Some(ask(left)?);
        let mut file = capture_file::create(&path, &self.interface())?;
        while left > 0 && (first.is_some() || clock::monotonic() < end) {
            let answer = first.take().map_or_else(|| ask(left), Ok)?;
            for copy in &answer.packets {
                let at = boot + Duration::from_nanos(copy.time_ns);
                file.write(at, &bytes(&copy.frame)?)?;
            }
            left -= (answer.packets.len() as u32).min(left);
            missed += answer.missed;
        }
        file.finish().with_context(|| path.display().to_string())?;
        eprintln!("{} packets captured, {missed} missed", self.count - left);
        Ok(ExitCode::SUCCESS)
    }
}

impl Capture {
    /// What a .pcapng says of the packets.
    fn interface(&self) -> Interface {
        let lost = match &self.dropped {
            Some(reason) if reason.is_empty() => "dropped by the router".to_owned(),
            Some(reason) => format!("dropped by the router: {reason}"),
            None => String::new(),
        };
        Interface {
            name: self.port.clone(),
            filter: self.filter.join(" "),
            comment: lost,
            direction: if self.transmitted { Direction::Outbound } else { Direction::Inbound },
        }
    }

    /// What to ask for, but for the number of packets.
    fn what(&self) -> Result<Value> {
        let mut ask = json!({ "port": self.port });
        if self.transmitted {
            ask["place"] = json!("transmitted");
        }
        if let Some(reason) = &self.dropped {
            ask["place"] = json!("dropped");
            if !reason.is_empty() {
                ask["reason"] = json!(reason);
            }
        }
        if !self.filter.is_empty() {
            let text = self.filter.join(" ");
            let compiled = pcap::compile(&text).with_context(|| format!("filter `{text}`"))?;
            ask["filter"] = json!(compiled);
        }
        Ok(ask)
    }
}

/// The wall clock's time when the monotonic clock was zero.
fn boot_time() -> Time {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = clock::monotonic().as_nanos();
    Time::from_nanos((wall.as_nanos() as u64).saturating_sub(since))
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => {
            Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => bail!("the router sent a malformed frame"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_pairs_of_digits() {
        assert_eq!(bytes("00ff7A").expect("digits"), [0, 255, 122]);
        assert!(bytes("0").is_err());
        assert!(bytes("0g").is_err());
        assert!(bytes("é0").is_err());
    }
}
