//! What processes and threads use, and where they run.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{RLIM_INFINITY, Resource, UsageWho, getrusage, setrlimit};
use nix::sys::socket::{getsockopt, sockopt};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Processor time used, split by where it was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl CpuTime {
    /// Both together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

fn usage(who: UsageWho) -> CpuTime {
    let usage = getrusage(who).expect("getrusage of a valid target succeeds");
    let span =
        |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1_000);
    CpuTime { user: span(usage.user_time()), system: span(usage.system_time()) }
}

/// Used by all threads of this process.
pub fn cpu_time() -> CpuTime {
    usage(UsageWho::RUSAGE_SELF)
}

/// Used by children of this process that have ended and were waited for.
pub fn cpu_time_of_children() -> CpuTime {
    usage(UsageWho::RUSAGE_CHILDREN)
}

/// Used by the calling thread.
pub fn cpu_time_of_this_thread() -> CpuTime {
    usage(UsageWho::RUSAGE_THREAD)
}

/// Used by all threads, past and present, of process `pid`, to the nanosecond.
///
/// # Errors
/// When there is no such process.
pub fn cpu_time_of(pid: u32) -> io::Result<Duration> {
    let clock: ClockId = clock_getcpuclockid(Pid::from_raw(pid as i32))?;
    let time = clock_gettime(clock)?;
    Ok(Duration::new(time.tv_sec() as u64, time.tv_nsec() as u32))
}

/// What one thread did since it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadUse {
    /// Thread identifier.
    pub tid: u32,
    /// Name, at most 15 bytes.
    pub name: String,
    /// Time on a processor.
    pub cpu: Duration,
    /// Times it went to sleep: as many as it was woken.
    pub sleeps: u64,
    /// Times another thread took its processor.
    pub preemptions: u64,
}

/// The threads of process `pid`, by identifier. Threads that end meanwhile are left out.
///
/// # Errors
/// When there is no such process.
pub fn threads_of(pid: u32) -> io::Result<Vec<ThreadUse>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = entry?.path();
        let Some(tid) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok())
        else {
            continue;
        };
        let (Ok(name), Ok(status), Ok(schedule)) = (
            fs::read_to_string(path.join("comm")),
            fs::read_to_string(path.join("status")),
            fs::read_to_string(path.join("schedstat")),
        ) else {
            continue;
        };
        let count = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let nanos = schedule.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
        threads.push(ThreadUse {
            tid,
            name: name.trim_end().to_owned(),
            cpu: Duration::from_nanos(nanos),
            sleeps: count("voluntary_ctxt_switches:"),
            preemptions: count("nonvoluntary_ctxt_switches:"),
        });
    }
    threads.sort_by_key(|thread| thread.tid);
    Ok(threads)
}

/// Memory of process `pid` that is in RAM, in bytes.
///
/// # Errors
/// When there is no such process.
pub fn resident_memory(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|line| line.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse().ok())
        .ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "no VmRSS: the process has ended")
        })?;
    Ok(kib * 1024)
}

/// When process `pid` started, in clock ticks since boot: with the identifier it names a process
/// for good, while identifiers are used again. A process that has ended but was not waited for
/// counts as ended.
///
/// # Errors
/// When there is no such process.
pub fn start_time(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name is in parentheses and may contain any character.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
    }
    let start = fields.nth(18).and_then(|field| field.parse().ok());
    start.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cannot parse /proc/PID/stat"))
}

/// The process that listens at the other end of a connection.
#[derive(Debug)]
pub struct Peer(OwnedFd);

impl Peer {
    /// `None` where this process cannot see it: in another PID namespace.
    ///
    /// # Errors
    /// When the kernel does not say, or the process has ended.
    pub fn of(stream: &UnixStream) -> io::Result<Option<Peer>> {
        let pid = getsockopt(stream, sockopt::PeerCredentials)?.pid();
        if pid == 0 {
            return Ok(None);
        }
        // SAFETY: takes two numbers and returns a descriptor that nobody else has.
        let found = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let found = i32::try_from(found).ok().filter(|found| *found >= 0);
        let found = found.ok_or_else(io::Error::last_os_error)?;
        // SAFETY: as above.
        Ok(Some(Peer(unsafe { OwnedFd::from_raw_fd(found) })))
    }

