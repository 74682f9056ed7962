//! How a member is seen and asked: a local socket with a line of JSON for each request, and Prometheus
//! metrics over HTTP.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::status::ClusterStatus;

/// Clients that say nothing for so long are let go.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest request.
const REQUEST_MAX: u64 = 1024;

/// What answers requests.
pub trait Answer: Send + Sync {
    /// The state.
    fn status(&self) -> ClusterStatus;

    /// Does what `verb` says to `name`.
    ///
    /// # Errors
    /// When it cannot be done, with a remedy.
    fn order(&self, verb: &str, name: &str) -> Result<Value>;
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

/// Opens the socket, for this user alone, and serves it from a thread of its own.
///
/// # Errors
/// When another program answers on it, or it cannot be made.
pub fn serve(path: &Path, metrics: Option<SocketAddr>, answers: Arc<dyn Answer>) -> Result<Bound> {
    if UnixStream::connect(path).is_ok() {
        bail!(
            "field `cluster.socket`: another program answers on {}; stop it or name another",
            path.display()
        );
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    // What a dead process left.
    _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).with_context(|| path.display().to_string())?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let shared = answers.clone();
    let run = move || {
        for client in listener.incoming().flatten() {
            // A client that went away is no fault of ours.
            _ = answer(client, &*shared);
        }
    };
    std::thread::Builder::new().name("ebb-api".into()).spawn(run)?;
    if let Some(address) = metrics {
        serve_metrics(address, answers)?;
    }
    Ok(Bound(path.to_owned()))
}

fn answer(client: UnixStream, answers: &dyn Answer) -> Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut writer = client;
    loop {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (verb, name) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let reply = match verb {
            "status" => serde_json::to_value(answers.status())?,
            _ => answers
                .order(verb, name)
                .unwrap_or_else(|error| serde_json::json!({ "error": format!("{error:#}") })),
        };
        writeln!(writer, "{reply}")?;
    }
}

/// Asks a running member.
///
/// # Errors
/// When nobody answers on the socket, or it refuses.
pub fn ask(path: &Path, request: &str) -> Result<Value> {
    let stream = UnixStream::connect(path).with_context(|| {
        format!("{}: nobody answers; is `ebb cluster run` at work?", path.display())
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut writer = stream.try_clone()?;
    writeln!(writer, "{request}")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let value: Value = serde_json::from_str(&line).context("an unreadable answer")?;
    if let Some(error) = value.get("error") {
        bail!("{}", error.as_str().unwrap_or("refused"));
    }
    Ok(value)
}

/// The state of a running member.
///
/// # Errors
/// As [`ask`].
pub fn status(path: &Path) -> Result<ClusterStatus> {
    let value = ask(path, "status")?;
    ensure!(value.is_object(), "{}: an unreadable answer", path.display());
    Ok(serde_json::from_value(value)?)
}

fn serve_metrics(address: SocketAddr, answers: Arc<dyn Answer>) -> Result<()> {
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("field `cluster.metrics`: {address}"))?;
    listener.set_nonblocking(true)?;
    let run = move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let page = move || {
                let text = metrics_text(&answers.status());
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

/// A state as Prometheus reads it.
pub fn metrics_text(status: &ClusterStatus) -> String {
    let mut registry = Registry::with_prefix("ebb_cluster");
    let head = status.head.as_ref() == Some(&status.member);
    put(&mut registry, "head", "whether this member is the head", f64::from(u8::from(head)));
    put(&mut registry, "book_version", "version of the book", status.version as f64);
    let well = status.store_failed.is_none();
    put(&mut registry, "store_answers", "whether the store answers", f64::from(u8::from(well)));
    for one in &status.back_ends {
        let label = ("back_end".into(), one.name.clone().into());
        let registry = registry.sub_registry_with_label(label);
        let on = |word: &str| f64::from(u8::from(one.power == word));
        put(registry, "back_end_on", "whether it gets flows", on("on"));
        put(registry, "back_end_waking", "whether it comes up", on("waking"));
        put(registry, "back_end_draining", "whether it is about to go off", on("draining"));
        put(registry, "back_end_share", "share of this balancer's table", one.share);
        let dead = one.dead_to.len() as f64;
        put(registry, "back_end_dead_to", "balancers that it does not forward for", dead);
    }
    for one in &status.balancers {
        let label = ("balancer".into(), one.name.clone().into());
        let registry = registry.sub_registry_with_label(label);
        put(registry, "balancer_load_pps", "packets a second that come to it", one.load_pps);
    }
    if let Some(own) = &status.balancer {
        put(
            &mut registry,
            "takeovers",
            "addresses taken from silent balancers",
            own.takeovers as f64,
        );
        put(&mut registry, "deaths", "back-ends found dead", own.deaths as f64);
        let counters = serde_json::to_value(own.counters).unwrap_or_default();
        for (name, value) in counters.as_object().into_iter().flatten() {
            put(&mut registry, name, &name.replace('_', " "), value.as_f64().unwrap_or(0.0));
        }
    }
    let mut text = String::new();
    // Writing to memory does not fail.
    _ = encode(&mut text, &registry);
    text
}

fn put(registry: &mut Registry, name: &str, help: &str, value: f64) {
    let gauge: Gauge<f64, std::sync::atomic::AtomicU64> = Gauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::BackEndStatus;

    struct Canned;

    impl Answer for Canned {
        fn status(&self) -> ClusterStatus {
            let one = BackEndStatus {
                name: "r0".to_owned(),
                power: "on".to_owned(),
                share: 0.5,
                ..BackEndStatus::default()
            };
            ClusterStatus { back_ends: vec![one], version: 7, ..ClusterStatus::default() }
        }

        fn order(&self, verb: &str, name: &str) -> Result<Value> {
            ensure!(verb == "drain", "`{verb}` is no order");
            Ok(Value::from(name))
        }
    }

    #[test]
    fn a_member_is_asked_over_its_socket() {
        let path = std::env::temp_dir().join(format!("ebb-clusterd-{}.sock", std::process::id()));
        let bound = serve(&path, None, Arc::new(Canned)).expect("a socket");
        assert_eq!(status(&path).expect("a status").version, 7);
        assert_eq!(ask(&path, "drain r0").expect("done"), "r0");
        assert_eq!(ask(&path, "sing").expect_err("refused").to_string(), "`sing` is no order");
        assert!(serve(&path, None, Arc::new(Canned)).is_err(), "the socket is taken");
        drop(bound);
        let said = format!("{:#}", ask(&path, "status").expect_err("gone"));
        assert!(said.contains("nobody answers"), "{said}");
    }

    #[test]
    fn metrics_name_every_back_end() {
        let text = metrics_text(&Canned.status());
        assert!(text.contains("ebb_cluster_back_end_on{back_end=\"r0\"} 1"), "{text}");
        assert!(text.contains("ebb_cluster_book_version 7"), "{text}");
    }
}
