//! Memory references a second: through all caches, behind them, and 16 cores in one run. Seconds are
//! those of the thread on a processor, so that other programs disturb them less. Beside it Cachegrind, on
//! the references of the same program, if valgrind is there.
//!
//! `cargo bench -p ebb-system-gating` prints a table and one JSON line; in a test build it runs small.

use std::process::{Command, Stdio};

use ebb_memtrace::{Access, Format, Kind, Reader, TraceError};
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
    /// Million references a second that it is to reach, if it is held to any.
    goal: Option<f64>,
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
        goal: Some(20.0),
    },
    Case {
        name: "a stream over 6 MiB",
        span: 6 << 20,
        step: 8,
        instructions: 3,
        cores: 1,
        filtered: false,
        controllers: &[],
        goal: Some(20.0),
    },
    Case {
        name: "L2 and L3 hits",
        span: 4 << 20,
        step: 64 * 129,
        instructions: 20,
        cores: 1,
        filtered: false,
        controllers: &[],
        goal: None,
    },
    Case {
        name: "every reference to memory",
        span: 1 << 32,
        step: 64 * 12_289,
        instructions: 200,
        cores: 1,
        filtered: false,
        controllers: &[],
        goal: Some(5.0),
    },
    Case {
        name: "the same, all controllers that gate",
        span: 1 << 32,
        step: 64 * 12_289,
        instructions: 200,
        cores: 1,
        filtered: false,
        controllers: &["oracle", "counter", "tap", "fupg", "cyclic", "hybrid"],
        goal: None,
    },
    Case {
        name: "16 cores, a stream each",
        span: 6 << 20,
        step: 8,
        instructions: 3,
        cores: 16,
        filtered: false,
        controllers: &[],
        goal: Some(20.0),
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
    println!("{:<40} {:>12} {:>8}", "case", "million/s", "goal");
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
        let held = case.goal.map_or(String::new(), |goal| {
            format!("{goal:>8} {}", if rate >= goal { "met" } else { "missed" })
        });
        println!("{:<40} {rate:>12.2} {held}", case.name);
        rates.insert(case.name.to_owned(), rate.into());
    }
    match beside_cachegrind(small) {
        Some((ours, theirs)) => {
            println!("{:<40} {ours:>12.2}", "`sort`, recorded: caches and memory");
            println!("{:<40} {theirs:>12.2}", "the same by Cachegrind: two levels");
            rates.insert("sort".to_owned(), ours.into());
            rates.insert("sort by Cachegrind".to_owned(), theirs.into());
        }
        None => println!("no valgrind: not compared with Cachegrind"),
    }
    println!("{}", serde_json::json!({ "bench": "gating references", "million_per_s": rates }));
}

/// Seconds that programs started here and ended have run, from the kernel, in hundredths.
fn children_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(13).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// What a tool of valgrind says of sorting a file, and the seconds it ran.
fn valgrind(tool: &[&str], file: &str) -> Option<(Vec<u8>, f64)> {
    let mut command = Command::new("valgrind");
    command.args(tool).args(["--", "sort", "-r", "-S", "8M", "--parallel=1", file]);
    let before = children_seconds();
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| (output.stderr, children_seconds() - before))
}

/// Million references (instructions and data) of a program a second: ours from a recording, through
/// caches and memory; Cachegrind's beyond what valgrind takes by itself.
fn beside_cachegrind(small: bool) -> Option<(f64, f64)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let name = if small { "rustfmt.toml" } else { "Cargo.lock" };
    let file = format!("{root}/{name}");
    let (_, alone) = valgrind(&["--tool=none"], &file)?;
    let quiet = ["--tool=cachegrind", "--cachegrind-out-file=/dev/null"];
    let (_, theirs) = valgrind(&quiet, &file)?;
    let (lines, _) = valgrind(&["--tool=lackey", "--trace-mem=yes"], &file)?;
    let kinds: [&[u8]; 4] = [b"I  ", b" L ", b" S ", b" M "];
    let is_reference = |line: &&[u8]| kinds.iter().any(|kind| line.starts_with(kind));
    let references = lines.split(|byte| *byte == b'\n').filter(is_reference).count() as f64 / 1e6;
    let trace: Result<Vec<Access>, _> =
        Reader::new("lackey", &lines[..], Some(Format::Lackey)).ok()?.collect();
    let feeds: Vec<Box<dyn Feed>> = vec![Box::new(Recorded { trace: trace.ok()?, at: 0 })];
    let start = cpu_seconds();
    let mut machine = Machine::new(&MachineSettings::default(), feeds, 1_000_000);
    machine.run(&mut (), &mut |_| true).expect("no file");
    Some((references / (cpu_seconds() - start), references / (theirs - alone).max(0.01)))
}

/// References that were recorded.
struct Recorded {
    trace: Vec<Access>,
    at: usize,
}

impl Feed for Recorded {
    fn fill(&mut self, into: &mut Vec<Access>) -> Result<(), TraceError> {
        let to = self.trace.len().min(self.at + 4096);
        into.extend_from_slice(&self.trace[self.at..to]);
        self.at = to;
        Ok(())
    }
}
