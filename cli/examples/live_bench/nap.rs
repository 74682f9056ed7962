//! What a sleep costs on this machine that a timer or another CPU ends, however little is done between
//! two: the least that a worker pays that lets packets wait.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use ebb_host::Doorbell;
use ebb_host::wait::WaitSet;
use ebb_host::{clock, process};
use serde_json::{Value, json};

/// Sleep as a worker does and count the processor time of it
#[derive(Debug, Args)]
pub struct Nap {
    /// The CPU to sleep on
    #[arg(long)]
    cpu: usize,
    /// How long to sleep, microseconds
    #[arg(long, default_value_t = 150)]
    micros: u32,
    /// How often
    #[arg(long, default_value_t = 4000)]
    count: u32,
    /// The CPU that ends the sleeps; without it a timer does
    #[arg(long, value_name = "CPU")]
    by: Option<usize>,
}

impl Nap {
    pub fn run(self) -> Result<Value> {
        process::pin_to(self.cpu).context("--cpu")?;
        process::precise_timers();
        let bell = Doorbell::new().context("a doorbell")?;
        let span = Duration::from_micros(u64::from(self.micros));
        let over = AtomicBool::new(false);
        let (passed, used) = thread::scope(|scope| {
            if let Some(cpu) = self.by {
                let (bell, over) = (&bell, &over);
                scope.spawn(move || ring(cpu, span, bell, over));
            }
            let slept = self.sleep(&bell, self.by.is_none().then_some(span));
            over.store(true, Relaxed);
            slept
        });
        let count = f64::from(self.count.max(1));
        let mut told = json!({ "asked_us": self.micros, "cpu_us": used / count });
        if self.by.is_none() {
            told["late_us"] = json!(passed / count - f64::from(self.micros));
        }
        Ok(told)
    }

    /// Sleeps that often; microseconds that passed, and those of processor time.
    fn sleep(&self, bell: &Doorbell, span: Option<Duration>) -> (f64, f64) {
        let mut set = WaitSet::new();
        let (begun, used) = (clock::monotonic(), clock::thread_cpu());
        for _ in 0..self.count {
            set.clear();
            set.add(bell.fd());
            set.wait(span);
            if span.is_none() {
                bell.drain();
            }
        }
        let micros = |span: Duration| span.as_secs_f64() * 1e6;
        (micros(clock::monotonic().since(begun)), micros(clock::thread_cpu().since(used)))
    }
}

/// Wakes the sleeper from another CPU, which never sleeps itself.
fn ring(cpu: usize, span: Duration, bell: &Doorbell, over: &AtomicBool) {
    // Where it may not, it rings from where it is.
    _ = process::pin_to(cpu);
    let mut due = clock::monotonic();
    while !over.load(Relaxed) {
        due += span;
        while clock::monotonic() < due && !over.load(Relaxed) {
            std::hint::spin_loop();
        }
        bell.ring();
    }
}
