//! Snapshots of a running daemon.
//!
//! Room: the client of `ebb_service` for Python. The stream is read on a thread of its own, so that the
//! interpreter is free and whoever waits can stop waiting. What the numbers mean is the daemon's affair.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use ebb_service::{ClientError, client};
use pyo3::prelude::*;

use crate::errors;

/// Snapshots that wait to be asked for; whoever is slower gets them later.
const WAITING_MAX: usize = 16;

/// A daemon's state, as JSON.
#[pyfunction]
pub(crate) fn status(py: Python<'_>, socket: PathBuf) -> PyResult<String> {
    let asked = py.detach(|| client(&socket)?.status::<serde_json::Value>());
    asked.map(|state| state.to_string()).map_err(|error| errors::of_daemon(py, &error.to_string()))
}

/// A stream of snapshots of the daemon at a socket.
#[pyclass(frozen)]
pub(crate) struct Snapshots {
    heard: Mutex<Receiver<Result<String, String>>>,
}

#[pymethods]
impl Snapshots {
    /// Asks for a snapshot at once and one after each interval.
    #[new]
    fn start(py: Python<'_>, socket: PathBuf, every_s: f64) -> PyResult<Snapshots> {
        let every = Duration::try_from_secs_f64(every_s).unwrap_or(Duration::from_secs(1));
        let stream = py.detach(|| subscribe(&socket, every));
        let stream = stream.map_err(|error| errors::of_daemon(py, &error.to_string()))?;
        let (sender, heard) = sync_channel(WAITING_MAX);
        std::thread::Builder::new().name("ebb-snapshots".to_owned()).spawn(move || {
            for said in stream {
                let text = said.map_err(|error| error.to_string()).and_then(|snapshot| {
                    serde_json::to_string(&snapshot).map_err(|error| error.to_string())
                });
                let last = text.is_err();
                // Nobody listens any more once Python has dropped the stream.
                if sender.send(text).is_err() || last {
                    break;
                }
            }
        })?;
        Ok(Snapshots { heard: Mutex::new(heard) })
    }

    /// Waits at most so many seconds for the next snapshot, as JSON; None where there is none yet.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        let most = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let heard = py.detach(|| {
            let heard = self.heard.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
            heard.recv_timeout(most)
        });
        match heard {
            Ok(Ok(text)) => Ok(Some(text)),
            Ok(Err(error)) => Err(errors::of_daemon(py, &error)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(errors::of_daemon(py, "the stream of snapshots has ended"))
            }
        }
    }
}

fn subscribe(socket: &Path, every: Duration) -> Result<ebb_service::Subscription, ClientError> {
    client(socket)?.subscribe(every)
}
