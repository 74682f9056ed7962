//! Network namespaces, named as `ip netns` names them.

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};

const DIRECTORY: &str = "/run/netns";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    /// Removed with the value.
    owned: Option<String>,
}

/// Sets a knob below `/proc/sys`; one below `net` is the calling thread's namespace's.
///
/// # Errors
/// When there is no such knob, or it refuses the value; with its path.
pub fn set_knob(name: &str, value: &str) -> io::Result<()> {
    let path = Path::new("/proc/sys").join(name);
    fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The calling thread is in another namespace until this is dropped.
#[derive(Debug)]
pub struct Entered {
    /// None: it was there before.
    back: Option<File>,
    /// Namespaces belong to threads.
    not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(back) = &self.back {
            setns(back, CloneFlags::CLONE_NEWNET)
                .expect("a thread may return to the namespace it came from");
        }
    }
}

impl Namespace {
    /// Makes a namespace that `ip netns` knows as `name`, and removes it when dropped. A program
    /// that may be killed also records it in its [`Journal`](crate::journal::Journal).
    ///
    /// # Errors
    /// When the name is taken, or without the privilege (`CAP_SYS_ADMIN`).
    pub fn create(name: &str) -> io::Result<Self> {
        share_directory()?;
        let path = path_of(name)?;
        File::options().write(true).create_new(true).open(&path)?;
        let target = path.clone();
        let made = std::thread::spawn(move || -> io::Result<()> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let own = Some("/proc/thread-self/ns/net");
            Ok(mount(own, &target, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
        })
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that makes namespaces panicked")));
        if let Err(error) = made {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Namespace { file: File::open(&path)?, owned: Some(name.to_owned()) })
    }

    /// An existing named namespace.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Namespace { file: File::open(path_of(name)?)?, owned: None })
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        Ok(Namespace { file: File::open("/proc/thread-self/ns/net")?, owned: None })
    }

    /// Removes the name; the namespace itself ends with its last user. No error when it is gone.
    ///
    /// # Errors
    /// Without the privilege.
    pub fn delete(name: &str) -> io::Result<()> {
        let path = path_of(name)?;
        match umount2(&path, MntFlags::MNT_DETACH) {
            Ok(()) | Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a name behind which there is no namespace any more, as is left where it was in the mounts of a program
    /// that has ended (systemd's `PrivateMounts`). Returns whether there was one.
    ///
    /// # Errors
    /// When the file cannot be looked at or removed.
    pub fn delete_if_empty(name: &str) -> io::Result<bool> {
        let file = match File::open(path_of(name)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        if fstatfs(&file)?.filesystem_type() == NSFS_MAGIC {
            return Ok(false);
        }
        Namespace::delete(name).map(|()| true)
    }

    /// Leaves the namespace in place when this value is dropped.
    pub fn keep(&mut self) {
        self.owned = None;
    }

    /// Moves the calling thread into the namespace; threads that it starts there stay there.
    ///
    /// # Errors
    /// Without the privilege (`CAP_SYS_ADMIN`), unless it is there already.
    pub fn enter(&self) -> io::Result<Entered> {
        let back = File::open("/proc/thread-self/ns/net")?;
        let identity = |file: &File| file.metadata().map(|about| (about.dev(), about.ino()));
        if identity(&back)? == identity(&self.file)? {
            return Ok(Entered { back: None, not_send: PhantomData });
        }
        setns(&self.file, CloneFlags::CLONE_NEWNET)?;
        Ok(Entered { back: Some(back), not_send: PhantomData })
    }

    /// Runs `inside` in the namespace. Sockets opened there stay there.
    ///
    /// # Errors
    /// As [`Namespace::enter`].
    pub fn run<T>(&self, inside: impl FnOnce() -> T) -> io::Result<T> {
        let _entered = self.enter()?;
        Ok(inside())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(name) = self.owned.take()
            && let Err(error) = Namespace::delete(&name)
        {
            tracing::warn!(name, %error, code = "EBB-H005", "cannot remove a network namespace");
        }
    }
}

fn path_of(name: &str) -> io::Result<PathBuf> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a valid name of a namespace"));
    }
    Ok(Path::new(DIRECTORY).join(name))
}

/// Makes removals of names visible in every mount namespace, as `ip netns add` does.
fn share_directory() -> io::Result<()> {
    fs::create_dir_all(DIRECTORY)?;
    let share = || {
        let flags = MsFlags::MS_SHARED | MsFlags::MS_REC;
        mount(None::<&str>, DIRECTORY, None::<&str>, flags, None::<&str>)
    };
    if share().is_err() {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(DIRECTORY), DIRECTORY, None::<&str>, flags, None::<&str>)?;
        share()?;
    }
    Ok(())
}
