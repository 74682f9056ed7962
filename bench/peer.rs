//! DPDK's side of a benchmark: a C program built on the spot, fed through files and asked through a
//! pipe. Shared by the benchmarks that have one; each knows its own questions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The running C program; ended when dropped.
pub struct Peer {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    directory: PathBuf,
}

/// The result of one turn.
pub struct Turn {
    /// Lookups or packets a second of processor time.
    pub rate: f64,
    /// Sum over what came out, which ours must equal.
    pub digest: u64,
}

/// Whether the peer can be built here.
pub fn installed() -> bool {
    let probe = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    probe.is_ok_and(|status| status.success())
}

impl Peer {
    /// Builds `program` from the folder `source`, has `inputs` write its files into a fresh folder and
    /// starts it with the words of `eal`. An error when DPDK is not installed: a comparison with nothing is
    /// none.
    pub fn start(
        source: &str,
        program: &str,
        eal: &str,
        inputs: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Peer> {
        ensure!(
            installed(),
            "libdpdk is not installed (Debian's package libdpdk-dev); --no-dpdk measures ours alone"
        );
        let directory = std::env::temp_dir().join(format!("ebb-{program}-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        inputs(&directory)?;
        let out = format!("OUT={}", directory.display());
        let built = Command::new("make").args(["-s", "-C", source, &out]).status()?;
        ensure!(built.success(), "the C program does not build");
        let mut child = Command::new(directory.join(program))
            .arg(&directory)
            .args(eal.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take().context("piped")?;
        let answers = BufReader::new(child.stdout.take().context("piped")?);
        let mut peer = Peer { child, questions, answers, directory };
        while peer.answer()? != "ready" {}
        Ok(peer)
    }

    /// One turn; `None` when this machine lacks what is asked for.
    pub fn ask(&mut self, question: &str) -> Result<Option<Turn>> {
        writeln!(self.questions, "{question}")?;
        let answer = self.answer()?;
        let fields: Vec<&str> = answer.split(' ').collect();
        match fields[..] {
            ["unsupported"] => Ok(None),
            [seconds, count, digest] => Ok(Some(Turn {
                rate: count.parse::<f64>()? / seconds.parse::<f64>()?,
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
