//! Unmodified programs whose long system calls run on another core.
//!
//! The kernel stops a program at a system call that a filter names (seccomp user notification, Linux 5.19)
//! and tells a thread that is bound to the system's core. That thread makes the call with the program's own
//! open files and memory, and the kernel hands its result back. The filter is inherited by forks and by
//! executed programs, static ones included; programs need neither change nor preload.
//!
//! What it costs: two wake-ups by the kernel and some system calls of the helper for each call that is
//! moved, and a copy of the data; it is meant for measuring, and for calls of many microseconds. What is
//! moved: calls on regular files, and `sendfile` to what does not block. What can block for ever, and every
//! call below the threshold of bytes, stays where it is, and so does every call of a process that has given up or gained
//! rights: the kernel decides by those of whoever makes the call.

mod calls;
mod cost;
mod filter;
mod keeper;
mod remote;
mod rights;
mod serve;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use ebb_host::process;
use ebb_host::signals::{self, Signal, Signals};
use ebb_host::wait::WaitSet;

pub use calls::Moved;
pub use cost::{CallCost, cost};

use crate::SwitchError;

/// How a program is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// CPU for system calls.
    pub os_core: usize,
    /// Least bytes of a read, write or copy that is moved (4096 in section 3.2.1 of the source).
    pub bytes_min: u32,
    /// Threads that make calls; a call that waits for a disk keeps one of them.
    pub servers: usize,
}

/// What happened.
#[derive(Debug)]
pub struct Report {
    /// How the program ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub elapsed: Duration,
    /// What became of the calls that the filter stopped, by name.
    pub calls: BTreeMap<&'static str, Moved>,
}

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A CPU that cannot be used.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The program cannot be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// Its name.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// The kernel does not stop programs for us.
    #[error(
        "the kernel does not hand system calls over: {0}; needs Linux 5.19 with \
        CONFIG_SECCOMP_FILTER and no other listener on this process"
    )]
    Filter(io::Error),
    /// Only one CPU.
    #[error("this process may use CPU {0} only: system calls need a separate core")]
    OneCpu(usize),
    /// A descriptor or a thread that the system refused.
    #[error("cannot set up: {0}")]
    Setup(#[from] io::Error),
}

/// Runs a program as it is, for comparison: on every CPU but the system's.
///
/// # Errors
/// When it cannot be started.
pub fn run_plain(
    options: &Options,
    program: &OsString,
    arguments: &[OsString],
) -> Result<Report, RunError> {
    let cpus = app_cpus(options)?;
    let mut command = Command::new(program);
    command.args(arguments);
    let bind = move || bind(&cpus);
    // SAFETY: runs between fork and exec; it makes system calls on memory that was made before.
    unsafe { command.pre_exec(bind) };
    let signals = hold_signals()?;
    let begun = ebb_host::clock::monotonic();
    let mut child = command.spawn().map_err(|source| cannot_start(program, source))?;
    let status = wait(&mut child, signals)?;
    let elapsed = ebb_host::clock::monotonic() - begun;
    Ok(Report { status, elapsed, calls: BTreeMap::new() })
}

