//! The local socket: one JSON request a line, one JSON reply a line.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::request::REQUEST_LEN_MAX;
use super::{Backend, Command, RequestError, parse_request};

/// Clients served at once; more wait.
const CLIENTS_MAX: usize = 32;
/// A client that takes or gives nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn accept(listener: StdListener, backend: Arc<dyn Backend>) {
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the status socket is not served"),
    };
    let clients = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(permit) = clients.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let backend = backend.clone();
                tokio::spawn(async move {
                    // A client that goes away has no one left to tell.
                    let _ = converse(stream, backend).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of descriptors, for instance: some will be freed.
                tracing::warn!(%error, "a client of the status socket was lost");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, backend: Arc<dyn Backend>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = REQUEST_LEN_MAX as u64 + 2;
        let mut limited = (&mut read).take(limit);
        let got = tokio::time::timeout(PATIENCE, limited.read_until(b'\n', &mut line)).await;
        let Ok(got) = got else { return Ok(()) };
        if got? == 0 {
            return Ok(());
        }
        let complete = line.last() == Some(&b'\n');
        let request = line.trim_ascii();
        if request.is_empty() && complete {
            continue;
        }
        let request = if line.len() as u64 == limit {
            Err(RequestError::TooLong)
        } else {
            parse_request(request)
        };
        let mut reply = answer(request, &backend).await.to_string();
        reply.push('\n');
        let sent = tokio::time::timeout(PATIENCE, write.write_all(reply.as_bytes())).await;
        let Ok(sent) = sent else { return Ok(()) };
        sent?;
        // What follows an overlong line cannot be told from its rest.
        if !complete {
            return Ok(());
        }
    }
}

async fn answer(request: Result<Command, RequestError>, backend: &Arc<dyn Backend>) -> Value {
    let result = match request {
        Err(error) => Err(error.to_string()),
        Ok(Command::Status) => {
            serde_json::to_value(backend.status()).map_err(|error| error.to_string())
        }
        Ok(command) => {
            let backend = backend.clone();
            let work = tokio::task::spawn_blocking(move || backend.command(command));
            work.await.unwrap_or_else(|_| Err("the command failed inside the router".into()))
        }
    };
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(message) => json!({ "error": message }),
    }
}
