//! DPDK's side: a C program built on the spot, fed through files and asked through a pipe.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::tables::{Family, Inputs};

/// Which addresses are looked up.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Locality {
    /// Any address.
    Uniform,
    /// Any prefix, any address in it.
    Routed,
    /// A few thousand flows of the routed kind.
    Hot,
}

impl Locality {
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Routed, Self::Hot];

    pub fn name(self) -> &'static str {
        ["uniform", "routed", "hot"][self as usize]
    }
}

/// Entry bytes and lookup function, as the C program takes them.
pub fn variants(family: u8) -> &'static [&'static str] {
    match family {
        4 => &["2 macro", "2 inline", "2 unified", "4 macro", "4 inline", "2 avx512"],
        _ => &["4 scalar", "4 avx512"],
    }
}

/// The result of one turn.
pub struct Run {
    pub rate: f64,
    pub checksum: u64,
}

/// The running C program; ended when dropped.
pub struct Yardstick {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Yardstick {
    /// Builds and starts it; `None` when DPDK is not installed.
    pub fn start(ipv4: &Inputs<u32>, ipv6: &Inputs<u128>, eal: &str) -> Result<Option<Self>> {
        let probe = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
        if !probe.is_ok_and(|status| status.success()) {
            println!("libdpdk is not installed: only our own rates");
            return Ok(None);
        }
        let directory = std::env::temp_dir().join(format!("ebb-lpm-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        write_inputs(&directory, ipv4)?;
        write_inputs(&directory, ipv6)?;
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/lpm");
        let built = Command::new("make")
            .args(["-s", "-C", source])
            .arg(format!("OUT={}", directory.display()))
            .status()?;
        ensure!(built.success(), "the C program does not build");
        let mut child = Command::new(directory.join("rte_fib"))
            .arg(&directory)
            .args(eal.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take().context("piped")?;
        let answers = BufReader::new(child.stdout.take().context("piped")?);
        let mut yardstick = Self { child, questions, answers, directory };
        while yardstick.answer()? != "ready" {}
        Ok(Some(yardstick))
    }

    /// One turn; `None` when this machine lacks the variant.
    pub fn run(
        &mut self,
        family: u8,
        variant: &str,
        locality: Locality,
        passes: usize,
    ) -> Result<Option<Run>> {
        writeln!(self.questions, "{family} {variant} {} {passes}", locality.name())?;
        let answer = self.answer()?;
        let fields: Vec<&str> = answer.split(' ').collect();
        match fields[..] {
            ["unsupported"] => Ok(None),
            [seconds, lookups, checksum] => Ok(Some(Run {
                rate: lookups.parse::<f64>()? / seconds.parse::<f64>()?,
                checksum: checksum.parse()?,
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

impl Drop for Yardstick {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn write_inputs<F: Family>(directory: &Path, inputs: &Inputs<F>) -> Result<()> {
    let number = F::NUMBER;
    let mut bytes = Vec::new();
    for route in &inputs.routes {
        route.prefix.put(&mut bytes);
        bytes.extend(u32::from(route.len).to_ne_bytes());
        bytes.extend(route.value.to_ne_bytes());
    }
    fs::write(directory.join(format!("{number}.prefixes")), &bytes)?;
    for locality in Locality::ALL {
        let mut bytes = Vec::new();
        inputs.addresses(locality).iter().for_each(|address| address.put(&mut bytes));
        fs::write(directory.join(format!("{number}.{}", locality.name())), &bytes)?;
    }
    Ok(())
}
