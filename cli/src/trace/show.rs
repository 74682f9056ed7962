//! `ebb trace show`: what a trace of memory references holds.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_memtrace::{Access, Kind};
use ebb_report::{Column, Report, Table, Terminal};

/// Pages counted exactly; beyond them only that there are more.
const PAGES_MAX: usize = 1 << 22;

/// Show the contents of a trace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb trace show program.ebbmem
  ebb trace show 429.mcf.gz --first 20
  ebb trace show program.ebbmem --json")]
pub struct Show {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// champsim, cloudsuite, lackey, din, ramulator, ramulator-memory, dynamorio, gem5 or compact [default: told
    /// from the name and the first bytes]
    #[arg(long)]
    format: Option<String>,
    /// Print this many references instead, one per line
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Sums {
    kinds: [u64; 3],
    instructions: u64,
    dependent: u64,
    threads: BTreeSet<u16>,
    pages: BTreeSet<u64>,
}

impl Sums {
    fn add(&mut self, access: &Access) {
        self.kinds[access.kind as usize] += 1;
        self.instructions += u64::from(access.instructions);
        self.dependent += u64::from(access.after > 0);
        self.threads.insert(access.thread);
        if self.pages.len() < PAGES_MAX {
            self.pages.insert(access.address >> 12);
        }
    }
}

impl Show {
    /// Shows.
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut reader = super::open(&self.trace, self.format.as_deref())?;
        if let Some(first) = self.first {
            return lines(&mut reader, first);
        }
        let mut sums = Sums::default();
        while let Some(access) = reader.access()? {
            sums.add(&access);
        }
        sums.instructions += reader.instructions_since();
        let [reads, writes, fetches] = sums.kinds;
        let mut table = Table::new("", [Column::text("what"), Column::count("count")]);
        let rows = [
            ("instructions", sums.instructions),
            ("reads", reads),
            ("writes", writes),
            ("fetches", fetches),
            ("dependent", sums.dependent),
            ("threads", sums.threads.len() as u64),
            ("pages", sums.pages.len() as u64),
        ];
        let format = reader.format().name();
        let mut report = Report::new(format!("{}: {format}", self.trace.display()));
        for (name, value) in rows {
            table.row([name.into(), value.into()]);
            report = report.figure(name, value);
        }
        let report = report.figure("format", format).table(table);
        if self.json {
            print!("{}", report.to_json());
        } else {
            print!("{}", report.to_terminal(&Terminal::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn lines(reader: &mut ebb_memtrace::Reader<'_>, first: u64) -> Result<ExitCode> {
    use std::io::Write;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for _ in 0..first {
        let Some(access) = reader.access()? else { break };
        let Access { address, instructions, size, after, thread, kind } = access;
        let kind = match kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Fetch => "fetch",
        };
        writeln!(
            out,
            "{kind} {address:#x} size {size} instructions {instructions} thread {thread} after {after}"
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
