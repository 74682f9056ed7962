//! The programs of the demonstration: `ebb tor run`, `ebb ocs run`, `ebb ocs control`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebb_host::signals::Signal;
use ebb_lab::Program;
use ebb_service::client;
use ebb_system_circuit::tokens::Tokens;
use ebb_tord::plan::Source;
use ebb_tord::status::{OcsStatus, TorStatus};
use serde_json::json;

use super::racks::{Racks, SYNC, gateway};

/// Programs that do not do as they are told after this long never will.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Days that are announced ahead: nearly all that fit into a sync frame, for the hosts' stacks share
/// the controller's processor.
const DAYS_AHEAD: f64 = 20.0;
/// How long racks keep a rotation when nobody announces days.
const ROTATION_MS: u32 = 500;

/// How a fabric is set up.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) racks: u8,
    pub(super) link_mbps: f64,
    pub(super) day_us: f64,
    pub(super) night_us: f64,
    pub(super) packets: bool,
    pub(super) guard_us: f64,
    pub(super) tokens: Tokens,
    /// The top-of-rack switch's processor.
    pub(super) cpu: Option<usize>,
}

impl Setting {
    fn mode(&self) -> &'static str {
        if self.packets { "packets" } else { "circuits" }
    }

    fn tor(&self, socket: &str, token: &str) -> String {
        let mut text = format!(
            "[tor]\ntoken_file = \"{token}\"\nmode = \"{}\"\nlink_mbps = {}\npacket_mbps = {}\ntokens = \"{}\"\ncontrol = \"{}\"\n\
             guard_us = {}\nrotation_ms = {ROTATION_MS}\nrealtime = true\nsocket = \"{socket}\"\n",
            self.mode(),
            self.link_mbps,
            self.link_mbps / 5.0,
            self.tokens.name(),
            SYNC[0],
            self.guard_us,
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
    fn ocs(&self, socket: &str, control: &str, token: &str) -> String {
        let batch_bytes = (64.0 * self.link_mbps / 8.0) as u64;
        let mut text = format!(
            "[ocs]\ntoken_file = \"{token}\"\nmode = \"{}\"\nlink_mbps = {}\npacket_mbps = {}\ncontrol = \"{}\"\nrotation_ms = {ROTATION_MS}\n\
             realtime = true\nsocket = \"{socket}\"\ncard = {{ delay_us = 0.0, batch_over_bytes = {batch_bytes} }}\n",
            self.mode(),
            self.link_mbps,
            self.link_mbps / 5.0,
            SYNC[1],
        );
        for rack in 0..self.racks {
            _ = write!(text, "[[port]]\nrack = {rack}\nname = \"light{rack}\"\n");
        }
        text + &format!(
            "[controller]\nracks = {}\nday_us = {}\nnight_us = {}\nlead_ms = {}\ncontrol = \"{}\"\n\
             socket = \"{control}\"\ntoken_file = \"{token}\"\n",
            self.racks,
            self.day_us,
            self.night_us,
            DAYS_AHEAD * (self.day_us + self.night_us) * 1e-3,
            SYNC[2]
        )
    }
}

/// A token that seals this demonstration's sync frames.
fn write_token(path: &Path) -> Result<()> {
    let mut random = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(token.as_bytes())?)
}

/// The running programs; dropping it ends them.
pub(super) struct Fabric<'a> {
    racks: &'a Racks,
    tor_socket: PathBuf,
    ocs_socket: PathBuf,
    programs: Vec<(&'static str, Program)>,
}

