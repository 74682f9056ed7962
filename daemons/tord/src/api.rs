//! How others see a running program: a local socket with a line of JSON for each request, and
//! Prometheus metrics over HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use ebb_service::{AskError, Serving, encoded, gauge};
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the program's thread shows, and what it is asked.
#[derive(Debug)]
pub struct Shared<T> {
    status: Mutex<Option<T>>,
    stop: AtomicBool,
    reload: AtomicBool,
}

impl<T> Shared<T> {
    /// Nothing to show yet.
    pub(crate) fn new() -> Shared<T> {
        Shared {
            status: Mutex::new(None),
            stop: AtomicBool::new(false),
            reload: AtomicBool::new(false),
        }
    }

    /// Shows the state; leaves it out where somebody is just reading.
    pub(crate) fn show(&self, status: T) {
        if let Ok(mut shown) = self.status.try_lock() {
            *shown = Some(status);
        }
    }

    fn shown(&self) -> Option<T>
    where
        T: Clone,
    {
        self.status.lock().expect("no panic while shown").clone()
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub(crate) fn ask_reload(&self) {
        self.reload.store(true, Relaxed);
    }

    pub(crate) fn take_reload(&self) -> bool {
        self.reload.swap(false, Relaxed)
    }
}

/// Opens the socket, for this user alone, and serves it, and the metrics where they are wanted.
///
/// # Errors
/// When another program answers on it, or it cannot be made.
pub fn serve<T: Serialize + Clone + Send + 'static>(
    path: &Path,
    metrics: Option<SocketAddr>,
    shared: Arc<Shared<T>>,
) -> Result<Serving> {
    let asked = shared.clone();
    let serving = ebb_service::serve(path, move |line| answer(line, &asked))?;
    if let Some(address) = metrics {
        let page = move || metrics_text(&serde_json::to_value(shared.shown()).unwrap_or_default());
        ebb_service::metrics(address, page).with_context(|| format!("metrics on {address}"))?;
    }
    Ok(serving)
}

fn answer<T: Serialize + Clone>(line: &str, shared: &Shared<T>) -> Result<Value, String> {
    match line {
        "status" => serde_json::to_value(shared.shown()).map_err(|error| error.to_string()),
        "reload" => {
            shared.ask_reload();
            Ok(Value::from("asked"))
        }
        "stop" => {
            shared.stop();
            Ok(Value::from("asked"))
        }
        other => Err(format!("`{other}` is none of status, reload, stop")),
    }
}

/// Asks a running program.
///
/// # Errors
/// When nobody answers on the socket, or not what is expected.
pub fn ask(path: &Path, request: &str) -> Result<Value> {
    match ebb_service::ask(path, request) {
        Err(AskError::Silent { path, source }) => Err(source)
            .with_context(|| format!("{}: nobody answers; is it running?", path.display())),
        other => Ok(other?),
    }
}

/// The state of a running program.
///
/// # Errors
/// As [`ask`], or when it has not begun yet.
pub fn status<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let value = ask(path, "status")?;
    ensure!(!value.is_null(), "{}: it is still starting", path.display());
    Ok(serde_json::from_value(value)?)
}

/// Every number of a status as a gauge named after its place, racks as labels.
pub fn metrics_text(status: &Value) -> String {
    let mut registry = Registry::with_prefix("ebb_circuit");
    register(&mut registry, "", status);
    let racks = status["racks"].as_array();
    for rack in racks.into_iter().flatten() {
        let label = ("rack".into(), rack["rack"].to_string().into());
        register(registry.sub_registry_with_label(label), "rack_", rack);
    }
    encoded(&registry)
}

fn register(registry: &mut Registry, prefix: &str, value: &Value) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(0.0);
                gauge(registry, format!("{prefix}{key}"), key.replace('_', " "), number);
            }
            Value::Bool(is) => {
                let number = if *is { 1.0 } else { 0.0 };
                gauge(registry, format!("{prefix}{key}"), key.replace('_', " "), number);
            }
            Value::Object(_) => register(registry, &format!("{prefix}{key}_"), value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{RackStatus, TorStatus};

    #[test]
    fn a_program_is_asked_over_its_socket() {
        let path = std::env::temp_dir().join(format!("ebb-tord-{}.sock", std::process::id()));
        let shared = Arc::new(Shared::new());
        let bound = serve(&path, None, shared.clone()).expect("a socket");
        assert!(status::<TorStatus>(&path).unwrap_err().to_string().contains("still starting"));
        let racks = vec![RackStatus { rack: 3, sent: 7, ..RackStatus::default() }];
        shared.show(TorStatus { racks, ..TorStatus::default() });
        assert_eq!(status::<TorStatus>(&path).expect("a status").racks[0].sent, 7);
        assert!(ask(&path, "sing").unwrap_err().to_string().contains("none of status"));
        ask(&path, "reload").expect("asked");
        assert!(shared.take_reload() && !shared.take_reload());
        assert!(serve(&path, None, shared).is_err(), "the socket is taken");
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn metrics_name_every_number() {
        let racks = vec![RackStatus { rack: 3, sent: 7, ..RackStatus::default() }];
        let status = TorStatus { racks, ..TorStatus::default() };
        let text = metrics_text(&serde_json::to_value(status).expect("data"));
        assert!(text.contains("ebb_circuit_rack_sent{rack=\"3\"} 7"), "{text}");
        assert!(text.contains("ebb_circuit_sync_missed 0"), "{text}");
        assert!(text.contains("ebb_circuit_sealed 0"), "{text}");
    }
}
