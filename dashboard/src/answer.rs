//! What is answered to a request: JSON, or why not.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request is not done, for whoever asked to read.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) String);

impl Refusal {
    /// There is no such thing.
    pub(crate) fn unknown(what: impl Into<String>) -> Refusal {
        Refusal(StatusCode::NOT_FOUND, what.into())
    }

    /// The request makes no sense.
    pub(crate) fn wrong(what: impl ToString) -> Refusal {
        Refusal(StatusCode::BAD_REQUEST, what.to_string())
    }

    /// It cannot be done now.
    pub(crate) fn busy(what: impl Into<String>) -> Refusal {
        Refusal(StatusCode::SERVICE_UNAVAILABLE, what.into())
    }

    /// Something on the other side failed.
    pub(crate) fn failed(what: impl ToString) -> Refusal {
        Refusal(StatusCode::BAD_GATEWAY, what.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, axum::Json(json!({ "error": self.1 }))).into_response()
    }
}

/// An answer in JSON.
pub(crate) type Answer<T> = Result<axum::Json<T>, Refusal>;

/// Computes on a thread that may take its time.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Refusal::failed("the request failed inside the dashboard")))
}
