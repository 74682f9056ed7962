//! Days, nights and queues as a timeline.

use ebb_report::{Timeline, Track};

/// Watches one run.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    timeline: Timeline<Vec<u8>>,
    switch: Track,
    queues: Track,
    racks: Vec<(Track, String)>,
}

/// Of nanoseconds.
fn picos(nanos: f64) -> u64 {
    (nanos * 1e3).round() as u64
}

impl Watch {
    pub(super) fn new(mut timeline: Timeline<Vec<u8>>, racks: usize) -> Watch {
        let switch = timeline.track("switch", "days and nights");
        let rack = |rack: usize| {
            let name = format!("rack {rack}");
            let track = timeline.track("circuits", &name);
            (track, name + ": frames waiting")
        };
        let racks = (0..racks).map(rack).collect();
        let queues = timeline.track("queues", "queues");
        Watch { timeline, switch, queues, racks }
    }

    /// A circuit from a rack stood for a day, over which frames arrived or were lost.
    pub(super) fn circuit(
        &mut self,
        (now_ns, day_ns): (f64, f64),
        from: usize,
        to: usize,
        [arrived, lost]: [u64; 2],
    ) {
        let details = [("arrived", arrived as f64), ("lost", lost as f64)];
        let (begin, end) = (picos(now_ns), picos(now_ns + day_ns));
        self.timeline.slice(self.racks[from].0, &format!("to rack {to}"), begin, end, &details);
    }

    /// A day ended, before which there was a night.
    pub(super) fn day(
        &mut self,
        now_ns: f64,
        day_ns: f64,
        night_ns: f64,
        waiting: impl Iterator<Item = u64>,
        by_packets: u64,
    ) {
        let (begin, end) = (picos(now_ns), picos(now_ns + day_ns));
        if night_ns > 0.0 {
            self.timeline.slice(self.switch, "night", picos(now_ns - night_ns), begin, &[]);
        }
        self.timeline.slice(self.switch, "day", begin, end, &[]);
        for ((_, name), frames) in self.racks.iter().zip(waiting) {
            self.timeline.counter(self.queues, name, end, frames as f64);
        }
        self.timeline.counter(self.queues, "by the packet switch, frames", end, by_packets as f64);
    }

    pub(super) fn finish(self) -> Timeline<Vec<u8>> {
        self.timeline
    }
}