impl<'a> Fabric<'a> {
    /// Starts all three and waits until days are kept.
    pub(super) fn start(
        racks: &'a Racks,
        setting: &Setting,
        stop: &AtomicBool,
    ) -> Result<Fabric<'a>> {
        let at = |name: &str| racks.lab.directory().join(name);
        let (tor_socket, ocs_socket) = (at("tor.sock"), at("ocs.sock"));
        let mut fabric = Fabric { racks, tor_socket, ocs_socket, programs: Vec::new() };
        fabric.configure(setting)?;
        fabric.spawn("control", ["ocs", "control"])?;
        fabric.spawn("ocs", ["ocs", "run"])?;
        fabric.spawn("tor", ["tor", "run"])?;
        let ready = Some(Source::Controller);
        fabric.wait("the switches were not ready", stop, |fabric| {
            fabric.tor().is_ok_and(|tor| tor.source == ready)
                && fabric.ocs().is_ok_and(|ocs| ocs.source == ready)
        })?;
        Ok(fabric)
    }

    fn configure(&self, setting: &Setting) -> Result<()> {
        let directory = self.racks.lab.directory();
        let text = |path: &Path| path.display().to_string();
        let control = text(&directory.join("control.sock"));
        let token = directory.join("token");
        if !token.exists() {
            write_token(&token)?;
        }
        let token = text(&token);
        fs::write(directory.join("tor.toml"), setting.tor(&text(&self.tor_socket), &token))?;
        let ocs = setting.ocs(&text(&self.ocs_socket), &control, &token);
        Ok(fs::write(directory.join("ocs.toml"), ocs)?)
    }

    /// Changes the running switches' rules and waits until both have taken them over.
    pub(super) fn set(&mut self, setting: &Setting, stop: &AtomicBool) -> Result<()> {
        self.configure(setting)?;
        let (tor, ocs) = (self.tor()?.reloads, self.ocs()?.reloads);
        for socket in [&self.ocs_socket, &self.tor_socket] {
            client(socket)?.request(&json!({ "reload": {} }))?;
        }
        self.wait("the switches did not load their new rules", stop, |fabric| {
            fabric.tor().is_ok_and(|now| now.reloads > tor)
                && fabric.ocs().is_ok_and(|now| now.reloads > ocs)
        })
    }

    /// Kills the optical switch, starts another and waits until it knows the days.
    pub(super) fn restart_ocs(&mut self, stop: &AtomicBool) -> Result<()> {
        self.kill("ocs")?;
        self.spawn("ocs", ["ocs", "run"])?;
        self.wait("the optical switch did not come back", stop, |fabric| {
            fabric.ocs().is_ok_and(|ocs| ocs.source == Some(Source::Controller))
        })
    }

    fn wait(
        &mut self,
        otherwise: &str,
        stop: &AtomicBool,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        while !holds(self) {
            self.check_alive()?;
            ensure!(!stop.load(Relaxed), "interrupted");
            if begun.elapsed() > PATIENCE {
                let words: String = self.programs.iter().map(|(_, one)| one.last_words()).collect();
                bail!("{otherwise} after {} s{words}", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn spawn(&mut self, name: &'static str, [program, does]: [&str; 2]) -> Result<()> {
        let lab = &self.racks.lab;
        let file = lab.directory().join(format!("{program}.toml")).display().to_string();
        let words = [program, does, "-c", &file];
        let program = lab.start(&self.racks.switches, &words, &format!("{name}.log"))?;
        self.programs.push((name, program));
        Ok(())
    }

    fn check_alive(&mut self) -> Result<()> {
        self.programs.iter_mut().try_for_each(|(_, program)| program.check_alive())
    }

    pub(super) fn tor(&self) -> Result<TorStatus> {
        Ok(client(&self.tor_socket)?.status()?)
    }

    pub(super) fn ocs(&self) -> Result<OcsStatus> {
        Ok(client(&self.ocs_socket)?.status()?)
    }

    /// The top-of-rack switch's state as it is now: it shows one 20 times a second.
    pub(super) fn fresh_tor(&self) -> Result<TorStatus> {
        let (begun, before) = (Instant::now(), self.tor()?.uptime_seconds);
        loop {
            let now = self.tor()?;
            if now.uptime_seconds != before {
                return Ok(now);
            }
            ensure!(begun.elapsed() < PATIENCE, "the top-of-rack switch does not run");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether all queues of the racks are empty.
    pub(super) fn nothing_waits(&self) -> bool {
        let empty = |tor: TorStatus| {
            tor.racks.iter().all(|rack| rack.waiting_bytes.iter().all(|bytes| *bytes == 0))
        };
        self.fresh_tor().is_ok_and(empty)
    }

    /// Ends the controller without a word.
    pub(super) fn kill_controller(&mut self) -> Result<()> {
        self.kill("control")
    }

    fn kill(&mut self, name: &str) -> Result<()> {
        let at = self.programs.iter().position(|(other, _)| *other == name);
        let (_, mut program) = self.programs.remove(at.context("a program that runs")?);
        program.kill()?;
        Ok(())
    }

    /// Ends all.
    pub(super) fn end(mut self) -> Result<()> {
        self.check_alive()?;
        self.stop();
        Ok(())
    }

    fn stop(&mut self) {
        for (_, program) in &self.programs {
            _ = program.signal(Signal::SIGTERM);
        }
        for (_, mut program) in self.programs.drain(..) {
            _ = program.end(Duration::from_secs(5));
        }
    }
}

impl Drop for Fabric<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
