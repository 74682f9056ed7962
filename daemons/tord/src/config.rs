//! Configuration in TOML: a switch with its racks, an optical switch with its controller.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ebb_scenario::{Check, Described, Document, Invalid, ScenarioError};
use ebb_system_circuit::schedulers;
use ebb_system_circuit::sim::Card;
use ebb_system_circuit::tokens::Tokens;
use ipnet::IpNet;
use serde::Deserialize;

mod overlaps;

use crate::optical::SwitchConfig;
use crate::plan::Clock;
use crate::seal::Keys;
use crate::sync::RACKS_MAX;

/// A configuration with every setting of `ebb tor run`.
pub const TOR_EXAMPLE: &str = include_str!("config/tor.toml");
/// A configuration with every setting of `ebb ocs run` and `ebb ocs control`.
pub const OCS_EXAMPLE: &str = include_str!("config/ocs.toml");

/// How frames cross the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By day, over the circuit that stands.
    #[default]
    Circuits,
    /// At any time to anybody: the same program as a packet switch, to compare with.
    Packets,
}

/// A top-of-rack switch.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct TorConfig {
    /// What all its racks share.
    pub tor: Tor,
    /// Racks that this process serves.
    pub rack: Vec<RackConfig>,
    /// Where everybody else is.
    #[serde(default)]
    pub remote: Vec<Remote>,
}

/// What all racks of a process share.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Tor {
    /// Circuits or packets.
    #[serde(default)]
    pub mode: Mode,
    /// Rate of an uplink, Mb/s.
    pub link_mbps: f64,
    /// Rate of the packet path while no circuits are known, Mb/s; 0 for none.
    #[serde(default)]
    pub packet_mbps: f64,
    /// What a queue may hand over during a day.
    #[serde(default = "pacing")]
    pub tokens: Tokens,
    /// Limit of pacing as time of the link, us.
    #[serde(default = "ahead")]
    pub ahead_us: f64,
    /// The end of each day in which nothing may be on the link any more, us.
    #[serde(default = "guard")]
    pub guard_us: f64,
    /// Most that waits for a destination, kB.
    #[serde(default = "queue")]
    pub queue_kb: u64,
    /// From so much on senders that know ECN are told to slow down (RFC 3168), kB; half of the queue where there
    /// is nothing.
    #[serde(default)]
    pub mark_kb: Option<u64>,
    /// A program that prints the watts of the machine; its energy counters where there is none.
    #[serde(default)]
    pub meter: Vec<String>,
    /// Directory in which `sys` is, with the machine's energy counters.
    #[serde(default = "root")]
    pub sysfs_root: PathBuf,
    /// Interface on which sync frames come.
    pub control: String,
    /// Tokens that seal sync frames, one a line: the first seals, all are believed.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// How its clock relates to the controller's.
    #[serde(default = "shared")]
    pub clock: Clock,
    /// The clock by which sync frames say their times, where `clock` is shared by machines: a network card's that PTP
    /// keeps (`/dev/ptp0`), or `tai`, the system's; the machine's own where there is nothing. All have it or none.
    #[serde(default)]
    pub ptp: Option<String>,
    /// How long the fixed rotation holds after the controller's last day, ms.
    #[serde(default = "rotation")]
    pub rotation_ms: f64,
    /// Threads that serve racks, which are dealt out to them in turn.
    #[serde(default = "one")]
    pub threads: usize,
    /// Processor for the first of them, the next ones take those behind it; none to let the kernel choose.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Whether they go before all other threads (SCHED_FIFO).
    #[serde(default)]
    pub realtime: bool,
    /// Status socket.
    #[serde(default = "tor_socket")]
    pub socket: PathBuf,
    /// Where Prometheus metrics are served.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
}

/// A rack.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct RackConfig {
    /// Its number, which is that of its port at the optical switch.
    pub number: u8,
    /// Interface to the optical switch.
    pub uplink: String,
    /// Interfaces to its hosts.
    pub host: Vec<HostConfig>,
}

/// An interface to hosts.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Addresses behind it; none: what comes from there is this machine's own, for other racks.
    #[serde(default)]
    pub prefixes: Vec<IpNet>,
    /// Addresses that are this machine's own, such as the hosts' gateway.
    #[serde(default)]
    pub own: Vec<std::net::IpAddr>,
}

/// Addresses of another process's rack.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Its number.
    pub rack: u8,
    /// Addresses behind it.
    pub prefixes: Vec<IpNet>,
}

/// An emulated optical switch, and what tells everybody when which circuits stand.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct OcsConfig {
    /// The switch.
    pub ocs: Ocs,
    /// Its ports.
    pub port: Vec<PortConfig>,
    /// The controller.
    pub controller: Controller,
}

