use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use ebb_memtrace::{Access, Format, Kind, Reader, Writer};

use super::lookups::Lookups;

/// Record what a program reads, writes and fetches, by valgrind
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb trace record -o sort.ebbmem -- sort /usr/share/dict/words
  ebb trace record -o router.ebbmem --router --routes ipv4.txt.gz --locality hot
  ebb trace record -o gzip.ebbmem --skip 5 --millions 20 -- gzip -k -c /usr/bin/perl

The program runs under valgrind's lackey, some hundred times slower than by itself; its input and
output are its own. The program ends when the window does. valgrind runs one thread at a time and
does not say which: all references are thread 0.")]
pub struct Record {
    /// The compact trace
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Million instructions left out at the beginning
    #[arg(long, value_name = "MILLIONS", default_value_t = 0.0)]
    skip: f64,
    /// Million instructions recorded at most; 0 for all
    #[arg(long, default_value_t = 0.0)]
    millions: f64,
    /// Replace a file of that name
    #[arg(long)]
    force: bool,
    /// Record Ebb's own look-up of destinations instead of a program: the table is built first, what
    /// is recorded begins after that
    #[arg(long)]
    router: bool,
    #[command(flatten)]
    lookups: Lookups,
    /// The program and its arguments
    #[arg(
        last = true,
        required_unless_present = "router",
        conflicts_with = "router",
        value_name = "PROGRAM ARGS"
    )]
    program: Vec<String>,
}

impl Record {
    /// Records.
    pub(super) fn run(self) -> Result<ExitCode> {
        for (flag, value) in [("--skip", self.skip), ("--millions", self.millions)] {
            if !(0.0..=1e9).contains(&value) {
                bail!("{flag}: {value} is no number of million instructions from 0");
            }
        }
        let out = super::create(&self.out, self.force)?;
        let (pipe, written) = std::io::pipe().context("no pipe")?;
        let mut child = self.start(written.as_raw_fd())?;
        let (mark, told) = (AtomicU64::new(0), child.stdout.take());
        let child = Mutex::new(child);
        let result = std::thread::scope(|scope| {
            // valgrind opens the pipe by its path; ours stays open until then, and a read sees the
            // end of the trace once both are closed.
            scope.spawn(|| {
                while matches!(child.lock().map(|mut child| child.try_wait()), Ok(Ok(None))) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                drop(written);
            });
            if let Some(told) = told {
                let mark = &mark;
                scope.spawn(move || listen(told, mark));
            }
            let result = self.keep(pipe, out, &mark);
            if let Ok(mut child) = child.lock() {
                let _ = child.kill();
                let _ = child.wait();
            }
            result
        });
        let (records, instructions) = match result {
            Ok(kept) => kept,
            Err(error) => {
                let _ = std::fs::remove_file(&self.out);
                return Err(error);
            }
        };
        if records == 0 {
            let _ = std::fs::remove_file(&self.out);
            bail!("nothing was recorded: the program could not be run, or ended within --skip");
        }
        println!(
            "{}: {records} references, {:.1} million instructions",
            self.out.display(),
            instructions as f64 / 1e6
        );
        Ok(ExitCode::SUCCESS)
    }

    fn start(&self, written: i32) -> Result<Child> {
        let log = format!("--log-file=/proc/{}/fd/{written}", std::process::id());
        let mut command = Command::new("valgrind");
        command.args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", &log, "--"]);
        if self.router {
            command.arg(std::env::current_exe().context("this program has no path")?);
            command.args(self.lookups.arguments()).stdout(Stdio::piped());
        } else {
            command.args(&self.program);
        }
        command
            .spawn()
            .map_err(|error| anyhow!("valgrind cannot be run ({error}): apt-get install valgrind"))
    }

    /// The window, into the file; references and instructions.
    fn keep(
        &self,
        pipe: impl Read + Send,
        out: std::fs::File,
        mark: &AtomicU64,
    ) -> Result<(u64, u64)> {
        let mut reader = Reader::new("valgrind", pipe, Some(Format::Lackey))?;
        let mut writer = Writer::new(out)?;
        let (skip, most) = ((self.skip * 1e6) as u64, (self.millions * 1e6) as u64);
        let (mut seen, mut kept, mut marked) = (0, 0, false);
        while let Some(access) = reader.access()? {
            if access.kind == Kind::Write && self.router && access.address == mark.load(SeqCst) {
                if marked {
                    break;
                }
                marked = true;
                continue;
            }
            if self.router && !marked {
                continue;
            }
            seen += u64::from(access.instructions);
            if seen <= skip {
                continue;
            }
            kept += u64::from(access.instructions);
            writer.push(Access { thread: 0, ..access })?;
            if most > 0 && kept >= most {
                break;
            }
        }
        let records = writer.records();
        writer.finish()?;
        Ok((records, kept))
    }
}

/// Waits for the address of the mark, which a run of `ebb trace lookups` prints first.
fn listen(told: ChildStdout, mark: &AtomicU64) {
    for line in BufReader::new(told).lines().map_while(std::io::Result::ok) {
        let address = line.strip_prefix("mark 0x").map(|hex| u64::from_str_radix(hex, 16));
        if let Some(Ok(address)) = address {
            mark.store(address, SeqCst);
        }
    }
}
