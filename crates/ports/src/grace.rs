//! Waiting until no XDP program that read an old table is still running.
//!
//! A driver polls its receive queue, runs the XDP program on each packet and flushes redirected
//! packets into the sockets' rings within one section with bottom halves disabled, which on a
//! kernel without PREEMPT_RT also disables preemption. A thread can therefore only run on a CPU
//! while no such section is suspended there: once this thread has been on every online CPU after
//! the table was written, every section that began before the write has ended, and every later
//! one sees the new table (moving to another CPU goes through the scheduler, which orders memory
//! fully). A soft interrupt that interrupts this thread meanwhile began after the write.
//!
//! Hopping takes some 20 microseconds per CPU, as a real-time thread also where a worker polls
//! without pause; `membarrier(MEMBARRIER_CMD_GLOBAL)`, the fallback, is an RCU grace period and
//! takes tens of milliseconds. RCU's grace periods cover sections with bottom halves disabled
//! since Linux 4.20, PREEMPT_RT included.

use std::io;
use std::mem::{size_of, zeroed};
use std::path::Path;

use ebb_host::{Sysfs, topology};

/// Waits until every packet steered by what memory held before this call is in a socket's ring.
pub(crate) fn wait() -> io::Result<()> {
    let real_time_kernel = Path::new("/sys/kernel/realtime").exists();
    if !real_time_kernel && hop().is_ok() { Ok(()) } else { membarrier() }
}

/// The same for who has time: no CPU that sleeps is woken for it.
pub(crate) fn wait_at_leisure() -> io::Result<()> {
    // Refused where some CPUs have no clock's ticks (nohz_full).
    membarrier().or_else(|_| wait())
}

/// An RCU grace period.
fn membarrier() -> io::Result<()> {
    // SAFETY: the call takes two integers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs on every online CPU once.
fn hop() -> io::Result<()> {
    let online = topology::online(&Sysfs::new("/")).map_err(io::Error::other)?;
    let before = Placement::save()?;
    let result = before.visit(&online);
    before.restore();
    result
}

/// Where and how the calling thread runs.
struct Placement {
    cpus: libc::cpu_set_t,
    policy: libc::c_int,
    parameters: libc::sched_param,
}

impl Placement {
    fn save() -> io::Result<Placement> {
        // SAFETY: all zeroes are valid values; the calls fill the structures they are given, for
        // the calling thread.
        unsafe {
            let mut place = Placement { cpus: zeroed(), policy: 0, parameters: zeroed() };
            check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut place.cpus))?;
            place.policy = check(libc::sched_getscheduler(0))?;
            check(libc::sched_getparam(0, &mut place.parameters))?;
            Ok(place)
        }
    }

    fn visit(&self, online: &[usize]) -> io::Result<()> {
        // SAFETY: all zeroes are a valid value.
        let mut real_time: libc::sched_param = unsafe { zeroed() };
        real_time.sched_priority = 1;
        // SAFETY: a valid structure. Where real time is refused the hop takes longer.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &real_time) };
        for cpu in online {
            // SAFETY: all zeroes are a valid, empty set, and `CPU_SET` checks its bounds.
            let set = unsafe {
                let mut set: libc::cpu_set_t = zeroed();
                libc::CPU_SET(*cpu, &mut set);
                set
            };
            // SAFETY: a valid set. The call returns when the thread runs on that CPU.
            check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })?;
        }
        Ok(())
    }

    fn restore(&self) {
        // SAFETY: the structures are those that the kernel filled in.
        unsafe {
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.cpus);
            libc::sched_setscheduler(0, self.policy, &self.parameters);
        }
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_where_it_was_afterwards() {
        let before = Placement::save().unwrap();
        wait().unwrap();
        let after = Placement::save().unwrap();
        // SAFETY: both sets are valid.
        assert!(unsafe { libc::CPU_EQUAL(&before.cpus, &after.cpus) });
        assert_eq!(before.policy, after.policy);
    }
}
