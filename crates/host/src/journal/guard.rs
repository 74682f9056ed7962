//! A process that outlives a `kill -9` of ours and undoes what it left.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use nix::sys::wait::waitpid;
use nix::unistd::{
    ForkResult, Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, setsid,
};

use super::{Journal, undo_file};

/// The guard process, which ends after this value is dropped or its process has died.
#[derive(Debug)]
pub struct Guard {
    pid: Pid,
    /// The guard sees its end close when we die, however that happens.
    lifeline: Option<OwnedFd>,
}

impl Guard {
    /// Starts the guard of `journal`. To be called before threads are started and privileges are
    /// given up, which it keeps. It has a session of its own and ignores what a terminal or a
    /// service manager sends to stop the program.
    ///
    /// # Errors
    /// When the process can't be made.
    pub fn spawn(journal: &Journal) -> io::Result<Self> {
        let (watch, lifeline) = pipe2(OFlag::O_CLOEXEC)?;
        let path = journal.path().to_owned();
        // Signals wait until the child ignores them: a Ctrl-C right now must not end the guard.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        // SAFETY: the child runs `stand_guard` alone, which touches no lock that another thread
        // may hold (glibc makes its allocator usable in the child) and never returns.
        let forked = unsafe { fork() };
        if let Ok(ForkResult::Child) = forked {
            stand_guard(&watch, &path)
        }
        mask.thread_set_mask()?;
        match forked? {
            ForkResult::Parent { child } => Ok(Guard { pid: child, lifeline: Some(lifeline) }),
            ForkResult::Child => unreachable!("the child stands guard until it ends"),
        }
    }

    /// The guard's process identifier.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.lifeline = None;
        while waitpid(self.pid, None) == Err(nix::errno::Errno::EINTR) {}
    }
}

fn stand_guard(watch: &OwnedFd, path: &Path) -> ! {
    let _ = setsid();
    let _ = chdir("/");
    for number in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGTSTP,
    ] {
        // SAFETY: ignoring a signal installs no handler.
        let _ = unsafe { signal(number, SigHandler::SigIgn) };
    }
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
    let _ = nix::sys::prctl::set_name(c"ebb-guard");
    close_all_but(watch);
    let mut byte = [0_u8];
    loop {
        match nix::unistd::read(watch, &mut byte) {
            Ok(0) => break,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    undo_file(path);
    // SAFETY: ends the process without running what belongs to the parent.
    unsafe { libc::_exit(0) }
}

/// The guard holds none of its parent's files: pipes to other programs end when the parent does,
/// and sockets and interfaces are freed.
fn close_all_but(watch: &OwnedFd) {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = (dup2_stdin(&null), dup2_stdout(&null), dup2_stderr(&null));
    }
    let keep = watch.as_raw_fd() as libc::c_uint;
    // SAFETY: the descriptors closed belong to values of the parent that are never used or dropped
    // here, since this process ends by `_exit`.
    unsafe {
        if keep > 3 {
            libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, keep - 1, 0 as libc::c_uint);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, libc::c_uint::MAX, 0 as libc::c_uint);
    }
}
