//! What can be done with cores that are power gated.

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
Every core runs the trace from its beginning; controllers watch the same run, and each is charged
with the time by which it woke a core late. Exit status 2: a trace is damaged; the error names the
byte.",
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
    quick: &["warmup=0", "references=500"],
    ..Study::new(
        "gating",
        "Power gating of cores that wait for memory: which controller pays from which leakage share, \
         wake-up time and number of cores on",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan(document, files, seed, progress)?)
        }),
    )
};

const FLAGS: [Flag; 14] = [
    Flag {
        name: "trace",
        path: "trace",
        value: FlagValue::Texts("FILE"),
        about: "A trace of memory references, plain, gz, xz or zstd; several times: one for each core",
    },
    Flag {
        name: "format",
        path: "format",
        value: FlagValue::Text("FORMAT"),
        about: "champsim, cloudsuite, lackey, din, ramulator, ramulator-memory or compact [default: told \
                from the name and the first bytes]",
    },
    Flag {
        name: "filtered",
        path: "filtered",
        value: FlagValue::Switch(true),
        about: "The trace holds what the last cache let through: straight to memory",
    },
    Flag {
        name: "core",
        path: "core.name",
        value: FlagValue::Text("CORE"),
        about: "The cores: ev6 (out of order, six wide, 3.3 GHz) or io (in order, two wide, 2 GHz) \
                [default: ev6]",
    },
    Flag {
        name: "cores",
        path: "cores",
        value: FlagValue::Value("CORES"),
        about: "How many; each runs the trace in an address space of its own [default: 1]",
    },
    Flag {
        name: "split",
        path: "split",
        value: FlagValue::Switch(true),
        about: "Threads of the trace are dealt out to the cores instead, in one address space",
    },
    Flag {
        name: "controller",
        path: "controllers",
        value: FlagValue::Text("CONTROLLER"),
        about: "all, or names with commas: none, oracle, counter, tap, fupg, dvfs-mean, dvfs-oracle, \
                cyclic, hybrid [default: all]",
    },
    Flag {
        name: "wake-ns",
        path: "wake_ns",
        value: FlagValue::Value("WAKE_NS"),
        about: "Time to charge a core, ns [default: 10.2 (ev6), 8.06 (io)]",
    },
    Flag {
        name: "leakage-share",
        path: "leakage_share",
        value: FlagValue::Value("LEAKAGE_SHARE"),
        about: "Leakage as a part of a core's power at work [default: 0.4]",
    },
    Flag {
        name: "keeping",
        path: "keeping",
        value: FlagValue::Text("KEEPING"),
        about: "How wake-ups of neighbours are kept apart: none, worst, central, staggered or slots",
    },
    Flag {
        name: "load",
        path: "load",
        value: FlagValue::Value("LOAD"),
        about: "The part of the time in which there is something to do, above 0; the trace is that part \
                [default: 1]",
    },
    Flag {
        name: "idle",
        path: "idle",
        value: FlagValue::Text("IDLE"),
        about: "What cores do in the rest of it: poll, halt or sleep",
    },
    Flag {
        name: "warmup",
        path: "warmup",
        value: FlagValue::Value("WARMUP"),
        about: "References of each core that only warm the caches [default: 0]",
    },
    Flag {
        name: "references",
        path: "references",
        value: FlagValue::Value("REFERENCES"),
        about: "References of each core after those; 0 for all [default: 0]",
    },
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
