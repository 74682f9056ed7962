//! What a timed sleep costs on this machine, however little is done between two: the least that a
//! worker pays that lets packets wait.

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
}

impl Nap {
    pub fn run(self) -> Result<Value> {
        process::pin_to(self.cpu).context("--cpu")?;
        process::precise_timers();
        let bell = Doorbell::new().context("a doorbell")?;
        let span = Duration::from_micros(u64::from(self.micros));
        let mut set = WaitSet::new();
        let (begun, used) = (clock::monotonic(), clock::thread_cpu());
        for _ in 0..self.count {
            set.clear();
            set.add(bell.fd());
            set.wait(Some(span));
        }
        let used = clock::thread_cpu().since(used).as_secs_f64() * 1e6;
        let passed = clock::monotonic().since(begun).as_secs_f64() * 1e6;
        let count = f64::from(self.count.max(1));
        Ok(json!({
            "asked_us": self.micros,
            "late_us": passed / count - f64::from(self.micros),
            "cpu_us": used / count,
        }))
    }
}
