//! What all processors of the machine did since it was started, from `/proc/stat`.

use std::collections::BTreeMap;
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

/// What single processors did since the machine was started: those that are online.
#[derive(Clone, Debug)]
pub struct EachProcessor {
    at: Time,
    times: BTreeMap<usize, Times>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Idle, stolen and given to guests' idling alike: not at work.
    idle: Duration,
    /// Interrupts and what they leave to be done at once.
    packets: Duration,
    /// Times that the network stack ran out of its budget, and packets that it dropped before it looked at them.
    squeezed: u64,
}

/// What one processor did in a while.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Share of its time in which it was not idle.
    pub busy: f64,
    /// In which it served interrupts and softirqs.
    pub packets: f64,
    /// Whether its network stack left packets behind.
    pub squeezed: bool,
}

impl EachProcessor {
    /// What is so far.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn now() -> io::Result<EachProcessor> {
        let stat = fs::read_to_string("/proc/stat")?;
        let softnet = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
        Ok(EachProcessor::read(&stat, &softnet, clock::monotonic()))
    }

    fn read(stat: &str, softnet: &str, at: Time) -> EachProcessor {
        let mut times: BTreeMap<usize, Times> = stat.lines().filter_map(times_of).collect();
        for (line, fields) in softnet.lines().enumerate() {
            let field = |index: usize| {
                let text = fields.split_whitespace().nth(index)?;
                u64::from_str_radix(text, 16).ok()
            };
            // Its number is told from Linux 5.10 on.
            let processor = field(12).map_or(line, |number| number as usize);
            if let Some(times) = times.get_mut(&processor) {
                times.squeezed = field(1).unwrap_or(0) + field(2).unwrap_or(0);
            }
        }
        EachProcessor { at, times }
    }

    /// What a processor did since `before`; nothing where it was not online all the time.
    #[must_use]
    pub fn since(&self, before: &EachProcessor, processor: usize) -> Share {
        let all = (self.at - before.at).as_secs_f64();
        let (Some(now), Some(then)) = (self.times.get(&processor), before.times.get(&processor))
        else {
            return Share::default();
        };
        let share = |now: Duration, then: Duration| {
            (now.saturating_sub(then).as_secs_f64() / all.max(1e-9)).clamp(0.0, 1.0)
        };
        let packets = share(now.packets, then.packets);
        Share {
            busy: (1.0 - share(now.idle, then.idle)).max(packets),
            packets,
            squeezed: now.squeezed > then.squeezed,
        }
    }
}

/// A line of `/proc/stat` about one processor: user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
fn times_of(line: &str) -> Option<(usize, Times)> {
    let rest =
        line.strip_prefix("cpu").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut fields = rest.split_whitespace();
    let processor = fields.next()?.parse().ok()?;
    let ticks: Vec<u32> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    let field = |index: usize| TICK * ticks.get(index).copied().unwrap_or(0);
    let idle = field(3) + field(4) + field(7);
    Some((processor, Times { idle, packets: field(5) + field(6), squeezed: 0 }))
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

    #[test]
    fn each_processor_has_its_own_times() {
        let stat = |idle: u32, softirq: u32| {
            format!(
                "cpu  1 1 1 1 1 1 1 1\ncpu0 9 0 9 100 0 0 0 0\ncpu2 5 0 5 {idle} 0 10 {softirq} 0\n"
            )
        };
        let line = |squeezed: u32, cpu: u32| {
            format!("00000001 00000000 {squeezed:08x} 0 0 0 0 0 0 0 0 0 {cpu:08x} 0 0\n")
        };
        let softnet = |squeezed| format!("{}{}", line(0, 0), line(squeezed, 2));
        let at = Time::from_secs_f64;
        let before = EachProcessor::read(&stat(100, 10), &softnet(7), at(1.0));
        let after = EachProcessor::read(&stat(140, 60), &softnet(8), at(2.0));
        let seen = after.since(&before, 2);
        assert!((seen.busy - 0.6).abs() < 1e-9 && (seen.packets - 0.5).abs() < 1e-9, "{seen:?}");
        assert!(seen.squeezed && !after.since(&before, 0).squeezed);
        assert_eq!(after.since(&before, 1), Share::default(), "offline");
        assert_eq!(after.since(&after, 2).packets, 0.0, "no time at all");
    }
}
