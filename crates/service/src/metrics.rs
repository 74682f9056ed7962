//! Metrics over HTTP.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicU64;

use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Serves `page` as text at `/metrics` of `address` from a thread of its own, for as long as the process
/// lives. Returns the address, which has the port that the system chose where
/// `address` leaves it open.
///
/// # Errors
/// When the address cannot be had, or there can be no thread.
pub fn metrics<F>(address: SocketAddr, page: F) -> io::Result<SocketAddr>
where
    F: Fn() -> String + Clone + Send + Sync + 'static,
{
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        let served = runtime.block_on(async {
            let page = move || {
                let text = page();
                async move { text }
            };
            let pages = axum::Router::new().route("/metrics", get(page));
            axum::serve(tokio::net::TcpListener::from_std(listener)?, pages).await
        });
        if let Err(error) = served {
            tracing::error!(%error, "metrics are no longer served");
        }
    };
    std::thread::Builder::new().name("ebb-metrics".into()).spawn(run)?;
    Ok(address)
}

/// Adds a gauge that says `value`.
pub fn gauge(
    registry: &mut Registry,
    name: impl Into<String>,
    help: impl Into<String>,
    value: f64,
) {
    let gauge: Gauge<f64, AtomicU64> = Gauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

/// The registry as the text that Prometheus reads.
pub fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing to a string");
    text
}
