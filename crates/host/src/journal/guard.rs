//! A process that outlives a `kill -9` of ours and undoes what it left; while our threads stand still it
//! gives the packets to the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use nix::sys::socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, setsid};

use super::brake::{Arrays, Brake};
use super::{Journal, await_other_heirs, undo_file};
use crate::pulse::{LOOK_EVERY, Pulses, Watcher};

/// The guard process, which ends after this value is dropped or its process has died.
#[derive(Debug)]
pub struct Guard {
    pid: Pid,
    /// The guard sees its end close when we die, however that happens.
    lifeline: Arc<OwnedFd>,
}

impl Guard {
    /// Starts the guard of `journal`. To be called before threads are started and privileges are
    /// given up, which it keeps. It has a session of its own and ignores what a terminal or a
    /// service manager sends to stop the program.
    ///
    /// # Errors
    /// When the process can't be made.
    pub fn spawn(journal: &Journal) -> io::Result<Self> {
        Guard::start(journal, None)
    }

    /// As [`Guard::spawn`]; besides, while a thread of these stands still, it holds what it was told to
    /// hold ([`Brake::place`]).
    ///
    /// # Errors
    /// When the process can't be made.
    pub fn spawn_watching(journal: &Journal, pulses: &Pulses) -> io::Result<Self> {
        Guard::start(journal, Some(pulses))
    }

    fn start(journal: &Journal, pulses: Option<&Pulses>) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (watch, lifeline) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        let watcher =
            pulses.map(|pulses| (pulses, Watcher::new(pulses.clone(), std::process::id())));
        let path = journal.path().to_owned();
        // Signals wait until the child ignores them: a Ctrl-C right now must not end the guard.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        // SAFETY: the child runs `stand_guard` alone, which touches no lock that another thread
        // may hold (glibc makes its allocator usable in the child) and never returns.
        let forked = unsafe { fork() };
        if let Ok(ForkResult::Child) = forked {
            stand_guard(&watch, &path, watcher)
        }
        mask.thread_set_mask()?;
        match forked? {
            ForkResult::Parent { child } => Ok(Guard { pid: child, lifeline: Arc::new(lifeline) }),
            ForkResult::Child => unreachable!("the child stands guard until it ends"),
        }
    }

    /// Tells it what to hold.
    pub fn brake(&self) -> Brake {
        Brake(self.lifeline.clone())
    }

    /// The guard's process identifier.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Whoever has a brake keeps the line open.
        _ = shutdown(self.lifeline.as_raw_fd(), Shutdown::Both);
        while waitpid(self.pid, None) == Err(nix::errno::Errno::EINTR) {}
    }
}

fn stand_guard(watch: &OwnedFd, path: &Path, watcher: Option<(&Pulses, Watcher)>) -> ! {
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
    if watcher.is_some() {
        go_first(true);
    }
    keep_watch(watch, watcher);
    go_first(false);
    await_other_heirs(path);
    undo_file(path);
    // SAFETY: ends the process without running what belongs to the parent.
    unsafe { libc::_exit(0) }
}

/// While it watches it sleeps nearly always, and must not wait for its turn behind those that keep the CPUs busy: it goes before all
/// that have no deadline (sched(7)), or as far ahead of others as it may. What is undone has time.
fn go_first(first: bool) {
    let (policy, priority, nice) = match first {
        true => (libc::SCHED_FIFO, 1, -20),
        false => (libc::SCHED_OTHER, 0, 0),
    };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: both change this thread's scheduling alone, and read a value that lives.
    unsafe {
        if libc::sched_setscheduler(0, policy, &raw const parameters) != 0 || !first {
            libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        }
    }
}

/// Returns once the program has died.
fn keep_watch(line: &OwnedFd, mut watcher: Option<(&Pulses, Watcher)>) {
    let mut arrays = Arrays::default();
    let mut held = false;
    let mut looked = crate::clock::monotonic();
    loop {
        let mut ready = [PollFd::new(line.as_fd(), PollFlags::POLLIN)];
        let every = watcher.as_ref().map_or(LOOK_EVERY, |(_, watcher)| watcher.rest());
        let rest = every.saturating_sub(crate::clock::monotonic().since(looked));
        let patience = match &watcher {
            // In whole milliseconds, or the last part of one would be spent looking again and again.
            Some(_) => PollTimeout::from(rest.as_millis() as u16 + 1),
            None => PollTimeout::NONE,
        };
        match poll(&mut ready, patience) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) if !arrays.listen(line) => return,
            Ok(_) => {}
            Err(_) => return,
        }
        let now = crate::clock::monotonic();
        if now.since(looked) < every {
            continue;
        }
        looked = now;
        let Some((pulses, watcher)) = &mut watcher else { continue };
        let still = watcher.look(0, now).is_some();
        if still && !held {
            pulses.count_halt();
        }
        if still || held {
            arrays.hold(still);
        }
        held = still;
    }
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
