//! What there is to run, and what its scenarios may hold.
//!
//! Room: the catalogue as data for Python: studies, their flags, their schemas. It runs nothing.

use ebb_catalogue::STUDIES;
use ebb_study::Study;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors;

/// All studies as JSON: kind, system, what it is, examples, headlines, flags with their settings.
#[pyfunction]
pub(crate) fn studies() -> String {
    let of = |study: &&Study| {
        let flags = study.flags.iter().map(|flag| {
            let (_, about) = flag.declared(study);
            json!({ "name": flag.name, "path": flag.path, "about": about })
        });
        json!({
            "kind": study.kind().name(),
            "system": study.system,
            "about": study.about,
            "examples": study.examples,
            "headlines": study.headlines,
            "quick": study.quick,
            "notes": study.notes,
            "flags": flags.collect::<Vec<Value>>(),
            "declared": study.schema.is_some(),
        })
    };
    Value::from(STUDIES.iter().map(of).collect::<Vec<_>>()).to_string()
}

/// The study of a kind and a system.
pub(crate) fn find(py: Python<'_>, kind: &str, system: &str) -> PyResult<&'static Study> {
    let named = |study: &&&Study| (study.kind().name(), study.system) == (kind, system);
    let found = STUDIES.iter().filter(|study| study.has_scenario()).find(named);
    found.copied().ok_or_else(|| {
        let of_kind = STUDIES.iter().filter(|study| study.kind().name() == kind);
        let known: Vec<&str> = of_kind.map(|study| study.system).collect();
        let known = known.join(", ");
        errors::unknown(py, format!("there is no study `{kind} {system}`; known: {known}"))
    })
}

/// The JSON Schema of a study's scenario.
#[pyfunction]
pub(crate) fn json_schema(py: Python<'_>, kind: &str, system: &str) -> PyResult<Option<String>> {
    Ok(find(py, kind, system)?.json_schema().map(|schema| schema.to_string()))
}

/// The page of its settings, in Markdown.
#[pyfunction]
pub(crate) fn reference(py: Python<'_>, kind: &str, system: &str) -> PyResult<Option<String>> {
    Ok(find(py, kind, system)?.reference())
}

/// A table, handed over as JSON, as TOML.
#[pyfunction]
pub(crate) fn toml_text(py: Python<'_>, json: &str) -> PyResult<String> {
    let wrong = |error: &dyn std::fmt::Display| {
        errors::refused(py, "", &format!("is no scenario: {error}"), "a table of settings")
    };
    let value: toml::Value = serde_json::from_str(json).map_err(|error| wrong(&error))?;
    toml::to_string(&value).map_err(|error| wrong(&error))
}
