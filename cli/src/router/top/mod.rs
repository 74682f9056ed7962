//! `ebb router top`.

mod columns;
mod draw;
mod interval;
mod view;

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use ebb_host::signals::Signals;
use ebb_host::wait::WaitSet;
use ebb_routerd::api::Client;
use ratatui::crossterm::event::{self, Event};
use serde_json::json;

use super::Target;
use crate::generator::interrupt_signals;
use crate::watch::Watch;
use interval::{Interval, Look};
use view::{Act, View};

/// Watch a running router
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router top                   until q or Ctrl-C
  ebb router top --every 0.5
  ebb router top --count 10 | cat  a line each time, without a terminal
  ebb router top --json | jq .watts

Keys: q leaves; m chooses another policy (arrows, Enter; Esc goes back); p turns to the ports and back
to the workers; left and right choose the column by which that table is sorted, up and down the order.
With --json each interval is one line: rates are packets and bits a second of that interval, latency
and what dropped_since_start counts are since the start.")]
pub struct Top {
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    target: Target,
}

/// Looks that are remembered: more than a terminal is wide.
const MEMORY: usize = 512;
/// How long a signal may wait while keys are waited for.
const TURN: Duration = Duration::from_millis(250);

impl Top {
    /// Looks again and again.
    pub fn run(self) -> Result<ExitCode> {
        let every = self.watch.interval()?;
        let mut signals = interrupt_signals()?;
        let mut client = self.target.connect()?;
        let keys = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if self.watch.json || !keys {
            self.lines(&mut client, &mut signals, every)?;
        } else {
            self.screen(&mut client, &mut signals, every)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// One line for each interval.
    fn lines(&self, client: &mut Client, signals: &mut Signals, every: Duration) -> Result<()> {
        let mut wait = WaitSet::new();
        wait.add(signals.fd());
        let mut before = client.status()?;
        for _ in 0..self.watch.looks() {
            wait.wait(Some(every));
            if signals.take()?.is_some() {
                break;
            }
            let now = client.status()?;
            let interval = Interval::between(&before, &now);
            let mut out = std::io::stdout().lock();
            if self.watch.json {
                writeln!(out, "{}", serde_json::to_string(&interval)?)?;
            } else {
                writeln!(out, "{}", interval.line())?;
            }
            out.flush()?;
            before = now;
        }
        Ok(())
    }

    /// The whole terminal, until somebody leaves.
    fn screen(&self, client: &mut Client, signals: &mut Signals, every: Duration) -> Result<()> {
        let mut view = View::default();
        let mut before = client.status()?;
        // The first figures come soon, whatever the interval.
        let mut due = Instant::now() + every.min(TURN);
        let mut interval = Interval::between(&before, &before);
        let mut looks: VecDeque<Look> = VecDeque::new();
        let mut left = self.watch.looks();
        let mut screen = Screen::open()?;
        while left > 0 {
            let history = looks.make_contiguous();
            screen.0.draw(|frame| draw::draw(frame, &mut view, &interval, history))?;
            if event::poll(due.saturating_duration_since(Instant::now()).min(TURN))?
                && let Event::Key(key) = event::read()?
            {
                match view.key(key, &interval.mode) {
                    Act::Nothing => {}
                    Act::Leave => break,
                    Act::SetMode(mode) => view.message = set_mode(client, mode),
                }
            }
            if signals.take()?.is_some() {
                break;
            }
            if Instant::now() >= due {
                let now = client.status()?;
                interval = Interval::between(&before, &now);
                looks.push_back(interval.look());
                if looks.len() > MEMORY {
                    looks.pop_front();
                }
                (before, left) = (now, left - 1);
                due = Instant::now() + every;
            }
        }
        Ok(())
    }
}

/// Puts another policy in charge; what the router says to that.
fn set_mode(client: &mut Client, mode: &str) -> Option<String> {
    match client.request(&json!({ "set": { "mode": mode } })) {
        Ok(_) => Some(format!("mode {mode} from now on")),
        Err(error) => Some(error.to_string()),
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
