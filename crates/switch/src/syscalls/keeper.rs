//! Who stays behind for the descendants of a program that has ended.
//!
//! A call that the filter stops waits for an answer, and fails once nobody can give one any more. The processes that a
//! program leaves in the background keep its filter for good, so somebody has to answer for as long as they live.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::serve::{receive, respond};

/// Starts a process that has every call made where it is, until nobody is left under the filter.
pub(super) fn leave(listener: &OwnedFd) -> io::Result<()> {
    let fd = listener.as_raw_fd();
    // SAFETY: the child makes system calls on its own frame until it ends: nothing that a lock of another thread could
    // hold up.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // A grandchild, so that nobody here has to wait for it.
            // SAFETY: as above.
            if unsafe { libc::fork() } == 0 {
                keep(fd);
            }
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child just made; the status is this frame's.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            Ok(())
        }
    }
}

/// Only makes system calls: it runs in a copy of a process with threads.
fn keep(listener: i32) -> ! {
    const OWN: i32 = 3;
    // SAFETY: no pointer but to a constant. Nothing of ours stays open: who reads our output is to see its end.
    // The terminal's signals are not for this process.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"switch-keeper".as_ptr());
        let kept = libc::fcntl(listener, libc::F_DUPFD, OWN + 1);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        (0..OWN).for_each(|fd| _ = libc::dup2(null, fd));
        libc::dup2(kept, OWN);
        libc::syscall(libc::SYS_close_range, OWN + 1, u32::MAX, 0);
    }
    loop {
        let mut poll = libc::pollfd { fd: OWN, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, this frame's.
        unsafe { libc::poll(&mut poll, 1, -1) };
        if poll.revents & libc::POLLIN != 0 {
            if let Some(notified) = receive(OWN) {
                let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
                let id = notified.id;
                respond(OWN, libc::seccomp_notif_resp { id, val: 0, error: 0, flags });
            }
        } else if poll.revents != 0 {
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) };
        }
    }
}
