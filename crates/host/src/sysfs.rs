//! Files below `/sys` and `/proc`, from an injectable root.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was attempted on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading a value.
    Read,
    /// Writing a value.
    Write,
    /// Understanding the value that was read.
    Parse,
    /// Recording how to undo a write before it is made.
    Record,
}

/// A knob or fact of the host that is not to be had.
#[derive(Debug, thiserror::Error)]
pub struct KnobError {
    /// The file at fault.
    pub path: PathBuf,
    /// What was attempted.
    pub operation: Operation,
    /// What the kernel answered.
    pub source: io::Error,
}

impl KnobError {
    pub(crate) fn new(path: &Path, operation: Operation, source: io::Error) -> Self {
        KnobError { path: path.to_owned(), operation, source }
    }

    pub(crate) fn unreadable(path: &Path, value: &str) -> Self {
        let what = format!("unexpected value {value:?}");
        KnobError::new(path, Operation::Parse, io::Error::new(io::ErrorKind::InvalidData, what))
    }

    /// Whether the host does not have this knob at all, as opposed to refusing it now.
    pub fn is_absent(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENOTDIR))
    }

    /// Whether trying again later may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR))
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> &'static str {
        if self.operation == Operation::Record {
            return "the setting is not changed, because it could not be restored after a crash: \
                free space for the journal, or use another directory for it";
        }
        match self.source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                "run as root, or give the service write access to this file"
            }
            Some(libc::ENOENT | libc::ENODEV | libc::ENOTDIR) => {
                "this machine or its kernel does not have it: the governor works without it"
            }
            Some(libc::EBUSY) => "another program or the firmware uses it: stop that program",
            Some(libc::EIO) => {
                "the hardware or the firmware rejects it: check the firmware's setup"
            }
            Some(libc::EINVAL) => "the driver does not accept this value",
            None if self.source.kind() == io::ErrorKind::Other => "the governor works without it",
            _ => "see the kernel log",
        }
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Parse => "understand",
            Operation::Record => "record in the journal the write to",
        };
        write!(f, "cannot {verb} {}: {} ({})", self.path.display(), self.source, self.remedy())
    }
}

/// How files are reached; the machine's own by default.
pub trait Files: Send + Sync + fmt::Debug {
    /// The content of a file.
    ///
    /// # Errors
    /// The kernel's.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes a value in one system call.
    ///
    /// # Errors
    /// The kernel's.
    fn write(&self, path: &Path, value: &str) -> io::Result<()>;
}

#[derive(Debug)]
struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        write_value(path, value)
    }
}

/// One write, truncating what was there in imitations; sysfs files have no length.
pub(crate) fn write_value(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(value.as_bytes())
}

/// The root below which `sys` and `proc` are found. Clones share the root.
///
/// ```
/// use ebb_host::Sysfs;
/// let version = Sysfs::new("/").read("proc/sys/kernel/ostype")?;
/// assert_eq!(version, "Linux");
/// # Ok::<(), ebb_host::KnobError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
    files: Arc<dyn Files>,
}

impl Sysfs {
    /// `/` for the machine, or a directory that imitates it.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Sysfs::with_files(root, Arc::new(Disk))
    }

    /// With another way to reach the files, such as one that refuses.
    pub fn with_files(root: impl Into<PathBuf>, files: Arc<dyn Files>) -> Self {
        Sysfs { root: root.into(), files }
    }

    /// The full path of `relative`, as in `sys/class/net`.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative.trim_start_matches('/'))
    }

    /// The value in a file, without surrounding white space.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(&self, relative: &str) -> Result<String, KnobError> {
        let path = self.path(relative);
        match self.files.read(&path) {
            Ok(value) => Ok(value.trim().to_owned()),
            Err(source) => Err(KnobError::new(&path, Operation::Read, source)),
        }
    }

    /// The directory of the network interface `name`, the kernel's number `index`.
    ///
    /// # Errors
    /// When there is none, or the tree shows another interface of this name, as that of another network namespace does.
    pub fn interface(&self, name: &str, index: u32) -> Result<String, KnobError> {
        let directory = format!("sys/class/net/{name}");
        let number = format!("{directory}/ifindex");
        if self.read_number(&number)? != u64::from(index) {
            let other = io::Error::other("an interface of another network namespace");
            return Err(KnobError::new(&self.path(&number), Operation::Read, other));
        }
        Ok(directory)
    }

    /// The number in a file.
    ///
    /// # Errors
    /// When it can't be read or is no number.
    pub fn read_number(&self, relative: &str) -> Result<u64, KnobError> {
        let value = self.read(relative)?;
        value.parse().map_err(|_| KnobError::unreadable(&self.path(relative), &value))
    }

    /// Writes a value; for changes that are to be undone use a [`Knob`](crate::Knob).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn write(&self, relative: &str, value: &str) -> Result<(), KnobError> {
        let path = self.path(relative);
        self.files
            .write(&path, value)
            .map_err(|source| KnobError::new(&path, Operation::Write, source))
    }

    /// The names in a directory, sorted; none when it is not there.
    pub fn list(&self, relative: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(relative)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
