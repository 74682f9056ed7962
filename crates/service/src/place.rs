//! The socket's file.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program owns it.
    #[error("{}: another program uses this socket; stop it, or configure another socket", .0.display())]
    InUse(PathBuf),
    /// Something else has its name.
    #[error("{}: exists and is not a socket; remove it, or configure another socket", .0.display())]
    NotASocket(PathBuf),
    /// It cannot be made.
    #[error("{}: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The socket's file, removed when dropped if it is still ours.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    inode: u64,
}

impl Bound {
    /// Whether nobody has put another in its place.
    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.is_ours() {
            // Gone already: nothing to remove.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// The socket that another process of the same program has made at `path`.
///
/// # Errors
/// When there is no such file.
pub fn inherit(path: PathBuf, socket: OwnedFd) -> Result<(UnixListener, Bound), BindError> {
    let file = fs::symlink_metadata(&path);
    let inode = file.map_err(|source| BindError::Socket { path: path.clone(), source })?.ino();
    Ok((UnixListener::from(socket), Bound { path, inode }))
}

/// Makes the socket, readable and writable for its owner only, and the folders above it. A file that a
/// dead process left is replaced; a socket that answers is left alone.
///
/// # Errors
/// When another program answers on it, something else has its name, or it cannot be made.
pub fn bind(path: PathBuf) -> Result<(UnixListener, Bound), BindError> {
    let failed = |source| BindError::Socket { path: path.clone(), source };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    remove_stale(&path)?;
    // Bound under another name, so that nobody connects before the permissions are right.
    let mut fresh = path.clone().into_os_string();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    _ = fs::remove_file(&fresh);
    let made = UnixListener::bind(&fresh).and_then(|listener| {
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
        // Unlike a rename, a link never replaces what someone else made meanwhile.
        fs::hard_link(&fresh, &path)?;
        Ok((listener, fs::symlink_metadata(&path)?.ino()))
    });
    _ = fs::remove_file(&fresh);
    match made {
        Ok((listener, inode)) => Ok((listener, Bound { path: path.clone(), inode })),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(BindError::InUse(path)),
        Err(error) => Err(failed(error)),
    }
}

fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::Socket { path: path.to_owned(), source };
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !file.file_type().is_socket() {
        return Err(BindError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(BindError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
