//! `ebb traffic send`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use ebb_traffic::{
    Bursts, Constant, Content, DayProfile, Due, FlowSpec, Pacer, Poisson, Schedule, SizeMix, Start,
    Stream, StreamSpec, Timeline, draw_flows,
};
use ebb_units::{PacketsPerSecond, Time};
use ipnet::IpNet;

use super::captured::Frames;
use super::next_hop::{NextHop, mac_of, parse_mac};
use super::rate::Rate;
use super::{FELL_SHORT, Outcome, Through, capacity, drive, open, report, wall_clock};
use crate::generator::{Generator, Sender};

/// Send numbered, time-stamped packets of many flows at a given rate
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # 100,000 packets a second of mixed sizes for ten seconds, to the router 10.0.0.1
  ebb traffic send eth1 --to 10.0.0.1 --destinations 10.1.0.0/16 --rate 100k

  # through a router and back to another interface, with loss and latency
  ebb traffic send eth1 --to 02:00:00:00:00:01 --destinations 10.1.0.0/16 --receive-on eth2

  # a working day in a minute, IPv4 and IPv6, results as JSON
  ebb traffic send eth1 --to 02:00:00:00:00:01 --sources 10.0.0.0/24 2001:db8::/64 \\
      --destinations 10.1.0.0/16 2001:db8:1::/48 --profile uk-backbone --seconds 60 --json

  # the highest rate that a router forwards without loss (RFC 2544), at most 5 million packets a second
  ebb traffic send eth1 --to 10.0.0.1 --destinations 10.1.0.0/16 --receive-on eth2 --find-capacity --rate 5M --seconds 2

  # the packets of a capture, over and over, 50,000 a second
  ebb traffic send eth1 --to 10.0.0.1 --pcap office.pcapng --rate 50k

Rates are packets per second, with the suffixes k, M or G; with the suffix bit they are bits per second
on the wire, including preamble, check sequence and gap (20 + 4 bytes per packet): 10Gbit.
Exit status 4: more than 1 % less was sent than requested.")]
pub struct SendArgs {
    /// Interface to send on
    pub(super) interface: String,
    /// The next hop: its MAC address, or an IP address to resolve on the interface
    #[arg(long, value_name = "MAC|ADDRESS", value_parser = NextHop::parse)]
    to: NextHop,
    /// Source MAC address [default: the interface's]
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    from: Option<[u8; 6]>,
    /// Prefixes of the flows' sources
    #[arg(long, value_name = "PREFIX", num_args = 1.., default_values = ["198.18.0.0/16", "2001:2::/64"])]
    sources: Vec<IpNet>,
    /// Prefixes of the flows' destinations
    #[arg(long, value_name = "PREFIX", num_args = 1.., default_values = ["198.19.0.0/16", "2001:2:0:1::/64"])]
    destinations: Vec<IpNet>,
    /// Packets per second, for example 50000, 10k, 1.5M, or bits per second, for example 1Gbit; the peak if
    /// the rate varies, the highest with --find-capacity
    #[arg(long, value_name = "RATE", default_value = "10000", value_parser = Rate::parse)]
    rate: Rate,
    /// Times between packets
    #[arg(long, value_enum, default_value_t = Arrivals::Constant)]
    arrivals: Arrivals,
    /// Follow a day, compressed into --seconds, with --rate at its peak (uk-backbone, eu-isp)
    #[arg(long, value_name = "DAY", value_parser = parse_profile, conflicts_with = "arrivals")]
    profile: Option<DayProfile>,
    /// Frame sizes on the wire: imix (64, 594, 1518 bytes as 7:4:1) or a number from 64 to 1518
    #[arg(long, value_name = "SIZES", value_parser = parse_sizes, default_value = "imix")]
    pub(super) size: SizeMix,
    /// Number of flows
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) flows: u32,
    /// Number of the first flow, for several senders to one receiver
    #[arg(long, default_value_t = 0)]
    pub(super) first_flow: u32,
    /// Share of flows over IPv6, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = parse_share)]
    ipv6_share: f64,
    /// Share of flows that look like TCP, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = parse_share)]
    tcp_share: f64,
    /// Fill packets with noise of which this share was sent before, 0 to 1 [default: zeroes]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    redundancy: Option<f64>,
    /// Send the Ethernet frames of this capture (.pcap or .pcapng) in their order, over and over, instead of test packets: as
    /// they are but for the MAC addresses, at --rate. What arrives of them is not counted
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "sources", "destinations", "size", "flows", "first_flow", "ipv6_share", "tcp_share", "redundancy", "zipf",
        "receive_on", "find_capacity",
    ])]
    pcap: Option<PathBuf>,
    /// Weight of the flows: 0 all equal, 1 a few have most packets (Zipf)
    #[arg(long, value_name = "EXPONENT", default_value_t = 0.0)]
    zipf: f64,
    /// Stop after this many packets
    #[arg(long)]
    count: Option<u64>,
    /// Stop after this many seconds; with --find-capacity, per trial
    #[arg(long, default_value_t = 10.0)]
    pub(super) seconds: f64,
    /// With --receive-on: find the highest rate without loss by bisection (RFC 2544, section 26.1)
    #[arg(long, requires = "receive_on", conflicts_with_all = ["profile", "count", "arrivals"])]
    find_capacity: bool,
    /// With --find-capacity: accepted loss in percent of the packets
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, requires = "find_capacity")]
    pub(super) loss_max: f64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Receive on this interface as well and report loss, order and latency
    #[arg(long, value_name = "INTERFACE")]
    receive_on: Option<String>,
    /// How to access the interfaces
    #[arg(long, value_enum, default_value_t = Through::Auto)]
    through: Through,
    /// With --receive-on: exit with status 3 when a packet was lost or reordered
    #[arg(long)]
    strict: bool,
    /// Print the result as JSON, without progress
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arrivals {
    /// Equal times
    Constant,
    /// Exponentially distributed times
    Poisson,
    /// Bursts of 1 ms and silences of 9 ms on average; --rate is the rate within a burst
    Bursts,
}

