//! `ebb switch run`: an unmodified program, its long system calls on another core.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use ebb_host::process;
use ebb_report::{Column, Report, Table, Terminal, write_file};
use ebb_switch::syscalls::{self, Moved, Options};

/// Run an unmodified program with its long system calls on another core
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb switch run --os-core 1 -- PROGRAM ARGUMENTS
  ebb switch run --os-core 1 --compare 5 -- cp FILE COPY
  ebb switch run --os-core 1 --bytes-min 65536 --report DIR -- sort FILE

The kernel stops the program, and all that it starts, at reads, writes, copies and flushes of regular
files (seccomp user notification, Linux 5.19); a thread on the other core makes the call. A moved call
costs two wake-ups by the kernel, the helper's own calls and a copy of the data, tens of microseconds on
most machines: shorter calls become slower, by the printed amount. Calls that may block for ever and
those below --bytes-min are not moved, nor those of a process whose user, groups or capabilities are not
those of ebb. If ebb is killed with SIGKILL, calls that are being moved fail in the
program (ENOSYS). Without root, set-user-ID programs run as you. The exit status is the program's, 128
and the signal's number where one ended it.")]
pub struct Run {
    /// CPU for system calls; the program gets all others
    #[arg(long, value_name = "CPU")]
    os_core: usize,
    /// Least bytes of a read, write or copy that is moved
    #[arg(long, value_name = "N", default_value_t = 4096)]
    bytes_min: u32,
    /// Threads that make the calls; a call that waits for a disk blocks one
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// Run it N times with and N times without, in turn, and compare
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    compare: Option<u16>,
    /// Directory for a page with the figures
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Do not write figures to standard error
    #[arg(long, short)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// One run of the program.
struct Once {
    elapsed: Duration,
    /// Of the program.
    program_cpu: Duration,
    /// Of the threads on the system's core.
    helper_cpu: Duration,
}

impl Run {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode> {
        let options = Options {
            os_core: self.os_core,
            bytes_min: self.bytes_min,
            servers: usize::from(self.servers),
        };
        let mut with = Vec::new();
        let mut without = Vec::new();
        let mut calls: BTreeMap<&'static str, Moved> = BTreeMap::new();
        let mut status = ExitStatus::default();
        for _ in 0..self.compare.unwrap_or(1) {
            if self.compare.is_some() {
                let (once, report) = self.once(&options, false)?;
                without.push(once);
                if !report.status.success() {
                    return Ok(exit_code(report.status));
                }
            }
            let (once, report) = self.once(&options, true)?;
            with.push(once);
            calls = report.calls;
            status = report.status;
            if !status.success() {
                break;
            }
        }
        let report = self.figures(&with, &without, &calls);
        if !self.quiet {
            eprint!("{}", report.to_terminal(&Terminal::plain()));
        }
        if let Some(place) = &self.report {
            report.save(place)?;
            write_file(&place.join("figures.json"), report.to_json().as_bytes())?;
        }
        Ok(exit_code(status))
    }

    fn once(&self, options: &Options, moved: bool) -> Result<(Once, syscalls::Report)> {
        let (program, arguments) = (&self.program[0], &self.program[1..]);
        let (own, children) = (process::cpu_time(), process::cpu_time_of_children());
        let report = if moved {
            syscalls::run(options, program, arguments)?
        } else {
            syscalls::run_plain(options, program, arguments)?
        };
        let once = Once {
            elapsed: report.elapsed,
            program_cpu: process::cpu_time_of_children().since(children).total(),
            helper_cpu: process::cpu_time().since(own).total(),
        };
        Ok((once, report))
    }

    fn figures(&self, with: &[Once], without: &[Once], calls: &BTreeMap<&str, Moved>) -> Report {
        let columns = [
            Column::text("call"),
            Column::count("moved"),
            Column::count("left"),
            Column::number("moved", "MB", 3),
            Column::number("each", "µs", 2),
        ];
        let title = format!("Calls on CPU {} (last run)", self.os_core);
        let mut table = Table::new(title, columns);
        for (name, call) in calls {
            table.row([
                (*name).into(),
                call.moved.into(),
                call.left.into(),
                (call.bytes as f64 / 1e6).into(),
                (call.ns as f64 / 1e3 / call.moved.max(1) as f64).into(),
            ]);
        }
        let program = self.program[0].to_string_lossy();
        let mut report =
            Report::new(format!("{program} with its system calls on CPU {}", self.os_core));
        let moved: u64 = calls.values().map(|call| call.moved).sum();
        report = report.table(table).figure("moved", moved);
        let columns = [
            Column::text(""),
            Column::number("time", "ms", 2),
            Column::number("program's CPU", "ms", 2),
            Column::number("system core's CPU", "ms", 2),
        ];
        let mut table = Table::new("Medians", columns);
        let mut median = |name: &str, runs: &[Once]| {
            let of = |value: fn(&Once) -> Duration| {
                let mut values: Vec<f64> =
                    runs.iter().map(|run| value(run).as_secs_f64() * 1e3).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let elapsed = of(|run| run.elapsed);
            let cells = [of(|run| run.program_cpu), of(|run| run.helper_cpu)];
            table.row([name.into(), elapsed.into(), cells[0].into(), cells[1].into()]);
            elapsed
        };
        let moved_ms = median("calls on the other core", with);
        let plain_ms = (!without.is_empty()).then(|| median("calls where they are", without));
        report = report.table(table).figure_in("ms", "elapsed_ms", moved_ms);
        if let Some(plain_ms) = plain_ms {
            let ratio = moved_ms / plain_ms;
            let word = if ratio > 1.0 { "longer" } else { "shorter" };
            report = report
                .text(format!("Moving took {:.1} % {word}.", 100.0 * (ratio - 1.0).abs()))
                .figure_in("ms", "elapsed_plain_ms", plain_ms)
                .figure("elapsed_over_plain", ratio);
        }
        report
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
