//! The programs of the demonstration: `ebb tor run`, `ebb ocs run`, `ebb ocs control`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ebb_host::journal::{EntryId, Undo};
use ebb_host::signals::{self, Signal};
use ebb_system_circuit::tokens::Tokens;
use ebb_tord::api;
use ebb_tord::plan::Source;
use ebb_tord::status::{OcsStatus, TorStatus};

use super::lab::{Lab, SYNC, gateway};

const PATIENCE: Duration = Duration::from_secs(20);

/// How a fabric is set up.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) racks: u8,
    pub(super) link_mbps: f64,
    pub(super) day_us: f64,
    pub(super) night_us: f64,
    pub(super) packets: bool,
    pub(super) tokens: Tokens,
    pub(super) rotation_ms: f64,
    /// The top-of-rack switch's processor.
    pub(super) cpu: Option<usize>,
}

impl Setting {
    fn mode(&self) -> &'static str {
        if self.packets { "packets" } else { "circuits" }
    }

    fn tor(&self, socket: &str) -> String {
        let mut text = format!(
            "[tor]\nmode = \"{}\"\nlink_mbps = {}\npacket_mbps = {}\ntokens = \"{}\"\ncontrol = \"{}\"\n\
             rotation_ms = {}\nrealtime = true\nsocket = \"{socket}\"\n",
            self.mode(),
            self.link_mbps,
            self.link_mbps / 5.0,
            self.tokens.name(),
            SYNC[0],
            self.rotation_ms,
        );
        if let Some(cpu) = self.cpu {
            _ = writeln!(text, "cpu = {cpu}");
        }
        for rack in 0..self.racks {
            _ = write!(
                text,
                "[[rack]]\nnumber = {rack}\nuplink = \"up{rack}\"\n[[rack.host]]\nname = \"host{rack}\"\n\
                 prefixes = [\"10.77.{rack}.0/24\"]\nown = [\"{}\"]\n",
                gateway(rack)
            );
        }
        text
    }

    /// The published card, its limits as time of this link.
    fn ocs(&self, socket: &str, control: &str) -> String {
        let batch_bytes = (64.0 * self.link_mbps / 8.0) as u64;
        let mut text = format!(
            "[ocs]\nmode = \"{}\"\nlink_mbps = {}\npacket_mbps = {}\ncontrol = \"{}\"\nrotation_ms = {}\n\
             socket = \"{socket}\"\ncard = {{ delay_us = 0.0, batch_over_bytes = {batch_bytes} }}\n",
            self.mode(),
            self.link_mbps,
            self.link_mbps / 5.0,
            SYNC[1],
            self.rotation_ms,
        );
        for rack in 0..self.racks {
            _ = write!(text, "[[port]]\nrack = {rack}\nname = \"light{rack}\"\n");
        }
        text + &format!(
            "[controller]\nracks = {}\nday_us = {}\nnight_us = {}\ncontrol = \"{}\"\nsocket = \"{control}\"\n",
            self.racks, self.day_us, self.night_us, SYNC[2]
        )
    }
}

/// The running programs; dropping it ends them.
pub(super) struct Fabric<'a> {
    lab: &'a Lab,
    tor_socket: PathBuf,
    ocs_socket: PathBuf,
    programs: Vec<Program>,
}

struct Program {
    name: &'static str,
    child: Child,
    entry: Option<EntryId>,
    log: PathBuf,
}

impl Program {
    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().map(|line| format!("\n  {line}")).collect()
    }
}

impl<'a> Fabric<'a> {
    /// Starts all three and waits until days are kept.
    pub(super) fn start(lab: &'a Lab, setting: &Setting) -> Result<Fabric<'a>> {
        let at = |name: &str| lab.directory.join(name);
        let text = |path: PathBuf| path.display().to_string();
        let (tor, ocs, control) = (at("tor.sock"), at("ocs.sock"), at("control.sock"));
        fs::write(at("tor.toml"), setting.tor(&text(tor.clone())))?;
        fs::write(at("ocs.toml"), setting.ocs(&text(ocs.clone()), &text(control)))?;
        let mut fabric = Fabric { lab, tor_socket: tor, ocs_socket: ocs, programs: Vec::new() };
        fabric.spawn("control", &["ocs", "control", "-c", &text(at("ocs.toml"))])?;
        fabric.spawn("ocs", &["ocs", "run", "-c", &text(at("ocs.toml"))])?;
        fabric.spawn("tor", &["tor", "run", "-c", &text(at("tor.toml"))])?;
        let begun = Instant::now();
        loop {
            fabric.check_alive()?;
            let ready = |source: Option<Source>| source == Some(Source::Controller);
            let both = fabric.tor().is_ok_and(|tor| ready(tor.source))
                && fabric.ocs().is_ok_and(|ocs| ready(ocs.source));
            if both {
                return Ok(fabric);
            }
            if begun.elapsed() > PATIENCE {
                let words: String = fabric.programs.iter().map(Program::last_words).collect();
                bail!("the switches were not ready after {} s{words}", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn spawn(&mut self, name: &'static str, arguments: &[&str]) -> Result<()> {
        let log = self.lab.directory.join(format!("{name}.log"));
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        // Ctrl-C is for us to pass on.
        command.process_group(0);
        let child = self.lab.switches.run(|| command.spawn())?;
        let child = child.with_context(|| format!("cannot start `ebb {}`", arguments.join(" ")))?;
        let entry = Undo::process(child.id()).and_then(|undo| self.lab.journal.record(undo));
        self.programs.push(Program { name, child, entry: entry.ok(), log });
        Ok(())
    }

    fn check_alive(&mut self) -> Result<()> {
        for program in &mut self.programs {
            if let Some(status) = program.child.try_wait()? {
                bail!("{} ended ({status}){}", program.name, program.last_words());
            }
        }
        Ok(())
    }

    pub(super) fn tor(&self) -> Result<TorStatus> {
        api::status(&self.tor_socket)
    }

    pub(super) fn ocs(&self) -> Result<OcsStatus> {
        api::status(&self.ocs_socket)
    }

    /// Ends the controller without a word.
    pub(super) fn kill_controller(&mut self) -> Result<()> {
        let at = self.programs.iter().position(|program| program.name == "control");
        let mut program = self.programs.remove(at.context("there is a controller")?);
        program.child.kill()?;
        program.child.wait()?;
        if let Some(entry) = program.entry.take() {
            self.lab.journal.forget(entry);
        }
        Ok(())
    }

    /// Ends all.
    pub(super) fn end(mut self) -> Result<()> {
        self.check_alive()?;
        self.stop();
        Ok(())
    }

    fn stop(&mut self) {
        for program in &mut self.programs {
            _ = signals::send(program.child.id(), Signal::SIGTERM);
        }
        for mut program in self.programs.drain(..) {
            let begun = Instant::now();
            while program.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                if begun.elapsed() > Duration::from_secs(5) {
                    _ = program.child.kill();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            if let Some(entry) = program.entry.take() {
                self.lab.journal.forget(entry);
            }
        }
    }
}

impl Drop for Fabric<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