impl SendArgs {
    /// Sends until the count, the time or Ctrl-C ends it.
    pub fn run(self) -> Result<ExitCode> {
        ensure!(self.seconds > 0.0 && self.seconds.is_finite(), "--seconds must be above 0");
        ensure!(self.zipf >= 0.0, "--zipf must not be negative");
        // Before anything is opened: a file that is none of captures takes no interface away.
        let captured = self.pcap.as_deref().map(Frames::read).transpose()?;
        let frame_bytes = captured.as_ref().map_or_else(|| self.frame_bytes(), Frames::mean);
        let own_mac = match self.from {
            Some(mac) => mac,
            None => mac_of(&self.interface)?,
        };
        // Before AF_XDP takes the answers away from the kernel.
        let to = self.to.mac(&self.interface)?;
        let names: Vec<&str> = [
            Some(&self.interface),
            self.receive_on.as_ref().filter(|name| **name != self.interface),
        ]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
        let (links, transport) = open(&names, self.through)?;
        let flows = self.first_flow + self.flows;
        if self.find_capacity {
            return capacity::find(&self, links, transport, (own_mac, to));
        }
        let stream = match captured {
            Some(captured) => captured.stream(own_mac, to),
            None => self.stream(own_mac, to)?,
        };
        let rate = PacketsPerSecond(self.rate.packets(frame_bytes));
        let pace = Box::new(Limited { pace: self.pace(rate, wall_clock()), left: self.count });
        let sender = Sender { link: 0, stream, pace };
        let mut generator =
            Generator::new(links, vec![sender], flows, Start::Zero).with_clock(wall_clock);
        let seconds = drive(&mut generator, Some(self.seconds), self.json)?;
        let mut summary = generator.summary(true);
        if self.receive_on.is_none() {
            summary.lost = 0;
        }
        let bytes_sent = Some(generator.bytes());
        let owed = match self.schedule(rate).filter(|_| self.count.is_none()) {
            // A day goes on without what it could not send in time.
            Some(day) => {
                let due = day.packets_until(Duration::from_secs_f64(seconds)) as u64;
                due.saturating_sub(summary.sent)
            }
            None => generator.take_owed(),
        };
        let short = short(summary.sent, owed);
        let outcome = Outcome { transport, seconds, summary, bytes_sent };
        let code = report(&outcome, self.json, self.strict)?;
        let Some(asked) = short else { return Ok(code) };
        eprintln!(
            "ebb: only {} of {asked} packets could be sent in time: {} cannot send more here",
            outcome.summary.sent, self.interface
        );
        Ok(ExitCode::from(FELL_SHORT))
    }

    /// Mean length of a frame without its check sequence, which sizes include.
    pub(super) fn frame_bytes(&self) -> f64 {
        self.size.mean() - 4.0
    }

    /// Packets a second that `--rate` stands for.
    pub(super) fn packets_per_second(&self) -> f64 {
        self.rate.packets(self.frame_bytes())
    }

    pub(super) fn stream(&self, from: [u8; 6], to: [u8; 6]) -> Result<Stream> {
        let families = |nets: &[IpNet], six| nets.iter().any(|net| net.addr().is_ipv6() == six);
        let both = |six| families(&self.sources, six) && families(&self.destinations, six);
        if !both(false) && !both(true) {
            bail!("--sources and --destinations have no address family in common");
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
            to,
            sizes: &self.size,
            popularity: self.zipf,
            seed: self.seed,
        };
        let stream = Stream::new(&draw_flows(&spec, self.seed), &mix);
        Ok(match self.redundancy {
            Some(share) => stream.with_content(Content::new(share, self.seed)),
            None => stream,
        })
    }

    /// The course of a day, if one is followed.
    fn schedule(&self, rate: PacketsPerSecond) -> Option<Schedule> {
        let span = Duration::from_secs_f64(self.seconds);
        self.profile.map(|profile| Schedule::day(profile, rate, span))
    }

    fn pace(&self, rate: PacketsPerSecond, start: Time) -> Box<dyn Due + std::marker::Send> {
        if let Some(schedule) = self.schedule(rate) {
            let backlog_max = (rate.0 / 100.0) as u64 + 64;
            return Box::new(Pacer::new(schedule, start, backlog_max));
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

/// What was due where more than one in a hundred packets could not be sent.
pub(super) fn short(sent: u64, owed: u64) -> Option<u64> {
    (owed * 100 > sent + owed).then_some(sent + owed)
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

fn parse_profile(text: &str) -> Result<DayProfile, String> {
    DayProfile::by_name(text).ok_or_else(|| {
        let names: Vec<&str> = DayProfile::ALL.iter().map(DayProfile::name).collect();
        format!("known days: {}", names.join(" and "))
    })
}

fn parse_sizes(text: &str) -> Result<SizeMix, String> {
    SizeMix::by_name(text).ok_or_else(|| "expected imix or a number from 64 to 1518".to_owned())
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_noise() {
        assert_eq!([short(99, 1), short(1000, 0), short(980, 20)], [None, None, Some(1000)]);
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
