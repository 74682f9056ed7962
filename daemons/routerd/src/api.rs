//! How others see and command a running router: a local socket with one JSON request a line, and
//! Prometheus metrics over HTTP.
//!
//! Room: the outermost. One thread serves both and sleeps while nobody asks; what is asked is
//! answered by a [`Backend`], about which this module knows nothing. Nothing that comes over
//! either door makes it panic.

mod client;
mod metrics;
mod request;
mod socket;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use ebb_service::{BindError, Bound};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::status::Status;

pub use client::{Client, ClientError, client};
pub use metrics::metrics_text;
pub use request::{Command, RequestError, parse_request};

/// Who answers.
pub trait Backend: Send + Sync + 'static {
    /// The present state. Called on the serving thread: it must not block for long.
    fn status(&self) -> Status;

    /// Carries out a command and returns what to answer. May block.
    ///
    /// # Errors
    /// What to tell the client.
    fn command(&self, command: Command) -> Result<serde_json::Value, String>;
}

/// Which doors to open.
#[derive(Clone, Debug, Default)]
pub struct ApiOptions {
    /// Path of the socket.
    pub socket: Option<PathBuf>,
    /// Where the metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// Why a door could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Another router owns the socket.
    #[error("{}: another router answers on this socket; stop it or give this one its own [status] socket", .0.display())]
    InUse(PathBuf),
    /// Something else has the socket's name.
    #[error("{}: exists and is not a socket; remove it or change [status] socket", .0.display())]
    NotASocket(PathBuf),
    /// The socket cannot be made.
    #[error("{}: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The metrics' address cannot be had.
    #[error("metrics on {address}: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The thread or its runtime cannot be made.
    #[error("serving thread: {0}")]
    Thread(io::Error),
}

impl From<BindError> for ApiError {
    fn from(error: BindError) -> ApiError {
        match error {
            BindError::InUse(path) => ApiError::InUse(path),
            BindError::NotASocket(path) => ApiError::NotASocket(path),
            BindError::Socket { path, source } => ApiError::Socket { path, source },
        }
    }
}

/// The open doors; dropping it closes them and removes the socket.
pub struct ApiHandle {
    runtime: Handle,
    backend: Arc<dyn Backend>,
    stop: watch::Sender<bool>,
    metrics: Mutex<Option<Endpoint>>,
    thread: Option<JoinHandle<()>>,
    socket: Option<Bound>,
    /// A descriptor of the socket, for another process, and what accepts its clients.
    accepting: Option<(OwnedFd, AbortHandle)>,
}

/// Where metrics are served.
struct Endpoint {
    address: SocketAddr,
    /// A descriptor of it, for another process.
    listener: Option<TcpListener>,
    task: AbortHandle,
}

/// Open doors of another process of the same router.
#[derive(Debug, Default)]
pub struct Doors {
    /// The socket; it has the path of the options.
    pub socket: Option<OwnedFd>,
    /// The metrics' endpoint.
    pub metrics: Option<OwnedFd>,
}

/// Opens the doors. The caller may drop privileges afterwards.
///
/// # Errors
/// When a door cannot be opened; then none is.
pub fn serve(options: ApiOptions, backend: Arc<dyn Backend>) -> Result<ApiHandle, ApiError> {
    serve_at(options, Doors::default(), backend)
}

/// Opens the doors, as far as another process has not left its own.
///
/// # Errors
/// When a door cannot be opened; then none is.
pub fn serve_at(
    options: ApiOptions,
    doors: Doors,
    backend: Arc<dyn Backend>,
) -> Result<ApiHandle, ApiError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("ebb-api-command")
        .build()
        .map_err(ApiError::Thread)?;
    let (listener, socket) = match options.socket {
        Some(path) => {
            let (listener, bound) = match doors.socket {
                Some(socket) => ebb_service::inherit(path, socket)?,
                None => ebb_service::bind(path)?,
            };
            (Some(listener), Some(bound))
        }
        None => (None, None),
    };
    let (stop, stopped) = watch::channel(false);
    let mut handle = ApiHandle {
        runtime: runtime.handle().clone(),
        backend: backend.clone(),
        stop,
        metrics: Mutex::new(None),
        thread: None,
        socket,
        accepting: None,
    };
    match doors.metrics.map(TcpListener::from) {
        Some(listener) if options.metrics.is_some() => {
            let address = listener.local_addr().map_err(ApiError::Thread)?;
            handle.commit_metrics(PreparedMetrics::Move(address, listener));
        }
        _ => handle.set_metrics(options.metrics)?,
    }
    if let Some(listener) = listener {
        let copy = listener.try_clone().map_err(ApiError::Thread)?;
        let task = runtime.spawn(socket::accept(listener, backend));
        handle.accepting = Some((copy.into(), task.abort_handle()));
    }
    let thread = std::thread::Builder::new().name("ebb-api".into()).spawn(move || {
        let mut stopped = stopped;
        runtime.block_on(async move {
            // Fails only when the sender is gone, which means the same.
            let _ = stopped.wait_for(|stop| *stop).await;
        });
        runtime.shutdown_background();
    });
    handle.thread = Some(thread.map_err(ApiError::Thread)?);
    Ok(handle)
}

