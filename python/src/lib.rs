//! The module `ebb._ebb`: what the package `ebb` for Python is made of.
//!
//! Room: one face of the catalogue, as the command is another. It turns what Python hands over into a
//! job of `ebb_study` and the job's report into values of Python; what is convenient there is written
//! in Python, in `../ebb`. Neighbours: `ebb_catalogue` says what there is, `ebb_study` runs it,
//! `ebb_report` holds what came out. It may name no system, and prints nothing.

mod asked;
mod catalog;
mod daemon;
mod elsewhere;
mod errors;
mod files;
mod parts;
mod policy;
mod report;
mod reproduction;
mod run;
mod task;
mod told;

use pyo3::prelude::*;

/// What the package `ebb` is made of; its names are not for users.
#[pymodule]
mod _ebb {
    use super::*;

    #[pymodule_export]
    use super::catalog::{json_schema, reference, studies, toml_text};
    #[pymodule_export]
    use super::daemon::{Snapshots, status};
    #[pymodule_export]
    use super::parts::write_part;
    #[pymodule_export]
    use super::policy::Policy;
    #[pymodule_export]
    use super::report::Report;
    #[pymodule_export]
    use super::reproduction::{Reproducing, experiments};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::task::{compute, digest};

    /// Says which program this is, so that results of another are told from its own.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("version", env!("CARGO_PKG_VERSION"))?;
        module.add("revision", env!("EBB_REVISION"))
    }
}
