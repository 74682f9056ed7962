//! `ebb dashboard`: daemons, runs and scenarios in a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_control::policies::NAMES;
use ebb_dashboard::{Ending, Options, bind, random_token};

use crate::generator::{interrupt_signals, on_interrupt};
use crate::study::PROGRAM;

/// Where daemons have their sockets unless configured otherwise.
const SOCKETS: [&str; 5] = ["router", "cluster", "tor", "ocs", "ocs-control"];

/// Show daemons, finished runs and scenarios in a browser
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb dashboard                                    then open the address that it prints
  ebb dashboard --read-only                        nothing can be changed
  ebb dashboard --socket r1=/run/ebb/r1.sock       a router by its socket, called r1
  ebb dashboard --runs ebb-runs --runs /srv/runs   runs of two directories, side by side

From another machine: ssh -L 9180:127.0.0.1:9180 ROUTER, then open the printed address there.
Whoever has the token, the second printed address, can change the mode of routers, drain back-ends,
and run scenarios with the rights of this command.")]
pub struct Dashboard {
    /// Address and port where browsers connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9180")]
    listen: SocketAddr,
    /// A daemon by its socket, with a name of its own if wanted; can be repeated [default: those in /run/ebb]
    #[arg(long, value_name = "[NAME=]PATH")]
    socket: Vec<String>,
    /// Directory of runs; can be repeated; scenarios leave theirs in the first [default: ebb-runs]
    #[arg(long, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Directory of the files that scenarios name [default: the current one]
    #[arg(long, value_name = "DIR")]
    scenarios: Option<PathBuf>,
    /// Seconds between two looks at a daemon
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
    /// File with the token, readable by its owner alone [default: a new token at each start]
    #[arg(long, value_name = "FILE", conflicts_with = "read_only")]
    token_file: Option<PathBuf>,
    /// Let nobody change anything
    #[arg(long)]
    read_only: bool,
    /// Ask for the token to read, too
    #[arg(long)]
    private: bool,
    /// A further name by which browsers address it, such as a proxy's; can be repeated
    #[arg(long, value_name = "HOST[:PORT]")]
    name: Vec<String>,
}

impl Dashboard {
    /// Serves until a signal.
    pub fn run(self) -> Result<ExitCode> {
        let good = (0.05..=60.0).contains(&self.every);
        ensure!(good, "--every must be from 0.05 to 60, not {}", self.every);
        let token = match (&self.token_file, self.read_only) {
            (_, true) => None,
            (Some(file), false) => Some(read_token(file)?),
            (None, false) => Some(random_token().context("cannot make a token")?),
        };
        let shown = token.clone().filter(|_| self.token_file.is_none());
        let ending = Ending::default();
        let ended = ending.clone();
        // Before any thread starts.
        on_interrupt(interrupt_signals()?, move || ended.now())?;
        let dashboard = bind(Options {
            listen: self.listen,
            names: self.name.clone(),
            token,
            private: self.private,
            daemons: self.daemons()?,
            every: Duration::from_secs_f64(self.every),
            modes: NAMES.iter().map(|(name, about)| ((*name).into(), (*about).into())).collect(),
            runs: if self.runs.is_empty() { vec!["ebb-runs".into()] } else { self.runs.clone() },
            scenarios: self.scenarios.clone().unwrap_or_else(|| ".".into()),
            program: PROGRAM,
        })?;
        let address = format!("http://{}/", dashboard.address());
        println!("dashboard: {address}");
        match (shown, &self.token_file) {
            (Some(token), _) => println!("to make changes, too: {address}#token={token}"),
            (None, Some(file)) => {
                println!(
                    "to make changes, too: {address}#token= and what is in {}",
                    file.display()
                );
            }
            (None, None) => {}
        }
        dashboard.serve(&ending)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Names and sockets.
    fn daemons(&self) -> Result<Vec<(String, PathBuf)>> {
        if self.socket.is_empty() {
            let known = SOCKETS.iter();
            let place = |name: &str| Path::new("/run/ebb").join(format!("{name}.sock"));
            return Ok(known.map(|name| ((*name).to_owned(), place(name))).collect());
        }
        let mut all: Vec<(String, PathBuf)> = Vec::new();
        for text in &self.socket {
            let (name, path) = named(text);
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let good = !name.is_empty() && name.chars().all(plain);
            ensure!(
                good,
                "--socket {text}: give it a name of letters and digits: NAME={}",
                path.display()
            );
            let twice = all.iter().any(|(known, _)| *known == name);
            ensure!(!twice, "--socket {text}: `{name}` is there twice: give one another NAME=");
            all.push((name, path));
        }
        Ok(all)
    }
}

/// Name and path; without a name that of the file.
fn named(text: &str) -> (String, PathBuf) {
    match text.split_once('=') {
        Some((name, path)) if !name.contains('/') => (name.to_owned(), path.into()),
        _ => {
            let stem = Path::new(text).file_stem().unwrap_or_default();
            (stem.to_string_lossy().into_owned(), text.into())
        }
    }
}

fn read_token(file: &Path) -> Result<String> {
    let text = ebb_host::secret::read(file);
    let text =
        text.map_err(|error| anyhow::anyhow!("--token-file: {error}; {}", error.remedy()))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_the_name_of_its_file_or_its_own() {
        assert_eq!(named("/run/ebb/r1.sock"), ("r1".to_owned(), "/run/ebb/r1.sock".into()));
        assert_eq!(named("edge=/a=b/r.sock"), ("edge".to_owned(), "/a=b/r.sock".into()));
        assert_eq!(named("/a=b/r.sock"), ("r".to_owned(), "/a=b/r.sock".into()));
    }
}
