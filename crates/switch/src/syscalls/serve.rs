//! The threads on the system's core.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use ebb_host::{Doorbell, clock::monotonic, process};

use super::RunError;
use super::calls::{Answer, Moved, Request};
use super::filter::CALLS;
use super::keeper;
use super::remote;
use super::rights::Rights;
use crate::SwitchError;

type Counts = BTreeMap<&'static str, Moved>;

/// Processes whose handle is kept at most.
const KEPT: usize = 256;

/// The servers of one program and its descendants.
pub(super) struct Serving {
    threads: Vec<JoinHandle<Counts>>,
    shared: Arc<Shared>,
}

/// What the servers share: one of them waits for the kernel, the others make calls or wait for their turn.
struct Shared {
    listener: Arc<OwnedFd>,
    /// Calls of whoever has others are left where they are.
    rights: Rights,
    turn: Mutex<()>,
    over: AtomicBool,
    /// Rung when the servers are to end before the last process under the filter has.
    end: Doorbell,
}

impl Serving {
    pub(super) fn start(
        listener: Arc<OwnedFd>,
        os_core: usize,
        servers: usize,
    ) -> Result<Serving, RunError> {
        let (turn, over, end) = (Mutex::new(()), AtomicBool::new(false), Doorbell::new()?);
        let shared = Arc::new(Shared { listener, rights: Rights::own()?, turn, over, end });
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
        Ok(Serving { threads, shared })
    }

    /// Ends the servers, and what they did. The program has ended; descendants that it left make their calls
    /// where they are from now on: a process that stays behind for them answers so. Where there can be none, this
    /// waits for the last of them.
    pub(super) fn end(self) -> Counts {
        // Calls that come meanwhile wait for an answer.
        let left_behind = !self.shared.is_over() && keeper::leave(&self.shared.listener).is_ok();
        if left_behind {
            self.shared.end.ring();
        }
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
    /// Whether nobody is left under the filter.
    fn is_over(&self) -> bool {
        let mut poll =
            libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, this frame's.
        unsafe { libc::poll(&mut poll, 1, 0) };
        poll.revents & (libc::POLLHUP | libc::POLLIN) == libc::POLLHUP
    }

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

    /// The next call that the kernel stopped; none when nobody is left under the filter, or the servers are to
    /// end.
    fn next(&self) -> Option<libc::seccomp_notif> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.over.load(Ordering::Relaxed) {
            let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut polls = [entry(self.listener.as_raw_fd()), entry(self.end.fd())];
            // SAFETY: two entries, this frame's.
            unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) };
            if polls[1].revents != 0 {
                self.over.store(true, Ordering::Relaxed);
            } else if polls[0].revents & libc::POLLIN != 0 {
                // Killed before we came: the next.
                if let Some(notified) = receive(polls[0].fd) {
                    return Some(notified);
                }
            } else if polls[0].revents != 0 {
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
        let theirs = Rights::of(request.tid);
        if theirs.is_err() || !self.is_valid(id) || theirs.is_ok_and(|theirs| theirs != self.rights)
        {
            return Answer::Yourself;
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
        if !self.is_valid(id) {
            return Answer::Yourself;
        }
        let answer = request.make(&process, buffer);
        processes.insert(request.tid, process);
        answer
    }

    /// Whether what was looked up by the thread's number until now was of the one that was stopped; else the call is
    /// void.
    fn is_valid(&self, id: u64) -> bool {
        let listener = self.listener.as_raw_fd();
        // SAFETY: the identifier is this frame's.
        let valid =
            unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) };
        valid == 0
    }

    fn answer(&self, id: u64, answer: Answer) {
        let (val, error, flags) = match answer {
            Answer::Done(Ok(value)) => (value, 0, 0),
            Answer::Done(Err(error)) => (0, -error, 0),
            Answer::Yourself => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        };
        let response = libc::seccomp_notif_resp { id, val, error, flags };
        respond(self.listener.as_raw_fd(), response);
    }
}

/// The call that waits at the listener; none where the program was killed meanwhile.
pub(super) fn receive(listener: i32) -> Option<libc::seccomp_notif> {
    // SAFETY: zeroes are what the kernel asks for, and it fills the structure.
    let mut notified: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
    // SAFETY: the structure is this frame's and of the kernel's layout.
    let received = unsafe { libc::ioctl(listener, request, &raw mut notified) } == 0;
    received.then_some(notified)
}

/// Answers a call. A program that was killed meanwhile hears nothing.
pub(super) fn respond(listener: i32, mut response: libc::seccomp_notif_resp) {
    // SAFETY: the structure is this frame's.
    unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
}
