//! What the machine itself took away during a measurement: pauses and stolen time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use ebb_host::{clock, process};
use ebb_units::Time;

/// A generator that was away for longer than this does not send what it missed: the burst would
/// be its own, not the load's.
pub const PAUSE: Duration = Duration::from_millis(1);
/// How often the canary looks.
const EVERY: Duration = Duration::from_millis(5);

/// When packets are due, at a constant rate but for what was missed in pauses.
pub struct Schedule {
    rate: f64,
    begun: Time,
    seen: Time,
    /// Time in which nothing became due.
    lost: Duration,
    /// Of that, the machine's pauses.
    away: Duration,
    /// Number of pauses.
    pub pauses: u64,
}

impl Schedule {
    /// So many packets a second from `now` on.
    pub fn new(rate: f64, now: Time) -> Schedule {
        Schedule {
            rate,
            begun: now,
            seen: now,
            lost: Duration::ZERO,
            away: Duration::ZERO,
            pauses: 0,
        }
    }

    /// Packets due by `now`.
    pub fn due(&mut self, now: Time) -> u64 {
        let gap = now.since(std::mem::replace(&mut self.seen, now));
        if gap > PAUSE {
            self.lost += gap;
            self.away += gap;
            self.pauses += 1;
        }
        let span = now.since(self.begun).saturating_sub(self.lost);
        (span.as_secs_f64() * self.rate) as u64
    }

    /// The generator was away until `now` for reasons of its own: nothing is due for that time, and
    /// it counts as no pause.
    pub fn excuse(&mut self, now: Time) {
        self.lost += now.since(std::mem::replace(&mut self.seen, now));
    }

    /// Packets that were never sent for pauses.
    pub fn dropped(&self) -> u64 {
        (self.away.as_secs_f64() * self.rate) as u64
    }
}

/// A thread on a CPU that wakes every few milliseconds before anything else there, and so notices
/// when that CPU stood still.
pub struct Canary {
    stop: Arc<AtomicBool>,
    /// Latest wake-up in nanoseconds after it was due.
    worst: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Canary {
    /// Begins to watch `cpu`.
    pub fn watch(cpu: usize) -> Canary {
        let (stop, worst) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (asked, seen) = (stop.clone(), worst.clone());
        let thread = std::thread::spawn(move || {
            _ = process::pin_to(cpu);
            process::precise_timers();
            process::before_others(1);
            while !asked.load(Relaxed) {
                let due = clock::monotonic() + EVERY;
                std::thread::sleep(EVERY);
                seen.fetch_max(clock::monotonic().since(due).as_nanos() as u64, Relaxed);
            }
        });
        Canary { stop, worst, thread: Some(thread) }
    }

    /// Forgets what it saw.
    pub fn reset(&self) {
        self.worst.store(0, Relaxed);
    }

    /// The longest it was late.
    pub fn late(&self) -> Duration {
        Duration::from_nanos(self.worst.load(Relaxed))
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Processor time since boot that the hypervisor gave to others (`steal` of `/proc/stat`), and all
/// of it, in ticks.
pub fn stolen() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    (fields.get(7).copied().unwrap_or(0), fields.iter().take(8).sum())
}
