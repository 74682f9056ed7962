//! What can be done with a cluster of servers.

use ebb_scenario::{Invalid, ScenarioError, Schema};
use ebb_study::{Flag, FlagValue, Study, StudyError, Work};

use crate::ClusterError;

/// `ebb sim cluster`.
pub static SIM: Study = Study {
    examples: &[
        "examples/cluster-sim.toml",
        "examples/cluster-sim.toml --set policy=all,differential,optimum,predictive",
        "examples/cluster-sim.toml --set settings.headroom=0.1,0.2,0.3 --seeds 5",
    ],
    quick: &["flows=500"],
    schema: Some(Schema::of::<crate::sim::Scenario>),
    ..Study::new(
        "cluster",
        "A cluster of servers behind balancers through its days: the live policies, flows, wake-ups, \
         drains, failures and elections",
        Work::Sim(|document, files, seed, progress| {
            Ok(crate::sim::simulate(document, files, seed, progress)?)
        }),
    )
};

/// `ebb plan cluster`.
pub static PLAN: Study = Study {
    examples: &[
        "--catalogue examples/cluster-catalogue.csv --demand examples/cluster-demand.csv",
        "--catalogue servers.csv --demand day.csv --budget 5000 --json",
        "examples/cluster-plan-run.toml --emit cluster.toml",
        "examples/cluster-plan.toml --set budget=5000..6500:500",
    ],
    notes: "A server whose power_full_w and power_idle_w differ draws between them in proportion to its load.",
    schema: Some(Schema::of::<crate::Problem>),
    emits: crate::report::CONFIGURATION,
    other: Some(Schema::of::<crate::placement::PlacementProblem>),
    flags: &FLAGS,
    ..Study::new(
        "cluster",
        "A cluster of servers behind a balancer: which servers to buy and to run, and how far \
        that is from the optimum",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan(document, files, seed, progress)?)
        }),
    )
};

const FLAGS: [Flag; 11] = [
    Flag::of("catalogue", "catalogue", "FILE.csv"),
    Flag::of("demand", "demand", "FILE.csv"),
    Flag::of("packets", "packets", "MIX"),
    Flag::of("headroom", "headroom", "SHARE"),
    Flag::of("design", "design", "NAME"),
    Flag::of("site", "site", "FILE.toml"),
    Flag::of("budget", "budget", "PRICE"),
    Flag::of("spare", "spare", ""),
    Flag::of("flat", "flat", ""),
    Flag::of("design-seconds", "design_seconds", "SECONDS"),
    Flag {
        name: "program",
        path: "method",
        value: FlagValue::Word("program"),
        about: "Solve the goal program as published with a mixed-integer solver: for small \
            problems only",
    },
];

/// What was published on clusters.
pub static REPRODUCE: Study =
    Study::new("cluster", "Clusters of servers", Work::Reproduce(crate::experiments));

impl From<ClusterError> for StudyError {
    fn from(error: ClusterError) -> StudyError {
        match error {
            ClusterError::Input(error) => error.into(),
            ClusterError::Invalid(error) => error.into(),
            ClusterError::Budget { budget, peak_mbps, with, least } => Invalid::new(
                "budget",
                format!("{budget} is not enough for servers that carry the peak of {peak_mbps} \
                    Mbps{with}"),
                format!("use at least {least}"),
            )
            .into(),
            ClusterError::Capacity { file, most_mbps, with, peak_mbps } => ScenarioError {
                file,
                line: None,
                field: Some("available".to_owned()),
                message: format!(
                    "all servers together carry {most_mbps} Mbps{with}, but the demand rises to {peak_mbps} \
                     Mbps"
                ),
                remedy: "add servers, or leave the field empty for an unlimited number".to_owned(),
            }
            .into(),
            error @ ClusterError::Solver(_) => StudyError::failed(error),
            ClusterError::Stopped => StudyError::Stopped,
        }
    }
}
