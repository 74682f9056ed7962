//! Requests that every daemon understands.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::PROTOCOL;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Longest request, in bytes.
pub const REQUEST_LEN_MAX: usize = 64 << 10;
/// Least time between two snapshots of a stream.
pub const EVERY_MIN: Duration = Duration::from_millis(50);
/// Most time between two snapshots of a stream.
pub const EVERY_MAX: Duration = Duration::from_secs(86_400);

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// `{"get":"status"}`: the daemon's state as its own document.
    Status,
    /// `{"get":"snapshot"}`: a [`ebb_telemetry::Snapshot`].
    Snapshot,
    /// `{"subscribe":{"every_ms":1000}}`: a snapshot now and then one after each interval, until the client
    /// says something else or leaves.
    Subscribe {
        /// The interval, from [`EVERY_MIN`] to [`EVERY_MAX`].
        every: Duration,
    },
    /// Anything else: the daemon's own.
    Command(Map<String, Value>),
}

/// Why a request was not understood.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Longer than a request may be.
    #[error("the request is longer than {REQUEST_LEN_MAX} bytes")]
    TooLong,
    /// No object of JSON, or with ill-typed fields.
    #[error("the request is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Well-formed, and not for this daemon.
    #[error("{0}")]
    Invalid(String),
}

/// An object in which no name stands twice.
struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Map::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if fields.insert(name.clone(), value).is_some() {
                        return Err(A::Error::custom(format_args!("`{name}` appears twice")));
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe {
    #[serde(default = "a_second")]
    every_ms: u64,
}

fn a_second() -> u64 {
    1000
}

/// Understands one request: an object, which may say by `"protocol":1` what its sender speaks.
///
/// ```
/// use ebb_service::{Request, parse_request};
/// assert_eq!(parse_request(br#"{"get":"status"}"#)?, Request::Status);
/// # Ok::<(), ebb_service::RequestError>(())
/// ```
///
/// # Errors
/// When it is none; what is wrong is said for the client to read.
pub fn parse_request(bytes: &[u8]) -> Result<Request, RequestError> {
    if bytes.len() > REQUEST_LEN_MAX {
        return Err(RequestError::TooLong);
    }
    let Fields(mut fields) = serde_json::from_slice(bytes)?;
    let invalid = |message| Err(RequestError::Invalid(message));
    if let Some(protocol) = fields.remove("protocol")
        && protocol != PROTOCOL
    {
        return invalid(format!("this daemon uses protocol {PROTOCOL}, not {protocol}"));
    }
    match (fields.len(), fields.iter().next()) {
        (0, _) => invalid("the request is empty".to_owned()),
        (1, Some((name, value))) if name == "get" && value == "status" => Ok(Request::Status),
        (1, Some((name, value))) if name == "get" && value == "snapshot" => Ok(Request::Snapshot),
        (1, Some((name, value))) if name == "subscribe" => {
            let every = Duration::from_millis(Subscribe::deserialize(value)?.every_ms);
            match (EVERY_MIN..=EVERY_MAX).contains(&every) {
                true => Ok(Request::Subscribe { every }),
                false => invalid(format!(
                    "`every_ms` must be from {} to {}",
                    EVERY_MIN.as_millis(),
                    EVERY_MAX.as_millis()
                )),
            }
        }
        _ => Ok(Request::Command(fields)),
    }
}
