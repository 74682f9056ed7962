//! What can be run, as data for forms.

use axum::extract::Path;
use ebb_catalogue::STUDIES;
use ebb_study::{Kind, Study};
use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};

/// Studies that a form can be made for: those that declare their scenario and leave a directory.
pub(crate) fn offered() -> impl Iterator<Item = &'static Study> {
    let kinds = [Kind::Sim, Kind::Plan];
    STUDIES.iter().copied().filter(move |study| kinds.contains(&study.kind()))
}

/// The study of a kind and a system.
pub(crate) fn find(kind: &str, system: &str) -> Result<&'static Study, Refusal> {
    let found = offered().find(|study| (study.kind().name(), study.system) == (kind, system));
    found.ok_or_else(|| Refusal::unknown(format!("there is no study `{kind} {system}`")))
}

/// All of them.
pub(crate) async fn list() -> axum::Json<Vec<Value>> {
    let of = |study: &Study| json!({ "kind": study.kind().name(), "system": study.system, "about": study.about });
    axum::Json(offered().map(of).collect())
}

/// One with the schema of its scenario.
pub(crate) async fn one(Path((kind, system)): Path<(String, String)>) -> Answer<Value> {
    let study = find(&kind, &system)?;
    let paths = study.schema.map(|schema| schema().paths()).unwrap_or_default();
    Ok(axum::Json(json!({
        "kind": study.kind().name(),
        "system": study.system,
        "about": study.about,
        "seed": study.seed,
        "quick": study.quick,
        "headlines": study.headlines,
        "schema": study.json_schema(),
        "settings": paths,
        "presets": crate::presets::of(study),
    })))
}
