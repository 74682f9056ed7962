//! The running router's side.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_graph::Pool;
use ebb_host::clock::monotonic;
use ebb_host::wait::{Readiness, WaitSet};
use ebb_host::{Courier, process, service};
use ebb_ports::afxdp::module_descriptor;
use ebb_units::Time;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::steps::{Heard, Leave, Leaving};
use super::{Offer, OfferedPort, PROTOCOL, Replace, Spoken, Word, say, spoken};
use crate::handover::retire_all;
use crate::live::Live;
use crate::tunnel_state::Keeper;

/// How long the kernel's packets may take to be handed to it.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long clients may take to hear their answers, on a machine that has much else to do.
const ANSWERS: Duration = Duration::from_secs(3);

/// How long is read at most of what has come, before others have their turn.
const GLANCE: Duration = Duration::from_millis(1);

/// Another program that is to take over, and who asked for it.
pub(in crate::live) struct Successor {
    child: Child,
    courier: Courier,
    answer: SyncSender<Result<Value, String>>,
    begun: Time,
    steps: Leaving,
}

impl Successor {
    /// Readable when it has said something, or ended.
    pub(in crate::live) fn fd(&self) -> RawFd {
        self.courier.fd()
    }

    /// Ends it, and with it its share of sockets and memory.
    fn kill(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }

    /// The word that is waited for, which leads to the next step; nothing while it has not come whole and there is time.
    ///
    /// # Errors
    /// When the other is late, has ended or said anything else: this program goes on as before.
    fn hear(&mut self, time_is_over: bool) -> Option<Result<Word>> {
        let mut trouble = None;
        let (mut heard, mut word): Spoken = spoken(self.courier.receive(GLANCE));
        if heard == Heard::Nothing && !time_is_over {
            return None;
        }
        loop {
            match self.steps.heard(heard) {
                Leave::Stay => {
                    let other = word.err().unwrap_or_else(out_of_turn);
                    return Some(Err(trouble.unwrap_or(other)));
                }
                Leave::Listen => {
                    trouble = trouble.or(Some(word.err().unwrap_or_else(out_of_turn)));
                    (heard, word) = spoken(self.courier.last_words());
                }
                Leave::Replace | Leave::Take | Leave::End => return Some(word),
            }
        }
    }

    fn has_spoken(&self) -> bool {
        let mut wait_set = WaitSet::new();
        wait_set.add(self.fd());
        wait_set.wait(Some(Duration::ZERO));
        wait_set.readiness(0) != Readiness::Idle
    }
}

impl Live {
    /// Starts `program`, or the present one as it is on disk by now, and offers it everything.
    ///
    /// # Errors
    /// When it cannot be started, or a port is being closed.
    pub(in crate::live) fn start_upgrade(
        &mut self,
        program: Option<PathBuf>,
        answer: SyncSender<Result<Value, String>>,
    ) -> Result<()> {
        anyhow::ensure!(self.upgrade.is_none(), "an upgrade is already running");
        self.ensure_lasting_tunnels()?;
        self.begin_upgrade(program, answer).inspect_err(|_| self.take_back())
    }

    fn begin_upgrade(
        &mut self,
        program: Option<PathBuf>,
        answer: SyncSender<Result<Value, String>>,
    ) -> Result<()> {
        let program = program.unwrap_or_else(|| self.program.clone());
        let (mut courier, theirs) = Courier::pair()?;
        let (offer, descriptors) = self.offer()?;
        let mut command = Command::new(&program);
        command.args(["router", "run", "--take-over", "-c"]).arg(&self.path);
        // The manager's watch is for the main process, which it is to become: not for this number alone.
        let child = command
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .with_context(|| program.display().to_string())?;
        info!(program = %program.display(), pid = child.id(), code = "EBB-R060", "started the program that takes over");
        let text = serde_json::to_string(&Word::Offer(Box::new(offer)))?;
        let sent = courier.send(&text, descriptors);
        self.upgrade = Some(Successor {
            child,
            courier,
            answer,
            begun: monotonic(),
            steps: Leaving::Prepares,
        });
        // Whoever shares the sockets by now has to end before they may be closed.
        sent.context("the new program has ended").or_else(|error| {
            self.fail(&error);
            Ok(())
        })
    }

