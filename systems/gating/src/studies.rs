//! What can be done with cores that are power gated.

use ebb_scenario::Schema;
use ebb_study::{Flag, FlagValue, Study, StudyError, Work};

use crate::SimulateError;

/// `ebb sim gating`.
pub static SIM: Study = Study {
    examples: &[
        "examples/gating-stream.toml",
        "examples/gating-profile.toml --set leakage_share=0.1..0.6:0.1 --out sweep",
        "--trace mcf.champsim.xz --core ev6 --controller all --json",
        "--trace 429.mcf.gz --filtered --core io --controller oracle,tap,counter",
    ],
    notes: "\
Every core runs the trace from its beginning; all controllers see the same run, and each is charged
the time by which it wakes a core late. Exit status 2: a trace is damaged; the error names the byte.",
    schema: Some(Schema::of::<crate::simulate::Scenario>),
    quick: &["warmup=0", "references=2000"],
    flags: &FLAGS,
    ..Study::new(
        "gating",
        "Cores that are power gated while they wait for memory: a trace of memory references through \
         caches and DRAM, under every controller",
        Work::Sim(|document, files, seed, progress| {
            Ok(crate::simulate(document, files, seed, progress)?)
        }),
    )
};

/// `ebb plan gating`.
pub static PLAN: Study = Study {
    examples: &["examples/gating-plan.toml", "examples/gating-plan.toml --json"],
    schema: Some(Schema::of::<crate::simulate::Scenario>),
    quick: &["warmup=0", "references=500"],
    ..Study::new(
        "gating",
        "Power gating of cores that wait for memory: which controller pays off from which leakage \
        share, wake-up time and number of cores",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan(document, files, seed, progress)?)
        }),
    )
};

const FLAGS: [Flag; 14] = [
    Flag { value: FlagValue::Texts("FILE"), ..Flag::of("trace", "trace", "") },
    Flag::of("format", "format", "FORMAT"),
    Flag::of("filtered", "filtered", ""),
    Flag::of("core", "core.name", "CORE"),
    Flag::of("cores", "cores", "CORES"),
    Flag::of("split", "split", ""),
    Flag::of("controller", "controllers", "CONTROLLER"),
    Flag::of("wake-ns", "wake_ns", "WAKE_NS"),
    Flag::of("leakage-share", "leakage_share", "LEAKAGE_SHARE"),
    Flag::of("keeping", "keeping", "KEEPING"),
    Flag::of("load", "load", "LOAD"),
    Flag::of("idle", "idle", "IDLE"),
    Flag::of("warmup", "warmup", "WARMUP"),
    Flag::of("references", "references", "REFERENCES"),
];

/// What was published on gated cores.
pub static REPRODUCE: Study =
    Study::new("gating", "Cores that are power gated", Work::Reproduce(crate::experiments));

impl From<SimulateError> for StudyError {
    fn from(error: SimulateError) -> StudyError {
        match error {
            SimulateError::Scenario(error) => error.into(),
            SimulateError::Value(error) => error.into(),
            SimulateError::File(error) => error.into(),
            // It names the file and the byte.
            SimulateError::Trace(error) => {
                let (text, place) = (error.to_string(), format!("{}: ", error.file));
                StudyError::in_file(error.file, text.strip_prefix(&place).unwrap_or(&text))
            }
            SimulateError::Stopped => StudyError::Stopped,
        }
    }
}
