//! DPDK's side: a C program built on the spot, fed through files and asked through a pipe.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;

use crate::inputs::{Inputs, LOCALITIES};

/// The running C program; ended when dropped.
pub struct Peer {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    directory: PathBuf,
}

/// The result of one turn.
pub struct Turn {
    pub mpps: f64,
    pub digest: u64,
}

impl Peer {
    /// Builds and starts it; `None` when DPDK is not installed.
    pub fn start(inputs: &Inputs, eal: &str) -> Result<Option<Peer>> {
        let probe = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
        if !probe.is_ok_and(|status| status.success()) {
            println!("libdpdk is not installed: only our own rates");
            return Ok(None);
        }
        let directory = std::env::temp_dir().join(format!("ebb-path-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut prefixes = Vec::new();
        for (prefix, gateway) in &inputs.routes {
            let IpNet::V4(net) = prefix else { continue };
            for number in [net.network().to_bits(), u32::from(net.prefix_len()), *gateway] {
                prefixes.extend(number.to_ne_bytes());
            }
        }
        fs::write(directory.join("prefixes"), prefixes)?;
        for (name, frames) in LOCALITIES.iter().zip(&inputs.v4) {
            fs::write(directory.join(name), frames.as_flattened())?;
        }
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/path");
        let out = format!("OUT={}", directory.display());
        let built = Command::new("make").args(["-s", "-C", source, &out]).status()?;
        ensure!(built.success(), "the C program does not build");
        let mut child = Command::new(directory.join("rte_fib_path"))
            .arg(&directory)
            .args(eal.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take().context("piped")?;
        let answers = BufReader::new(child.stdout.take().context("piped")?);
        let mut peer = Peer { child, questions, answers, directory };
        while peer.answer()? != "ready" {}
        Ok(Some(peer))
    }

    /// One turn; `None` when this machine lacks the lookup function.
    pub fn run(&mut self, lookup: &str, locality: &str, passes: usize) -> Result<Option<Turn>> {
        writeln!(self.questions, "{lookup} {locality} {passes}")?;
        let answer = self.answer()?;
        let fields: Vec<&str> = answer.split(' ').collect();
        match fields[..] {
            ["unsupported"] => Ok(None),
            [seconds, packets, digest] => Ok(Some(Turn {
                mpps: packets.parse::<f64>()? / seconds.parse::<f64>()? / 1e6,
                digest: digest.parse()?,
            })),
            _ => bail!("unexpected answer {answer}"),
        }
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "DPDK's side ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
