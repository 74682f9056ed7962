//! What a service tells its manager (systemd's `sd_notify`); nothing without a manager.

use std::time::Duration;

use ebb_units::Time;
use sd_notify::NotifyState;

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, code = "EBB-H012", "cannot notify the service manager");
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

/// What the manager hears of a service while it gets on: that it is up, once, and then that it is alive, three times in
/// the manager's patience.
#[derive(Debug)]
pub struct Heartbeat {
    every: Option<Duration>,
    told: Option<Time>,
}

impl Heartbeat {
    /// One that has told nothing yet.
    pub fn new() -> Heartbeat {
        Heartbeat::every(watchdog().map(|patience| patience / 3))
    }

    fn every(every: Option<Duration>) -> Heartbeat {
        Heartbeat { every, told: None }
    }

    /// The service gets on.
    pub fn beat(&mut self, now: Time) {
        if self.told.is_none() {
            ready();
        }
        if self.is_due(now) {
            alive();
        }
    }

    fn is_due(&mut self, now: Time) -> bool {
        let begins = self.told.is_none();
        let due = |every: Duration| self.told.is_none_or(|told| now.since(told) >= every);
        let due = self.every.is_some_and(due);
        if begins || due {
            self.told = Some(now);
        }
        due
    }
}

impl Default for Heartbeat {
    fn default() -> Heartbeat {
        Heartbeat::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_often_enough_and_not_all_the_time() {
        let beats = |every| {
            let mut heartbeat = Heartbeat::every(every);
            let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
            (0..1000).filter(|ms| heartbeat.is_due(at(5000 + ms * 10))).collect::<Vec<_>>()
        };
        assert_eq!(beats(Some(Duration::from_secs(3))), [0, 300, 600, 900]);
        assert!(beats(None).is_empty(), "nobody wants to hear it");
    }
}
