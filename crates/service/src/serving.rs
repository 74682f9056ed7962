//! The doors of a daemon, and how another process takes them over.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::place::{BindError, Bound, bind, inherit};
use crate::{Daemon, METRICS_PATIENCE, PATIENCE, http, socket};

/// Which doors to open.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Path of the socket.
    pub socket: Option<PathBuf>,
    /// Where the metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// Why a door could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be had.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// The metrics' address cannot be had.
    #[error("cannot serve metrics on {address}: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The thread or its runtime cannot be made.
    #[error("cannot start the serving thread: {0}")]
    Thread(io::Error),
}

/// The open doors; dropping it closes them and removes the socket.
pub struct Serving {
    runtime: Handle,
    daemon: Arc<dyn Daemon>,
    stop: watch::Sender<bool>,
    metrics: Mutex<Option<Endpoint>>,
    thread: Option<JoinHandle<()>>,
    socket: Option<Bound>,
    /// A descriptor of the socket, for another process, and what accepts its clients.
    accepting: Option<(OwnedFd, AbortHandle)>,
    /// Requests on the socket that are not answered yet.
    open: socket::Open,
}

/// Where metrics are served.
struct Endpoint {
    address: SocketAddr,
    /// A descriptor of it, for another process.
    listener: Option<TcpListener>,
    task: AbortHandle,
}

/// Open doors of another process of the same daemon.
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
pub fn serve(options: Options, daemon: Arc<dyn Daemon>) -> Result<Serving, ServeError> {
    serve_at(options, Doors::default(), daemon)
}

/// Opens the doors, as far as another process has not left its own.
///
/// # Errors
/// When a door cannot be opened; then none is.
pub fn serve_at(
    options: Options,
    doors: Doors,
    daemon: Arc<dyn Daemon>,
) -> Result<Serving, ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("ebb-api-command")
        .build()
        .map_err(ServeError::Thread)?;
    let (listener, socket) = match options.socket {
        Some(path) => {
            let (listener, bound) = match doors.socket {
                Some(socket) => inherit(path, socket)?,
                None => bind(path)?,
            };
            (Some(listener), Some(bound))
        }
        None => (None, None),
    };
    let (stop, stopped) = watch::channel(false);
    let mut serving = Serving {
        runtime: runtime.handle().clone(),
        daemon: daemon.clone(),
        stop,
        metrics: Mutex::new(None),
        thread: None,
        socket,
        accepting: None,
        open: socket::Open::default(),
    };
    match doors.metrics.map(TcpListener::from) {
        Some(listener) if options.metrics.is_some() => {
            let address = listener.local_addr().map_err(ServeError::Thread)?;
            serving.commit_metrics(PreparedMetrics::Move(address, listener));
        }
        _ => serving.set_metrics(options.metrics)?,
    }
    if let Some(listener) = listener {
        let copy = listener.try_clone().map_err(ServeError::Thread)?;
        let task = runtime.spawn(socket::accept(listener, daemon, PATIENCE, serving.open.clone()));
        serving.accepting = Some((copy.into(), task.abort_handle()));
    }
    let thread = std::thread::Builder::new().name("ebb-api".into()).spawn(move || {
        let mut stopped = stopped;
        runtime.block_on(async move {
            // Fails only when the sender is gone, which means the same.
            let _ = stopped.wait_for(|stop| *stop).await;
        });
        runtime.shutdown_background();
    });
    serving.thread = Some(thread.map_err(ServeError::Thread)?);
    Ok(serving)
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

impl Serving {
    /// Moves the metrics to another address, or closes them.
    ///
    /// # Errors
    /// When the address cannot be had; the former endpoint stays.
    pub fn set_metrics(&self, listen: Option<SocketAddr>) -> Result<(), ServeError> {
        self.commit_metrics(self.prepare_metrics(listen)?);
        Ok(())
    }

    /// Takes the address to which the metrics are to move; they stay where they are until
    /// [`Serving::commit_metrics`].
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn prepare_metrics(
        &self,
        listen: Option<SocketAddr>,
    ) -> Result<PreparedMetrics, ServeError> {
        // Port 0 asks for any free port, so it is never the same twice.
        if self.metrics_address() == listen && listen.is_none_or(|address| address.port() != 0) {
            return Ok(PreparedMetrics::Stay);
        }
        let Some(address) = listen else { return Ok(PreparedMetrics::Close) };
        let failed = |source| ServeError::Metrics { address, source };
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
                let serves = http::serve(listener, self.daemon.clone(), METRICS_PATIENCE);
                let task = self.runtime.spawn(serves);
                Some(Endpoint { address, listener: copy, task: task.abort_handle() })
            }
        };
        let mut present = self.metrics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(former) = std::mem::replace(&mut *present, next) {
            former.task.abort();
        }
    }

    /// The doors for another process. Clients that come knock at both until
    /// [`Serving::stop_accepting`].
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

    /// Waits until requests that were heard on the socket are answered, but no longer than `most`.
    pub fn wait_until_answered(&self, most: Duration) {
        let begun = Instant::now();
        while self.open.count() > 0 && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Where the metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        let present = self.metrics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        present.as_ref().map(|endpoint| endpoint.address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        drop(self.socket.take());
    }
}