/// Where the metrics are to go, with what that takes in hand.
#[derive(Debug)]
pub enum PreparedMetrics {
    /// Nothing changes.
    Stay,
    /// They are served no more.
    Close,
    /// They are served here.
    Move(SocketAddr, TcpListener),
}

impl ApiHandle {
    /// Moves the metrics to another address, or closes them.
    ///
    /// # Errors
    /// When the address cannot be had; the former endpoint stays.
    pub fn set_metrics(&self, listen: Option<SocketAddr>) -> Result<(), ApiError> {
        self.commit_metrics(self.prepare_metrics(listen)?);
        Ok(())
    }

    /// Takes the address to which the metrics are to move; they stay where they are until
    /// [`ApiHandle::commit_metrics`].
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn prepare_metrics(&self, listen: Option<SocketAddr>) -> Result<PreparedMetrics, ApiError> {
        // Port 0 asks for any free port, so it is never the same twice.
        if self.metrics_address() == listen && listen.is_none_or(|address| address.port() != 0) {
            return Ok(PreparedMetrics::Stay);
        }
        let Some(address) = listen else { return Ok(PreparedMetrics::Close) };
        let failed = |source| ApiError::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(PreparedMetrics::Move(address, listener))
    }

    /// Carries out what was prepared.
    pub fn commit_metrics(&self, prepared: PreparedMetrics) {
        let next = match prepared {
            PreparedMetrics::Stay => return,
            PreparedMetrics::Close => None,
            PreparedMetrics::Move(address, listener) => {
                let copy = listener.try_clone().ok();
                let task = self.runtime.spawn(serve_http(listener, self.backend.clone()));
                Some(Endpoint { address, listener: copy, task: task.abort_handle() })
            }
        };
        let mut present = self.metrics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(former) = std::mem::replace(&mut *present, next) {
            former.task.abort();
        }
    }

    /// The doors for another process. Clients that come knock at both until
    /// [`ApiHandle::stop_accepting`].
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub fn doors(&self) -> io::Result<Doors> {
        let socket = self.accepting.as_ref().map(|(socket, _)| socket.try_clone()).transpose()?;
        let present = self.metrics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let listener = present.as_ref().and_then(|endpoint| endpoint.listener.as_ref());
        let metrics = listener.map(TcpListener::try_clone).transpose()?.map(OwnedFd::from);
        Ok(Doors { socket, metrics })
    }

    /// Leaves clients that come from now on to the other process; those that are in are answered.
    pub fn stop_accepting(&self) {
        self.accepting.iter().for_each(|(_, task)| task.abort());
        let present = self.metrics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        present.iter().for_each(|endpoint| endpoint.task.abort());
    }

    /// Where the metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        let present = self.metrics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        present.as_ref().map(|endpoint| endpoint.address)
    }
}

impl Drop for ApiHandle {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        drop(self.socket.take());
    }
}

async fn serve_http(listener: TcpListener, backend: Arc<dyn Backend>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "metrics are not served"),
    };
    let app = axum::Router::new()
        .route("/", get(async || "metrics: /metrics\nstatus: /status\n"))
        .route("/metrics", get(get_metrics))
        .route("/status", get(get_status))
        .with_state(backend);
    if let Err(error) = axum::serve(listener, app).await {
        tracing::error!(%error, "metrics are no longer served");
    }
}

async fn get_metrics(State(backend): State<Arc<dyn Backend>>) -> impl IntoResponse {
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, format)], metrics_text(&backend.status()))
}

async fn get_status(State(backend): State<Arc<dyn Backend>>) -> impl IntoResponse {
    axum::Json(backend.status())
}
