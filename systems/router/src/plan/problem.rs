//! What `ebb plan router` is asked.

use ebb_control::policies::{NAMES, Settings};
use ebb_scenario::{Check, Described, Document, Invalid, ScenarioError};
use serde::{Deserialize, Serialize};

use crate::scenario::{
    ApplicationChoice, EngineKind, Limits, PolicyChoice, Scenario, ServerChoice, TrafficChoice,
};

/// Simulated seconds before the load begins, in which policies find their first point.
pub(super) const WARMUP_S: f64 = 0.5;

/// What `ebb plan router` is asked: a load, a server, and how much room to keep. Every scenario of
/// `ebb sim router` is such a problem too: its load, server and application count, and the settings
/// of its policy; [`Problem::unused`] names what only a run needs.
///
/// ```
/// use ebb_scenario::Document;
/// use ebb_system_router::plan::Problem;
/// let text = "load = 0.35\nheadroom = 0.25\n[traffic]\nprofile = \"uk\"\n";
/// let problem: Problem = Document::parse("plan.toml", text)?.read_described()?;
/// assert_eq!(problem.policies.len(), 4);
/// # Ok::<(), ebb_scenario::ScenarioError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct Problem {
    /// Headline of the report.
    pub title: String,
    /// Mean offered load as a share of what all cores carry at the highest frequency. It
    /// scales whatever `[traffic]` says; without it the traffic is taken as it is.
    #[schema(above = 0)]
    pub load: Option<f64>,
    /// Capacity kept above the load, as a share of the load: 0.2 keeps a fifth of it.
    #[schema(least = 0, most = 10)]
    pub headroom: f64,
    /// The policies to compare.
    #[schema(choices = NAMES)]
    pub policies: Vec<String>,
    /// Settings of those that have any; by default those of `policy`.
    pub settings: Option<Settings>,
    /// A scenario's policy: its settings are used for all compared policies.
    pub policy: Option<PolicyChoice>,
    /// A scenario's duration: the time of a constant load.
    #[schema(above = 0)]
    pub duration_s: Option<f64>,
    /// A scenario's warm-up; not used.
    #[schema(least = 0)]
    pub warmup_s: Option<f64>,
    /// A scenario's engine; not used: policies run slot by slot.
    pub engine: Option<EngineKind>,
    /// A scenario's length of a slot.
    #[schema(least = 1, most = 1000)]
    pub slot_us: Option<f64>,
    /// A scenario's distance of the points of plots; not used.
    #[schema(above = 0)]
    pub sample_s: Option<f64>,
    /// Rows of the table over load.
    #[schema(least = 1, most = 1000)]
    pub rows: u16,
    /// Simulated seconds into which a profile, trace or capture is compressed; by default 2 s for each of
    /// its steps, at most 4000.
    #[schema(least = 0.01, most = 10_000)]
    pub simulated_s: Option<f64>,
    /// The server.
    pub server: ServerChoice,
    /// Parts of the server that may be used.
    pub limits: Limits,
    /// What happens to each packet.
    pub application: ApplicationChoice,
    /// The traffic.
    pub traffic: TrafficChoice,
}

impl Default for Problem {
    fn default() -> Problem {
        Problem {
            title: "A plan for a router".to_owned(),
            load: None,
            headroom: 0.2,
            policies: NAMES.iter().map(|(name, _)| (*name).to_owned()).collect(),
            settings: None,
            policy: None,
            duration_s: None,
            warmup_s: None,
            engine: None,
            slot_us: None,
            sample_s: None,
            rows: 20,
            simulated_s: None,
            server: ServerChoice::default(),
            limits: Limits::default(),
            application: ApplicationChoice::default(),
            traffic: TrafficChoice::default(),
        }
    }
}

impl Problem {
    /// The run of the twin that answers for one policy, with time `compress` times as fast.
    pub fn scenario(&self, policy: &str, compress: f64) -> Scenario {
        let settings = self.settings.or(self.policy.as_ref().map(|policy| policy.settings));
        let policy =
            PolicyChoice { name: policy.to_owned(), settings: settings.unwrap_or_default() };
        let defaults = Scenario::default();
        Scenario {
            title: self.title.clone(),
            duration_s: self.duration_s.filter(|_| !self.varies()),
            engine: EngineKind::Slot,
            slot_us: self.slot_us.unwrap_or(defaults.slot_us),
            warmup_s: WARMUP_S,
            load: self.load,
            server: self.server.clone(),
            limits: self.limits.clone(),
            policy,
            application: self.application.clone(),
            traffic: TrafficChoice { compress, ..self.traffic.clone() },
            ..defaults
        }
    }

    /// Whether the load has a course of its own, which is planned for from end to end.
    pub(super) fn varies(&self) -> bool {
        let traffic = &self.traffic;
        traffic.profile.is_some() || traffic.trace.is_some() || traffic.pcap.is_some()
    }

    /// Keys of a scenario that were given and do not matter to a plan.
    pub fn unused(&self) -> Vec<&'static str> {
        let given = [
            ("duration_s", self.duration_s.is_some() && self.varies()),
            ("warmup_s", self.warmup_s.is_some()),
            ("engine", self.engine.is_some()),
            ("sample_s", self.sample_s.is_some()),
            ("policy.name", self.policy.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// That run as a document, whose errors name `file`.
    pub(super) fn document(
        &self,
        file: &str,
        policy: &str,
        compress: f64,
    ) -> Result<Document, ScenarioError> {
        let scenario = self.scenario(policy, compress);
        let text = toml::to_string(&scenario).expect("a checked scenario is plain data");
        Document::parse(file, &text)
    }
}

impl Check for Problem {
    fn check(&self) -> Result<(), Invalid> {
        let some = !self.policies.is_empty();
        Invalid::unless(some, "policies", "is empty", "name at least one, or remove it for all")?;
        for (index, name) in self.policies.iter().enumerate() {
            let twice = self.policies[..index].contains(name);
            let field = format!("policies[{index}]");
            Invalid::unless(!twice, field, format!("`{name}` is listed twice"), "name each once")?;
        }
        if let Some(policy) = &self.policy {
            policy.settings.check().map_err(|fault| fault.within("policy.settings"))?;
        }
        let run = Scenario {
            duration_s: self.duration_s,
            warmup_s: self.warmup_s.unwrap_or_default(),
            ..self.scenario(&self.policies[0], self.traffic.compress)
        };
        run.check()
    }
}
