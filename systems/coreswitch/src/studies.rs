//! What can be done with programs whose system calls run elsewhere.

use ebb_scenario::Schema;
use ebb_study::{Flag, Study, Work};

/// `ebb sim coreswitch`.
pub static SIM: Study = Study {
    examples: &[
        "examples/coreswitch-web.toml",
        "examples/coreswitch-web.toml --set configuration=CC,CS,SS --set kernel=bound,V5",
        "examples/coreswitch-web.toml --timeline 20000 --out run",
    ],
    headlines: &["power_w"],
    flags: &[Flag::of("timeline", "output.timeline", "EVENTS")],
    schema: Some(Schema::of::<crate::Scenario>),
    ..Study::new(
        "coreswitch",
        "Programs whose system calls run on another core: cores of different size and clock, five ways of \
         switching, energy",
        Work::Sim(crate::simulate),
    )
};

/// `ebb plan coreswitch`.
pub static PLAN: Study = Study {
    examples: &["examples/coreswitch-web.toml", "examples/coreswitch-measured.toml --json"],
    schema: Some(Schema::of::<crate::Scenario>),
    ..Study::new(
        "coreswitch",
        "Core switching: from which length of a system call running it on another core pays off, \
         in time and in energy",
        Work::Plan(crate::plan),
    )
};

/// What was published on switching cores.
pub static REPRODUCE: Study =
    Study::new("coreswitch", "Core switching", Work::Reproduce(crate::experiments));
