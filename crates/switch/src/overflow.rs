//! A continuation that outgrows its stack ends alone.
//!
//! Below every stack lies a page that nothing may touch. The handler of the fault finds that the address
//! belongs to the stack of the continuation that this thread runs and makes it return; every other fault
//! is passed on to who handled it before.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use corosensei::trap::CoroutineTrapHandler;

/// How a continuation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its body returned or panicked; which of the two is in its result.
    Whole,
    /// It ran into its guard page.
    Overflow,
}

type Trap = CoroutineTrapHandler<Ended>;

thread_local! {
    /// The continuation that this thread runs. Constant and without a destructor: a signal handler may
    /// read it.
    static RUNNING: Cell<Option<Trap>> = const { Cell::new(None) };
}

/// Who handled faults before us.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Runs `work`, which runs the continuation of `trap`.
pub(crate) fn watched<R>(trap: Trap, work: impl FnOnce() -> R) -> R {
    let outer = RUNNING.replace(Some(trap));
    let result = work();
    RUNNING.set(outer);
    result
}

/// Installs the handler, once. It runs on the signal stack that the standard library gives each thread.
pub(crate) fn watch() {
    BEFORE.get_or_init(|| {
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: all zeroes is a valid value of this plain structure.
        let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        ours.sa_sigaction = on_fault as *const () as usize;
        // SAFETY: a valid action whose handler is async-signal-safe: it reads a thread-local cell without
        // destructor and a lock that is no lock any more once it is set.
        unsafe {
            libc::sigemptyset(&mut ours.sa_mask);
            libc::sigaction(libc::SIGSEGV, &ours, before.as_mut_ptr());
            before.assume_init()
        }
    });
}

extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands valid pointers to a handler with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(trap) = RUNNING.get().filter(|trap| trap.stack_ptr_in_bounds(address)) {
        // SAFETY: `context` is this thread's, and the continuation of `trap` runs on it: it is the one that
        // faulted, in the guard page, the only part of a stack that can.
        unsafe { leave(trap, context) };
        return;
    }
    pass_on(signal, info, context);
}

/// Makes the faulting continuation return.
///
/// # Safety
/// `trap` is of the continuation that faulted, `context` the fault's.
#[cfg(target_arch = "x86_64")]
unsafe fn leave(trap: Trap, context: *mut libc::c_void) {
    // SAFETY: by this function's own condition.
    unsafe {
        let registers = trap.setup_trap_handler(|| Ended::Overflow);
        let general = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        general[libc::REG_RIP as usize] = registers.rip as i64;
        general[libc::REG_RSP as usize] = registers.rsp as i64;
        general[libc::REG_RBP as usize] = registers.rbp as i64;
        general[libc::REG_RDI as usize] = registers.rdi as i64;
        general[libc::REG_RSI as usize] = registers.rsi as i64;
    }
}

/// Elsewhere the registers have other names: the process ends as it would have.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn leave(_trap: Trap, _context: *mut libc::c_void) {
    std::process::abort();
}

fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().filter(|before| before.sa_sigaction > libc::SIG_IGN);
    match before {
        Some(before) if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the flag says that this is a handler of that signature.
            let handler: Handler = unsafe { std::mem::transmute(before.sa_sigaction) };
            handler(signal, info, context);
        }
        // SAFETY: resets the signal; the instruction faults again and ends the process as by default.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}