    fn offer(&self) -> Result<(Offer, Vec<OwnedFd>)> {
        let memory = self.umem.file().context("the packet memory cannot be shared")?;
        let mut descriptors = vec![memory.as_fd().try_clone_to_owned()?];
        let doors = self.api.as_ref().context("metrics and status are not served")?.doors()?;
        let (socket, metrics) = (doors.socket.is_some(), doors.metrics.is_some());
        descriptors.extend(doors.socket.into_iter().chain(doors.metrics));
        let mut ports = Vec::new();
        let interfaces = self.interfaces.lock().expect("interfaces");
        for (slot, live) in interfaces.open.iter().enumerate() {
            let Some(live) = live else { continue };
            let name = live.interface.name();
            let handoff = live.interface.hand_off()?;
            let handoff = handoff.with_context(|| format!("port {name} is being closed"))?;
            let count = handoff.descriptors.len();
            ports.push(OfferedPort::new(slot, live, handoff.description, count));
            descriptors.extend(handoff.descriptors);
        }
        let module = module_descriptor();
        let has_module = module.is_some();
        descriptors.extend(module);
        let offer = Offer {
            protocol: PROTOCOL,
            pid: std::process::id(),
            config: self.config.to_table().to_string(),
            workers: self.backend.router.cpus().len(),
            frames: self.umem.region().frames(),
            journal: self.journal.path().to_owned(),
            socket,
            metrics,
            ports,
            module: has_module,
        };
        Ok((offer, descriptors))
    }

    /// Answers what the new program has said; ends this process once it has taken over.
    pub(in crate::live) fn converse_with_successor(&mut self) {
        let Some(successor) = &mut self.upgrade else { return };
        let time_is_over = monotonic().since(successor.begun) > successor.steps.patience();
        if !successor.has_spoken() {
            if time_is_over {
                self.fail(&anyhow::anyhow!("the new program was not ready in time"));
            }
            return;
        }
        let Some(heard) = successor.hear(time_is_over) else { return };
        let mut version = String::new();
        let said = heard.map(|word| {
            if let Word::Ready { version: told } = word {
                version = told;
            }
        });
        match said.and_then(|()| self.leave()) {
            Ok(silence) => self.end(&version, silence),
            Err(error) => self.fail(&error),
        }
    }

    /// The next word. Commands are carried out meanwhile and, while packets flow, the kernel's tables and policy are
    /// followed: neither waits for a program that says nothing.
    ///
    /// # Errors
    /// As [`Successor::hear`]; whoever tells this program to end or to reload waits for no other.
    fn await_word(&mut self, packets_flow: bool) -> Result<Word> {
        let mut wait_set = WaitSet::new();
        let begun = monotonic();
        let mut is_told = false;
        loop {
            let successor = self.upgrade.as_mut().expect("a program that is ready");
            let left = successor.steps.patience().saturating_sub(monotonic().since(begun));
            if let Some(word) = successor.hear(left.is_zero() || is_told) {
                return word;
            }
            wait_set.clear();
            wait_set.add(self.signals.fd());
            wait_set.add(successor.fd());
            wait_set.add(self.backend.control.fd());
            if packets_flow {
                self.wait_for_kernel(&mut wait_set);
            }
            let patience = self.vigil.patience(self.patience()).min(left);
            self.vigil.sleep(|| wait_set.wait(Some(patience)));
            is_told = wait_set.readiness(0) != Readiness::Idle;
            self.backend.control.drain();
            if packets_flow {
                self.follow_kernel();
            }
            self.carry_out_commands();
        }
    }

    fn say_to_successor(&mut self, word: &Word) -> Result<()> {
        let successor = self.upgrade.as_mut().expect("a program that is ready");
        say(&mut successor.courier, word)
    }

    fn ensure_same_links(&self) -> Result<()> {
        let changed = !self.interfaces.lock().expect("interfaces").link_changes.is_empty();
        anyhow::ensure!(!changed, "a link changed meanwhile: try again");
        Ok(())
    }

