//! Published numbers beside ours: the record that belongs to this version of the program, and what `ebb reproduce`
//! left in directories.

use std::sync::Arc;

use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Refusal, aside};
use crate::runs;
use crate::shared::Shared;

/// The record of this version.
static RECORD: &str = include_str!("../../docs/claims.json");

#[derive(Deserialize)]
pub(crate) struct Asked {
    run: Option<String>,
}

/// All claims with what became of them, and the experiments they belong to.
pub(crate) async fn claims(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
) -> Answer<Value> {
    let read = aside(move || {
        let rows = match &asked.run {
            None => serde_json::from_str(RECORD).map_err(Refusal::failed)?,
            Some(run) => runs::json_of(&runs::place(&shared.runs, run)?.join("claims.json")),
        };
        if !rows.is_array() {
            return Err(Refusal::unknown("the run has no readable claims.json"));
        }
        let experiments = ebb_catalogue::experiments();
        let of = experiments.iter().map(|one| json!({ "id": one.id(), "title": one.title() }));
        Ok(json!({ "claims": rows, "experiments": of.collect::<Vec<_>>() }))
    });
    Ok(axum::Json(read.await?))
}
