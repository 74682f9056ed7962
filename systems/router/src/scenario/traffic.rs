//! What arrives: how the rate moves over time, how packets follow each other, their sizes and
//! flows.

use ebb_scenario::{Check, Described, Invalid};
use ebb_traffic::DayProfile;
use serde::{Deserialize, Serialize};

/// What arrives. The rate comes from at most one of `rate_mpps`, `rate_gbps`, `profile`, `trace`
/// and `pcap`; without any, the scenario's `load` is the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficChoice {
    /// Distribution of the times between packets.
    pub arrivals: Arrivals,
    /// A constant rate in millions of packets a second.
    #[schema(least = 0)]
    pub rate_mpps: Option<f64>,
    /// A constant rate in Gb/s of frames (frame check sequence included, gaps between frames not).
    #[schema(least = 0)]
    pub rate_gbps: Option<f64>,
    /// A day: mean weekdays of two networks. Needs `load`.
    pub profile: Option<Profile>,
    /// Hour of the day at which a profile starts.
    #[schema(least = 0, most = 24)]
    pub start_hour: f64,
    /// A rate over time from a file.
    pub trace: Option<TraceChoice>,
    /// Arrival times, sizes and flows from a capture.
    pub pcap: Option<PcapChoice>,
    /// How much faster than real time a profile, trace or capture passes.
    #[schema(above = 0)]
    pub compress: f64,
    /// Back-to-back packets of each burst with `onoff`.
    #[schema(least = 1, most = 65_536)]
    pub burst_packets: u32,
    /// Links that bring the traffic; with `onoff` each is a source of its own.
    #[schema(least = 1, most = 64)]
    pub links: u16,
    /// Rate of each link.
    #[schema(above = 0)]
    pub link_gbps: f64,
    /// Frame sizes on the wire with frame check sequence: a length, `imix`, or pairs of length and
    /// weight.
    pub sizes: Sizes,
    /// Number of flows.
    #[schema(least = 1, most = 1 << 20)]
    pub flows: u32,
    /// How unequal flows are: the flow of rank r has the weight r^-skew.
    #[schema(least = 0, most = 3)]
    pub skew: f64,
}

/// Mean weekdays of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// A British backbone.
    #[serde(alias = "uk-backbone")]
    Uk,
    /// A European provider of access.
    #[serde(alias = "eu-isp")]
    Eu,
}

/// How packets follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// Independently of each other.
    #[default]
    Poisson,
    /// In bursts of `burst_packets` at the links' rate.
    Onoff,
}

/// A rate over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct TraceChoice {
    /// A table with a header, its fields divided by commas, semicolons or tabs, wide or long; the CSV of dstat;
    /// what `sadf -j`, `vnstat --json`, `rrdtool dump`, `nfdump -o csv` or Prometheus' `query_range` give out; or
    /// the address of a Prometheus with a query, `http://host:9090?query=rate(...)`, of which the last 30 days
    /// are read.
    pub file: String,
    /// Column of times of a table: seconds, milliseconds since 1970, or dates such as
    /// `2005-06-07T07:00:00` with or without a zone. Rows must be equally far apart. Without a column `time`, one
    /// called `timestamp`, `date` or the like is read.
    #[serde(default = "TraceChoice::default_time")]
    #[schema(default = "time")]
    pub time: String,
    /// Column of values, or the series: of sadf `eth1.rxkB`, of vnstat `eth0.hour.rx`, of rrdtool a data
    /// source, of Prometheus a label, of nfdump `ibyt` or `ipkt`, of a long table the words of its other columns.
    /// May be left out where there is only one.
    #[serde(default)]
    pub value: Option<String>,
    /// What the values are, where neither the file's format nor the column's head (`in [Mbit/s]`) says it: bits
    /// per second if absent. The report says what was taken.
    #[serde(default)]
    pub unit: Option<Unit>,
}

/// What the values of a trace are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bits per second of frames.
    #[default]
    BitsPerSecond,
    /// Thousands of bits per second of frames.
    KilobitsPerSecond,
    /// Millions of bits per second of frames.
    MegabitsPerSecond,
    /// Gigabits per second of frames.
    GigabitsPerSecond,
    /// Bytes per second of frames.
    BytesPerSecond,
    /// Thousands of bytes per second of frames.
    KilobytesPerSecond,
    /// Millions of bytes per second of frames.
    MegabytesPerSecond,
    /// Packets per second.
    PacketsPerSecond,
    /// Bits in each row's interval.
    BitsPerRow,
    /// Bytes in each row's interval.
    BytesPerRow,
    /// Bytes since some time, such as `ifHCInOctets`: a row's rate is its distance from the row before.
    ByteCounter,
    /// Packets since some time.
    PacketCounter,
    /// Nothing but relative: the scenario's `load` gives the scale.
    Relative,
}

