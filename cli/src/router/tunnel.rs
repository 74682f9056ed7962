//! `ebb router tunnel`.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use ebb_report::Terminal;
use ebb_routerd::config;
use serde_json::json;

use super::{Target, list};

/// Longest text of keys: more than two keys' digits.
const KEYS_LEN_MAX: u64 = 512;

/// List, add and remove IPsec tunnels of a running router
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router tunnel list
  ebb router tunnel add peer.toml                              keys in the files that it names
  printf '%s\\n' $OUT $IN | ebb router tunnel add peer.toml --keys-from-stdin
  ebb router tunnel remove 4098

FILE holds one [[esp.tunnel]] as the configuration has it. A tunnel is added or removed only where the kernel
has no route by which its packets would leave in clear. A reload keeps it as it is; add it to the configuration
for the next start. `ebb router upgrade` carries it over if its keys stand in files.")]
pub struct Tunnel {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the tunnels with fixed keys, without these
    #[command(after_help = "\
Examples:
  ebb router tunnel list
  ebb router tunnel list --json | jq -r '.tunnels[].remote'")]
    List {
        /// Print the answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a tunnel
    #[command(after_help = "\
Examples:
  ebb router tunnel add peer.toml    keys in the files that it names
  printf '%s\\n' $OUT $IN | ebb router tunnel add peer.toml --keys-from-stdin")]
    Add(Add),
    /// Remove a tunnel
    #[command(after_help = "\
Examples:
  ebb router tunnel remove 4098      the one that receives by this index (ebb router tunnel list)")]
    Remove {
        /// Index of what it receives (spi_in)
        spi_in: u32,
    },
}

#[derive(Debug, Args)]
struct Add {
    /// File with one [[esp.tunnel]]
    file: PathBuf,
    /// Read the keys from standard input, a line of hexadecimal digits each: what is sent, then what is received
    #[arg(long)]
    keys_from_stdin: bool,
}

impl Tunnel {
    /// Asks the router.
    pub fn run(self) -> Result<ExitCode> {
        let (request, done) = match &self.command {
            Command::List { .. } => (json!({ "get": "tunnels" }), None),
            Command::Add(add) => (add.request()?, Some("added")),
            Command::Remove { spi_in } => {
                (json!({ "remove_tunnel": { "spi_in": spi_in } }), Some("removed"))
            }
        };
        let answer = self.target.connect()?.request(&request)?;
        let mut out = std::io::stdout().lock();
        match done {
            _ if matches!(self.command, Command::List { json: true }) => {
                writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
            }
            Some(done) => writeln!(out, "{done} the tunnel that receives with {}", answer[done])?,
            None => {
                let columns = [
                    "spi_in",
                    "spi_out",
                    "local",
                    "remote",
                    "local_prefixes",
                    "remote_prefixes",
                    "algorithm",
                    "udp",
                    "keys",
                ];
                let terminal = Terminal::of_stdout();
                write!(out, "{}", list::table(&answer, "tunnels", &columns, &terminal))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Add {
    fn request(&self) -> Result<serde_json::Value> {
        let name = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file)
            .with_context(|| format!("cannot read {name}: create it with one [[esp.tunnel]]"))?;
        let whole = std::path::absolute(&self.file).with_context(|| name.clone())?;
        let folder = whole.parent().unwrap_or(Path::new("/"));
        // Its problems are told here with their lines.
        config::read_tunnel(&name, &text, (!self.keys_from_stdin).then_some(folder))?;
        if !self.keys_from_stdin {
            return Ok(json!({ "add_tunnel": { "text": text, "folder": folder } }));
        }
        let mut keys = String::with_capacity(KEYS_LEN_MAX as usize);
        std::io::stdin()
            .take(KEYS_LEN_MAX)
            .read_to_string(&mut keys)
            .context("cannot read keys from standard input")?;
        let lines: Vec<&str> = keys.lines().filter(|line| !line.trim().is_empty()).collect();
        ensure!(
            lines.len() == 2,
            "standard input has {} lines: give two keys, a line each, first of what is sent",
            lines.len()
        );
        Ok(json!({ "add_tunnel": { "text": text, "key_out": lines[0], "key_in": lines[1] } }))
    }
}
