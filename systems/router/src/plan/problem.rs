use ebb_control::policies::{NAMES, Settings};
use ebb_scenario::{Check, Document, Invalid, ScenarioError};
use serde::{Deserialize, Serialize};

use crate::scenario::{
    ApplicationChoice, EngineKind, Limits, PolicyChoice, Scenario, ServerChoice, TrafficChoice,
};

/// Simulated seconds before the load begins, in which policies find their first point.
pub(super) const WARMUP_S: f64 = 0.5;

/// What `ebb plan router` is asked: a load, a server, and how much room to keep.
///
/// ```
/// use ebb_scenario::Document;
/// use ebb_system_router::plan::Problem;
/// let text = "load = 0.35\nheadroom = 0.25\n[traffic]\nprofile = \"uk\"\n";
/// let problem: Problem = Document::parse("plan.toml", text)?.read()?;
/// assert_eq!(problem.policies.len(), 4);
/// # Ok::<(), ebb_scenario::ScenarioError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Problem {
    /// Headline of the report.
    pub title: String,
    /// Mean offered load as a share of what all cores carry at the highest frequency, above 0. It
    /// scales whatever `[traffic]` says; without it the traffic is taken as it is.
    pub load: Option<f64>,
    /// Capacity kept above the load, as a share of the load, 0 to 10.
    pub headroom: f64,
    /// The policies to compare, by name.
    pub policies: Vec<String>,
    /// Settings of those that have any.
    pub settings: Settings,
    /// Rows of the table over load, 1 to 1000.
    pub rows: u16,
    /// Simulated seconds into which a profile, trace or capture is compressed, 0.01 to 10,000; by
    /// default 2 s for each of its steps, at most 4000.
    pub simulated_s: Option<f64>,
    /// The server.
    pub server: ServerChoice,
    /// What of the server may be used.
    pub limits: Limits,
    /// What happens to each packet.
    pub application: ApplicationChoice,
    /// What arrives.
    pub traffic: TrafficChoice,
}

impl Default for Problem {
    fn default() -> Problem {
        Problem {
            title: "A plan for a router".to_owned(),
            load: None,
            headroom: 0.2,
            policies: NAMES.iter().map(|(name, _)| (*name).to_owned()).collect(),
            settings: Settings::default(),
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
        let policy = PolicyChoice { name: policy.to_owned(), settings: self.settings };
        Scenario {
            title: self.title.clone(),
            engine: EngineKind::Slot,
            warmup_s: WARMUP_S,
            load: self.load,
            server: self.server.clone(),
            limits: self.limits.clone(),
            policy,
            application: self.application.clone(),
            traffic: TrafficChoice { compress, ..self.traffic.clone() },
            ..Scenario::default()
        }
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
        let headroom = (0.0..=10.0).contains(&self.headroom);
        let message = format!("is {}", self.headroom);
        Invalid::unless(headroom, "headroom", message, "0 to 10; 0.2 keeps a fifth of the load")?;
        let rows = (1..=1000).contains(&self.rows);
        Invalid::unless(rows, "rows", format!("is {}", self.rows), "1 to 1000")?;
        let some = !self.policies.is_empty();
        Invalid::unless(some, "policies", "is empty", "at least one, or leave it out for all")?;
        let span = self.simulated_s.is_none_or(|span| (0.01..=1e4).contains(&span));
        Invalid::unless(span, "simulated_s", "is out of range", "0.01 to 10000")?;
        for (index, name) in self.policies.iter().enumerate() {
            let known = NAMES.iter().any(|(known, _)| known == name);
            let names = NAMES.map(|(name, _)| name).join(", ");
            let message = format!("there is no policy named `{name}`");
            Invalid::unless(known, format!("policies[{index}]"), message, names)?;
            let twice = self.policies[..index].contains(name);
            let field = format!("policies[{index}]");
            Invalid::unless(!twice, field, format!("`{name}` is listed twice"), "once each")?;
        }
        self.scenario(&self.policies[0], self.traffic.compress).check()
    }
}
