//! How a member is seen and asked: a local socket with a line of JSON for each request, and Prometheus
//! metrics over HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use ebb_service::{AskError, BindError, Serving, encoded, gauge};
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::status::ClusterStatus;

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

/// Opens the socket, for this user alone, and serves it, and the metrics where they are wanted.
///
/// # Errors
/// When another program answers on it, or it cannot be made.
pub fn serve(
    path: &Path,
    metrics: Option<SocketAddr>,
    answers: Arc<dyn Answer>,
) -> Result<Serving> {
    let asked = answers.clone();
    let serving = ebb_service::serve(path, move |line| {
        answer(line, &*asked).map_err(|error| format!("{error:#}"))
    });
    let serving = match serving {
        Err(BindError::InUse(path)) => bail!(
            "field `cluster.socket`: another program answers on {}; stop it or name another",
            path.display()
        ),
        other => other?,
    };
    if let Some(address) = metrics {
        ebb_service::metrics(address, move || metrics_text(&answers.status()))
            .with_context(|| format!("field `cluster.metrics`: {address}"))?;
    }
    Ok(serving)
}

fn answer(line: &str, answers: &dyn Answer) -> Result<Value> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("status", _) => Ok(serde_json::to_value(answers.status())?),
        (verb, name) => answers.order(verb, name),
    }
}

/// Asks a running member.
///
/// # Errors
/// When nobody answers on the socket, or it refuses.
pub fn ask(path: &Path, request: &str) -> Result<Value> {
    match ebb_service::ask(path, request) {
        Err(AskError::Silent { path, source }) => Err(source).with_context(|| {
            format!("{}: nobody answers; is `ebb cluster run` at work?", path.display())
        }),
        other => Ok(other?),
    }
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

/// A state as Prometheus reads it.
pub fn metrics_text(status: &ClusterStatus) -> String {
    let mut registry = Registry::with_prefix("ebb_cluster");
    let head = status.head.as_ref() == Some(&status.member);
    gauge(&mut registry, "head", "whether this member is the head", f64::from(u8::from(head)));
    gauge(&mut registry, "book_version", "version of the book", status.version as f64);
    let well = status.store_failed.is_none();
    gauge(&mut registry, "store_answers", "whether the store answers", f64::from(u8::from(well)));
    for one in &status.back_ends {
        let label = ("back_end".into(), one.name.clone().into());
        let registry = registry.sub_registry_with_label(label);
        let on = |word: &str| f64::from(u8::from(one.power == word));
        gauge(registry, "back_end_on", "whether it gets flows", on("on"));
        gauge(registry, "back_end_waking", "whether it comes up", on("waking"));
        gauge(registry, "back_end_draining", "whether it is about to go off", on("draining"));
        gauge(registry, "back_end_share", "share of this balancer's table", one.share);
        let dead = one.dead_to.len() as f64;
        gauge(registry, "back_end_dead_to", "balancers that it does not forward for", dead);
    }
    for one in &status.balancers {
        let label = ("balancer".into(), one.name.clone().into());
        let registry = registry.sub_registry_with_label(label);
        gauge(registry, "balancer_load_pps", "packets a second that come to it", one.load_pps);
    }
    if let Some(own) = &status.balancer {
        gauge(
            &mut registry,
            "takeovers",
            "addresses taken from silent balancers",
            own.takeovers as f64,
        );
        gauge(&mut registry, "deaths", "back-ends found dead", own.deaths as f64);
        for link in &own.links {
            let label = ("interface".into(), link.interface.clone().into());
            let registry = registry.sub_registry_with_label(label);
            let up = f64::from(u8::from(link.is_up()));
            gauge(registry, "link_up", "whether packets can pass", up);
        }
        let counters = serde_json::to_value(own.counters).unwrap_or_default();
        for (name, value) in counters.as_object().into_iter().flatten() {
            gauge(&mut registry, name, name.replace('_', " "), value.as_f64().unwrap_or(0.0));
        }
    }
    encoded(&registry)
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
