//! The stage with privileges: `ebb router run` in a network namespace, hosts in another.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebb_host::capability::{self, Capability};
use ebb_host::journal::{DIRECTORY, EntryId, Guard, Journal, Undo};
use ebb_host::process;
use ebb_host::signals::{self, Signal};
use ebb_routerd::status::Status;
use ebb_service::{Client, client};

use super::lab::Lab;
use super::plan::{Plan, host_name};
use super::stage::{Stage, Started, Subject};
use crate::generator::{AfXdpLink, FrameSource, TestLink};

/// How long a router may take until it forwards.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a router may take until it has ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Namespaces with routers that come and go. Dropping it removes them.
pub struct LiveStage {
    plan: Arc<Plan>,
    lab: Option<Lab>,
    frames: FrameSource,
    journal: Journal,
    guard: Option<Guard>,
}

impl LiveStage {
    /// Builds the namespaces and tries AF_XDP in them. To be called before threads are started:
    /// it forks a guard that undoes everything should this process be killed.
    ///
    /// # Errors
    /// When this machine or user does not permit it; nothing is left behind then.
    pub fn new(plan: Arc<Plan>) -> Result<LiveStage> {
        let missing = capability::missing(&[Capability::CAP_SYS_ADMIN, Capability::CAP_NET_ADMIN]);
        ensure!(missing.is_empty(), "this user may not make network namespaces (run it with sudo)");
        Journal::recover_stale(DIRECTORY);
        let journal = Journal::open(DIRECTORY)
            .with_context(|| format!("no journal can be kept in {DIRECTORY}"))?;
        let guard = Guard::spawn(&journal).context("no guard process can be started")?;
        let mut stage =
            LiveStage { lab: None, frames: FrameSource::new(2), journal, guard: Some(guard), plan };
        _ = process::lift_memory_lock_limit();
        stage.lab = Some(Lab::build(&stage.plan, &stage.journal)?);
        stage.links().context("AF_XDP is not permitted")?;
        Ok(stage)
    }

    fn lab(&self) -> &Lab {
        self.lab.as_ref().expect("built with the stage")
    }

    /// The hosts' ends, opened anew.
    fn links(&self) -> Result<Vec<Box<dyn TestLink>>> {
        let open = |side| -> Result<Box<dyn TestLink>> {
            let open = || AfXdpLink::open(host_name(side), &self.frames);
            Ok(Box::new(self.lab().hosts.run(open)??))
        };
        [0, 1].map(open).into_iter().collect()
    }

    fn spawn(&self, mode: &str) -> Result<LiveRouter> {
        let directory = &self.lab().directory;
        let socket = directory.join("router.sock");
        let config = directory.join(format!("{mode}.toml"));
        let journals = Path::new(DIRECTORY);
        fs::write(&config, self.plan.config(mode, &socket, journals))?;
        let log = directory.join("router.log");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["router", "run", "-c"]).arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        // Ctrl-C is for us to pass on, once the figures are in.
        command.process_group(0);
        let child = self.lab().router.run(|| command.spawn())?.context("cannot start a router")?;
        let entry = Undo::process(child.id()).and_then(|undo| self.journal.record(undo));
        let journal = self.journal.clone();
        Ok(LiveRouter { child, entry: entry.ok(), journal, log, socket, client: None })
    }
}

impl Stage for LiveStage {
    fn transport(&self) -> &'static str {
        "af_xdp veth"
    }

    fn start(&mut self, mode: &str) -> Result<Started> {
        let mut router = self.spawn(mode)?;
        router.wait_until_ready(self.plan.routes.len() as u64)?;
        let links = self.links()?;
        Ok((Box::new(router), links))
    }
}

impl Drop for LiveStage {
    fn drop(&mut self) {
        self.journal.finish();
        self.lab = None;
        self.guard = None;
    }
}

struct LiveRouter {
    child: Child,
    entry: Option<EntryId>,
    journal: Journal,
    log: PathBuf,
    socket: PathBuf,
    client: Option<Client>,
}

impl LiveRouter {
    /// Waits until the router knows the kernel's routes.
    fn wait_until_ready(&mut self, routes: u64) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < START_PATIENCE {
            self.check_alive()?;
            if self.client.is_none() {
                self.client = client(&self.socket).ok();
            }
            if let Some(client) = &mut self.client
                && client.status::<Status>().is_ok_and(|status| status.tables.routes >= routes)
            {
                return Ok(());
            }
            std::thread::sleep(POLL_EVERY);
        }
        bail!("the router was not ready after {} s{}", START_PATIENCE.as_secs(), self.last_words())
    }

    fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the router ended ({status}){}", self.last_words()),
            None => Ok(()),
        }
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().map(|line| format!("\n  {line}")).collect()
    }

    fn end(&mut self) -> Result<()> {
        _ = signals::send(self.child.id(), Signal::SIGTERM);
        let begun = Instant::now();
        let mut ended = self.child.try_wait()?;
        while ended.is_none() && begun.elapsed() < STOP_PATIENCE {
            std::thread::sleep(POLL_EVERY);
            ended = self.child.try_wait()?;
        }
        let status = match ended {
            Some(status) => status,
            None => {
                self.child.kill()?;
                self.child.wait()?
            }
        };
        if let Some(entry) = self.entry.take() {
            self.journal.forget(entry);
        }
        anyhow::ensure!(status.success(), "the router ended badly ({status}){}", self.last_words());
        Ok(())
    }
}

impl Subject for LiveRouter {
    fn status(&mut self) -> Result<Status> {
        self.check_alive()?;
        let client = self.client.as_mut().context("the router was never ready")?;
        let status = client.status();
        status.with_context(|| format!("the router does not answer{}", self.last_words()))
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(process::cpu_time_of(self.child.id())?)
    }

    fn stop(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for LiveRouter {
    fn drop(&mut self) {
        if self.entry.is_some() {
            _ = self.end();
        }
    }
}