    /// The steps from `replace` to `taken`: how long no worker received. When it fails the workers
    /// go on, and the new program may have its XDP programs in place of ours.
    fn leave(&mut self) -> Result<Duration> {
        let router = self.backend.router.clone();
        self.ensure_same_links()?;
        let frozen = router.freeze();
        self.say_to_successor(&Word::Replace(Replace::from(&frozen.stopped())))?;
        self.await_word(true)?;
        self.ensure_same_links()?;
        let begun = monotonic();
        let held = frozen.hold();
        let held = held.map_err(|late| anyhow::anyhow!("workers {late:?} did not stop"))?;
        let mut pool = Pool::new(self.reserve.clone());
        let copies = self.injection.copies();
        let _copies = self.injection.leave_frames(&copies, &mut pool);
        let remembered = self.tunnels.as_ref().map_or(Ok(()), Keeper::leave);
        let taken = remembered
            .context("cannot write down what came in tunnels")
            .and_then(|()| self.say_to_successor(&Word::Take))
            .and_then(|()| self.await_word(false))
            .map(|_| monotonic().since(begun));
        match &taken {
            // Locked for good: a governor that waits for the tables would have workers run again.
            Ok(_) => std::mem::forget(frozen),
            Err(_) => {
                // Not before it has certainly stopped.
                self.upgrade.iter_mut().for_each(Successor::kill);
                held.release(router.shared());
            }
        }
        taken
    }

    /// The new program has everything: what is left is to say so.
    fn end(&mut self, version: &str, silence: Duration) -> ! {
        let Some(Successor { mut child, answer, .. }) = self.upgrade.take() else { unreachable!() };
        service::main_process(child.id());
        self.api.iter().for_each(|api| api.stop_accepting());
        let micros = silence.as_micros() as u64;
        // They wait for a neighbour's address, and their frames are the other's by now.
        let workers = &self.backend.router.shared().workers;
        let lost: u64 = workers.iter().map(|worker| worker.route.held()).sum();
        info!(
            pid = child.id(),
            version,
            micros,
            lost,
            code = "EBB-R062",
            "another program has taken over"
        );
        let outcome =
            json!({ "pid": child.id(), "version": version, "silence_us": micros, "lost": lost });
        _ = answer.send(Ok(outcome));
        self.injection.end();
        std::thread::sleep(LAST_WORDS);
        self.api.iter().for_each(|api| api.wait_until_answered(ANSWERS));
        // The new program has removed the file by now, or died.
        match child.try_wait() {
            Ok(Some(_)) => _ = self.journal.finish(),
            _ => {
                if let Err(error) = self.journal.bequeath() {
                    warn!(%error, code = "EBB-R061", "cannot hand over the journal");
                }
            }
        }
        // To give hundreds of megabytes back takes the kernel a while, on the CPUs of the new workers.
        process::withdraw(self.backend.router.cpus().iter().flatten().copied());
        // The other program counts flows of its own; those that we have begun are ours to tell.
        if let Some(export) = self.export.take() {
            for worker in retire_all(self.backend.router.shared()) {
                warn!(
                    worker,
                    code = "EBB-R084",
                    "its flows are not told: it was not ready in time"
                );
            }
            export.finish();
        }
        // Nothing is closed and nothing undone: it is all in use.
        std::process::exit(0)
    }

    /// Goes on as before.
    fn fail(&mut self, error: &anyhow::Error) {
        let Some(mut successor) = self.upgrade.take() else { return };
        successor.kill();
        warn!(code = "EBB-R063", "the upgrade failed, this program keeps running: {error:#}");
        self.take_back();
        let reason = format!("the upgrade failed, the running program continues: {error:#}");
        _ = successor.answer.send(Err(reason));
    }
}

impl Live {
    /// Puts this program's own programs back where another process may have its own by now.
    fn take_back(&self) {
        for live in self.interfaces.lock().expect("interfaces").open.iter().flatten() {
            if let Err(error) = live.interface.take_back() {
                warn!(port = live.interface.name(), %error, code = "EBB-R064", "cannot restore the XDP program");
            }
        }
    }
}

fn out_of_turn() -> anyhow::Error {
    anyhow::anyhow!("the new program sent an unexpected message")
}
