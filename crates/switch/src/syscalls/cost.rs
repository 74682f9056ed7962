//! What it takes to stop one call and to answer it from another core, beside what a call takes that stays.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use ebb_host::{clock, process};
use hdrhistogram::Histogram;

use super::filter;
use super::owned;
use super::serve::{receive, respond};
use crate::SwitchError;
use crate::measure::{Percentiles, Plan, Unmeasured};

/// The call that is measured: it does nothing, and nothing here makes it otherwise.
const CALL: libc::c_long = libc::SYS_getppid;

/// What one call takes, ns.
#[derive(Clone, Copy, Debug)]
pub struct CallCost {
    /// Made where it is.
    pub direct: Percentiles,
    /// Stopped, answered by a thread on the other core.
    pub notified: Percentiles,
}

/// Measures both on the plan's CPUs, `trips` times at most.
///
/// # Errors
/// With one CPU, or where the kernel hands no calls over.
pub fn cost(plan: &Plan, trips: u32) -> Result<CallCost, Unmeasured> {
    let there = plan.there.ok_or(Unmeasured::OneCpu)?;
    let (home, longest) = (plan.home, plan.longest);
    let (tell, told) = mpsc::channel::<i32>();
    let caller = move || -> Result<CallCost, Unmeasured> {
        pin(home)?;
        let direct = time_calls(trips, longest);
        let listener = filter::install(&filter::program_for(CALL as u32)).map_err(refused)?;
        // The server closes it; without a server the calls fail.
        let _ = tell.send(listener);
        Ok(CallCost { direct, notified: time_calls(trips, longest) })
    };
    let server = move || -> Result<(), Unmeasured> {
        let Ok(listener) = told.recv() else { return Ok(()) };
        let listener = owned(listener.into()).map_err(refused)?;
        // Answers also where it was refused its CPU, so that nobody waits for ever.
        let pinned = pin(there);
        answer_all(&listener);
        pinned
    };
    std::thread::scope(|scope| {
        // The filter is the thread's for good, and ends with it.
        let (server, caller) = (scope.spawn(server), scope.spawn(caller));
        let caller = caller.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let server = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        server.and(caller)
    })
}

fn pin(cpu: usize) -> Result<(), Unmeasured> {
    process::pin_to(cpu).map_err(|source| SwitchError::Cpu { cpu, source }.into())
}

fn refused(source: io::Error) -> Unmeasured {
    SwitchError::Resources { what: "a filter that hands system calls over", source }.into()
}

fn time_calls(trips: u32, longest: Duration) -> Percentiles {
    let mut spans = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("fits");
    let until = clock::monotonic() + longest;
    for _ in 0..trips.max(1) {
        let asked = clock::monotonic();
        // SAFETY: has no arguments; returns a number.
        unsafe { libc::syscall(CALL) };
        let answered = clock::monotonic();
        spans.saturating_record((answered - asked).as_nanos() as u64);
        if answered >= until {
            break;
        }
    }
    Percentiles::of(&spans)
}

fn answer_all(listener: &std::os::fd::OwnedFd) {
    use std::os::fd::AsRawFd;
    let fd = listener.as_raw_fd();
    loop {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, this frame's.
        unsafe { libc::poll(&mut poll, 1, -1) };
        if poll.revents & libc::POLLIN != 0 {
            if let Some(notified) = receive(fd) {
                let id = notified.id;
                respond(fd, libc::seccomp_notif_resp { id, val: 1, error: 0, flags: 0 });
            }
        } else if poll.revents != 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_stopped_takes_longer_than_one_that_is_not() {
        let plan = Plan::here(20).unwrap();
        assert!(matches!(cost(&Plan { there: None, ..plan }, 1), Err(Unmeasured::OneCpu)));
        if plan.there.is_none() {
            return eprintln!("skipped: one CPU");
        }
        let cost = cost(&plan, 200).unwrap();
        // Two wake-ups by the kernel: an order of magnitude, whatever else the machine does.
        assert!(cost.notified.p50 > cost.direct.p50, "{cost:?}");
    }
}
