//! Ctrl-C and SIGTERM of commands that run for long.

use std::io;

use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::WaitSet;

/// Takes Ctrl-C and SIGTERM out of the kernel's hands. To be called before any thread starts.
///
/// # Errors
/// When the process has too many descriptors.
pub fn interrupt_signals() -> io::Result<Signals> {
    Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

/// Calls `act` in a thread of its own at the first signal; the third ends the process at once.
///
/// # Errors
/// When no thread can be started.
pub fn on_interrupt(mut signals: Signals, act: impl Fn() + Send + 'static) -> io::Result<()> {
    let watch = move || {
        let mut wait = WaitSet::new();
        wait.add(signals.fd());
        let mut seen = 0;
        loop {
            wait.wait(None);
            while let Ok(Some(_)) = signals.take() {
                seen += 1;
                if seen == 1 {
                    act();
                } else if seen > 2 {
                    std::process::exit(130);
                }
            }
        }
    };
    std::thread::Builder::new().name("ebb-interrupt".into()).spawn(watch)?;
    Ok(())
}
