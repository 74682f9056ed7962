//! `ebb trace`: memory references out of programs, from one format into another, and a look at them.

mod convert;
mod lookups;
mod packets;
mod record;
mod show;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use ebb_memtrace::{Format, Reader, TraceError};

/// Exit status when a trace is damaged or missing.
const UNREADABLE: u8 = 2;

/// Traces of memory references.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record what a program reads, writes and fetches, with valgrind
    Record(record::Record),
    /// Convert a trace of any format to the compact format
    Convert(convert::Convert),
    /// Show the contents of a trace
    Show(show::Show),
    /// Look destinations up in the router's table, for `trace record --router`
    #[command(hide = true)]
    Lookups(lookups::Lookups),
}

impl Command {
    /// Does it; what is wrong with a trace is told apart by the exit status.
    pub fn run(self) -> Result<ExitCode> {
        let result = match self {
            Command::Record(command) => return command.run(),
            Command::Convert(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Lookups(command) => command.run(),
        };
        match result {
            Err(error) if error.is::<TraceError>() => {
                eprintln!("ebb: {}", crate::format_error(&error));
                Ok(ExitCode::from(UNREADABLE))
            }
            other => other,
        }
    }
}

/// The trace in a file.
fn open(path: &Path, format: Option<&str>) -> Result<Reader<'static>> {
    let name = path.display().to_string();
    let wrong = |message: String| TraceError { file: name.clone(), offset: 0, line: None, message };
    let format = match format {
        None => None,
        Some(format) => Some(Format::named(format).ok_or_else(|| {
            let known = Format::ALL.map(Format::name).join(", ");
            wrong(format!("there is no format `{format}`; known: {known}"))
        })?),
    };
    let file = File::open(path).map_err(|error| wrong(format!("cannot read the file: {error}")))?;
    Ok(Reader::new(&name, file, format)?)
}

/// A new file, whose name must not be that of a file that is there already unless `replace`.
fn create(path: &Path, replace: bool) -> Result<File> {
    let mut how = File::options();
    how.write(true).truncate(true);
    if replace {
        how.create(true)
    } else {
        how.create_new(true)
    };
    how.open(path)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                anyhow!("{}: exists already; replace it with --force", path.display())
            }
            _ => anyhow::Error::from(error),
        })
        .with_context(|| format!("cannot write {}", path.display()))
}
