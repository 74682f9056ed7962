//! What can be done with a network on chip.

use ebb_study::{Flag, FlagValue, Import, Kind, Study, StudyError, Work};

use crate::{NocError, SimulateError};

/// `ebb sim noc`.
pub static SIM: Study = Study {
    examples: &[
        "examples/noc-sim-uniform.toml",
        "examples/noc-sim-uniform.toml --set load=0.05..0.45:0.05 --out curve",
        "examples/noc-sim-uniform.toml --seeds 5 --set output.flows=true",
        "examples/noc-sim-uniform.toml --saturation load=0.1..0.9",
        "base.cfg --set load=0.2",
    ],
    notes: "\
A configuration of BookSim 2 is told by its text; the scenario it is run as is in the run's
directory.",
    headlines: &["latency_cycles.mean", "latency_cycles.p99", "power_w", "power", "accepted"],
    ..Study::new(
        "noc",
        "A network on chip, flit by flit: virtual channels or slotted queues, planes with clocks of their \
         own",
        Work::Sim(|document, files, seed, progress| {
            Ok(crate::simulate(document, files, seed, progress)?)
        }),
    )
};

/// `ebb plan noc`.
pub static PLAN: Study = Study {
    examples: &[
        "--mesh 5x5 --traffic hotspot",
        "--mesh 8x8 --traffic transpose --planes 2 --json",
        "--mesh 4x4 --traffic task:mpeg4.csv --normalise xy",
        "--mesh 5x5 --traffic uniform --normalise xy --planes 2 --alphas 1.5,3",
        "--mesh 5x5 --traffic normal --certificate --json | docs/verify_bound.py -",
        "examples/noc-hotspot.toml --set load=0.2..1.0:0.2",
    ],
    headlines: &["power"],
    flags: &FLAGS,
    ..Study::new(
        "noc",
        "A network on chip: the least power that is possible, and how close routings and planes come",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan(document, files, seed, progress)?)
        }),
    )
};

const FLAGS: [Flag; 12] = [
    Flag {
        name: "mesh",
        path: "mesh",
        value: FlagValue::Text("ROWSxCOLUMNS"),
        about: "Rows x columns, such as 5x5",
    },
    Flag {
        name: "torus",
        path: "torus",
        value: FlagValue::Switch(true),
        about: "Close rows and columns",
    },
    Flag {
        name: "traffic",
        path: "traffic",
        value: FlagValue::Text("TRAFFIC"),
        about: "uniform, normal, transpose, tornado, hotspot, csv:FILE (N rows of N numbers, row = source, \
                tiles numbered row by row) or task:FILE (columns src, dst, rate)",
    },
    Flag {
        name: "routing",
        path: "routing",
        value: FlagValue::Text("ROUTING"),
        about: "all, or names with commas: xy, yx, 2p-es, 2p-rs, 4p-es, adaptive [default: all]",
    },
    Flag {
        name: "load",
        path: "load",
        value: FlagValue::Value("LOAD"),
        about: "What the matrix is multiplied with after normalising [default: 1]",
    },
    Flag {
        name: "normalise",
        path: "normalise",
        value: FlagValue::Text("NORMALISE"),
        about: "What load 1 means: none (rates are in units of a link's capacity), max (the fullest link \
                over all compared routings is full) or xy (the fullest link under XY is full) [default: \
                none for csv, max for everything else]",
    },
    Flag {
        name: "alpha-max",
        path: "alpha_max",
        value: FlagValue::Value("ALPHA_MAX"),
        about: "The largest expansion factor V_max/V, at least 1 [default: 3]",
    },
    Flag {
        name: "planes",
        path: "planes",
        value: FlagValue::Value("PLANES"),
        about: "Planes, each with a voltage of its own [default: 1]",
    },
    Flag {
        name: "alphas",
        path: "alphas",
        value: FlagValue::List("ALPHA,ALPHA"),
        about: "Expansion factors of the planes, with commas: adds the best allocation of whole flows at \
                just these voltages",
    },
    Flag {
        name: "samples",
        path: "samples",
        value: FlagValue::Value("SAMPLES"),
        about: "Compute the sampled method at this many expansion factors beside the exact bound [default: \
                0]",
    },
    Flag {
        name: "no-bound",
        path: "bound",
        value: FlagValue::Switch(false),
        about: "Leave the exact bound out",
    },
    Flag {
        name: "certificate",
        path: "certificate",
        value: FlagValue::Switch(true),
        about: "Add everything that proves the bound to the JSON; docs/verify_bound.py verifies it",
    },
];

/// What was published on networks on chip.
pub static REPRODUCE: Study =
    Study::new("noc", "Networks on chip", Work::Reproduce(crate::experiments));

/// Configurations of BookSim 2 as scenarios of [`SIM`].
pub static BOOKSIM: Study = Study::new(
    "noc",
    "A configuration of BookSim 2 as a scenario",
    Work::Import(Import {
        extension: "cfg",
        recognises: crate::booksim::is_config,
        kind: Kind::Sim,
        read: |text| crate::booksim::to_toml(text).map_err(StudyError::whole),
    }),
);

impl From<NocError> for StudyError {
    fn from(error: NocError) -> StudyError {
        match error {
            NocError::Scenario(error) => error.into(),
            NocError::Field(error) => error.into(),
            NocError::File(error) => error.into(),
            NocError::Traffic { file, error } => StudyError::in_file(file, error),
            #[cfg(feature = "solver")]
            NocError::Bound(crate::bound::BoundError::Stopped) => StudyError::Stopped,
            #[cfg(feature = "solver")]
            NocError::Bound(error @ crate::bound::BoundError::Solver(_)) => {
                StudyError::failed(error)
            }
            other => StudyError::whole(other),
        }
    }
}

impl From<SimulateError> for StudyError {
    fn from(error: SimulateError) -> StudyError {
        match error {
            SimulateError::Scenario(error) => error.into(),
            SimulateError::Noc(error) => error.into(),
            SimulateError::Demand(error) => StudyError::whole(error),
        }
    }
}