/// Runs a program with its long system calls on `os_core`, and everything else on the other CPUs.
/// Signals that ask this process to end are passed on to it.
///
/// # Errors
/// When the kernel or the machine cannot do that; a program that fails is no error.
pub fn run(
    options: &Options,
    program: &OsString,
    arguments: &[OsString],
) -> Result<Report, RunError> {
    let cpus = app_cpus(options)?;
    let filter = filter::program(options.bytes_min);
    let (told, tell) = io::pipe()?;
    let (go, let_go) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments);
    // The child holds copies; ours are closed with the command.
    let (tell_fd, go_fd) = (tell.as_raw_fd(), go.as_raw_fd());
    let prepare = move || {
        bind(&cpus)?;
        let listener = filter::install(&filter)?;
        filter::introduce(tell_fd, go_fd, listener)
    };
    // SAFETY: runs between fork and exec; it makes system calls on memory that was made before.
    unsafe { command.pre_exec(prepare) };
    let signals = hold_signals()?;
    // The child waits for us before it executes the program, and `spawn` waits for the child.
    let adopt = std::thread::Builder::new().name("switch-adopt".into());
    let os_core = options.os_core;
    let servers = options.servers.max(1);
    let adopt = adopt.spawn(move || adopt_listener(told, let_go, os_core, servers))?;
    let begun = ebb_host::clock::monotonic();
    let spawned = command.spawn();
    drop((command, tell, go));
    let serving = adopt.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let mut child = match (spawned, &serving) {
        (Ok(child), _) => child,
        (Err(source), Ok(None)) if is_filter_error(&source) => {
            return Err(RunError::Filter(source));
        }
        (Err(source), _) => return Err(cannot_start(program, source)),
    };
    let status = wait(&mut child, signals)?;
    let elapsed = ebb_host::clock::monotonic() - begun;
    let calls = match serving? {
        Some(serving) => serving.end(),
        None => BTreeMap::new(),
    };
    Ok(Report { status, elapsed, calls })
}

fn cannot_start(program: &OsString, source: io::Error) -> RunError {
    RunError::Start { program: program.to_string_lossy().into_owned(), source }
}

fn is_filter_error(error: &io::Error) -> bool {
    let filter = [libc::EINVAL, libc::EBUSY, libc::ENOSYS, libc::EPERM];
    error.raw_os_error().is_some_and(|code| filter.contains(&code))
}

/// The CPUs that are left to the program.
fn app_cpus(options: &Options) -> Result<Vec<usize>, RunError> {
    let mut cpus = process::allowed_cpus()?;
    if !cpus.contains(&options.os_core) {
        let source = io::Error::from_raw_os_error(libc::EINVAL);
        return Err(SwitchError::Cpu { cpu: options.os_core, source }.into());
    }
    cpus.retain(|&cpu| cpu != options.os_core);
    if cpus.is_empty() {
        return Err(RunError::OneCpu(options.os_core));
    }
    Ok(cpus)
}

/// Binds the calling thread to some CPUs, without allocating.
fn bind(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: all zeroes is the empty set; the set is this frame's, its size is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        match libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Signals that end a program go to it, and to us only for passing on. Those that a write to nobody, or
/// beyond a limit, would send to a server are for the program.
fn hold_signals() -> io::Result<Signals> {
    // SAFETY: ignoring a signal installs no code. The child sets both back before it executes the program.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT])
}

/// Waits for the program's end. Of the signals that come meanwhile the terminal's have reached the program
/// too; SIGTERM and SIGHUP were meant for it.
fn wait(child: &mut Child, mut signals: Signals) -> io::Result<ExitStatus> {
    let pidfd = remote::open_process(child.id() as i32)?;
    let mut set = WaitSet::new();
    loop {
        set.clear();
        set.add(pidfd.as_raw_fd());
        set.add(signals.fd());
        set.wait(None);
        while let Some(signal) = signals.take()? {
            if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
                let _ = signals::send(child.id(), signal);
            }
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
}

/// Takes the listener out of the child and starts the servers. Nothing where the child never came to it.
fn adopt_listener(
    mut told: io::PipeReader,
    mut let_go: io::PipeWriter,
    os_core: usize,
    servers: usize,
) -> Result<Option<serve::Serving>, RunError> {
    let mut words = [0_u8; 8];
    if told.read_exact(&mut words).is_err() {
        return Ok(None);
    }
    let word = |at: usize| i32::from_ne_bytes(words[at..at + 4].try_into().expect("four bytes"));
    let child = remote::open_process(word(0))?;
    let listener = Arc::new(remote::take_descriptor(&child, word(4))?);
    let serving = serve::Serving::start(listener, os_core, servers)?;
    let_go.write_all(&[1])?;
    Ok(Some(serving))
}

/// Wraps a descriptor that a system call returned.
fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
