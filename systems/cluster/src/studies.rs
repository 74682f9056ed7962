//! What can be done with a cluster of servers.

use ebb_scenario::{Invalid, ScenarioError};
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
        "examples/cluster-plan.toml --set budget=5000..6500:500",
    ],
    notes: "A server whose power_full_w and power_idle_w differ draws between them in proportion to its load.",
    flags: &FLAGS,
    ..Study::new(
        "cluster",
        "A cluster of servers behind a balancer: which to buy, which to run, and how far that is from the \
         least",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan(document, files, seed, progress)?)
        }),
    )
};

const FLAGS: [Flag; 7] = [
    Flag {
        name: "catalogue",
        path: "catalogue",
        value: FlagValue::Text("FILE.csv"),
        about: "Servers to choose from: CSV with the columns group, capacity_mbps, power_full_w, \
                power_idle_w, price, available (empty: as many as wanted)",
    },
    Flag {
        name: "demand",
        path: "demand",
        value: FlagValue::Text("FILE.csv"),
        about: "Traffic over time: CSV with the columns seconds (when each sample begins) and mbps",
    },
    Flag {
        name: "budget",
        path: "budget",
        value: FlagValue::Value("PRICE"),
        about: "What designs IV and V may cost, in the catalogue's money [default: anything]",
    },
    Flag {
        name: "spare",
        path: "spare",
        value: FlagValue::Switch(true),
        about: "Keep one server more on than the load needs, so that any may fail",
    },
    Flag {
        name: "flat",
        path: "flat",
        value: FlagValue::Switch(true),
        about: "A server that is on draws its full power whatever its load, as the published model has it",
    },
    Flag {
        name: "design-seconds",
        path: "design_seconds",
        value: FlagValue::Value("SECONDS"),
        about: "Choose servers on the demand averaged over so many seconds, evaluate them on it as it is",
    },
    Flag {
        name: "program",
        path: "method",
        value: FlagValue::Word("program"),
        about: "Solve the goal program as published with a mixed-integer solver: small problems only",
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
                format!("{budget} buys no servers that carry the peak of {peak_mbps} Mbps{with}"),
                format!("the least that does is {least}"),
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
                remedy: "more servers, or an empty field for as many as wanted".to_owned(),
            }
            .into(),
            error @ ClusterError::Solver(_) => StudyError::failed(error),
            ClusterError::Stopped => StudyError::Stopped,
        }
    }
}
