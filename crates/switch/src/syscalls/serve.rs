//! The threads on the system's core.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use ebb_host::{clock::monotonic, process};

use super::RunError;
use super::calls::{Answer, Moved, Request};
use super::filter::CALLS;
use super::remote;
use crate::SwitchError;

type Counts = BTreeMap<&'static str, Moved>;

/// Processes whose handle is kept at most.
const KEPT: usize = 256;

/// The servers of one program and its descendants.
pub(super) struct Serving {
    threads: Vec<JoinHandle<Counts>>,
}

/// What the servers share: one of them waits for the kernel, the others make calls or wait for their turn.
struct Shared {
    listener: Arc<OwnedFd>,
    turn: Mutex<()>,
    over: AtomicBool,
}

impl Serving {
    pub(super) fn start(
        listener: Arc<OwnedFd>,
        os_core: usize,
        servers: usize,
    ) -> Result<Serving, RunError> {
        let shared =
            Arc::new(Shared { listener, turn: Mutex::new(()), over: AtomicBool::new(false) });
        let (ready, started) = mpsc::channel();
        let mut threads = Vec::new();
        for _ in 0..servers {
            let (shared, ready) = (shared.clone(), ready.clone());
            let serve = move || {
                let pinned = process::pin_to(os_core);
                let failed = pinned.is_err();
                let _ = ready.send(pinned);
                if failed { Counts::new() } else { shared.serve() }
            };
            threads.push(std::thread::Builder::new().name("switch-calls".into()).spawn(serve)?);
        }
        for _ in 0..servers {
            let pinned = started.recv().unwrap_or_else(|_| Err(io::Error::other("a server ended")));
            pinned.map_err(|source| SwitchError::Cpu { cpu: os_core, source })?;
        }
        Ok(Serving { threads })
    }

    /// Waits for the last process under the filter, and what they did.
    pub(super) fn join(self) -> Counts {
        let mut all = Counts::new();
        for thread in self.threads {
            let counts = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            for (name, moved) in counts {
                let sum = all.entry(name).or_default();
                sum.moved += moved.moved;
                sum.left += moved.left;
                sum.bytes += moved.bytes;
                sum.ns += moved.ns;
            }
        }
        all
    }
}

impl Shared {
    fn serve(&self) -> Counts {
        let (mut counts, mut processes, mut buffer) = (Counts::new(), HashMap::new(), Vec::new());
        while let Some(notified) = self.next() {
            let begun = monotonic();
            let request = Request {
                tid: notified.pid as i32,
                number: i64::from(notified.data.nr),
                arguments: notified.data.args,
            };
            let answer = self.make(notified.id, &request, &mut processes, &mut buffer);
            self.answer(notified.id, answer);
            let name = CALLS.iter().find(|call| call.number == request.number);
            let count = counts.entry(name.map_or("other", |call| call.name)).or_default();
            match answer {
                Answer::Yourself => count.left += 1,
                Answer::Done(outcome) => {
                    count.moved += 1;
                    count.bytes += outcome.map_or(0, |value| value.max(0) as u64);
                    count.ns += (monotonic() - begun).as_nanos() as u64;
                }
            }
        }
        counts
    }

    /// The next call that the kernel stopped; none when nobody is left under the filter.
    fn next(&self) -> Option<libc::seccomp_notif> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.over.load(Ordering::Relaxed) {
            let mut poll =
                libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, this frame's.
            unsafe { libc::poll(&mut poll, 1, -1) };
            if poll.revents & libc::POLLIN != 0 {
                // SAFETY: zeroes are what the kernel asks for, and it fills the structure.
                let mut notified: libc::seccomp_notif = unsafe { std::mem::zeroed() };
                let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
                // SAFETY: the structure is this frame's and of the kernel's layout.
                if unsafe { libc::ioctl(poll.fd, request, &raw mut notified) } == 0 {
                    return Some(notified);
                }
                // Killed before we came: the next.
            } else if poll.revents != 0 {
                self.over.store(true, Ordering::Relaxed);
            }
        }
        None
    }

    fn make(
        &self,
        id: u64,
        request: &Request,
        processes: &mut HashMap<i32, OwnedFd>,
        buffer: &mut Vec<u8>,
    ) -> Answer {
        if processes.len() > KEPT {
            processes.clear();
        }
        // A handle that was kept may be of a process that has ended, whose number another one has now: a
        // descriptor of the dead cannot be taken, so the worst is that the program makes this call itself.
        if let Some(process) = processes.get(&request.tid) {
            match request.make(process, buffer) {
                Answer::Yourself => drop(processes.remove(&request.tid)),
                done => return done,
            }
        }
        let Ok(process) = remote::open_thread(request.tid) else { return Answer::Yourself };
        // From here on the number means the process that was stopped, or the call is void.
        // SAFETY: the identifier is this frame's.
        let valid = unsafe {
            libc::ioctl(
                self.listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            )
        };
        if valid != 0 {
            return Answer::Yourself;
        }
        let answer = request.make(&process, buffer);
        processes.insert(request.tid, process);
        answer
    }

    fn answer(&self, id: u64, answer: Answer) {
        let (val, error, flags) = match answer {
            Answer::Done(Ok(value)) => (value, 0, 0),
            Answer::Done(Err(error)) => (0, -error, 0),
            Answer::Yourself => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        };
        let mut response = libc::seccomp_notif_resp { id, val, error, flags };
        // SAFETY: the structure is this frame's. A program that was killed meanwhile hears nothing.
        unsafe {
            libc::ioctl(
                self.listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut response,
            )
        };
    }
}
