//! `ebb manual`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};

/// Write the manual pages to a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb manual /usr/local/share/man/man1
  ebb manual /tmp/man && man -l /tmp/man/ebb-router-run.1")]
pub struct Manual {
    /// Directory for ebb.1 and a page for each command
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Manual {
    /// Writes one page per command.
    pub fn run(self) -> Result<ExitCode> {
        let shown = self.directory.display();
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot create {shown}"))?;
        clap_mangen::generate_to(crate::Ebb::command(), &self.directory)
            .with_context(|| format!("cannot write to {shown}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let directory = tempfile::tempdir().expect("a directory");
        Manual { directory: directory.path().to_owned() }.run().expect("written");
        for page in ["ebb.1", "ebb-router-run.1", "ebb-reproduce.1"] {
            let text = std::fs::read_to_string(directory.path().join(page)).expect(page);
            assert!(text.contains("Examples"), "{page}");
        }
    }
}
