//! What goes wrong, as exceptions of the package.
//!
//! Room: one place that knows the names of the exceptions in `ebb/_errors.py`. It makes them and
//! decides nothing.

use ebb_study::{JobError, StudyError};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// An exception of the package, made of these arguments.
fn exception<'py, A>(py: Python<'py>, name: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let class = py.import("ebb._errors").and_then(|module| module.getattr(name));
    match class.and_then(|class| class.call1(arguments)) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Why a study has no report.
pub(crate) fn of_study(py: Python<'_>, error: &StudyError, point: &str) -> PyErr {
    match error {
        StudyError::Scenario(fault) => exception(
            py,
            "ScenarioError",
            (&fault.file, fault.line, &fault.field, &fault.message, &fault.remedy, point),
        ),
        StudyError::Stopped => PyKeyboardInterrupt::new_err("interrupted"),
        StudyError::Failed(error) => match error.downcast_ref::<PyErr>() {
            // What a user's own code raised stays as it is.
            Some(raised) => raised.clone_ref(py),
            None => exception(py, "StudyError", (error.to_string(), point)),
        },
    }
}

/// Why a job has none.
pub(crate) fn of_job(py: Python<'_>, error: &JobError) -> PyErr {
    of_study(py, &error.error, &error.point)
}

/// What was asked for and is not there.
pub(crate) fn unknown(py: Python<'_>, message: String) -> PyErr {
    exception(py, "UnknownError", (message,))
}

/// Why a daemon does not answer.
pub(crate) fn of_daemon(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "DaemonError", (message,))
}

/// What makes no sense in the call itself.
pub(crate) fn refused(py: Python<'_>, field: &str, message: &str, remedy: &str) -> PyErr {
    exception(py, "ScenarioError", ("", None::<usize>, field, message, remedy, ""))
}
