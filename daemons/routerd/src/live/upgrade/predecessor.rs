//! The new program's side.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_control::policies;
use ebb_graph::PortId;
use ebb_host::Courier;
use ebb_host::clock::monotonic;
use ebb_ports::afxdp::{Handoff, Inheritance, KernelFlows, Umem, find_modules};
use ebb_service::Doors;
use tracing::{info, warn};

use super::steps::{PATIENCE, Take, Taking};
use super::{Offer, OfferedPort, Word, say, spoken, understands};
use crate::config::Config;
use crate::live::Live;
use crate::live::interfaces::Interfaces;
use crate::live::open;
use crate::record::recorded;
use crate::router::{OpenPort, Stopped};

/// How long the running router may take for its offer.
const OFFER: Duration = Duration::from_secs(10);

/// The running router, and what it has offered.
pub(in crate::live) struct Predecessor {
    courier: Courier,
    offer: Offer,
    memory: Option<OwnedFd>,
    doors: Doors,
    ports: Vec<(OfferedPort, Vec<OwnedFd>)>,
    frames: Option<Inheritance>,
    steps: Taking,
    taken: bool,
}

impl Predecessor {
    /// Hears the offer on standard input.
    ///
    /// # Errors
    /// When nobody speaks there, or of something else.
    pub(in crate::live) fn meet() -> Result<Predecessor> {
        let mut courier = Courier::from_stdin().context("cannot use standard input")?;
        let (text, descriptors) = courier.receive(OFFER).context(
            "--take-over is for a program that a running router starts: use `ebb router upgrade`",
        )?;
        let word = serde_json::from_str(&text)
            .context("the running router sent a message that is not understood")?;
        let Word::Offer(offer) = word else {
            anyhow::bail!("the running router did not offer to hand over")
        };
        let declined = !understands(offer.protocol);
        let mut descriptors = descriptors.into_iter();
        let mut next = |there: bool| there.then(|| descriptors.next()).flatten();
        let memory = next(true);
        let doors = Doors { socket: next(offer.socket), metrics: next(offer.metrics) };
        let mut ports = Vec::new();
        for port in &offer.ports {
            ports.push((port.clone(), descriptors.by_ref().take(port.descriptors).collect()));
        }
        find_modules(offer.module.then(|| descriptors.next()).flatten());
        let mut met = Predecessor {
            courier,
            offer: *offer,
            memory,
            doors,
            ports,
            frames: None,
            steps: Taking::Ready,
            taken: false,
        };
        if declined {
            let error = anyhow::anyhow!(
                "cannot take over from the version of the running router: restart it instead"
            );
            met.decline(&error);
            return Err(error);
        }
        Ok(met)
    }

    /// Show the running configuration.
    ///
    /// # Errors
    /// When this program does not understand it.
    pub(in crate::live) fn config(&mut self) -> Result<Config> {
        let config = Config::from_str("the running configuration", &self.offer.config);
        if let Err(error) = &config {
            self.decline(&anyhow::anyhow!("{error}"));
        }
        Ok(config?)
    }

    /// The next word, with which it goes on as `wanted`.
    fn hear(&mut self, wanted: Take) -> Result<Word> {
        let (heard, word) = spoken(self.courier.receive(PATIENCE));
        let act = self.steps.heard(heard);
        let word = word?;
        anyhow::ensure!(act == wanted, "the running router sent an unexpected message");
        Ok(word)
    }

    /// Tells the running router to go on.
    pub(in crate::live) fn decline(&mut self, error: &anyhow::Error) {
        if !self.taken {
            _ = say(&mut self.courier, &Word::Failed { reason: format!("{error:#}") });
        }
    }

    /// Whether the other has given everything up.
    pub(in crate::live) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Its packet memory.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub(in crate::live) fn memory(&mut self) -> Result<Arc<Umem>> {
        let file =
            self.memory.take().context("the running router did not offer its packet memory")?;
        let (umem, frames) =
            Umem::inherit(file, self.offer.frames).context("cannot use the packet memory")?;
        self.frames = Some(frames);
        Ok(umem)
    }

