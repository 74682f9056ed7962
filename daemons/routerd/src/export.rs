//! Sends the flows that the workers counted: a thread that sleeps until there is something to send.
//!
//! Neighbours: `applications` makes the [`Exporter`], which makes messages; `sink` takes them away. Where the
//! collector takes nothing the exporter takes nothing either: flows then wait in the workers' caches, which are
//! bounded, and what does not fit there is counted as lost.

pub mod kernel;
mod sink;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_apps::ipfix::{Counts, Exporter, Reading};
use ebb_host::wait::WaitSet;
use ebb_host::{Doorbell, clock, link};
use ebb_units::Time;
use tracing::{info, warn};

use crate::config::{Config, FlowExport};
use crate::router::Router;
use kernel::Gathering;
use sink::Sink;

/// How often the exporter looks at what has ended, where nobody wakes it.
const PERIOD: Duration = Duration::from_millis(500);
/// The same while messages wait to be taken.
const SOON: Duration = Duration::from_millis(20);
/// How long the last messages may take.
const LAST: Duration = Duration::from_secs(2);

/// Tells the operator that export fails, or works again.
pub type Tell = Box<dyn Fn(String) + Send>;

/// Tells what the ports have counted, by their numbers; of none where nobody is to know.
pub type Counted = Box<dyn Fn() -> Vec<Counts> + Send>;

/// What workers received from one port and sent to it.
pub fn counts(router: &Router, slot: usize) -> Counts {
    let port = router.port_counters(slot);
    Counts {
        up: [false; 2],
        packets: [port.received, port.transmitted],
        bytes: router.port_bytes(slot),
        dropped: [port.receive_dropped, port.transmit_invalid + port.transmit_dropped],
    }
}

/// The thread that exports.
pub struct Export {
    stop: Arc<AtomicBool>,
    bell: Arc<Doorbell>,
    thread: Option<JoinHandle<()>>,
}

struct Work {
    exporter: Exporter,
    /// Flows of the kernel path, until the end.
    gathering: Option<Gathering>,
    sink: Sink,
    ports: Vec<String>,
    interfaces: (Time, Vec<u32>),
    counted: Counted,
    tell: Tell,
    told: Option<String>,
}

impl Export {
    /// Exports until [`Export::finish`], woken by `bell`; what the kernel path has counted too.
    ///
    /// # Errors
    /// When the file cannot be opened or there is no thread.
    pub fn start(
        config: &Config,
        (exporter, gathering): (Exporter, Option<Gathering>),
        bell: Arc<Doorbell>,
        counted: Counted,
        tell: Tell,
    ) -> Result<Export> {
        let sink = Sink::open(&config.ipfix)?;
        info!(code = "EBB-R002", "flows are exported to {}", described(&config.ipfix));
        let ports = config.ports.iter().map(|port| port.name.clone()).collect();
        let interfaces = (Time::ZERO, Vec::new());
        let told = None;
        let mut work = Work { exporter, gathering, sink, ports, interfaces, counted, tell, told };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, rung) = (stop.clone(), bell.clone());
        let thread = std::thread::Builder::new().name("ebb-export".into());
        let thread = thread
            .spawn(move || work.run(&stopped, &rung))
            .context("cannot start thread ebb-export")?;
        Ok(Export { stop, bell, thread: Some(thread) })
    }

    /// Sends what is left, as far as the collector takes it; after the workers have ended, and the kernel path.
    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.end();
    }
}

/// The collector or file.
fn described(of: &FlowExport) -> String {
    match (&of.collector, &of.file) {
        (Some(collector), _) => {
            format!("{collector} ({})", format!("{:?}", of.transport).to_lowercase())
        }
        (None, Some(file)) => file.display().to_string(),
        (None, None) => "nowhere".to_owned(),
    }
}

/// Exports to the configured file on its caller's thread and clock: for replays, whose time is that of the
/// captured packets.
pub struct FileExport {
    exporter: Exporter,
    sink: Sink,
    interfaces: Vec<u32>,
}

