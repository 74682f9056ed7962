//! Who may ask what: the name by which the dashboard was addressed, the page that asks, and the token.
//!
//! A browser runs pages of anybody. `Host` is checked against pages whose names are made to point here (DNS
//! rebinding), `Origin` and the token, which only a header carries, against requests that other pages send.

use std::io::Read as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HOST, HeaderMap,
    HeaderName, HeaderValue, ORIGIN,
};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_core::Stream as _;

use crate::answer::Refusal;
use crate::assets::IMPORT_MAP_DIGEST;

/// Fewest characters of a token.
pub const TOKEN_LEN_MIN: usize = 16;
/// Longest request, in bytes: a scenario.
pub(crate) const REQUEST_LEN_MAX: usize = 1 << 20;
/// How many bytes of a refused request are read, and thrown away, before it is answered.
const REFUSED_LEN_MAX: usize = 16 << 20;
/// And how long that may take.
const REFUSED_PATIENCE: Duration = Duration::from_secs(5);

/// A token that nobody guesses: 32 bytes of the kernel's random numbers in hexadecimal digits.
///
/// # Errors
/// When the kernel gives none.
pub fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is checked of each request.
#[derive(Debug)]
pub(crate) struct Guard {
    /// What `Host` may be.
    hosts: Vec<String>,
    /// The digest of the token; nothing is changed without one.
    token: Option<blake3::Hash>,
    /// Whether reading needs the token, too.
    private: bool,
}

impl Guard {
    /// For a listener at `address`, which has these further names.
    pub(crate) fn new(
        address: SocketAddr,
        names: &[String],
        token: Option<&str>,
        private: bool,
    ) -> Guard {
        let port = address.port();
        let mut hosts = vec![address.to_string()];
        if address.ip().is_loopback() {
            hosts.push(format!("localhost:{port}"));
        }
        for name in names {
            // A name with a port is that of a proxy in front.
            let has_port = name.rsplit_once(':').is_some_and(|(_, end)| end.parse::<u16>().is_ok());
            hosts.extend((!has_port).then(|| format!("{name}:{port}")));
            hosts.push(name.clone());
        }
        let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Guard { hosts, token: token.map(digest), private }
    }

    /// Whether anything can be changed at all.
    pub(crate) fn can_change(&self) -> bool {
        self.token.is_some()
    }

    /// Whether reading needs the token.
    pub(crate) fn is_private(&self) -> bool {
        self.private
    }

    /// Whether the request brings the token. Digests are compared, in a time that says nothing.
    pub(crate) fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer "));
        matches!((self.token, given), (Some(token), Some(given)) if digest(given) == token)
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let text = |name: HeaderName| {
            let mut values = request.headers().get_all(name).iter();
            let first = values.next().and_then(|value| value.to_str().ok());
            if values.next().is_some() { None } else { first.map(str::to_ascii_lowercase) }
        };
        let host = text(HOST).filter(|host| self.hosts.contains(host));
        let Some(host) = host else {
            let message = "this dashboard has another name: open it by the address that it printed, or start \
                it with --name";
            return Err(Refusal(StatusCode::MISDIRECTED_REQUEST, message.to_owned()));
        };
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if !reads {
            let same = |origin: &String| {
                ["http://", "https://"].iter().any(|scheme| *origin == format!("{scheme}{host}"))
            };
            if !text(ORIGIN).is_some_and(|origin| same(&origin)) {
                let message = "another page asked for a change: only the dashboard's own may";
                return Err(Refusal(StatusCode::FORBIDDEN, message.to_owned()));
            }
            if self.token.is_none() {
                let message = "this dashboard only shows: it was started with --read-only";
                return Err(Refusal(StatusCode::FORBIDDEN, message.to_owned()));
            }
        }
        let shown = self.private && request.uri().path().starts_with("/api/");
        if (!reads || shown) && !self.has_token(request.headers()) {
            let message = "the token is missing or wrong: open the address with `#token=` that the dashboard \
                printed at its start";
            return Err(Refusal(StatusCode::UNAUTHORIZED, message.to_owned()));
        }
        let length = text(CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        if length.is_some_and(|length| length > REQUEST_LEN_MAX) {
            let message = format!("the request is longer than {REQUEST_LEN_MAX} bytes");
            return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Ok(())
    }
}

fn digest(token: &str) -> blake3::Hash {
    blake3::hash(token.as_bytes())
}

/// Reads what else a refused request brings. A connection that is closed while its sender writes is reset, and
/// whoever asked would lose the answer.
async fn read_off(body: Body) {
    let mut stream = body.into_data_stream();
    let mut len = 0;
    while len < REFUSED_LEN_MAX {
        match std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
            Some(Ok(bytes)) => len += bytes.len(),
            Some(Err(_)) | None => break,
        }
    }
}

/// Lets a request pass or refuses it, and gives every answer the headers by which browsers confine the page.
pub(crate) async fn guard(
    State(guard): State<std::sync::Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            // Whoever takes longer may lose the answer.
            _ = tokio::time::timeout(REFUSED_PATIENCE, read_off(request.into_body())).await;
            refusal.into_response()
        }
    };
    let policy = format!(
        "default-src 'none'; script-src 'self' '{IMPORT_MAP_DIGEST}'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers = response.headers_mut();
    let mut set = |name: &'static str, value: &'static str| {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    };
    set("x-content-type-options", "nosniff");
    set("x-frame-options", "DENY");
    set("referrer-policy", "no-referrer");
    set("cross-origin-opener-policy", "same-origin");
    set("cross-origin-resource-policy", "same-origin");
    set("permissions-policy", "camera=(), geolocation=(), microphone=(), usb=()");
    headers.insert(CONTENT_SECURITY_POLICY, policy.try_into().expect("a header's text"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