/// An emulated optical switch.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Ocs {
    /// Circuits or packets.
    #[serde(default)]
    pub mode: Mode,
    /// Rate of the light, Mb/s.
    pub link_mbps: f64,
    /// Rate of each port of the packet switch beside the circuits, Mb/s; 0 for none.
    #[serde(default)]
    pub packet_mbps: f64,
    /// The racks' network cards, which put frames on the light one after another.
    #[serde(default = "ideal_card")]
    pub card: Card,
    /// Interface on which sync frames come.
    pub control: String,
    /// Tokens that seal sync frames, one a line: the first seals, all are believed.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// How its clock relates to the controller's.
    #[serde(default = "shared")]
    pub clock: Clock,
    /// The clock by which sync frames say their times, where `clock` is shared by machines: a network card's that PTP
    /// keeps (`/dev/ptp0`), or `tai`, the system's; the machine's own where there is nothing. All have it or none.
    #[serde(default)]
    pub ptp: Option<String>,
    /// How long the fixed rotation holds after the controller's last day, ms.
    #[serde(default = "rotation")]
    pub rotation_ms: f64,
    /// Processor for the switch's thread.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Whether that thread goes before all others (SCHED_FIFO).
    #[serde(default)]
    pub realtime: bool,
    /// Status socket.
    #[serde(default = "ocs_socket")]
    pub socket: PathBuf,
    /// Where Prometheus metrics are served.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
}

/// A port of the optical switch.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// The rack at it.
    pub rack: u8,
    /// Interface.
    pub name: String,
}

/// What plans circuits and announces them.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Racks behind the switch.
    pub racks: u8,
    /// How long circuits of the rotation stand, us.
    #[serde(default = "day")]
    pub day_us: f64,
    /// How long they take to be set up, us.
    #[serde(default = "night")]
    pub night_us: f64,
    /// `round-robin`, or a scheduler that is shown the racks' queues every week.
    #[serde(default = "round_robin")]
    pub scheduler: String,
    /// How far ahead days are announced, ms.
    #[serde(default = "lead")]
    pub lead_ms: f64,
    /// How often, us.
    #[serde(default = "every")]
    pub announce_us: f64,
    /// A real optical switch, which is set by the controller and hears no sync frames.
    #[serde(default)]
    pub switch: Option<SwitchConfig>,
    /// Interface to announce on.
    pub control: String,
    /// The clock by which sync frames say their times, as in `[tor]`.
    #[serde(default)]
    pub ptp: Option<String>,
    /// Tokens that seal sync frames, one a line: the first seals, all are believed.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Status socket.
    #[serde(default = "control_socket")]
    pub socket: PathBuf,
}

fn pacing() -> Tokens {
    Tokens::Pacing
}
fn ahead() -> f64 {
    64.0
}
fn guard() -> f64 {
    5.0
}
fn queue() -> u64 {
    1000
}
fn one() -> usize {
    1
}
fn root() -> PathBuf {
    "/".into()
}
fn shared() -> Clock {
    Clock::Shared
}
fn rotation() -> f64 {
    1000.0
}
fn day() -> f64 {
    300.0
}
fn night() -> f64 {
    11.5
}
fn lead() -> f64 {
    4.0
}
fn every() -> f64 {
    1000.0
}
fn round_robin() -> String {
    "round-robin".to_owned()
}
fn tor_socket() -> PathBuf {
    "/run/ebb/tor.sock".into()
}
fn ocs_socket() -> PathBuf {
    "/run/ebb/ocs.sock".into()
}
fn control_socket() -> PathBuf {
    "/run/ebb/ocs-control.sock".into()
}

/// A card that sends at once and never batches.
fn ideal_card() -> Card {
    Card { delay_us: 0.0, batch_share: 0.0, ..Card::default() }
}

impl Tor {
    /// What a queue takes, and from where on it is long, bytes.
    pub fn queue_bytes(&self) -> (u64, u64) {
        let mark_kb = self.mark_kb.map_or(self.queue_kb * 500, |mark| mark * 1000);
        (self.queue_kb * 1000, mark_kb)
    }
}

