//! How others see a running program: a local socket with a line of JSON for each request, and
//! Prometheus metrics over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
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

/// The socket's file, removed when dropped.
#[derive(Debug)]
pub struct Bound(PathBuf);

impl Drop for Bound {
    fn drop(&mut self) {
        // Gone already: nothing to remove.
        _ = std::fs::remove_file(&self.0);
    }
}

/// Clients that say nothing for so long are let go.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request.
const REQUEST_MAX: u64 = 1024;

/// Opens the socket and serves it from a thread of its own.
///
/// # Errors
/// When another program answers on it, or it cannot be made.
pub fn serve<T: Serialize + Clone + Send + 'static>(
    path: &Path,
    metrics: Option<SocketAddr>,
    shared: Arc<Shared<T>>,
) -> Result<Bound> {
    if UnixStream::connect(path).is_ok() {
        bail!(
            "{}: another program answers on this socket; stop it or name another",
            path.display()
        );
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    // What a dead process left.
    _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).with_context(|| path.display().to_string())?;
    let answers = shared.clone();
    let run = move || {
        for client in listener.incoming().flatten() {
            // A client that went away is no fault of ours.
            _ = answer(client, &answers);
        }
    };
    std::thread::Builder::new().name("ebb-api".into()).spawn(run)?;
    if let Some(address) = metrics {
        serve_metrics(address, shared)?;
    }
    Ok(Bound(path.to_owned()))
}

fn answer<T: Serialize + Clone>(client: UnixStream, shared: &Shared<T>) -> Result<()> {
    use std::io::Read as _;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut writer = client;
    loop {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let reply = match line.trim() {
            "status" => {
                let status = shared.status.lock().expect("no panic while shown").clone();
                serde_json::to_value(status)?
            }
            "reload" => {
                shared.ask_reload();
                Value::from("asked")
            }
            "stop" => {
                shared.stop();
                Value::from("asked")
            }
            other => {
                serde_json::json!({ "error": format!("`{other}` is none of status, reload, stop") })
            }
        };
        writeln!(writer, "{reply}")?;
    }
}

/// Asks a running program.
///
/// # Errors
/// When nobody answers on the socket, or not what is expected.
pub fn ask(path: &Path, request: &str) -> Result<Value> {
    let stream = UnixStream::connect(path)
        .with_context(|| format!("{}: nobody answers; is it running?", path.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut writer = stream.try_clone()?;
    writeln!(writer, "{request}")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let value: Value = serde_json::from_str(&line).context("an unreadable answer")?;
    ensure!(value.get("error").is_none(), "{}", value["error"]);
    Ok(value)
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

fn serve_metrics<T: Serialize + Clone + Send + 'static>(
    address: SocketAddr,
    shared: Arc<Shared<T>>,
) -> Result<()> {
    let listener =
        std::net::TcpListener::bind(address).with_context(|| format!("metrics on {address}"))?;
    listener.set_nonblocking(true)?;
    let run = move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let page = move || {
                let status = shared.status.lock().expect("no panic while shown").clone();
                let text = metrics_text(&serde_json::to_value(status).unwrap_or_default());
                async move { text }
            };
            let pages = axum::Router::new().route("/metrics", get(page));
            axum::serve(tokio::net::TcpListener::from_std(listener)?, pages).await?;
            Ok(())
        })
    };
    std::thread::Builder::new().name("ebb-metrics".into()).spawn(run)?;
    Ok(())
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
    let mut text = String::new();
    // Writing to memory does not fail.
    _ = encode(&mut text, &registry);
    text
}

fn register(registry: &mut Registry, prefix: &str, value: &Value) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Number(number) => {
                let gauge: Gauge<f64, std::sync::atomic::AtomicU64> = Gauge::default();
                gauge.set(number.as_f64().unwrap_or(0.0));
                registry.register(format!("{prefix}{key}"), key.replace('_', " "), gauge);
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
    }
}
