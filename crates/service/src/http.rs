//! Metrics over HTTP.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::Daemon;
use crate::crowd::{Crowd, Patience};

/// Connections at once that ask for metrics.
pub const CONNECTIONS_MAX: usize = 16;

/// Serves until it is dropped; whoever takes longer than `patience` to ask, or to take the answer, is let go.
pub(crate) async fn serve(listener: TcpListener, daemon: Arc<dyn Daemon>, patience: Duration) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, code = "EBB-S002", "metrics are not served"),
    };
    let app = axum::Router::new()
        .route("/", get(async || "metrics: /metrics\nstatus: /status\n"))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .with_state(daemon);
    if let Err(error) =
        axum::serve(Crowd::new(listener, Patience::Answer(patience), CONNECTIONS_MAX), app).await
    {
        tracing::error!(%error, code = "EBB-S003", "metrics are no longer served");
    }
}

/// What a daemon says, or that it says nothing yet.
fn answered<T>(said: Result<T, String>) -> Result<T, (StatusCode, String)> {
    said.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error))
}

async fn metrics(State(daemon): State<Arc<dyn Daemon>>) -> impl IntoResponse {
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    answered(daemon.snapshot()).map(|snapshot| ([(CONTENT_TYPE, format)], snapshot.openmetrics()))
}

async fn status(State(daemon): State<Arc<dyn Daemon>>) -> impl IntoResponse {
    answered(daemon.status()).map(axum::Json)
}