impl TorConfig {
    /// Reads a file's text.
    ///
    /// # Errors
    /// With file, line, field and remedy.
    pub fn parse(file: &str, text: &str) -> Result<TorConfig, ScenarioError> {
        Document::parse(file, text)?.read_described()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or says what makes no sense.
    pub fn load(path: &Path) -> anyhow::Result<TorConfig> {
        Ok(TorConfig::parse(&path.display().to_string(), &text_of(path)?)?)
    }

    /// The keys of sync frames.
    ///
    /// # Errors
    /// When their file cannot be read, others may read it, or it holds none.
    pub fn keys(&self) -> Result<Keys, Invalid> {
        Keys::load("tor.token_file", self.tor.token_file.as_deref())
    }
}

impl OcsConfig {
    /// Reads a file's text.
    ///
    /// # Errors
    /// With file, line, field and remedy.
    pub fn parse(file: &str, text: &str) -> Result<OcsConfig, ScenarioError> {
        Document::parse(file, text)?.read_described()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or says what makes no sense.
    pub fn load(path: &Path) -> anyhow::Result<OcsConfig> {
        Ok(OcsConfig::parse(&path.display().to_string(), &text_of(path)?)?)
    }

    /// The keys of sync frames that the optical switch believes.
    ///
    /// # Errors
    /// When their file cannot be read, others may read it, or it holds none.
    pub fn keys(&self) -> Result<Keys, Invalid> {
        Keys::load("ocs.token_file", self.ocs.token_file.as_deref())
    }

    /// The keys of sync frames that the controller seals with.
    ///
    /// # Errors
    /// As [`OcsConfig::keys`].
    pub fn controller_keys(&self) -> Result<Keys, Invalid> {
        Keys::load("controller.token_file", self.controller.token_file.as_deref())
    }
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    use anyhow::Context as _;
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn positive(field: &str, value: f64) -> Result<(), Invalid> {
    let sound = value > 0.0 && value <= 1e6;
    Invalid::unless(sound, field, "is not above 0", "expected more than 0, at most 1,000,000")
}

fn not_negative(field: &str, value: f64) -> Result<(), Invalid> {
    let sound = (0.0..=1e6).contains(&value);
    Invalid::unless(sound, field, "is negative or not a number", "expected 0 to 1,000,000")
}

fn rack(field: String, number: u8) -> Result<(), Invalid> {
    let known = usize::from(number) < RACKS_MAX;
    Invalid::unless(
        known,
        field,
        format!("{number} is not the number of a rack"),
        format!("expected 0 to {}", RACKS_MAX - 1),
    )
}

fn check_ptp(field: &str, name: Option<&str>, clock: Clock) -> Result<(), Invalid> {
    crate::timebase::check(field, name)?;
    let needed = name.is_none() || clock == Clock::Shared;
    let what = "has no effect with `clock = \"sync\"`";
    Invalid::unless(needed, field, what, "remove it, or set `clock = \"shared\"`")
}

impl Check for TorConfig {
    fn check(&self) -> Result<(), Invalid> {
        let Tor { link_mbps, packet_mbps, ahead_us, guard_us, rotation_ms, queue_kb, .. } =
            self.tor;
        positive("tor.link_mbps", link_mbps)?;
        positive("tor.ahead_us", ahead_us)?;
        not_negative("tor.packet_mbps", packet_mbps)?;
        not_negative("tor.guard_us", guard_us)?;
        not_negative("tor.rotation_ms", rotation_ms)?;
        check_ptp("tor.ptp", self.tor.ptp.as_deref(), self.tor.clock)?;
        let queue = (2..=1_000_000).contains(&queue_kb);
        Invalid::unless(queue, "tor.queue_kb", "is out of range", "expected 2 to 1,000,000")?;
        let marks = self.tor.mark_kb.is_none_or(|mark| (1..=queue_kb).contains(&mark));
        let remedy = "expected 1 to tor.queue_kb";
        Invalid::unless(marks, "tor.mark_kb", "is out of range", remedy)?;
        Invalid::unless(!self.rack.is_empty(), "rack", "is empty", "add a table [[rack]]")?;
        let racks = self.rack.len();
        let threads = (1..=racks).contains(&self.tor.threads);
        let remedy = format!("expected 1 to {racks}: a thread has a rack at least");
        Invalid::unless(threads, "tor.threads", "is out of range", remedy)?;
        let mut seen = Vec::new();
        for (index, each) in self.rack.iter().enumerate() {
            rack(format!("rack[{index}].number"), each.number)?;
            let fresh = !seen.contains(&each.number);
            let field = format!("rack[{index}].number");
            Invalid::unless(fresh, field, "is used by another rack", "use each number once")?;
            seen.push(each.number);
            let hosts = each.host.iter().any(|host| !host.prefixes.is_empty());
            let field = format!("rack[{index}].host");
            Invalid::unless(hosts, field, "is empty", "add a table [[rack.host]] with prefixes")?;
        }
        for (index, remote) in self.remote.iter().enumerate() {
            rack(format!("remote[{index}].rack"), remote.rack)?;
            let field = format!("remote[{index}].rack");
            let elsewhere = !seen.contains(&remote.rack);
            Invalid::unless(
                elsewhere,
                field,
                "is the number of a rack of this process",
                "use another number",
            )?;
        }
        overlaps::check(self)
    }
}

impl Check for OcsConfig {
    fn check(&self) -> Result<(), Invalid> {
        positive("ocs.link_mbps", self.ocs.link_mbps)?;
        not_negative("ocs.packet_mbps", self.ocs.packet_mbps)?;
        not_negative("ocs.rotation_ms", self.ocs.rotation_ms)?;
        not_negative("ocs.card.delay_us", self.ocs.card.delay_us)?;
        check_ptp("ocs.ptp", self.ocs.ptp.as_deref(), self.ocs.clock)?;
        let share = (0.0..=1.0).contains(&self.ocs.card.batch_share);
        Invalid::unless(share, "ocs.card.batch_share", "is out of range", "expected 0 to 1")?;
        let [low, high] = self.ocs.card.batch_delay_us;
        let span = 0.0 <= low && low < high && high <= 1e6;
        let field = "ocs.card.batch_delay_us";
        Invalid::unless(span, field, "is not a range", "expected two numbers, the lower first")?;
        for (index, port) in self.port.iter().enumerate() {
            rack(format!("port[{index}].rack"), port.rack)?;
            let twice = self.port[..index].iter().any(|other| other.rack == port.rack);
            let field = format!("port[{index}].rack");
            Invalid::unless(!twice, field, "is used by another port", "use each number once")?;
        }
        self.controller.check().map_err(|fault| fault.within("controller"))
    }
}

impl Check for Controller {
    fn check(&self) -> Result<(), Invalid> {
        let racks = (2..=RACKS_MAX).contains(&usize::from(self.racks));
        Invalid::unless(racks, "racks", "is out of range", format!("expected 2 to {RACKS_MAX}"))?;
        for (field, value) in [
            ("day_us", self.day_us),
            ("night_us", self.night_us),
            ("lead_ms", self.lead_ms),
            ("announce_us", self.announce_us),
        ] {
            let sound = (1.0..=1e5).contains(&value);
            Invalid::unless(sound, field, "is out of range", "expected 1 to 100,000")?;
        }
        check_ptp("ptp", self.ptp.as_deref(), Clock::Shared)?;
        if let Some(switch) = &self.switch {
            let inputs =
                switch.first_input..switch.first_input.saturating_add(u16::from(self.racks));
            let first = switch.first_output.unwrap_or(inputs.end);
            let apart =
                first >= inputs.end || first.saturating_add(u16::from(self.racks)) <= inputs.start;
            let remedy = "give each rack a port of its own for what comes and for what goes";
            let what = "is the port of an input";
            Invalid::unless(apart, "switch.first_output", what, remedy)?;
        }
        let known = schedulers::by_name(&self.scheduler).is_some();
        let names: Vec<&str> = schedulers::ALL.iter().map(|known| known.name()).collect();
        let what = format!("there is no scheduler `{}`", self.scheduler);
        Invalid::unless(known, "scheduler", what, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_sound_and_faults_have_a_place() {
        TorConfig::parse("tor.toml", TOR_EXAMPLE).expect("an example");
        OcsConfig::parse("ocs.toml", OCS_EXAMPLE).expect("an example");
        let fault = |from: &str, to: &str| {
            let text = TOR_EXAMPLE.replace(from, to);
            TorConfig::parse("tor.toml", &text).expect_err("a fault").to_string()
        };
        assert!(fault("link_mbps = 10000", "link_mbps = 0").contains("field `tor.link_mbps`"));
        assert!(fault("number = 0", "number = 99").contains("field `rack[0].number`"));
        assert!(fault("10.77.1.0/24", "10.77.1.0/33").contains("tor.toml:"));
        let typo = fault("[tor]", "[tor]\nquere_kb = 3");
        assert!(typo.ends_with("unknown field `quere_kb`; did you mean `queue_kb`?"), "{typo}");
        let mode = fault("mode = \"circuits\"", "mode = \"packet\"");
        assert!(mode.ends_with("unknown value `packet`; did you mean `packets`?"), "{mode}");
        let text = OCS_EXAMPLE.replace("round-robin", "fast");
        let fault = OcsConfig::parse("ocs.toml", &text).expect_err("a fault").to_string();
        assert!(fault.contains("field `controller.scheduler`"), "{fault}");
    }
}
