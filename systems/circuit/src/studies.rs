//! What can be done with optical circuits.

use ebb_study::{Flag, FlagValue, Study, StudyError, Work};

use crate::CircuitError;

/// `ebb sim circuit`.
pub static SIM: Study = Study {
    examples: &[
        "examples/circuit-sim.toml",
        "examples/circuit-sim.toml --set tokens=naive,aging,pacing",
        "examples/circuit-sim.toml --set day_us=61,100,200,300",
    ],
    ..Study::new(
        "circuit",
        "Racks behind an optical circuit switch: queues per destination, days and nights, tokens, UDP and TCP",
        Work::Sim(|document, files, seed, progress| {
            Ok(crate::simulate(document, files, seed, progress)?)
        }),
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
i, and each day comes after a night of delta. bound is the most that any schedule serves directly.",
    flags: &FLAGS,
    ..Study::new(
        "circuit",
        "An optical circuit switch: when which input is connected to which output, by seven schedulers, and \
         the most that any could serve",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan::plan(document, files, seed, progress)?)
        }),
    )
};

const FLAGS: [Flag; 7] = [
    Flag {
        name: "demand",
        path: "demand",
        value: FlagValue::Text("DEMAND"),
        about: "csv:FILE (a row of numbers for each input, in units of what a link carries in a window of \
                1), or uniform:PORTS, sparse:PORTS, hotspot:PORTS",
    },
    Flag {
        name: "delta",
        path: "delta",
        value: FlagValue::Value("DELTA"),
        about: "Length of a night [default: 0.01]",
    },
    Flag {
        name: "window",
        path: "window",
        value: FlagValue::Value("WINDOW"),
        about: "Length of the window [default: 1]",
    },
    Flag {
        name: "scheduler",
        path: "scheduler",
        value: FlagValue::Text("SCHEDULER"),
        about: "all, or names with commas: round-robin, tms-arbitrary, tms-bottleneck, solstice, eclipse, \
                eclipse-2hop, hybrid [default: all]",
    },
    Flag {
        name: "error",
        path: "error",
        value: FlagValue::Value("ERROR"),
        about: "Let schedulers see each amount with an error of up to this share [default: 0]",
    },
    Flag {
        name: "packet-share",
        path: "packet_share",
        value: FlagValue::Value("PACKET_SHARE"),
        about: "Capacity of the hybrid's packet switch as a share of a circuit's [default: 0.1]",
    },
    Flag {
        name: "no-bound",
        path: "bound",
        value: FlagValue::Switch(false),
        about: "Leave the bound out",
    },
];

/// What was published on microsecond circuits.
pub static REPRODUCE: Study =
    Study::new("circuit", "Optical circuits", Work::Reproduce(crate::experiments));

impl From<CircuitError> for StudyError {
    fn from(error: CircuitError) -> StudyError {
        match error {
            CircuitError::Scenario(error) => error.into(),
            CircuitError::Field(error) => error.into(),
            CircuitError::Demand(error) => StudyError::whole(error),
            CircuitError::Bound(_) => StudyError::failed(error),
        }
    }
}