    /// Whether it has not ended.
    pub fn is_there(&self) -> bool {
        // A process that has ended is readable (pidfd_open(2)).
        let mut ended = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut ended, PollTimeout::ZERO).is_ok_and(|count| count == 0)
    }
}

/// How long the calling thread could have run while others did; zero where the kernel does not say
/// (`CONFIG_SCHEDSTATS`).
pub fn waited() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// When the CPU is not there or not allowed to this process.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// The CPUs on which the calling thread may run, in order.
///
/// # Errors
/// When the system has more CPUs than the set can name (1024).
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// Lets the calling thread's timed sleeps end when they are due instead of up to 50 us later.
pub fn precise_timers() {
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Puts the calling thread before every thread of the usual kind on its CPU (`SCHED_FIFO`), and
/// before those of a lower `priority` (1 to 99). Without effect where that is not permitted.
pub fn before_others(priority: i32) {
    let priority = libc::sched_param { sched_priority: priority };
    // SAFETY: a valid structure that the call copies; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
}

/// The calling thread gives way to others until this is dropped. Threads that it starts meanwhile
/// do so for good.
#[derive(Debug)]
pub struct Politeness {
    before: Option<i32>,
    /// Where it could run before.
    anywhere: Option<CpuSet>,
    /// Niceness belongs to threads.
    not_send: PhantomData<*const ()>,
}

impl Politeness {
    /// Gives way as nice(1) has it: by 1, a little, to 19. Without effect where it could not be
    /// taken back.
    pub fn new(niceness: i32) -> Politeness {
        let may = crate::capability::has(crate::capability::Capability::CAP_SYS_NICE);
        // SAFETY: no pointers are passed; 0 is the calling thread.
        let before = may.then(|| unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
        before.iter().for_each(|before| set_niceness((before + niceness).min(19)));
        Politeness { before, anywhere: None, not_send: PhantomData }
    }

    /// Keeps off these CPUs if it may run on another, and gives way where it may not. Some system
    /// calls hold their CPU for a tenth of a second on a kernel that does not preempt itself (a dump
    /// of a full routing table), however polite who calls.
    pub fn off(cpus: impl IntoIterator<Item = usize>, niceness: i32) -> Politeness {
        let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Self::new(niceness) };
        let mut rest = allowed;
        cpus.into_iter().for_each(|cpu| _ = rest.unset(cpu));
        let other = (0..CpuSet::count()).any(|cpu| rest.is_set(cpu).unwrap_or(false));
        if !other || sched_setaffinity(Pid::from_raw(0), &rest).is_err() {
            return Self::new(niceness);
        }
        Politeness { before: None, anywhere: Some(allowed), not_send: PhantomData }
    }
}

/// Keeps every thread of this process off these CPUs if they may run on another, and has all give way to
/// everybody else: for a process that ends. What it still held the kernel takes back in whichever thread is
/// the last, and for hundreds of megabytes that takes it some ten milliseconds.
pub fn withdraw(cpus: impl IntoIterator<Item = usize>) {
    let mut rest = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    cpus.into_iter().for_each(|cpu| _ = rest.unset(cpu));
    let other = (0..CpuSet::count()).any(|cpu| rest.is_set(cpu).unwrap_or(false));
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
    let threads = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    // Those that have ended meanwhile are none to worry about.
    for thread in threads {
        if other {
            _ = sched_setaffinity(Pid::from_raw(thread), &rest);
        }
        // SAFETY: no pointers are passed.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, 19) };
    }
}

impl Drop for Politeness {
    fn drop(&mut self) {
        self.before.iter().copied().for_each(set_niceness);
        if let Some(anywhere) = &self.anywhere {
            // What was allowed may have been taken away meanwhile.
            _ = sched_setaffinity(Pid::from_raw(0), anywhere);
        }
    }
}

fn set_niceness(niceness: i32) {
    // SAFETY: no pointers are passed; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
}

/// Names the calling thread; Linux keeps 15 bytes.
pub fn name_thread(name: &str) {
    let kept: Vec<u8> = name.bytes().filter(|&b| b != 0).take(15).collect();
    if let Ok(name) = std::ffi::CString::new(kept) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Lifts the limit on locked memory, which packet memory counts against.
///
/// # Errors
/// Without the privilege (`CAP_SYS_RESOURCE`).
pub fn lift_memory_lock_limit() -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own, whose threads are nobody else's.
    #[test]
    fn a_process_that_withdraws_leaves_its_cpus_with_every_thread() {
        const CHILD: &str = "EBB_TEST_WITHDRAWS";
        if std::env::var_os(CHILD).is_none() {
            let name = "process::tests::a_process_that_withdraws_leaves_its_cpus_with_every_thread";
            let child = std::process::Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", name])
                .env(CHILD, "1")
                .output()
                .expect("this program again");
            assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
            return;
        }
        let cpus = allowed_cpus().expect("at most 1024");
        let (ready, begun) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            pin_to(cpus[0]).expect("an allowed CPU");
            ready.send(cpus).expect("a listener");
            _ = ended.recv();
            // SAFETY: no pointers are passed; 0 is the calling thread.
            (allowed_cpus().expect("at most 1024"), unsafe {
                libc::getpriority(libc::PRIO_PROCESS, 0)
            })
        });
        let cpus = begun.recv().expect("the worker is pinned");
        withdraw([cpus[0]]);
        drop(end);
        let (left, niceness) = worker.join().expect("no panic");
        let rest = if cpus.len() > 1 { &cpus[1..] } else { &cpus };
        assert_eq!((left.as_slice(), niceness), (rest, 19));
    }

    #[test]
    fn work_shows_as_processor_time() {
        let (before, pid) = (cpu_time(), std::process::id());
        let clock = cpu_time_of(pid).unwrap();
        let mut x = 1_u64;
        while cpu_time().since(before).total() < Duration::from_millis(20) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(cpu_time_of(pid).unwrap() - clock >= Duration::from_millis(15));
    }

    #[test]
    fn this_process_has_a_start_threads_and_memory() {
        let pid = std::process::id();
        assert_eq!(start_time(pid).unwrap(), start_time(pid).unwrap());
        assert!(start_time(u32::MAX / 2).is_err());
        assert!(resident_memory(pid).unwrap() > 100 << 10);
        let handle = std::thread::spawn(move || {
            name_thread("a-name-longer-than-fifteen");
            threads_of(pid).unwrap()
        });
        let threads = handle.join().unwrap();
        assert!(threads.iter().any(|thread| thread.name == "a-name-longer-t"), "{threads:?}");
    }

    #[test]
    fn pinning_leaves_one_cpu() {
        std::thread::spawn(|| {
            let cpu = *allowed_cpus().unwrap().last().unwrap();
            pin_to(cpu).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
            assert!(pin_to(1023).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn who_gives_way_keeps_off_cpus_as_long_as_others_are_left() {
        std::thread::spawn(|| {
            let all = allowed_cpus().unwrap();
            let (first, rest) = all.split_first().unwrap();
            let wanted = if rest.is_empty() { &all[..] } else { rest };
            let polite = Politeness::off([*first, 1023], 1);
            assert_eq!(allowed_cpus().unwrap(), wanted);
            let none_left = Politeness::off(all.clone(), 1);
            assert_eq!(allowed_cpus().unwrap(), wanted, "it has to run somewhere");
            drop(none_left);
            drop(polite);
            assert_eq!(allowed_cpus().unwrap(), all);
        })
        .join()
        .unwrap();
    }
}
