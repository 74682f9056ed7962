//! How a change is undone, as a value and as a line of text.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::ethtool::{Channels, Interface};
use crate::namespace::Namespace;
use crate::netlink::classifier;
use crate::process;
use crate::sysfs::write_value;

/// A signal is for the group that the process leads (linux/pidfd.h).
const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 1 << 2;

/// What takes a change back. Doing it twice does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Write `value` to a file of `/sys` or `/proc/sys`. Below `/proc/sys/net` that is the setting
    /// of the network namespace in which the program and its guard were started.
    Write {
        /// The file.
        path: PathBuf,
        /// Its original value.
        value: String,
    },
    /// Put an interface's RSS indirection table back.
    Rss {
        /// Interface name.
        interface: String,
        /// The queue of each entry.
        table: Vec<u32>,
    },
    /// Put an interface's numbers of queues back.
    Channels {
        /// Interface name.
        interface: String,
        /// The original numbers.
        channels: Channels,
    },
    /// Let an interface take VLAN tags out of received frames again.
    VlanStripping {
        /// Interface name.
        interface: String,
    },
    /// Take a program away that is attached as a filter ([`classifier::attach`]).
    Classifier {
        /// Interface name.
        interface: String,
        /// And the place where it hangs, if nobody else has filters there.
        place: bool,
    },
    /// Remove a named network namespace.
    Namespace {
        /// Its name.
        name: String,
    },
    /// Remove a directory and what is in it. Only such with a name that starts with `ebb-`.
    Directory {
        /// Absolute path.
        path: PathBuf,
    },
    /// Kill a process of ours.
    Process {
        /// Process identifier.
        pid: u32,
        /// When it started, from [`process::start_time`]: another process is left alone.
        start: u64,
    },
}

impl Undo {
    /// For a process that was just started.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn process(pid: u32) -> io::Result<Self> {
        Ok(Undo::Process { pid, start: process::start_time(pid)? })
    }

    /// Takes the change back. What is gone needs no undoing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn perform(&self) -> io::Result<()> {
        let result = match self {
            Undo::Write { path, value } => write_value(path, value),
            Undo::Rss { interface, table } => {
                Interface::open(interface).and_then(|interface| interface.set_rss_table(table))
            }
            Undo::Channels { interface, channels } => {
                Interface::open(interface).and_then(|interface| interface.set_channels(*channels))
            }
            Undo::VlanStripping { interface } => {
                Interface::open(interface).and_then(|interface| interface.strip_vlan_tags(true))
            }
            Undo::Classifier { interface, place } => take_away(interface, *place),
            Undo::Namespace { name } => Namespace::delete(name),
            Undo::Directory { path } => remove_directory(path),
            Undo::Process { pid, start } => kill(*pid, *start),
        };
        match result {
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::ESRCH)
                ) || error.kind() == io::ErrorKind::NotFound =>
            {
                Ok(())
            }
            result => result,
        }
    }

    pub(super) fn encode(&self) -> String {
        let path = |path: &PathBuf| escape(&path.to_string_lossy());
        match self {
            Undo::Write { path: p, value } => format!("write\t{}\t{}", path(p), escape(value)),
            Undo::Rss { interface, table } => {
                let table: Vec<String> = table.iter().map(u32::to_string).collect();
                format!("rss\t{}\t{}", escape(interface), table.join(","))
            }
            Undo::Channels { interface, channels: c } => format!(
                "channels\t{}\t{},{},{},{}",
                escape(interface),
                c.receive,
                c.transmit,
                c.other,
                c.combined
            ),
            Undo::VlanStripping { interface } => format!("vlan-stripping\t{}", escape(interface)),
            Undo::Classifier { interface, place } => {
                format!("classifier\t{}\t{place}", escape(interface))
            }
            Undo::Namespace { name } => format!("namespace\t{}", escape(name)),
            Undo::Directory { path: p } => format!("directory\t{}", path(p)),
            Undo::Process { pid, start } => format!("process\t{pid}\t{start}"),
        }
    }

    pub(super) fn decode(text: &str) -> Option<Undo> {
        let fields: Vec<&str> = text.split('\t').collect();
        Some(match fields[..] {
            ["write", path, value] => {
                Undo::Write { path: unescape(path)?.into(), value: unescape(value)? }
            }
            ["rss", interface, table] => {
                Undo::Rss { interface: unescape(interface)?, table: numbers(table)? }
            }
            ["channels", interface, counts] => {
                let [receive, transmit, other, combined] = numbers(counts)?[..] else {
                    return None;
                };
                let channels = Channels { receive, transmit, other, combined };
                Undo::Channels { interface: unescape(interface)?, channels }
            }
            ["vlan-stripping", interface] => {
                Undo::VlanStripping { interface: unescape(interface)? }
            }
            ["classifier", interface, place] => {
                Undo::Classifier { interface: unescape(interface)?, place: place.parse().ok()? }
            }
            ["namespace", name] => Undo::Namespace { name: unescape(name)? },
            ["directory", path] => Undo::Directory { path: unescape(path)?.into() },
            ["process", pid, start] => {
                Undo::Process { pid: pid.parse().ok()?, start: start.parse().ok()? }
            }
            _ => return None,
        })
    }
}

