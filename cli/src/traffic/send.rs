//! `ebb traffic send`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use ebb_host::netlink::Requests;
use ebb_traffic::{
    Bursts, Constant, DayProfile, Due, FlowSpec, Pacer, Poisson, Schedule, SizeMix, Start, Stream,
    StreamSpec, Timeline, draw_flows,
};
use ebb_units::{PacketsPerSecond, Time};
use ipnet::IpNet;

use super::{Outcome, Through, drive, open, report, wall_clock};
use crate::generator::{Generator, Sender};

/// Send numbered, time-stamped packets of many flows at a stated pace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # 100,000 packets a second of mixed sizes for ten seconds, to the router 02:00:00:00:00:01
  ebb traffic send eth1 --to 02:00:00:00:00:01 --destinations 10.1.0.0/16 --rate 100000

  # through a router and back in on another interface, counting loss and latency here
  ebb traffic send eth1 --to 02:00:00:00:00:01 --destinations 10.1.0.0/16 --receive-on eth2

  # a working day in a minute, two families, exact figures for a program
  ebb traffic send eth1 --to 02:00:00:00:00:01 --sources 10.0.0.0/24 2001:db8::/64 \\
      --destinations 10.1.0.0/16 2001:db8:1::/48 --profile uk-backbone --seconds 60 --json")]
pub struct Send {
    /// Interface to send on
    interface: String,
    /// Hardware address of the next hop
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    to: [u8; 6],
    /// Hardware address to send from [default: the interface's]
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    from: Option<[u8; 6]>,
    /// Prefixes that the flows' sources lie in
    #[arg(long, value_name = "PREFIX", num_args = 1.., default_values = ["198.18.0.0/16", "2001:2::/64"])]
    sources: Vec<IpNet>,
    /// Prefixes that the flows' destinations lie in
    #[arg(long, value_name = "PREFIX", num_args = 1.., default_values = ["198.19.0.0/16", "2001:2:0:1::/64"])]
    destinations: Vec<IpNet>,
    /// Packets per second; the peak where the pace varies
    #[arg(long, value_name = "PPS", default_value_t = 10_000.0)]
    rate: f64,
    /// Pace of the packets
    #[arg(long, value_enum, default_value_t = Arrivals::Constant)]
    arrivals: Arrivals,
    /// Follow a day, compressed into --seconds, with --rate at its busiest (uk-backbone, eu-isp)
    #[arg(long, value_name = "DAY", value_parser = parse_profile, conflicts_with = "arrivals")]
    profile: Option<DayProfile>,
    /// Frame sizes on the wire: imix (64, 594, 1518 bytes as 7:4:1) or a number from 64 to 1518
    #[arg(long, value_name = "SIZES", value_parser = parse_sizes, default_value = "imix")]
    size: SizeMix,
    /// Number of flows
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    /// Number of the first flow, for several senders to one receiver
    #[arg(long, default_value_t = 0)]
    first_flow: u32,
    /// Share of flows over IPv6, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = parse_share)]
    ipv6_share: f64,
    /// Share of flows that look like TCP, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = parse_share)]
    tcp_share: f64,
    /// Weight of the flows: 0 all alike, 1 a few carry most (Zipf)
    #[arg(long, value_name = "EXPONENT", default_value_t = 0.0)]
    zipf: f64,
    /// Stop after that many packets
    #[arg(long)]
    count: Option<u64>,
    /// Stop after that many seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Receive on this interface as well and report loss, order and latency
    #[arg(long, value_name = "INTERFACE")]
    receive_on: Option<String>,
    /// How the interfaces are reached
    #[arg(long, value_enum, default_value_t = Through::Auto)]
    through: Through,
    /// With --receive-on: exit with status 3 when a packet was lost or reordered
    #[arg(long)]
    strict: bool,
    /// Print the result as JSON and no progress
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arrivals {
    /// Equal distances
    Constant,
    /// Exponential distances
    Poisson,
    /// Bursts of 1 ms and silences of 9 ms on average; --rate is the rate within a burst
    Bursts,
}

impl Send {
    /// Sends until the count, the time or Ctrl-C ends it.
    pub fn run(self) -> Result<ExitCode> {
        ensure!(self.rate > 0.0 && self.rate.is_finite(), "--rate must be above zero");
        ensure!(self.seconds > 0.0 && self.seconds.is_finite(), "--seconds must be above zero");
        ensure!(self.zipf >= 0.0, "--zipf must not be negative");
        let own_mac = match self.from {
            Some(mac) => mac,
            None => mac_of(&self.interface)?,
        };
        let stream = self.stream(own_mac)?;
        let names: Vec<&str> = [
            Some(&self.interface),
            self.receive_on.as_ref().filter(|name| **name != self.interface),
        ]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
        let (links, transport) = open(&names, self.through)?;
        let pace = Box::new(Limited { pace: self.pace(wall_clock()), left: self.count });
        let sender = Sender { link: 0, stream, pace };
        let flows = self.first_flow + self.flows;
        let mut generator =
            Generator::new(links, vec![sender], flows, Start::Zero).with_clock(wall_clock);
        let seconds = drive(&mut generator, Some(self.seconds), self.json)?;
        let mut summary = generator.summary(true);
        if self.receive_on.is_none() {
            summary.lost = 0;
        }
        let bytes_sent = Some(generator.bytes());
        report(&Outcome { transport, seconds, summary, bytes_sent }, self.json, self.strict)
    }

