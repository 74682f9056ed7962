//! What a data centre draws with an electrical and with an optical core (Strong 2013, section
//! 4.2.2), and what circuits draw that may sleep while nobody needs them.

use ebb_scenario::{Check, Described, Document, Invalid, ScenarioError};

/// Inputs of the published study; `data/datacentre.toml` holds them.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCentre {
    /// Servers.
    pub servers: f64,
    /// Groups of them below one layer of packet switches.
    pub pods: f64,
    /// A server without work, W.
    pub server_idle_w: f64,
    /// A server with as much as it can do, W.
    pub server_full_w: f64,
    /// Packet-switch ports inside a pod per server.
    pub pod_ports_per_server: f64,
    /// Core ports per server.
    pub core_ports_per_server: f64,
    /// Transceivers of an uplink between packet switches.
    pub transceivers_per_uplink: f64,
    /// Port of the optical switch, W.
    pub ocs_port_w: f64,
    /// Fibre, W.
    pub fibre_w: f64,
    /// What an uplink to the optical switch takes per 10 Gb/s, W.
    pub ocs_transceiver_w_per_10g: f64,
    /// Prices by rate.
    pub rate: Vec<Rate>,
}

/// Prices at one rate.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Gb/s per server.
    pub gbps: f64,
    /// Port of a packet switch, W.
    pub packet_port_w: f64,
    /// Transceiver of a packet switch, W.
    pub transceiver_w: f64,
}

/// What the core is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// Packet switches.
    Packets,
    /// An optical circuit switch.
    Circuits,
}

impl Check for DataCentre {
    fn check(&self) -> Result<(), Invalid> {
        let several = self.servers >= 1.0 && self.pods >= 1.0;
        Invalid::unless(
            several,
            "servers",
            "is not a number of servers in pods",
            "expected 1 or more",
        )?;
        let server = 0.0 <= self.server_idle_w && self.server_idle_w <= self.server_full_w;
        let remedy = "expected at least its idle power";
        Invalid::unless(
            server,
            "server_full_w",
            "is less than the idle power of a server",
            remedy,
        )?;
        Invalid::unless(!self.rate.is_empty(), "rate", "is empty", "add a table [[rate]]")
    }
}

impl DataCentre {
    /// The published inputs.
    ///
    /// # Panics
    /// When the file that comes with the program is damaged.
    pub fn published() -> DataCentre {
        let text = include_str!("../data/datacentre.toml");
        DataCentre::parse("datacentre.toml", text).expect("a sound file of our own")
    }

    /// Inputs from a file.
    ///
    /// # Errors
    /// With file, line and field at fault.
    pub fn parse(file: &str, text: &str) -> Result<DataCentre, ScenarioError> {
        Document::parse(file, text)?.read()
    }

    /// Prices at `gbps`, if the file has them.
    pub fn at(&self, gbps: f64) -> Option<&Rate> {
        self.rate.iter().find(|rate| rate.gbps == gbps)
    }

    /// Servers and network, W, when servers do `utilisation` of what they can.
    pub fn power_w(&self, rate: &Rate, core: Core, utilisation: f64) -> f64 {
        let server = self.server_idle_w + utilisation * (self.server_full_w - self.server_idle_w);
        let pod = self.pod_ports_per_server * rate.packet_port_w;
        let core = match core {
            Core::Packets => {
                self.core_ports_per_server * rate.packet_port_w
                    + self.transceivers_per_uplink * rate.transceiver_w
                    + self.fibre_w
            }
            Core::Circuits => {
                self.core_ports_per_server * self.ocs_port_w
                    + self.ocs_transceiver_w_per_10g * rate.gbps / 10.0
                    + self.fibre_w
            }
        };
        self.servers * (server + pod + core)
    }

    /// Share of the power that an optical core saves.
    pub fn saved(&self, rate: &Rate, utilisation: f64) -> f64 {
        1.0 - self.power_w(rate, Core::Circuits, utilisation)
            / self.power_w(rate, Core::Packets, utilisation)
    }

    /// The mean of that over utilisations of 0, 10, ... 100 %, the points of figure 4.2.
    pub fn saved_mean(&self, rate: &Rate) -> f64 {
        (0..=10).map(|tenths| self.saved(rate, f64::from(tenths) / 10.0)).sum::<f64>() / 11.0
    }
}

/// What an end of a circuit draws.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Light {
    /// Transceiver and switch port while the laser is on, W.
    #[serde(default = "Light::default_awake_w")]
    #[schema(least = 0, default = 1.24)]
    pub awake_w: f64,
    /// The same while the laser sleeps, W.
    #[serde(default = "Light::default_asleep_w")]
    #[schema(least = 0, default = 0.34)]
    pub asleep_w: f64,
    /// How long before a day it must be woken, us.
    #[serde(default = "Light::default_wake_us")]
    #[schema(least = 0, default = 10.0)]
    pub wake_us: f64,
}

impl Default for Light {
    /// 1 W of transceiver and 0.24 W of port (table 4.1); asleep a tenth of the transceiver and the
    /// whole port, woken during the night before (our assumption: no published figure).
    fn default() -> Light {
        ebb_scenario::schema::with(&[])
    }
}

impl Light {
    /// Joules of one port in `total_s`, of which it has to be lit for `lit_s` in `wakings` pieces.
    pub fn joules(&self, total_s: f64, lit_s: f64, wakings: f64) -> f64 {
        let lit = (lit_s + wakings * self.wake_us * 1e-6).min(total_s);
        lit * self.awake_w + (total_s - lit) * self.asleep_w
    }
}
