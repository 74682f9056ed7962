//! Memory references a second: through all caches, behind them, and 16 cores in one run. Seconds are
//! those of the thread on a processor, so that other programs disturb them less.
//!
//! `cargo bench -p ebb-system-gating` prints a table and one JSON line; in a test build it runs small.

use ebb_memtrace::{Access, Kind, TraceError};
use ebb_system_gating::compare::Comparison;
use ebb_system_gating::machine::{Feed, Machine, MachineSettings};

/// A walk over `span` bytes, in steps of 8 bytes or, far, of odd lines.
struct Walk {
    base: u64,
    at: u64,
    span: u64,
    step: u64,
    instructions: u32,
    left: u64,
}

impl Feed for Walk {
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError> {
        let count = self.left.min(4096);
        self.left -= count;
        for _ in 0..count {
            self.at = (self.at + self.step) % self.span;
            into.push(Access {
                instructions: self.instructions,
                ..Access::new(Kind::Read, self.base + self.at)
            });
        }
        Ok(())
    }
}

struct Case {
    name: &'static str,
    span: u64,
    step: u64,
    instructions: u32,
    cores: usize,
    filtered: bool,
    controllers: &'static [&'static str],
}

const CASES: [Case; 6] = [
    Case {
        name: "L1 hits",
        span: 16 << 10,
        step: 8,
        instructions: 3,
        cores: 1,
        filtered: false,
        controllers: &[],
    },
    Case {
        name: "a stream over 6 MiB",
        span: 6 << 20,
        step: 8,
        instructions: 3,
        cores: 1,
        filtered: false,
        controllers: &[],
    },
    Case {
        name: "L2 and L3 hits",
        span: 4 << 20,
        step: 64 * 129,
        instructions: 20,
        cores: 1,
        filtered: false,
        controllers: &[],
    },
    Case {
        name: "every reference to memory",
        span: 1 << 32,
        step: 64 * 12_289,
        instructions: 200,
        cores: 1,
        filtered: false,
        controllers: &[],
    },
    Case {
        name: "the same, all controllers that gate",
        span: 1 << 32,
        step: 64 * 12_289,
        instructions: 200,
        cores: 1,
        filtered: false,
        controllers: &["oracle", "counter", "tap", "fupg", "cyclic", "hybrid"],
    },
    Case {
        name: "16 cores, a stream each",
        span: 6 << 20,
        step: 8,
        instructions: 3,
        cores: 16,
        filtered: false,
        controllers: &[],
    },
];

/// Seconds this thread has run, from the kernel's scheduler.
fn cpu_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = statistics.split(' ').next().and_then(|text| text.parse().ok());
    nanos.map_or(f64::NAN, |nanos: f64| nanos * 1e-9)
}

fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let mut rates = serde_json::Map::new();
    println!("{:<40} {:>12}", "case", "million/s");
    for case in CASES {
        let each = if small {
            20_000
        } else {
            20_000_000 / case.cores as u64 / if case.step > 8 { 8 } else { 1 }
        };
        let settings = MachineSettings {
            cores: case.cores,
            filtered: case.filtered,
            ..MachineSettings::default()
        };
        let feed = |core: usize| Walk {
            base: (core as u64) << 40,
            at: 0,
            span: case.span,
            step: case.step,
            instructions: case.instructions,
            left: each,
        };
        let start = cpu_seconds();
        if case.controllers.is_empty() {
            let feeds = (0..case.cores).map(|core| Box::new(feed(core)) as Box<dyn Feed>).collect();
            Machine::new(&settings, feeds, 1_000_000).run(&mut (), &mut |_| true).expect("no file");
        } else {
            let comparison = Comparison {
                controllers: case.controllers.iter().map(|name| (*name).to_owned()).collect(),
                ..Comparison::new(settings)
            };
            let feeds = |core: usize| Ok(Box::new(feed(core)) as Box<dyn Feed>);
            comparison.run(&feeds, &|_| true).expect("no file");
        }
        let rate = (each * case.cores as u64) as f64 / (cpu_seconds() - start) / 1e6;
        println!("{:<40} {rate:>12.2}", case.name);
        rates.insert(case.name.to_owned(), rate.into());
    }
    println!("{}", serde_json::json!({ "bench": "gating references", "million_per_s": rates }));
}
