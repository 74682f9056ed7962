//! Stops one thread of a running program.

use std::process::{Child, Command, Stdio};

/// Has stopped a thread; lets it go when dropped. Nobody could wait for the end of the thread's process before.
pub struct Debugger(Child);

impl Drop for Debugger {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("ended");
    }
}

/// Stops thread `name` of a process as a debugger does.
pub fn stop_thread(pid: u32, name: &str) -> Debugger {
    const PROGRAM: &str = "
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for thread in map(int, os.listdir(f'/proc/{sys.argv[1]}/task')):
    if open(f'/proc/{sys.argv[1]}/task/{thread}/comm').read().strip() == sys.argv[2]:
        # PTRACE_SEIZE and PTRACE_INTERRUPT.
        if libc.ptrace(0x4206, thread, None, None) or libc.ptrace(0x4207, thread, None, None):
            sys.exit('not permitted')
time.sleep(600)
";
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "python3", "-c", PROGRAM, &pid.to_string(), name]);
    Debugger(command.stdin(Stdio::null()).spawn().expect("setpriv (util-linux) and python3 run"))
}