impl FileExport {
    /// Nothing where the configuration names no file.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(config: &Config, exporter: Option<Exporter>) -> Result<Option<FileExport>> {
        let Some(exporter) = exporter.filter(|_| config.ipfix.file.is_some()) else {
            return Ok(None);
        };
        let interfaces = (1..=config.ports.len() as u32).collect();
        Ok(Some(FileExport { exporter, sink: Sink::open(&config.ipfix)?, interfaces }))
    }

    /// Writes what has ended by now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn turn(&mut self, now: Time) -> Result<()> {
        let reading = self.reading(now);
        loop {
            let (messages, more) = self.exporter.turn(&reading);
            messages.into_iter().for_each(|message| self.sink.push(message));
            self.sink.flush(now, &self.exporter);
            if let Some(problem) = self.sink.problem() {
                anyhow::bail!("ipfix.file: {problem}");
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Writes the rest; after the graph, which leaves it behind, is gone.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self, now: Time) -> Result<()> {
        self.turn(now)?;
        let rest = self.exporter.finish(&self.reading(now));
        rest.into_iter().for_each(|message| self.sink.push(message));
        self.turn(now)
    }

    fn reading(&self, now: Time) -> Reading {
        let interfaces = self.interfaces.clone();
        Reading { now, unix: now.since(Time::ZERO), interfaces, counts: Vec::new() }
    }
}

impl Work {
    fn run(&mut self, stop: &AtomicBool, bell: &Doorbell) {
        let mut wait_set = WaitSet::new();
        loop {
            let last = stop.load(Ordering::SeqCst);
            if last {
                self.gathering.take().into_iter().for_each(Gathering::finish);
            }
            self.turn();
            if last {
                return self.last();
            }
            wait_set.clear();
            wait_set.add(bell.fd());
            self.gathering.iter().for_each(|gathering| wait_set.add(gathering.call()));
            wait_set.wait(Some(if self.sink.waits() { SOON } else { PERIOD }));
            bell.drain();
        }
    }

    fn reading(&mut self) -> Reading {
        let now = clock::monotonic();
        let (since, numbers) = &mut self.interfaces;
        // Interfaces may come again under other numbers.
        if numbers.is_empty() || now.since(*since) > Duration::from_secs(10) {
            let number = |name: &String| link::number(name).unwrap_or(0);
            (*since, *numbers) = (now, self.ports.iter().map(number).collect());
        }
        let (unix, interfaces) = (clock::since_1970(), self.interfaces.1.clone());
        let mut counts = (self.counted)();
        counts.iter_mut().zip(&self.ports).for_each(|(of, name)| of.up = link::is_up(name));
        Reading { now, unix, interfaces, counts }
    }

    fn turn(&mut self) {
        self.gathering.iter_mut().for_each(Gathering::turn);
        let reading = self.reading();
        self.flush(&reading);
        while self.sink.is_ready() {
            let (messages, more) = self.exporter.turn(&reading);
            messages.into_iter().for_each(|message| self.sink.push(message));
            self.flush(&reading);
            if !more {
                break;
            }
        }
        self.say();
    }

    fn flush(&mut self, reading: &Reading) {
        self.sink.connect(reading.now);
        if self.sink.is_new() {
            // A new connection knows no templates (RFC 7011 section 8.1).
            let templates = self.exporter.templates(reading);
            self.sink.push_first(templates);
        }
        self.sink.flush(reading.now, &self.exporter);
    }

    fn last(&mut self) {
        let begun = clock::monotonic();
        let reading = self.reading();
        let rest = self.exporter.finish(&reading);
        rest.into_iter().for_each(|message| self.sink.push(message));
        loop {
            self.turn();
            let waits = self.sink.waits();
            if !waits || clock::monotonic().since(begun) > LAST {
                break;
            }
            std::thread::sleep(SOON);
        }
        self.sink.give_up(&self.exporter);
    }

    fn say(&mut self) {
        let problem = self.sink.problem();
        if problem == self.told {
            return;
        }
        let words = match &problem {
            Some(problem) => format!("flow export: {problem}"),
            None => "flow export: the collector takes messages again".to_owned(),
        };
        warn!(code = "EBB-R003", "{words}");
        (self.tell)(words);
        self.told = problem;
    }
}

#[cfg(test)]
mod tests;
