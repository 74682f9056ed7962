//! What can be done with a network on chip.

use ebb_scenario::Schema;
use ebb_study::{Flag, FlagValue, Import, Kind, Study, StudyError, Work};

use crate::NocError;

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
Configurations of BookSim 2 and of Noxim are recognised by their text; the directory of the run
contains the translated scenario.",
    schema: Some(Schema::of::<crate::Scenario>),
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
    schema: Some(Schema::of::<crate::Problem>),
    flags: &FLAGS,
    ..Study::new(
        "noc",
        "A network on chip: the least possible power, and how close routings and planes come to \
        it",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan(document, files, seed, progress)?)
        }),
    )
};

const FLAGS: [Flag; 12] = [
    Flag::of("mesh", "mesh", "ROWSxCOLUMNS"),
    Flag::of("torus", "torus", ""),
    Flag::of("traffic", "traffic", "TRAFFIC"),
    Flag::of("routing", "routing", "ROUTING"),
    Flag::of("load", "load", "LOAD"),
    Flag::of("normalise", "normalise", "NORMALISE"),
    Flag::of("alpha-max", "alpha_max", "ALPHA_MAX"),
    Flag::of("planes", "planes", "PLANES"),
    Flag::of("alphas", "alphas", "ALPHA,ALPHA"),
    Flag::of("samples", "samples", "SAMPLES"),
    Flag {
        name: "no-bound",
        path: "bound",
        value: FlagValue::Switch(false),
        about: "Do not compute the exact bound",
    },
    Flag::of("certificate", "certificate", ""),
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

/// Configurations of Noxim as scenarios of [`SIM`].
pub static NOXIM: Study = Study::new(
    "noc",
    "A configuration of Noxim as a scenario",
    Work::Import(Import {
        extension: "yaml",
        recognises: crate::noxim::is_config,
        kind: Kind::Sim,
        read: |text| crate::noxim::to_toml(text).map_err(StudyError::whole),
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
