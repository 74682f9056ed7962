//! What a service tells its manager (systemd's `sd_notify`); nothing without a manager.

use std::time::Duration;

use sd_notify::NotifyState;

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// The service is up.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The service is about to read its configuration anew; [`ready`] follows.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The service is about to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The service's main process is another one from now on.
pub fn main_process(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// One line about the service's state.
pub fn status(line: &str) {
    tell(&[NotifyState::Status(line)]);
}

/// The service is alive.
pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often at least the manager wants to hear [`alive`], if at all.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}
