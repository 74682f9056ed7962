//! With whose rights a call is made: what the kernel allows depends on the thread that makes it, for some files on
//! every read and write.

use std::fs;
use std::io;
use std::path::PathBuf;

/// Lines of `/proc/TID/status` that the kernel decides by.
const LINES: [&str; 6] = ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "CapBnd:"];

/// The rights of a thread: users, groups, capabilities, the user namespace that these belong to, and the label of a
/// security module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    lines: String,
    namespace: PathBuf,
    label: Option<Vec<u8>>,
}

impl Rights {
    /// Those of a thread now. They cannot change while it is stopped.
    pub(super) fn of(tid: i32) -> io::Result<Rights> {
        let place = format!("/proc/{tid}");
        let status = fs::read_to_string(format!("{place}/status"))?;
        let decides = |line: &&str| LINES.iter().any(|name| line.starts_with(name));
        Ok(Rights {
            lines: status.lines().filter(decides).collect::<Vec<_>>().join("\n"),
            namespace: fs::read_link(format!("{place}/ns/user"))?,
            // Absent where there is no such module.
            label: fs::read(format!("{place}/attr/current")).ok(),
        })
    }

    /// This process's.
    pub(super) fn own() -> io::Result<Rights> {
        Rights::of(std::process::id() as i32)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_has_the_rights_of_who_starts_it_until_it_gives_them_up() {
        let own = Rights::own().expect("of oneself");
        let mut same = Command::new("sleep").arg("60").spawn().expect("sleep");
        assert_eq!(Rights::of(same.id() as i32).expect("it lives"), own);
        _ = same.kill();
        _ = same.wait();
        assert!(Rights::of(same.id() as i32).is_err(), "it has ended");
        if !own.lines.starts_with("Uid:\t0\t0\t0\t0") {
            eprintln!("skipped: only root has rights to give up");
            return;
        }
        for less in [
            &["--reuid", "65534"][..],
            &["--regid", "65534", "--clear-groups"],
            &["--bounding-set", "-sys_ptrace"],
        ] {
            let mut other =
                Command::new("setpriv").args(less).args(["sleep", "60"]).spawn().expect("setpriv");
            let differs = || Rights::of(other.id() as i32).is_ok_and(|theirs| theirs != own);
            let gave = (0..200).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                differs()
            });
            assert!(gave, "{less:?}");
            _ = other.kill();
            _ = other.wait();
        }
    }
}