    fn stream(&self, from: [u8; 6]) -> Result<Stream> {
        let families = |nets: &[IpNet], six| nets.iter().any(|net| net.addr().is_ipv6() == six);
        let both = |six| families(&self.sources, six) && families(&self.destinations, six);
        if !both(false) && !both(true) {
            bail!("--sources and --destinations have no family in common");
        }
        let spec = FlowSpec {
            count: self.flows,
            sources: &self.sources,
            destinations: &self.destinations,
            ipv6_share: self.ipv6_share,
            tcp_share: self.tcp_share,
        };
        let mix = StreamSpec {
            first_flow: self.first_flow,
            from,
            to: self.to,
            sizes: &self.size,
            popularity: self.zipf,
            seed: self.seed,
        };
        Ok(Stream::new(&draw_flows(&spec, self.seed), &mix))
    }

    fn pace(&self, start: Time) -> Box<dyn Due + std::marker::Send> {
        let rate = PacketsPerSecond(self.rate);
        if let Some(profile) = self.profile {
            let span = Duration::from_secs_f64(self.seconds);
            let backlog_max = (self.rate / 100.0) as u64 + 64;
            return Box::new(Pacer::new(Schedule::day(profile, rate, span), start, backlog_max));
        }
        match self.arrivals {
            Arrivals::Constant => Box::new(Timeline::new(Constant::new(start, rate))),
            Arrivals::Poisson => Box::new(Timeline::new(Poisson::new(start, rate, self.seed))),
            Arrivals::Bursts => {
                let (on, off) = (Duration::from_millis(1), Duration::from_millis(9));
                Box::new(Timeline::new(Bursts::new(start, rate, on, off, self.seed)))
            }
        }
    }
}

/// Ends another pace after a number of packets.
struct Limited {
    pace: Box<dyn Due + std::marker::Send>,
    left: Option<u64>,
}

impl Due for Limited {
    fn due(&mut self, now: Time, max: u32) -> u32 {
        let max = self.left.map_or(max, |left| u64::from(max).min(left) as u32);
        let count = self.pace.due(now, max);
        if let Some(left) = &mut self.left {
            *left -= u64::from(count);
        }
        count
    }

    fn next_at(&mut self) -> Option<Time> {
        if self.left == Some(0) { None } else { self.pace.next_at() }
    }
}

fn mac_of(interface: &str) -> Result<[u8; 6]> {
    let mut requests = Requests::open().context("cannot ask the kernel for interfaces")?;
    let link = requests.link_by_name(interface)?;
    let link = link.with_context(|| format!("there is no interface {interface}"))?;
    link.mac.with_context(|| format!("{interface} has no hardware address; give --from"))
}

fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let parts: Vec<&str> = text.split(':').collect();
    let bytes: Option<Vec<u8>> = parts
        .iter()
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2))
        .collect();
    let mac = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    mac.ok_or_else(|| "six bytes such as 02:00:00:00:00:01 are needed".to_owned())
}

fn parse_profile(text: &str) -> Result<DayProfile, String> {
    DayProfile::by_name(text).ok_or_else(|| {
        let names: Vec<&str> = DayProfile::ALL.iter().map(DayProfile::name).collect();
        format!("known days are {}", names.join(" and "))
    })
}

fn parse_sizes(text: &str) -> Result<SizeMix, String> {
    SizeMix::by_name(text).ok_or_else(|| "imix or a number from 64 to 1518 is needed".to_owned())
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a number from 0 to 1 is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_six_bytes() {
        assert_eq!(parse_mac("02:0:00:00:00:fF"), Ok([2, 0, 0, 0, 0, 255]));
        for bad in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "02:00:00:00:00:100", "x"] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_limited_pace_ends_exactly() {
        let constant = Constant::new(Time::ZERO, PacketsPerSecond(1e9));
        let mut pace = Limited { pace: Box::new(Timeline::new(constant)), left: Some(100) };
        let now = Time::from_nanos(1_000_000);
        assert_eq!(pace.due(now, 64), 64);
        assert!(pace.next_at().is_some());
        assert_eq!(pace.due(now, 64), 36);
        assert_eq!(pace.due(now, 64), 0);
        assert_eq!(pace.next_at(), None);
    }
}
