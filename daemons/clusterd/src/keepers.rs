//! How back-ends get their power: programs, commands, namespaces, guests, Wake-on-LAN.

mod guest;
mod namespace;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ebb_host::clock::monotonic;
use ebb_host::journal::Journal;
use ebb_ports::PacketSocket;

use crate::balancer::Mac;
use crate::member::Keeper;
use crate::program::{Program, command};
use crate::routes::Routing;

pub use guest::GuestKeeper;
pub use namespace::{NamespaceRouter, RouterPlan, settings as router_settings};
pub(crate) use namespace::{forget, remember};

/// A command that takes longer has failed.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// Between two looks at a child.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// EtherType of Wake-on-LAN frames.
const WAKE_ON_LAN: [u8; 2] = [0x08, 0x42];

/// Runs a command to its end.
fn run(line: &[String]) -> Result<()> {
    let mut command = command(line)?;
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", line[0]))?;
    let begun = monotonic();
    loop {
        if child.try_wait()?.is_some() {
            let output = child.wait_with_output()?;
            let words = String::from_utf8_lossy(&output.stderr);
            let words = words.trim().lines().last().unwrap_or("no message").to_owned();
            ensure!(output.status.success(), "`{}` failed ({}): {words}", line[0], output.status);
            return Ok(());
        }
        if monotonic().since(begun) > COMMAND_MAX {
            _ = child.kill();
            _ = child.wait();
            bail!("`{}` did not end within {} s", line[0], COMMAND_MAX.as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Starts and ends a program.
pub struct ProcessKeeper {
    line: Vec<String>,
    journal: Journal,
    program: Option<Program>,
}

impl ProcessKeeper {
    /// For a program with its arguments.
    pub fn new(line: &[String], journal: &Journal) -> ProcessKeeper {
        ProcessKeeper { line: line.to_vec(), journal: journal.clone(), program: None }
    }
}

impl Keeper for ProcessKeeper {
    fn wake(&mut self) -> Result<()> {
        self.program = None;
        self.program = Some(Program::start(&self.line, &self.journal)?);
        Ok(())
    }

    fn sleep(&mut self) -> Result<()> {
        self.program = None;
        Ok(())
    }

    fn is_there(&mut self) -> bool {
        self.program.as_ref().is_some_and(Program::is_there)
    }
}

/// Runs a command to give power, and one to take it: a start and a stop of a service, a management card. Both may be run again when they have been.
pub struct CommandKeeper {
    /// Gives power.
    pub wake: Vec<String>,
    /// Takes it.
    pub sleep: Vec<String>,
}

impl Keeper for CommandKeeper {
    fn wake(&mut self) -> Result<()> {
        run(&self.wake)
    }

    fn sleep(&mut self) -> Result<()> {
        run(&self.sleep)
    }
}

/// Waits after the order to wake until a command says that the back-end is ready.
pub struct PatientKeeper {
    /// What wakes.
    pub inner: Box<dyn Keeper>,
    /// What succeeds once it forwards.
    pub ready: Vec<String>,
}

impl Keeper for PatientKeeper {
    fn wake(&mut self) -> Result<()> {
        self.inner.wake()?;
        let begun = monotonic();
        loop {
            let Err(error) = run(&self.ready) else { return Ok(()) };
            if monotonic().since(begun) > COMMAND_MAX {
                self.inner.sleep()?;
                return Err(error.context("it did not become ready"));
            }
            std::thread::sleep(LOOK_EVERY * 5);
        }
    }

    fn sleep(&mut self) -> Result<()> {
        self.inner.sleep()
    }

    fn take_over(&mut self) -> Result<bool> {
        self.inner.take_over()
    }

    fn is_there(&mut self) -> bool {
        self.inner.is_there()
    }

    fn mend(&mut self) -> Result<bool> {
        self.inner.mend()
    }

    fn routing(&mut self) -> Option<&mut Routing> {
        self.inner.routing()
    }
}

/// Sends a magic packet to give power, and runs a command to take it.
pub struct WakeOnLanKeeper {
    /// Where the packet is sent.
    pub interface: String,
    /// The card that listens.
    pub mac: Mac,
    /// Takes power.
    pub sleep: Vec<String>,
}

/// The frame that wakes a card: six bytes of ones and sixteen times its address (AMD, Magic Packet
/// Technology, 1995).
pub fn magic_frame(mac: Mac) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(mac);
    frame.extend(WAKE_ON_LAN);
    frame.extend([0xff; 6]);
    (0..16).for_each(|_| frame.extend(mac));
    frame
}

impl Keeper for WakeOnLanKeeper {
    fn wake(&mut self) -> Result<()> {
        let frame = magic_frame(self.mac);
        let mut socket = PacketSocket::open(&self.interface)
            .with_context(|| format!("cannot open a raw socket on interface {}", self.interface))?;
        // One may be lost.
        for _ in 0..3 {
            socket.stage(|buffer| {
                buffer[..frame.len()].copy_from_slice(&frame);
                frame.len()
            });
        }
        let sent = socket.flush().with_context(|| format!("interface {}", self.interface))?;
        ensure!(sent > 0, "interface {} did not send the frame", self.interface);
        Ok(())
    }

    fn sleep(&mut self) -> Result<()> {
        run(&self.sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_host::signals::{self, Signal};

    fn line(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn commands_say_why_they_fail() {
        let mut keeper = CommandKeeper {
            wake: line(&["sh", "-c", "echo no such machine >&2; exit 3"]),
            sleep: line(&["/no/such/program"]),
        };
        let said = format!("{:#}", keeper.wake().expect_err("fails"));
        assert!(said.contains("`sh` failed") && said.ends_with("no such machine"), "{said}");
        let said = format!("{:#}", keeper.sleep().expect_err("fails"));
        assert!(said.starts_with("cannot start `/no/such/program`"), "{said}");
        keeper.wake = line(&["true"]);
        keeper.wake().expect("runs");
    }

    /// What a program leaves behind when it ends by itself, is killed or is told to end, goes with it.
    #[test]
    fn all_of_a_group_ends() {
        let place = std::env::temp_dir().join(format!("ebb-group-{}", std::process::id()));
        let journal = Journal::open(&place).expect("a journal");
        let file = place.with_extension("pid");
        for (script, word) in [("exit", true), ("wait", false), ("trap '' TERM; wait", true)] {
            let text =
                format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; {script}", file.display());
            let program = Program::start(&line(&["sh", "-c", &text]), &journal).expect("starts");
            let begun = monotonic();
            let other: u32 = loop {
                if let Ok(text) = std::fs::read_to_string(&file) {
                    break text.trim().parse().expect("a number");
                }
                assert!(monotonic().since(begun) < Duration::from_secs(30), "it writes nothing");
                std::thread::sleep(LOOK_EVERY);
            };
            if word {
                drop(program)
            } else {
                program.kill()
            }
            let begun = monotonic();
            // Orphans are reaped by others.
            while ebb_host::process::start_time(other).is_ok() {
                assert!(monotonic().since(begun) < Duration::from_secs(30), "{script}: it is left");
                std::thread::sleep(LOOK_EVERY);
            }
            std::fs::remove_file(&file).expect("was written");
        }
        journal.finish();
        _ = std::fs::remove_dir_all(&place);
    }

    #[test]
    fn a_program_is_started_and_ended_and_its_death_is_seen() {
        let place = std::env::temp_dir().join(format!("ebb-keeper-{}", std::process::id()));
        let journal = Journal::open(&place).expect("a journal");
        let mut keeper = ProcessKeeper::new(&line(&["sleep", "600"]), &journal);
        assert!(!keeper.is_there());
        keeper.wake().expect("starts");
        assert!(keeper.is_there());
        let pid = keeper.program.as_ref().expect("there").id();
        signals::send(pid, Signal::SIGKILL).expect("there");
        let begun = monotonic();
        while keeper.is_there() {
            assert!(monotonic().since(begun) < Duration::from_secs(30), "its death is not seen");
            std::thread::sleep(LOOK_EVERY);
        }
        keeper.wake().expect("starts again");
        keeper.sleep().expect("ends");
        assert!(!keeper.is_there());
        journal.finish();
        _ = std::fs::remove_dir_all(&place);
    }

    /// What the keeper sends is what a card on the same wire gets.
    #[test]
    fn a_card_on_the_wire_is_woken() {
        let Some(space) = ebb_lab::test::namespace("ebb-wake") else { return };
        let card = [0, 0x11, 0x22, 0x33, 0x44, 0x55];
        let heard = space.run(|| -> Result<Vec<Vec<u8>>> {
            use ebb_host::netlink::{Requests, Veth};
            let mut requests = Requests::open()?;
            requests.add_veth(Veth::new("here"), Veth::new("there"))?;
            for name in ["here", "there"] {
                let link = requests.link_by_name(name)?.context("just made")?;
                requests.set_up(link.index, true)?;
            }
            let mut socket = PacketSocket::open("there")?;
            let (interface, sleep) = ("here".to_owned(), Vec::new());
            let mut keeper = WakeOnLanKeeper { interface, mac: card, sleep };
            let (begun, mut heard) = (monotonic(), Vec::new());
            while heard.is_empty() && monotonic().since(begun) < Duration::from_secs(30) {
                // A link that has just come up may not carry yet.
                _ = keeper.wake();
                std::thread::sleep(LOOK_EVERY);
                socket.receive(|frame| {
                    if frame[12..14] == WAKE_ON_LAN {
                        heard.push(frame.to_vec());
                    }
                })?;
            }
            Ok(heard)
        });
        let heard = heard.expect("entered").expect("interfaces");
        let first = heard.first().expect("a frame");
        assert_eq!(first[..], magic_frame(card)[..]);
    }

    #[test]
    fn a_magic_frame_names_its_card_sixteen_times() {
        let frame = magic_frame([0, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!((frame.len(), &frame[12..14]), (116, &[0x08, 0x42][..]));
        assert!(frame[20..].chunks(6).all(|part| part == [0, 0x11, 0x22, 0x33, 0x44, 0x55]));
    }
}
