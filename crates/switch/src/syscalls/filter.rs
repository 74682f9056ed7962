//! The filter that stops a program at long system calls.

use std::io;

/// A call that may be moved, and which of its arguments counts bytes.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) number: i64,
    pub(super) bytes: Option<u8>,
}

const fn call(name: &'static str, number: i64, bytes: Option<u8>) -> Call {
    Call { name, number, bytes }
}

/// Those of section 3.2.1 of the source that need nothing of the program but its files and memory; `open`
/// and `stat` depend on its directory, `select` and `poll` wait.
pub(super) const CALLS: [Call; 8] = [
    call("read", libc::SYS_read, Some(2)),
    call("write", libc::SYS_write, Some(2)),
    call("pread64", libc::SYS_pread64, Some(2)),
    call("pwrite64", libc::SYS_pwrite64, Some(2)),
    call("sendfile", libc::SYS_sendfile, Some(3)),
    call("copy_file_range", libc::SYS_copy_file_range, Some(4)),
    call("fsync", libc::SYS_fsync, None),
    call("fdatasync", libc::SYS_fdatasync, None),
];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The filter's code: `bytes_min` and more bytes are long.
pub(super) fn program(bytes_min: u32) -> Vec<libc::sock_filter> {
    let one = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // Two loads and a test, then one or three instructions a call, then the two ends.
    let length = 3 + CALLS.iter().map(|call| if call.bytes.is_some() { 3 } else { 1 }).sum::<u8>();
    let (allow, notify) = (length, length + 1);
    let mut code =
        vec![one(LOAD, 4, 0, 0), one(EQUAL, ARCHITECTURE, 0, allow - 2), one(LOAD, 0, 0, 0)];
    for call in &CALLS {
        let after = |code: &Vec<libc::sock_filter>, to: u8| to - code.len() as u8 - 1;
        match call.bytes {
            None => {
                let there = after(&code, notify);
                code.push(one(EQUAL, call.number as u32, there, 0));
            }
            Some(argument) => {
                code.push(one(EQUAL, call.number as u32, 0, 2));
                // The low half: calls of 4 GiB and more are not known.
                code.push(one(LOAD, 16 + 8 * u32::from(argument), 0, 0));
                let (long, short) = (after(&code, notify), after(&code, allow));
                code.push(one(AT_LEAST, bytes_min, long, short));
            }
        }
    }
    code.push(one(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    code.push(one(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    code
}

/// A filter that stops one call, whatever its arguments, and no other.
pub(super) fn program_for(number: u32) -> Vec<libc::sock_filter> {
    let one = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    vec![
        one(LOAD, 4, 0, 0),
        one(EQUAL, ARCHITECTURE, 0, 2),
        one(LOAD, 0, 0, 0),
        one(EQUAL, number, 1, 0),
        one(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        one(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
    ]
}

/// Puts the calling thread, and what it starts, under the filter for good; the listener. For use between fork and exec.
pub(super) fn install(code: &[libc::sock_filter]) -> io::Result<i32> {
    let filter = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let enter = || {
        // SAFETY: the filter outlives the call, which copies it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const filter,
            )
        };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd as i32) }
    };
    match enter() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            // Without privileges, a filter is for those who cannot gain any: set-user-ID programs run as
            // the caller.
            // SAFETY: has no pointers.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            enter()
        }
        other => other,
    }
}

/// Tells the parent who and where the listener is, and waits until it has it. For use between fork and
/// exec, which closes the child's copy.
pub(super) fn introduce(tell: i32, go: i32, listener: i32) -> io::Result<()> {
    let mut words = [0_u8; 8];
    words[..4].copy_from_slice(&(std::process::id() as i32).to_ne_bytes());
    words[4..].copy_from_slice(&listener.to_ne_bytes());
    let mut answer = [0_u8; 1];
    // SAFETY: both arrays are this frame's and of the given lengths; calls of so few bytes are not stopped.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        if libc::write(tell, words.as_ptr().cast(), 8) != 8 {
            return Err(io::Error::last_os_error());
        }
        match libc::read(go, answer.as_mut_ptr().cast(), 1) {
            1 => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EPIPE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says of a call, by an interpreter of the few instructions that it has.
    fn verdict(
        code: &[libc::sock_filter],
        architecture: u32,
        number: i64,
        arguments: [u64; 6],
    ) -> u32 {
        let mut data = Vec::new();
        data.extend((number as u32).to_le_bytes());
        data.extend(architecture.to_le_bytes());
        data.extend(0_u64.to_le_bytes());
        arguments.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
        let (mut at, mut value) = (0, 0_u32);
        loop {
            let step = code[at];
            at += 1;
            let jump = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
            match step.code {
                LOAD => {
                    let from = step.k as usize;
                    value = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                EQUAL => at += jump(value == step.k),
                AT_LEAST => at += jump(value >= step.k),
                RETURN => return step.k,
                other => panic!("instruction {other}"),
            }
        }
    }

    #[test]
    fn long_calls_are_stopped_and_nothing_else() {
        let code = program(4096);
        let of = |number, arguments| verdict(&code, ARCHITECTURE, number, arguments);
        for call in &CALLS {
            let mut arguments = [0; 6];
            if let Some(argument) = call.bytes {
                arguments[usize::from(argument)] = 4095;
                assert_eq!(of(call.number, arguments), libc::SECCOMP_RET_ALLOW, "{}", call.name);
                arguments[usize::from(argument)] = 4096;
            }
            assert_eq!(of(call.number, arguments), libc::SECCOMP_RET_USER_NOTIF, "{}", call.name);
            let other = verdict(&code, ARCHITECTURE + 1, call.number, arguments);
            assert_eq!(other, libc::SECCOMP_RET_ALLOW);
        }
        assert_eq!(of(libc::SYS_execve, [u64::MAX; 6]), libc::SECCOMP_RET_ALLOW);
        let code = program_for(libc::SYS_getppid as u32);
        let of = |architecture, number| verdict(&code, architecture, number, [0; 6]);
        assert_eq!(of(ARCHITECTURE, libc::SYS_getppid), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(of(ARCHITECTURE, libc::SYS_getpid), libc::SECCOMP_RET_ALLOW);
        assert_eq!(of(ARCHITECTURE + 1, libc::SYS_getppid), libc::SECCOMP_RET_ALLOW);
    }
}
