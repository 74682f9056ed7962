//! Back-ends that are virtual machines: QEMU is told over its machine protocol to let them run and to halt
//! them. A guest that is halted takes no processor time and is back within milliseconds.
//!
//! QMP: QEMU's documentation, "QEMU Machine Protocol Specification".

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ebb_host::clock::monotonic;
use ebb_host::process::Peer;
use serde_json::{Value, json};

use super::{COMMAND_MAX, LOOK_EVERY, run};
use crate::member::Keeper;

/// QEMU answers at once, or its monitor has another client that does not go away.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Longest line that is read; events and answers here have some hundred bytes.
const LINE_MAX: u64 = 1 << 16;
/// Lines that are no answer, in a row: events.
const EVENTS_MAX: usize = 1000;

/// Resumes a guest to give power, or boots one that is not there; halts it to take it, or runs a command that
/// shuts it down.
pub struct GuestKeeper {
    /// QEMU's socket (`-qmp unix:PATH,server=on,wait=off`).
    pub monitor: PathBuf,
    /// Starts a machine that is not there; it may end before the guest is up, and has to put QEMU into the
    /// background (`-daemonize`).
    pub boot: Vec<String>,
    /// Takes power instead of halting.
    pub sleep: Vec<String>,
    /// QEMU's process, since it was woken.
    machine: Option<Peer>,
}

impl GuestKeeper {
    /// For the machine with that monitor.
    pub fn new(monitor: PathBuf, boot: Vec<String>, sleep: Vec<String>) -> GuestKeeper {
        GuestKeeper { monitor, boot, sleep, machine: None }
    }
}

impl Keeper for GuestKeeper {
    fn wake(&mut self) -> Result<()> {
        self.machine = None;
        let mut monitor = match Monitor::open(&self.monitor) {
            Ok(monitor) => monitor,
            Err(error) if self.boot.is_empty() => {
                return Err(error.context(
                    "the virtual machine does not run and there is no `wake` command to start it",
                ));
            }
            Err(_) => self.booted()?,
        };
        self.machine =
            Peer::of(monitor.stream.get_ref()).context("cannot identify QEMU's process")?;
        match monitor.status()?.as_str() {
            "running" => Ok(()),
            "suspended" => monitor.ask("system_wakeup").map(drop),
            "shutdown" | "internal-error" | "guest-panicked" | "io-error" => {
                monitor.ask("system_reset")?;
                monitor.ask("cont").map(drop)
            }
            _ => monitor.ask("cont").map(drop),
        }
    }

    fn sleep(&mut self) -> Result<()> {
        if !self.sleep.is_empty() {
            return run(&self.sleep);
        }
        // A machine that is not there draws nothing.
        let Ok(mut monitor) = Monitor::open(&self.monitor) else { return Ok(()) };
        monitor.ask("stop")?;
        let now = monitor.status()?;
        ensure!(now != "running", "{}: the guest did not stop", self.monitor.display());
        Ok(())
    }

    fn is_there(&mut self) -> bool {
        // What happens inside it is the balancers' probes' business. Its monitor is left to other clients.
        self.machine.as_ref().is_none_or(Peer::is_there)
    }
}

impl GuestKeeper {
    fn booted(&self) -> Result<Monitor> {
        run(&self.boot)?;
        let begun = monotonic();
        loop {
            match Monitor::open(&self.monitor) {
                Ok(monitor) => return Ok(monitor),
                Err(error) if monotonic().since(begun) > COMMAND_MAX => return Err(error),
                Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        }
    }
}

/// A session with QEMU's monitor.
struct Monitor {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Monitor {
    fn open(path: &Path) -> Result<Monitor> {
        let what = || format!("{}: QEMU's monitor does not answer", path.display());
        let stream = UnixStream::connect(path).with_context(what)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        let mut monitor = Monitor { stream: BufReader::new(stream), path: path.to_owned() };
        let greeting = monitor.line().with_context(what)?;
        ensure!(greeting.get("QMP").is_some(), "{}: the answer is not QMP", path.display());
        monitor.ask("qmp_capabilities")?;
        Ok(monitor)
    }

    /// What state the machine is in (`RunState`).
    fn status(&mut self) -> Result<String> {
        let answer = self.ask("query-status")?;
        let status = answer.get("status").and_then(Value::as_str);
        Ok(status.with_context(|| format!("QEMU's status is unknown: {answer}"))?.to_owned())
    }

