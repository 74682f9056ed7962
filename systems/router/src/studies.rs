//! What can be done with the router's twin.

use ebb_scenario::Schema;
use ebb_study::{Flag, Governed, Study, StudyError, Work};

use crate::Stopped;

/// `ebb sim router`.
pub static SIM: Study = Study {
    examples: &[
        "examples/router-day.toml",
        "examples/router-day.toml --set policy.name=poll,napi,powersave",
        "examples/router-second.toml --set load=0.1..1.0:0.1 --jobs 2 --out sweep",
        "examples/router-second.toml --seeds 10",
        "examples/router-second.toml --timeline 100000 --out run",
        "examples/router-second.toml --set load=0.2,0.5 --until latency_us.p99=0.05",
    ],
    notes: "An interrupted sweep or set of seeds continues where it stopped when the same command is \
         run\n\
         again.",
    quick: &["duration_s=0.05"],
    flags: &[Flag::of("timeline", "output.timeline", "EVENTS")],
    schema: Some(Schema::of::<crate::scenario::Scenario>),
    headlines: &["latency_us.mean", "latency_us.p99", "power_w", "energy_per_packet_j"],
    governed: Some(Governed { run: crate::outside::govern, replay: crate::replay::replay }),
    ..Study::new(
        "router",
        "The router: a server with its cores, queues and policies, packet by packet or in slots",
        Work::Sim(crate::simulate),
    )
};

/// `ebb plan router`.
pub static PLAN: Study = Study {
    examples: &[
        "examples/router-my-traffic.toml",
        "examples/router-my-traffic.toml --set headroom=0.1,0.2,0.3 --json",
        "--from examples/my-traffic.csv",
    ],
    notes: "--from takes what was recorded before anything was installed; the report says which column or\n\
         series was read, and what its values were taken to be.",
    headlines: &["power_w"],
    flags: &[
        Flag::of("from", "traffic.trace.file", "FILE|URL"),
        Flag::of("time", "traffic.trace.time", "COLUMN"),
        Flag::of("value", "traffic.trace.value", "COLUMN|SERIES"),
        Flag::of("unit", "traffic.trace.unit", "UNIT"),
        Flag::of("load", "load", "SHARE"),
    ],
    schema: Some(Schema::of::<crate::plan::Problem>),
    ..Study::new(
        "router",
        "The router: the cheapest cores and frequency for each load, the power of each policy for \
         your traffic, and the least possible",
        Work::Plan(crate::plan::plan),
    )
};

/// What was published on servers that route.
pub static REPRODUCE: Study = Study::new(
    "router",
    "Routers built from servers",
    Work::Reproduce(crate::experiments::experiments),
);

impl From<Stopped> for StudyError {
    fn from(_: Stopped) -> StudyError {
        StudyError::Stopped
    }
}