fn numbers(text: &str) -> Option<Vec<u32>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.parse().ok()).collect()
}

/// Keeps values on one line and free of the separator.
pub(super) fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\n', "%0A").replace('\t', "%09").replace('\r', "%0D")
}

pub(super) fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut result = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        result.push(char::from(u8::from_str_radix(code, 16).ok()?));
        result.push_str(rest);
    }
    Some(result)
}

fn take_away(interface: &str, place: bool) -> io::Result<()> {
    let Some(link) = crate::link::number(interface) else { return Ok(()) };
    classifier::detach(link)?;
    if place { classifier::remove_place(link) } else { Ok(()) }
}

fn remove_directory(path: &PathBuf) -> io::Result<()> {
    let ours = path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("ebb-"));
    if !ours || !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a directory of Ebb"));
    }
    fs::remove_dir_all(path)
}

/// Kills through a descriptor, so that the process checked is the process killed; with it the group that it
/// leads, where the kernel can (Linux 6.9).
fn kill(pid: u32, start: u64) -> io::Result<()> {
    // SAFETY: pidfd_open takes no pointers; a non-negative result is a descriptor we own.
    let fd = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd as i32)
    };
    if process::start_time(pid)? != start {
        return Ok(());
    }
    let send = |flags: libc::c_uint| {
        let no_details = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and a null pointer asks for default signal details.
        let sent = unsafe {
            let fd = fd.as_raw_fd();
            libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGKILL, no_details, flags)
        };
        if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // It may lead none.
    _ = send(PIDFD_SIGNAL_PROCESS_GROUP);
    send(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_undo_survives_its_line(
            path in "\\PC*", value in "[ -~\\t\\n\\r%é]*",
            table in proptest::collection::vec(any::<u32>(), 0..200),
            pid in any::<u32>(), start in any::<u64>(), counts in any::<[u32; 4]>(),
        ) {
            let [receive, transmit, other, combined] = counts;
            for undo in [
                Undo::Write { path: path.clone().into(), value: value.clone() },
                Undo::Rss { interface: value.clone(), table: table.clone() },
                Undo::Channels {
                    interface: value.clone(),
                    channels: Channels { receive, transmit, other, combined },
                },
                Undo::VlanStripping { interface: value.clone() },
                Undo::Classifier { interface: value.clone(), place: pid % 2 == 0 },
                Undo::Namespace { name: value.clone() },
                Undo::Directory { path: path.clone().into() },
                Undo::Process { pid, start },
            ] {
                let line = undo.encode();
                prop_assert!(!line.contains('\n'));
                prop_assert_eq!(Undo::decode(&line), Some(undo));
            }
        }

        #[test]
        fn any_line_is_decoded_or_declined(line in "\\PC*") {
            let _ = Undo::decode(&line);
        }
    }

    #[test]
    fn only_our_directories_are_removed() {
        let undo = Undo::Directory { path: "/tmp".into() };
        assert_eq!(undo.perform().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_process_that_took_the_number_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let Ok(Undo::Process { pid, start }) = Undo::process(child.id()) else { panic!() };
        Undo::Process { pid, start: start + 1 }.perform().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        Undo::Process { pid, start }.perform().unwrap();
        assert!(!child.wait().unwrap().success());
        Undo::Process { pid, start }.perform().unwrap();
    }
}
