//! What a user writes for `ebb sim router`: one TOML file, every key with a default that makes
//! sense, unknown keys refused.

mod server;
mod traffic;

use ebb_control::policies::{NAMES, Settings};
use ebb_power::{ForwardingPath, PacketCost, Server};
use ebb_report::Timelines;
use ebb_scenario::{Check, Described, Invalid};
use serde::{Deserialize, Serialize};

pub use server::{Clocks, DeepNap, Limits, Ordering, Preset, ServerChoice};
pub use traffic::{Arrivals, PcapChoice, Profile, Sizes, TraceChoice, TrafficChoice, Unit};

/// A run of the router's twin.
///
/// ```
/// use ebb_scenario::Document;
/// use ebb_system_router::scenario::Scenario;
/// let text = "load = 0.35\nduration_s = 0.5\n[policy]\nname = \"napi\"\n";
/// let scenario: Scenario = Document::parse("run.toml", text)?.read_described()?;
/// assert_eq!(scenario.policy.name, "napi");
/// # Ok::<(), ebb_scenario::ScenarioError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Headline of the report.
    pub title: String,
    /// Simulated seconds that are reported; by default all of a profile, trace or capture, and one second of
    /// anything else.
    #[schema(above = 0)]
    pub duration_s: Option<f64>,
    /// Simulated seconds before them, not reported.
    #[schema(least = 0)]
    pub warmup_s: f64,
    /// Packet-exact, or slot by slot.
    pub engine: EngineKind,
    /// Length of a slot of the slotted engine.
    #[schema(least = 1, most = 1000)]
    pub slot_us: f64,
    /// Distance of the points of plots over time; by default 1/400 of the duration.
    #[schema(above = 0)]
    pub sample_s: Option<f64>,
    /// Number of the replication: different replications have independent random numbers.
    pub seed: Option<u64>,
    /// Mean offered load as a share of what all cores carry at the highest frequency. It
    /// scales whatever `[traffic]` says; without it the traffic is taken as it is.
    #[schema(above = 0)]
    pub load: Option<f64>,
    /// The server.
    pub server: ServerChoice,
    /// Parts of the server that the policy may use.
    pub limits: Limits,
    /// Who decides.
    pub policy: PolicyChoice,
    /// What happens to each packet.
    pub application: ApplicationChoice,
    /// The traffic.
    pub traffic: TrafficChoice,
    /// Files beside the report.
    pub output: Timelines,
}

/// How time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Every packet: for seconds.
    #[default]
    Packet,
    /// Fluid queues in slots, stretched while nothing changes: for days.
    Slot,
}

/// A policy of the live router by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyChoice {
    /// As in the live router's configuration.
    #[schema(choices = NAMES)]
    pub name: String,
    /// Its settings, those of the live router.
    pub settings: Settings,
}

/// An application, by name, or with costs of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct ApplicationChoice {
    /// `ipv4-routing`, `netflow`, `ipsec`, `redundancy-elimination`, or any name if `costs` is set.
    pub name: String,
    /// Costs that replace the named application's.
    pub costs: Option<PacketCost>,
    /// Distribution of the time of a packet; `exponential` is for comparison with queueing theory.
    pub service: ServiceKind,
}

/// How the time of a packet varies about its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKind {
    /// Always the same.
    #[default]
    Deterministic,
    /// Exponentially, as in M/M/1.
    Exponential,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            title: "Simulated router".to_owned(),
            duration_s: None,
            warmup_s: 0.0,
            engine: EngineKind::Packet,
            slot_us: 10.0,
            sample_s: None,
            seed: None,
            load: None,
            server: ServerChoice::default(),
            limits: Limits::default(),
            policy: PolicyChoice::default(),
            application: ApplicationChoice::default(),
            traffic: TrafficChoice::default(),
            output: Timelines::default(),
        }
    }
}

impl Default for PolicyChoice {
    fn default() -> PolicyChoice {
        PolicyChoice { name: "powersave".to_owned(), settings: Settings::default() }
    }
}

impl Default for ApplicationChoice {
    fn default() -> ApplicationChoice {
        let name = "ipv4-routing".to_owned();
        ApplicationChoice { name, costs: None, service: ServiceKind::Deterministic }
    }
}

impl ApplicationChoice {
    /// The costs on `server`, which knows what routing costs on it where that was measured.
    ///
    /// # Errors
    /// As [`ApplicationChoice::resolve`].
    pub fn on(&self, server: &Server) -> Result<PacketCost, Invalid> {
        let application = self.resolve()?;
        let measured = server.application(&application.name).filter(|_| self.costs.is_none());
        Ok(measured.unwrap_or(application))
    }

    /// The costs.
    ///
    /// # Errors
    /// When no application has that name.
    pub fn resolve(&self) -> Result<PacketCost, Invalid> {
        if let Some(costs) = &self.costs {
            return Ok(costs.clone());
        }
        let known = match self.name.as_str() {
            "ipv4-routing" => "ipv4",
            "ipsec-aes128" => "ipsec",
            "redundancy-elimination" => "dedup",
            name => name,
        };
        PacketCost::by_name(known).ok_or_else(|| {
            let message = format!("there is no application `{}`", self.name);
            let remedy = "use ipv4-routing, netflow, ipsec, redundancy-elimination, or `costs`";
            Invalid::new("application.name", message, remedy)
        })
    }
}

/// Longest run: where picoseconds no longer fit.
const SECONDS_MAX: f64 = 213.0 * 86_400.0;

impl Scenario {
    /// The kernel forwards and does nothing else, by no policy of ours.
    fn check_path(&self) -> Result<(), Invalid> {
        if self.server.path == ForwardingPath::Worker {
            return Ok(());
        }
        let known = self.server.costs_file.is_some();
        let message =
            "is \"kernel\", whose costs are known of machines only on which they were measured";
        let remedy = "set costs_file to a file of `ebb calibrate --paths`";
        Invalid::unless(known, "server.path", message, remedy)?;
        let napi = self.policy.name == "napi";
        let message = "decides for workers, and the kernel forwards";
        Invalid::unless(napi, "policy.name", message, "use napi, or server.path = \"worker\"")?;
        let routes = self.application == ApplicationChoice::default();
        let message = "is the workers', and the kernel forwards";
        Invalid::unless(
            routes,
            "application",
            message,
            "leave it out, or use server.path = \"worker\"",
        )
    }
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        let all = self.duration_s.unwrap_or_default() + self.warmup_s;
        let remedy = "use at most 213 days, including the warm-up";
        Invalid::unless(all < SECONDS_MAX, "duration_s", format!("is {all}"), remedy)?;
        let exact = self.engine == EngineKind::Packet || self.server.clocks == Clocks::One;
        let message = "is per-core, which the slotted engine does not simulate";
        Invalid::unless(
            exact,
            "server.clocks",
            message,
            "set engine = \"packet\", or clocks = \"one\"",
        )?;
        self.check_path()?;
        self.limits.check()?;
        self.policy.settings.check().map_err(|fault| fault.within("policy.settings"))?;
        self.application.resolve()?;
        self.traffic.check()
    }
}