    fn ask(&mut self, command: &str) -> Result<Value> {
        let text = format!("{}\n", json!({ "execute": command }));
        self.stream.get_mut().write_all(text.as_bytes())?;
        for _ in 0..EVENTS_MAX {
            let mut answer =
                self.line().with_context(|| format!("QEMU's answer to `{command}`"))?;
            if let Some(error) = answer.get("error") {
                let said = error.get("desc").and_then(Value::as_str).unwrap_or("no reason given");
                bail!("{}: QEMU rejected `{command}`: {said}", self.path.display());
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
        bail!("{}: QEMU does not answer `{command}`", self.path.display())
    }

    fn line(&mut self) -> Result<Value> {
        let mut text = Vec::new();
        (&mut self.stream).take(LINE_MAX).read_until(b'\n', &mut text)?;
        ensure!(!text.is_empty(), "the connection has ended");
        serde_json::from_slice(&text).context("the answer is not JSON")
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    const QEMU: &str = "qemu-system-x86_64";

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("ebb-{name}-{}", std::process::id()))
    }

    fn keeper(monitor: &Path) -> GuestKeeper {
        GuestKeeper::new(monitor.to_owned(), Vec::new(), Vec::new())
    }

    /// An emulator without a machine: it has states all the same.
    struct Emulator(Child);

    impl Emulator {
        fn line(monitor: &Path) -> Vec<String> {
            let socket = format!("unix:{},server=on,wait=off", monitor.display());
            let words = [
                "-machine",
                "none",
                "-accel",
                "tcg",
                "-display",
                "none",
                "-nodefaults",
                "-S",
                "-qmp",
            ];
            words.iter().map(ToString::to_string).chain([socket]).collect()
        }

        fn start(monitor: &Path) -> Option<Emulator> {
            let mut command = Command::new(QEMU);
            command.args(Emulator::line(monitor)).stdin(Stdio::null());
            let child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    assert!(std::env::var_os("CI").is_none(), "CI must have {QEMU}: {error}");
                    eprintln!("skipped: {QEMU} does not start: {error}");
                    return None;
                }
            };
            let begun = monotonic();
            while Monitor::open(monitor).is_err() {
                assert!(monotonic().since(begun) < COMMAND_MAX, "{QEMU} does not come up");
                std::thread::sleep(LOOK_EVERY);
            }
            Some(Emulator(child))
        }
    }

    impl Drop for Emulator {
        fn drop(&mut self) {
            _ = self.0.kill();
            _ = self.0.wait();
        }
    }

    #[test]
    fn a_guest_is_resumed_and_halted_and_its_death_is_seen() {
        let monitor = place("qmp");
        let Some(emulator) = Emulator::start(&monitor) else { return };
        let state =
            || Monitor::open(&monitor).and_then(|mut monitor| monitor.status()).expect("answers");
        let mut keeper = keeper(&monitor);
        // As the machine was started, or as one that migrates in waits.
        assert_eq!(state(), "prelaunch");
        for _ in 0..2 {
            keeper.wake().expect("resumes");
            assert_eq!(state(), "running");
        }
        for _ in 0..2 {
            keeper.sleep().expect("halts");
            assert_eq!(state(), "paused");
        }
        keeper.wake().expect("resumes again");
        assert_eq!(state(), "running");
        assert!(keeper.is_there());
        drop(emulator);
        assert!(!keeper.is_there());
        // One that is gone draws nothing, and nothing wakes it but what starts it.
        keeper.sleep().expect("is off");
        let said = format!("{:#}", keeper.wake().expect_err("gone"));
        assert!(said.contains("there is no `wake` command to start it"), "{said}");
        let line = Emulator::line(&monitor).join(" ");
        let pid = place("qmp-pid");
        let boot = format!("exec {QEMU} {line} -daemonize -pidfile {}", pid.display());
        keeper.boot = ["sh", "-c", &boot].map(str::to_owned).to_vec();
        keeper.wake().expect("is started");
        let number: u32 =
            std::fs::read_to_string(&pid).expect("daemon").trim().parse().expect("a number");
        let at_end = (state(), ebb_host::signals::send(number, ebb_host::signals::Signal::SIGKILL));
        assert_eq!(at_end.0, "running");
        at_end.1.expect("was there");
        _ = std::fs::remove_file(&monitor);
        _ = std::fs::remove_file(&pid);
    }

    #[test]
    fn what_is_no_monitor_is_named() {
        let path = place("qmp-other");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        for (words, expected) in [
            ("hello\n", "the answer is not JSON"),
            ("{}\n", "the answer is not QMP"),
            ("", "the connection has ended"),
            (
                "{\"QMP\":{}}\n{\"event\":\"STOP\"}\n{\"error\":{\"desc\":\"not now\"}}\n",
                "rejected `qmp_capabilities`: not now",
            ),
        ] {
            let server = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = listener.accept().expect("a client");
                    stream.write_all(words.as_bytes()).expect("reads");
                    stream.shutdown(std::net::Shutdown::Write).expect("connected");
                    // Until the client goes.
                    _ = stream.read_to_end(&mut Vec::new());
                });
                keeper(&path).wake()
            });
            let said = format!("{:#}", server.expect_err("no monitor"));
            assert!(said.contains(expected), "{said}");
        }
        _ = std::fs::remove_file(&path);
    }
}
