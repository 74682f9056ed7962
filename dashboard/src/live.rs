//! Running daemons: which there are, what they say, and the few commands that operators give in the browser.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use ebb_service::client;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Refusal, aside};
use crate::feed::{Feed, Seat};
use crate::history::Told;
use crate::shared::Shared;

/// Streams at once, of all daemons together.
pub(crate) const STREAMS_MAX: usize = 128;

fn feed<'a>(shared: &'a Shared, id: &str) -> Result<&'a Arc<Feed>, Refusal> {
    let found = shared.feeds.iter().find(|feed| feed.id == id);
    found.ok_or_else(|| Refusal::unknown(format!("there is no daemon `{id}`")))
}

/// All that are listened to.
pub(crate) async fn daemons(State(shared): State<Arc<Shared>>) -> Answer<Vec<Value>> {
    Ok(axum::Json(shared.feeds.iter().map(|feed| feed.state()).collect()))
}

/// What one said last, whole.
pub(crate) async fn snapshot(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Answer<Value> {
    let feed = feed(&shared, &id)?;
    let last = feed.last().ok_or_else(|| {
        let error = feed.state()["error"].as_str().unwrap_or("nothing was said yet").to_owned();
        Refusal::busy(error)
    })?;
    serde_json::to_value(&*last).map(axum::Json).map_err(Refusal::failed)
}

#[derive(Deserialize)]
pub(crate) struct Wanted {
    /// Names of metrics with commas between.
    metrics: String,
    seconds: f64,
}

/// Series of the past.
pub(crate) async fn history(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer<Told> {
    let metrics: Vec<&str> = wanted.metrics.split(',').collect();
    Ok(axum::Json(feed(&shared, &id)?.told(&metrics, wanted.seconds)))
}

/// All that one says from now on.
pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let feed = feed(&shared, &id)?;
    let seat = Seat::take(&shared.streams, STREAMS_MAX).ok_or_else(|| {
        Refusal::busy(format!("{STREAMS_MAX} pages watch already: close one and reload this one"))
    })?;
    let body = Body::from_stream(feed.watch(seat));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Whether a daemon may be asked for this in the browser: nothing that ends it or writes files.
fn is_offered(daemon: &str, command: &Map<String, Value>) -> bool {
    let mut fields = command.iter();
    let (Some((name, value)), None) = (fields.next(), fields.next()) else { return false };
    let is_name = value.as_str().is_some_and(|name| !name.is_empty() && name.len() <= 64);
    match (daemon, name.as_str()) {
        ("router", "set") => value
            .as_object()
            .is_some_and(|set| set.len() == 1 && set.get("mode").is_some_and(Value::is_string)),
        ("cluster", "drain" | "undrain") => is_name,
        (_, "reload") => *value == json!({}),
        _ => false,
    }
}

/// Has a daemon do something.
pub(crate) async fn command(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    axum::Json(command): axum::Json<Map<String, Value>>,
) -> Answer<Value> {
    let feed = feed(&shared, &id)?.clone();
    let kind = feed.last().map(|last| last.daemon.clone()).unwrap_or_default();
    if !is_offered(&kind, &command) {
        let words = "is not done from here: use the command of the daemon on its machine";
        return Err(Refusal::wrong(format!("{} {words}", Value::Object(command))));
    }
    let words = serde_json::Value::Object(command.clone()).to_string();
    tracing::info!(daemon = id, command = words, "asked in the browser");
    let done = aside(move || {
        let mut daemon = client(&feed.socket).map_err(Refusal::failed)?;
        daemon.request(&Value::Object(command)).map_err(Refusal::failed)
    });
    Ok(axum::Json(json!({ "done": done.await? })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_daemon_or_writes_files_is_not_offered() {
        let offered = |daemon: &str, command: Value| {
            is_offered(daemon, command.as_object().expect("an object"))
        };
        assert!(offered("router", json!({ "set": { "mode": "poll" } })));
        assert!(offered("cluster", json!({ "drain": "r0" })));
        assert!(offered("tor", json!({ "reload": {} })));
        for (daemon, command) in [
            ("router", json!({})),
            ("router", json!({ "capture": { "path": "/etc/passwd" } })),
            ("router", json!({ "upgrade": {} })),
            ("router", json!({ "set": { "mode": "poll", "x": 1 } })),
            ("router", json!({ "set": { "mode": "poll" }, "capture": {} })),
            ("cluster", json!({ "stop": {} })),
            ("cluster", json!({ "drain": 1 })),
            ("tor", json!({ "set": { "mode": "poll" } })),
            ("", json!({ "set": { "mode": "poll" } })),
        ] {
            assert!(!offered(daemon, command.clone()), "{daemon} {command}");
        }
    }
}