impl Unit {
    /// As scenarios write it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::BitsPerSecond => "bits-per-second",
            Unit::KilobitsPerSecond => "kilobits-per-second",
            Unit::MegabitsPerSecond => "megabits-per-second",
            Unit::GigabitsPerSecond => "gigabits-per-second",
            Unit::BytesPerSecond => "bytes-per-second",
            Unit::KilobytesPerSecond => "kilobytes-per-second",
            Unit::MegabytesPerSecond => "megabytes-per-second",
            Unit::PacketsPerSecond => "packets-per-second",
            Unit::BitsPerRow => "bits-per-row",
            Unit::BytesPerRow => "bytes-per-row",
            Unit::ByteCounter => "byte-counter",
            Unit::PacketCounter => "packet-counter",
            Unit::Relative => "relative",
        }
    }

    /// Whether values only grow, and what is meant is their growth a second.
    pub fn is_counter(self) -> bool {
        matches!(self, Unit::ByteCounter | Unit::PacketCounter)
    }

    /// Bytes a second that a value of 1 is, where rows are `step_s` apart; `None` where it counts no bytes. Of a
    /// counter it is that of its growth.
    pub fn bytes_per_second(self, step_s: f64) -> Option<f64> {
        match self {
            Unit::BitsPerSecond => Some(1.0 / 8.0),
            Unit::KilobitsPerSecond => Some(1e3 / 8.0),
            Unit::MegabitsPerSecond => Some(1e6 / 8.0),
            Unit::GigabitsPerSecond => Some(1e9 / 8.0),
            Unit::BytesPerSecond => Some(1.0),
            Unit::KilobytesPerSecond => Some(1e3),
            Unit::MegabytesPerSecond => Some(1e6),
            Unit::BitsPerRow => Some(1.0 / 8.0 / step_s),
            Unit::BytesPerRow => Some(1.0 / step_s),
            Unit::ByteCounter => Some(1.0),
            Unit::PacketsPerSecond | Unit::PacketCounter | Unit::Relative => None,
        }
    }
}

/// A capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct PcapChoice {
    /// A pcap or pcapng file.
    pub file: String,
    /// Start again at its end until the run ends.
    #[serde(default)]
    pub repeat: bool,
}

/// Frame sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(untagged)]
pub enum Sizes {
    /// All alike.
    Fixed(u16),
    /// A mix by name.
    Named(String),
    /// Lengths with weights.
    Mix(Vec<(u16, u32)>),
}

impl Sizes {
    /// Lengths with weights.
    ///
    /// # Errors
    /// Lengths that are none, or an unknown name.
    pub fn parts(&self) -> Result<Vec<(u16, u32)>, Invalid> {
        let remedy = "use a length of 64 to 9018 bytes, \"imix\", or for example [[64, 7], [594, \
            4], [1518, 1]]";
        let fault = |message: String| Invalid::new("traffic.sizes", message, remedy);
        let parts = match self {
            Sizes::Fixed(len) => vec![(*len, 1)],
            Sizes::Named(name) if name == "imix" => vec![(64, 7), (594, 4), (1518, 1)],
            Sizes::Named(name) => return Err(fault(format!("there is no mix `{name}`"))),
            Sizes::Mix(parts) => parts.clone(),
        };
        if let Some((len, _)) = parts.iter().find(|(len, _)| !(64..=9018).contains(len)) {
            return Err(fault(format!("{len} is not a frame length")));
        }
        let total: u64 = parts.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if total == 0 || total > u64::from(u32::MAX) {
            return Err(fault("the sum of the weights is 0 or too large".to_owned()));
        }
        Ok(parts)
    }
}

impl Default for TrafficChoice {
    fn default() -> TrafficChoice {
        TrafficChoice {
            arrivals: Arrivals::Poisson,
            rate_mpps: None,
            rate_gbps: None,
            profile: None,
            start_hour: 0.0,
            trace: None,
            pcap: None,
            compress: 1.0,
            burst_packets: 32,
            links: 4,
            link_gbps: 10.0,
            sizes: Sizes::Fixed(64),
            flows: 4096,
            skew: 0.0,
        }
    }
}

impl TrafficChoice {
    /// The key that gives the rate, `None` when it is the scenario's `load` alone.
    pub fn source(&self) -> Option<&'static str> {
        self.sources().first().copied()
    }

    fn sources(&self) -> Vec<&'static str> {
        let given = [
            ("rate_mpps", self.rate_mpps.is_some()),
            ("rate_gbps", self.rate_gbps.is_some()),
            ("profile", self.profile.is_some()),
            ("trace", self.trace.is_some()),
            ("pcap", self.pcap.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The named day.
    pub fn day(&self) -> Option<DayProfile> {
        Some(match self.profile? {
            Profile::Uk => DayProfile::UK_BACKBONE,
            Profile::Eu => DayProfile::EU_ISP,
        })
    }
}

impl Check for TrafficChoice {
    fn check(&self) -> Result<(), Invalid> {
        if let [first, second, ..] = self.sources()[..] {
            let message = format!("gives the rate, and so does `{first}`");
            return Err(Invalid::new(format!("traffic.{second}"), message, "remove one of them"));
        }
        self.sizes.parts().map(|_| ())
    }
}
