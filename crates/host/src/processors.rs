//! What all processors of the machine did since it was started, from `/proc/stat`.

use std::fs;
use std::io;
use std::time::Duration;

use ebb_units::Time;

use crate::clock;

/// Length of the unit that the kernel tells times in (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// A reading, to be compared with a later one.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    at: Time,
    count: u32,
    idle: Duration,
    stolen: Duration,
}

impl Processors {
    /// What is so far.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn now() -> io::Result<Processors> {
        Ok(Processors::read(&fs::read_to_string("/proc/stat")?, clock::monotonic()))
    }

    fn read(text: &str, at: Time) -> Processors {
        let numbered = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let count = text.lines().filter(numbered).count() as u32;
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u32> =
            line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
        let field = |index: usize| TICK * ticks.get(index).copied().unwrap_or(0);
        Processors { at, count, idle: field(3) + field(4), stolen: field(7) }
    }

    /// Time that they were busy since `before`, all together. It is counted from the time that they were idle, to
    /// which the kernel looks at each sleep and wake-up: the times of work are sampled by ticks, and who works
    /// between two ticks has none.
    #[must_use]
    pub fn busy_since(&self, before: &Processors) -> Duration {
        let all = (self.at - before.at) * self.count;
        all.saturating_sub(self.idle.saturating_sub(before.idle))
            .saturating_sub(self.stolen.saturating_sub(before.stolen))
    }

    /// Share of their time that the hypervisor gave to others since `before`.
    #[must_use]
    pub fn stolen_since(&self, before: &Processors) -> f64 {
        let all = (self.at - before.at) * self.count;
        self.stolen.saturating_sub(before.stolen).as_secs_f64() / all.as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_idle_nor_stolen_is_busy() {
        let text = |idle, wait, stolen| {
            format!("cpu  9 9 9 {idle} {wait} 9 9 {stolen} 0 0\ncpu0 1 2\ncpu1 1 2\nintr 5\n")
        };
        let before = Processors::read(&text(1000, 100, 10), Time::from_secs_f64(5.0));
        let after = Processors::read(&text(1120, 120, 20), Time::from_secs_f64(6.0));
        assert_eq!(
            after.busy_since(&before),
            Duration::from_millis(500),
            "2 s, 1.4 idle, 0.1 stolen"
        );
        assert!((after.stolen_since(&before) - 0.05).abs() < 1e-9);
        assert_eq!(before.busy_since(&after), Duration::ZERO, "no panic on what cannot be");
    }

    #[test]
    fn this_machine_says_something() {
        let before = Processors::now().expect("/proc");
        let began = clock::monotonic();
        while clock::monotonic() - began < Duration::from_millis(60) {}
        let busy = Processors::now().expect("/proc").busy_since(&before);
        assert!(before.count > 0 && busy >= Duration::from_millis(20), "{busy:?}");
    }
}