    /// Its ports. Those that it has not open now are taken in when they come.
    ///
    /// # Errors
    /// When one cannot be taken.
    pub(in crate::live) fn ports(
        &mut self,
        config: &Config,
        umem: &Arc<Umem>,
        workers: usize,
        (interfaces, flows): (&Mutex<Interfaces>, Option<&Arc<KernelFlows>>),
    ) -> Result<Vec<OpenPort>> {
        let theirs = self.offer.workers;
        anyhow::ensure!(
            theirs == workers,
            "{theirs} workers run, but this program would start {workers} because the CPUs \
            changed: restart the router instead"
        );
        let mut offered = std::mem::take(&mut self.ports);
        let mut ports = Vec::new();
        for (slot, port) in config.ports.iter().enumerate() {
            let Some(place) = offered.iter().position(|(offered, _)| offered.slot == slot) else {
                ports.push(OpenPort::absent(&port.name));
                continue;
            };
            let (offered, descriptors) = offered.swap_remove(place);
            anyhow::ensure!(offered.name == port.name, "port {slot} is now {}", offered.name);
            let handoff = Handoff { description: offered.description(), descriptors };
            let mut taken = port.clone();
            taken.path = offered.path.unwrap_or(port.path);
            let form = (offered.form(), open::flows_of(port, config, flows));
            let taken = open::take(umem, &taken, form, workers as u32, handoff);
            let (live, open) = taken.with_context(|| format!("port {}", port.name))?;
            interfaces.lock().expect("interfaces").place(PortId(slot as u8), live);
            ports.push(open);
        }
        Ok(ports)
    }
}

impl Live {
    /// Takes everything over. Workers and tables are prepared.
    ///
    /// # Errors
    /// When one of the two cannot; the other router goes on then.
    pub(in crate::live) fn inherit(&mut self, from: &mut Predecessor) -> Result<Doors> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        say(&mut from.courier, &Word::Ready { version })?;
        let Word::Replace(replace) = from.hear(Take::Replace)? else {
            anyhow::bail!("the running router did not report its state")
        };
        let stopped = Stopped::try_from(replace)?;
        let limits = self.backend.router.limits();
        let (mode, settings) = (&self.config.router.mode, &self.config.powersave);
        let policy = policies::resumed(mode, limits, settings, &self.points, stopped.point)?;
        let policy = recorded(policy, self.config.governor.record.as_deref())?;
        self.journal.inherit(&from.offer.journal).context("cannot take over the journal")?;
        // Now that the journal knows how they were found.
        self.exchange_knobs(&self.config);
        for (slot, live) in self.interfaces.lock().expect("interfaces").open.iter_mut().enumerate()
        {
            let Some(live) = live else { continue };
            let table = stopped.present.get(slot).copied().flatten().unwrap_or(stopped.table);
            let result = live.interface.take_over(&table);
            result.with_context(|| {
                format!("cannot replace the XDP program of {}", live.interface.name())
            })?;
        }
        say(&mut from.courier, &Word::Replaced)?;
        from.hear(Take::Accept)?;
        let begun = monotonic();
        if let Some(tunnels) = &self.tunnels {
            tunnels.renew().context("cannot write down which numbers tunnels use")?;
        }
        let frames = from.frames.take().map_or_else(Vec::new, Inheritance::accept);
        let free = frames.len();
        self.reserve.add(frames);
        say(&mut from.courier, &Word::Taken)?;
        from.taken = true;
        self.backend.router.resume(&stopped, policy)?;
        match self.journal.accept(&from.offer.journal) {
            Ok(true) => {}
            // The other one died at once, and its guard put everything back.
            Ok(false) => _ = self.exchange_knobs(&self.config),
            Err(error) => warn!(%error, code = "EBB-R061", "cannot hand over the journal"),
        }
        let (pid, micros) = (from.offer.pid, monotonic().since(begun).as_micros() as u64);
        info!(pid, free, micros, cores = stopped.point.cores, code = "EBB-R059", "took over");
        let (cpus, governor) = (self.backend.router.cpus(), &self.config.governor);
        for live in self.interfaces.lock().expect("interfaces").open.iter_mut().flatten() {
            live.take_knobs(governor, cpus, stopped.point.cores, &self.journal);
        }
        Ok(std::mem::take(&mut from.doors))
    }
}
