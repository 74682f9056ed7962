//! `ebb trace convert`: traces of memory references from one format into another.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use ebb_memtrace::Writer;

/// Convert a trace of any format to the compact format
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb trace convert 429.mcf.champsimtrace.xz mcf.ebbmem
  ebb trace convert lackey.log program.ebbmem --format lackey

The formats are ChampSim's, valgrind lackey's, Dinero's, Ramulator's, DynamoRIO's, gem5's and the compact one,
plain or packed with gzip, xz or zstd. For a damaged trace the exit status is 2 and the
first wrong byte is printed.")]
pub struct Convert {
    /// The trace
    #[arg(value_name = "TRACE")]
    from: PathBuf,
    /// The compact trace
    #[arg(value_name = "OUT")]
    to: PathBuf,
    /// champsim, cloudsuite, lackey, din, ramulator, ramulator-memory, dynamorio, gem5 or compact [default: told
    /// from the name and the first bytes]
    #[arg(long)]
    format: Option<String>,
    /// References to skip at the beginning
    #[arg(long, default_value_t = 0)]
    skip: u64,
    /// Most references to keep; 0 for all
    #[arg(long, default_value_t = 0)]
    most: u64,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl Convert {
    /// Converts.
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut reader = super::open(&self.from, self.format.as_deref())?;
        let place = || format!("cannot write {}", self.to.display());
        let mut writer = Writer::new(super::create(&self.to, self.force)?).with_context(place)?;
        let most = if self.most == 0 { u64::MAX } else { self.most };
        let mut skip = self.skip;
        let done = loop {
            if writer.records() == most {
                break Ok(());
            }
            match reader.access() {
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
                Ok(Some(_)) if skip > 0 => skip -= 1,
                Ok(Some(access)) => writer.push(access).with_context(place)?,
            }
        };
        let records = writer.records();
        if let Err(error) = done {
            drop(writer);
            // What was written is no trace: nobody should take it for one.
            let _ = std::fs::remove_file(&self.to);
            return Err(error.into());
        }
        let file = writer.finish().with_context(place)?;
        let bytes = file.metadata().map_or(0, |known| known.len());
        println!("{}: {records} references, {bytes} bytes", self.to.display());
        Ok(ExitCode::SUCCESS)
    }
}
