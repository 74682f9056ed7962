//! The local socket: one JSON request a line, one JSON reply a line.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::request::REQUEST_LEN_MAX;
use super::{ApiError, Backend, Command, RequestError, parse_request};

/// Clients served at once; more wait.
const CLIENTS_MAX: usize = 32;
/// A client that takes or gives nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(60);

/// The socket's file, removed when dropped if it is still ours.
pub(super) struct Bound {
    path: PathBuf,
    inode: u64,
}

impl Drop for Bound {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The socket that another process of the same router has made.
pub(super) fn inherit(path: PathBuf, socket: OwnedFd) -> Result<(StdListener, Bound), ApiError> {
    let file = fs::symlink_metadata(&path);
    let inode = file.map_err(|source| ApiError::Socket { path: path.clone(), source })?.ino();
    Ok((StdListener::from(socket), Bound { path, inode }))
}

/// Makes the socket, readable and writable for its owner only. A file that a dead process left is
/// replaced; a socket that answers is left alone.
pub(super) fn bind(path: PathBuf) -> Result<(StdListener, Bound), ApiError> {
    let failed = |source| ApiError::Socket { path: path.clone(), source };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    remove_stale(&path)?;
    // Bound under another name, so that nobody connects before the permissions are right.
    let mut fresh = path.clone().into_os_string();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let _ = fs::remove_file(&fresh);
    let made = StdListener::bind(&fresh).and_then(|listener| {
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        // Unlike a rename, a link never replaces what someone else made meanwhile.
        fs::hard_link(&fresh, &path)?;
        Ok((listener, fs::symlink_metadata(&path)?.ino()))
    });
    let _ = fs::remove_file(&fresh);
    match made {
        Ok((listener, inode)) => Ok((listener, Bound { path: path.clone(), inode })),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ApiError::InUse(path)),
        Err(error) => Err(failed(error)),
    }
}

fn remove_stale(path: &Path) -> Result<(), ApiError> {
    let failed = |source| ApiError::Socket { path: path.to_owned(), source };
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !file.file_type().is_socket() {
        return Err(ApiError::NotASocket(path.to_owned()));
    }
    match StdStream::connect(path) {
        Ok(_) => Err(ApiError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

pub(super) async fn accept(listener: StdListener, backend: Arc<dyn Backend>) {
    let listener = match UnixListener::from_std(listener) {
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
