//! What can be done with optical circuits.

use ebb_scenario::Schema;
use ebb_study::{Flag, FlagValue, Study, StudyError, Work};

use crate::DemandError;

/// `ebb sim circuit`.
pub static SIM: Study = Study {
    examples: &[
        "examples/circuit-sim.toml",
        "examples/circuit-sim.toml --set tokens=naive,aging,pacing",
        "examples/circuit-sim.toml --set day_us=61,100,200,300",
        "examples/circuit-sim.toml --timeline 20000 --out run",
    ],
    flags: &[Flag::of("timeline", "output.timeline", "EVENTS")],
    schema: Some(Schema::of::<crate::sim::Scenario>),
    ..Study::new(
        "circuit",
        "Racks behind an optical circuit switch: queues per destination, days and nights, tokens, UDP and TCP",
        Work::Sim(crate::simulate),
    )
};

/// `ebb plan circuit`.
pub static PLAN: Study = Study {
    examples: &[
        "--demand csv:examples/circuit-demand.csv --delta 0.01 --window 1 --scheduler all --json",
        "--demand sparse:64 --delta 0.02 --scheduler eclipse,tms-bottleneck",
        "examples/circuit-plan.toml --set delta=0.01,0.02,0.05",
    ],
    notes: "\
JSON: schedulers.NAME has served (share of the demand), direct (share by direct circuits), days,
longest_day and schedule, a list of { duration, matching } in order: matching[i] is the output of input
i, and a night of delta precedes each day. bound is the most that any schedule serves directly.",
    schema: Some(Schema::of::<crate::Problem>),
    flags: &FLAGS,
    ..Study::new(
        "circuit",
        "An optical circuit switch: schedules of seven schedulers, and the most that any schedule \
         could serve",
        Work::Plan(crate::plan::plan),
    )
};

const FLAGS: [Flag; 8] = [
    Flag::of("demand", "demand", "DEMAND"),
    Flag::of("delta", "delta", "DELTA"),
    Flag::of("window", "window", "WINDOW"),
    Flag::of("scheduler", "scheduler", "SCHEDULER"),
    Flag::of("error", "error", "ERROR"),
    Flag::of("packet-share", "packet_share", "PACKET_SHARE"),
    Flag::of("timeline", "output.timeline", "EVENTS"),
    Flag {
        name: "no-bound",
        path: "bound",
        value: FlagValue::Switch(false),
        about: "Do not compute the bound",
    },
];

/// What was published on microsecond circuits.
pub static REPRODUCE: Study =
    Study::new("circuit", "Optical circuits", Work::Reproduce(crate::experiments));

impl From<DemandError> for StudyError {
    fn from(error: DemandError) -> StudyError {
        StudyError::whole(error)
    }
}
