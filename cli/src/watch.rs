//! Looking at a running daemon again and again: `ebb router top`, `ebb cluster top` and `ebb tor top` are
//! this view over a [`Panel`] of metrics.

mod draw;
pub mod panel;
mod view;

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_host::signals::{Signal, Signals};
use ebb_host::wait::{Readiness, WaitSet};
use ebb_service::{ClientError, client};
use ebb_telemetry::Snapshot;
use ratatui::crossterm::event::{self, Event};

use panel::{Modes, Panel};
use view::{Act, View};

/// How often, and how it is shown.
#[derive(Debug, Args)]
pub struct Watch {
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
    /// Stop after this many readings [default: none]
    #[arg(long)]
    count: Option<u64>,
    /// Print a line of JSON per reading
    #[arg(long)]
    json: bool,
}

/// Looks that are remembered: more than a terminal is wide.
const MEMORY: usize = 512;
/// How long a signal may wait while keys or snapshots are waited for.
const TURN: Duration = Duration::from_millis(250);

impl Watch {
    /// Looks again and again at the daemon behind `socket`.
    ///
    /// # Errors
    /// When the interval is none, nobody answers, or nobody reads.
    pub fn run(&self, panel: &Panel, socket: &Path) -> Result<ExitCode> {
        let good = (0.05..=86_400.0).contains(&self.every);
        ensure!(good, "--every must be from 0.05 to 86400, not {}", self.every);
        // A terminal that hangs up ends the program as the kernel does it.
        let mut signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM])?;
        let keys = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let lines = self.json || !keys;
        let mut looks = Looks::start(socket, Duration::from_secs_f64(self.every), !lines)?;
        if lines {
            self.lines(panel, &mut looks, &mut signals)?;
        } else {
            self.screen(panel, &mut looks, &mut signals, socket)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn looks(&self) -> u64 {
        self.count.unwrap_or(u64::MAX)
    }

    /// One line for each interval.
    fn lines(&self, panel: &Panel, looks: &mut Looks, signals: &mut Signals) -> Result<()> {
        let mut left = self.looks();
        while left > 0 && signals.take()?.is_none() {
            let Some(now) = looks.next(TURN)? else { continue };
            let line =
                if self.json { serde_json::to_string(&now)? } else { draw::line(panel, &now) };
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}")?;
            out.flush()?;
            left -= 1;
        }
        Ok(())
    }

    /// The whole terminal, until somebody leaves.
    fn screen(
        &self,
        panel: &Panel,
        looks: &mut Looks,
        signals: &mut Signals,
        socket: &Path,
    ) -> Result<()> {
        let mut view = View::of(panel);
        let mut now = looks.before.clone();
        let mut history: VecDeque<Vec<f64>> = VecDeque::new();
        let mut left = self.looks();
        let mut screen = Screen::open()?;
        let mut wait = WaitSet::new();
        wait.add(std::io::stdin().as_raw_fd());
        wait.add(signals.fd());
        while left > 0 && signals.take()?.is_none() {
            let past = history.make_contiguous();
            screen.0.draw(|frame| draw::draw(frame, panel, &mut view, &now, past))?;
            wait.wait(Some(TURN.min(Duration::from_secs_f64(self.every))));
            // The terminal is gone: waiting there for keys would take a whole processor for ever.
            if wait.readiness(0) == Readiness::Broken {
                break;
            }
            while event::poll(Duration::ZERO)? {
                let Event::Key(key) = event::read()? else { continue };
                let mode = panel.modes.map_or("", |modes| now.fact(modes.fact));
                match (view.key(key, mode), panel.modes) {
                    (Act::Leave, _) => return Ok(()),
                    (Act::Choose(name), Some(modes)) => {
                        view.message = Some(choose(modes, socket, name));
                    }
                    _ => {}
                }
            }
            if let Some(look) = looks.next(Duration::ZERO)? {
                history.push_back(draw::look(panel, &look));
                if history.len() > MEMORY {
                    history.pop_front();
                }
                (now, left) = (look, left - 1);
            }
        }
        Ok(())
    }
}

/// Puts another mode in force; what the daemon says to that.
fn choose(modes: &Modes, socket: &Path, name: &str) -> String {
    let done =
        client(socket).map_err(Into::into).and_then(|mut client| (modes.set)(&mut client, name));
    done.map_or_else(|error| format!("{error:#}"), |()| format!("{} {name} set", modes.fact))
}

/// Snapshots of a daemon with rates since the one before.
struct Looks {
    before: Snapshot,
    heard: Receiver<Result<Snapshot, ClientError>>,
}

impl Looks {
    /// Waits for the first. With `soon` the next follows at once, whatever the interval.
    fn start(socket: &Path, every: Duration, soon: bool) -> Result<Looks> {
        let mut stream = client(socket)?.subscribe(every)?;
        let first = stream.next().context("the daemon closed the connection")?;
        let before = first.context("the daemon sends no snapshots; is its version older?")?;
        if soon && every > TURN {
            std::thread::sleep(TURN);
            stream = client(socket)?.subscribe(every)?;
        }
        let (sender, heard) = sync_channel(1);
        let path = socket.to_owned();
        std::thread::spawn(move || {
            loop {
                let mut said = stream.next();
                // Another process may have taken over: it answers on the same socket.
                if let Some(Err(_)) = said
                    && let Ok(other) = client(&path).and_then(|client| client.subscribe(every))
                {
                    stream = other;
                    said = stream.next();
                }
                let Some(said) = said else { return };
                let last = said.is_err();
                if sender.send(said).is_err() || last {
                    return;
                }
            }
        });
        Ok(Looks { before, heard })
    }

    /// The next, if it comes within `patience`.
    fn next(&mut self, patience: Duration) -> Result<Option<Snapshot>> {
        let now = match self.heard.recv_timeout(patience) {
            Ok(said) => said?,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                anyhow::bail!("the daemon closed the connection")
            }
        };
        let look = now.clone().since(&self.before);
        self.before = now;
        Ok(Some(look))
    }
}

/// The terminal's second screen with single keys, until dropped.
struct Screen(ratatui::DefaultTerminal);

impl Screen {
    fn open() -> std::io::Result<Screen> {
        Ok(Screen(ratatui::try_init()?))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        _ = self.0.show_cursor();
        _ = ratatui::try_restore();
    }
}
