//! `ebb trace record`: the memory references of a program, recorded by valgrind.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use ebb_memtrace::{Access, Format, Kind, Reader, Writer};

use super::lookups::Lookups;
use crate::generator::{interrupt_signals, on_interrupt};
use crate::is_installed;

/// Record what a program reads, writes and fetches, with valgrind
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb trace record -o sort.ebbmem -- sort /usr/share/dict/words
  ebb trace record -o router.ebbmem --router --routes ipv4.txt.gz --locality uniform,routed,hot
  ebb trace record -o gzip.ebbmem --skip 5 --millions 20 -- gzip -k -c /usr/bin/perl

The program runs under valgrind's lackey, about a hundred times slower; its input and output are
unchanged. It ends with the window or the recorder. valgrind runs one thread at a time and reports
which: `ebb sim gating --split` assigns threads to cores. Programs that it starts are not recorded:
name the program itself, not a script that starts it.

--router records Ebb's own look-up of destinations, or its whole packet path (--path), for one or
several localities, each in a file of its own. Recording begins after the table is built, which takes
three quarters of an hour under valgrind for a full table.")]
pub struct Record {
    /// The compact trace
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Million instructions to skip at the beginning
    #[arg(long, value_name = "MILLIONS", default_value_t = 0.0)]
    skip: f64,
    /// Most million instructions to record; 0 for all
    #[arg(long, default_value_t = 0.0)]
    millions: f64,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Record Ebb's own data plane instead of a program
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

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

impl Record {
    /// Records.
    pub(super) fn run(self) -> Result<ExitCode> {
        for (flag, value) in [("--skip", self.skip), ("--millions", self.millions)] {
            if !(0.0..=1e9).contains(&value) {
                bail!("{flag}: {value} is not a number of million instructions of 0 or more");
            }
        }
        let outs = self.outs();
        let files: Vec<File> =
            outs.iter().map(|out| super::create(out, self.force)).collect::<Result<_>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let signals = interrupt_signals().context("cannot wait for Ctrl-C")?;
        on_interrupt(signals, move || asked.store(true, SeqCst))?;
        let kept = self.record(files, &stop);
        let whole = kept.as_ref().is_ok_and(|kept| {
            !stop.load(SeqCst)
                && kept.len() == outs.len()
                && kept.iter().all(|(records, _)| *records > 0)
        });
        if !whole {
            // What was written is no trace: nobody should take it for one.
            outs.iter().for_each(|out| drop(std::fs::remove_file(out)));
        }
        if stop.load(SeqCst) {
            eprintln!("ebb: interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let kept = kept?;
        if !whole {
            let program = self.program.first().map_or("the data plane", String::as_str);
            bail!(
                "nothing was recorded: {program} could not be run, ended within --skip, or is a \
                script that starts another program; then name that program"
            );
        }
        for (out, (records, instructions)) in outs.iter().zip(kept) {
            let millions = instructions as f64 / 1e6;
            println!("{}: {records} references, {millions:.1} million instructions", out.display());
        }
        Ok(ExitCode::SUCCESS)
    }

    /// One file, or one for each locality.
    fn outs(&self) -> Vec<PathBuf> {
        let localities = self.lookups.names();
        if !self.router || localities.len() < 2 {
            return vec![self.out.clone()];
        }
        let stem = self.out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let end = self.out.extension().map_or(String::new(), |end| format!(".{}", end.display()));
        let name = |locality: &String| self.out.with_file_name(format!("{stem}-{locality}{end}"));
        localities.iter().map(name).collect()
    }

    /// Runs the program and keeps what it does; references and instructions of each file.
    fn record(&self, outs: Vec<File>, stop: &AtomicBool) -> Result<Vec<(u64, u64)>> {
        let (pipe, written) = std::io::pipe().context("no pipe")?;
        let mut child = self.start(written.as_raw_fd())?;
        let (mark, told) = (AtomicU64::new(0), child.stdout.take());
        let child = Mutex::new(child);
        std::thread::scope(|scope| {
            // valgrind opens the pipe by its path; ours stays open until then, and a read sees the
            // end of the trace once both are closed.
            scope.spawn(|| {
                while matches!(child.lock().map(|mut child| child.try_wait()), Ok(Ok(None))) {
                    if stop.load(SeqCst)
                        && let Ok(mut child) = child.lock()
                    {
                        let _ = child.kill();
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                drop(written);
            });
            if let Some(told) = told {
                let mark = &mark;
                scope.spawn(move || listen(told, mark));
            }
            let result = self.keep(pipe, outs, &mark);
            if let Ok(mut child) = child.lock() {
                let _ = child.kill();
                let _ = child.wait();
            }
            result
        })
    }

    fn start(&self, written: i32) -> Result<Child> {
        ensure!(is_installed("valgrind"), "valgrind is not installed: apt-get install valgrind");
        let log = format!("--log-file=/proc/{}/fd/{written}", std::process::id());
        // Whatever becomes of this program, even SIGKILL: valgrind does not outlive it.
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "valgrind",
            "--tool=lackey",
            "--trace-mem=yes",
            "--vgdb=no",
        ]);
        command.args(["--basic-counts=no", "--trace-sched=yes", "--child-silent-after-fork=yes"]);
        command.args([&log, "--"]);
        if self.router {
            command.arg(std::env::current_exe().context("cannot find the path of this program")?);
            command.args(self.lookups.arguments()).stdout(Stdio::piped());
        } else {
            command.args(&self.program);
        }
        command
            .spawn()
            .map_err(|error| anyhow!("setpriv cannot be run ({error}): apt-get install util-linux"))
    }

    /// The windows, each into its file; references and instructions of each.
    fn keep(
        &self,
        pipe: impl Read + Send,
        outs: Vec<File>,
        mark: &AtomicU64,
    ) -> Result<Vec<(u64, u64)>> {
        let mut lines = BufReader::new(Gathering(pipe));
        if lines.fill_buf()?.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new("valgrind", lines, Some(Format::Lackey))?;
        let mut all = Vec::new();
        for out in outs {
            if self.router && !self.until_mark(&mut reader, mark)? {
                break;
            }
            let mut writer = Writer::new(out)?;
            let kept = self.window(&mut reader, &mut writer, mark)?;
            all.push((writer.records(), kept));
            writer.finish()?;
        }
        Ok(all)
    }

    fn is_mark(&self, access: &Access, mark: &AtomicU64) -> bool {
        self.router && access.kind == Kind::Write && access.address == mark.load(SeqCst)
    }

    /// Whether there was a mark.
    fn until_mark(&self, reader: &mut Reader<'_>, mark: &AtomicU64) -> Result<bool> {
        while let Some(access) = reader.access()? {
            if self.is_mark(&access, mark) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is asked for of the references up to the next mark; instructions.
    fn window(
        &self,
        reader: &mut Reader<'_>,
        writer: &mut Writer<File>,
        mark: &AtomicU64,
    ) -> Result<u64> {
        let (skip, most) = ((self.skip * 1e6) as u64, (self.millions * 1e6) as u64);
        let (mut seen, mut kept) = (0, 0);
        while let Some(access) = reader.access()? {
            if self.is_mark(&access, mark) {
                break;
            }
            seen += u64::from(access.instructions);
            // After the window of one locality the mark of the next is waited for.
            if seen <= skip || most > 0 && kept >= most {
                if self.router || seen <= skip {
                    continue;
                }
                break;
            }
            kept += u64::from(access.instructions);
            writer.push(access)?;
        }
        Ok(kept)
    }
}

/// Lets lines gather in the pipe: valgrind writes each by itself, and waking somebody for each
/// takes longer than the line.
struct Gathering<R>(R);

/// A read of less than this found that nothing much waited.
const LITTLE: usize = 16 * 1024;

impl<R: Read> Read for Gathering<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        if count > 0 && count < LITTLE.min(buffer.len()) {
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(count)
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
