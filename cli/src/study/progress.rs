//! How far a job is, on the terminal, and Ctrl-C.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_scenario::Progress;
use ebb_study::{Event, Watcher};

use crate::generator::{interrupt_signals, on_interrupt};

/// How often the line on the terminal changes.
const REFRESH: Duration = Duration::from_millis(100);
/// How often there is a further line where standard error is no terminal.
const LINES: Duration = Duration::from_secs(5);

/// Progress as a line on standard error that changes, or where that is no terminal as a line every
/// few seconds; ended by Ctrl-C.
pub struct Watched {
    stop: Arc<AtomicBool>,
    line: Mutex<Line>,
    live: bool,
}

struct Line {
    began: Instant,
    shown: Option<Instant>,
}

impl Watched {
    /// Watches from now on. To be called before any thread starts.
    ///
    /// # Errors
    /// When signals cannot be taken.
    pub fn start() -> Result<Watched> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let signals = interrupt_signals().context("cannot wait for Ctrl-C")?;
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        let line = Line { began: Instant::now(), shown: None };
        Ok(Watched { stop, line: Mutex::new(line), live: std::io::stderr().is_terminal() })
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.live && self.line.lock().is_ok_and(|line| line.shown.is_some()) {
            eprint!("\r\x1b[K");
        }
    }
}

impl Progress for Watched {
    fn at(&self, done: f64, note: &str) {
        let Ok(mut line) = self.line.lock() else { return };
        let now = Instant::now();
        // A run of a few seconds need not say how far it is.
        let last = if self.live { line.shown } else { line.shown.or(Some(line.began)) };
        if last.is_some_and(|shown| now - shown < if self.live { REFRESH } else { LINES }) {
            return;
        }
        line.shown = Some(now);
        let elapsed = (now - line.began).as_secs_f64();
        let left = if done > 0.01 && elapsed > 2.0 {
            format!(", {} left", span(elapsed * (1.0 - done) / done))
        } else {
            String::new()
        };
        let percent = 100.0 * done.clamp(0.0, 1.0);
        let (start, end) = if self.live { ("\r\x1b[K", "") } else { ("ebb: ", "\n") };
        let _ = write!(std::io::stderr(), "{start}{percent:3.0} %{left}  {note}{end}");
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

impl Watcher for Watched {
    fn event(&self, event: &Event) {
        let finished = match event {
            Event::RunsReused(runs) => format!("{runs} runs"),
            Event::PointsReused { finished, all } => format!("{finished} of {all} points"),
        };
        eprintln!("ebb: {finished} are finished already (compute them again with --fresh)");
    }
}

fn span(seconds: f64) -> String {
    match seconds.max(0.0) as u64 {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..5400 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_people_read() {
        for (seconds, text) in
            [(0.4, "0 s"), (89.0, "89 s"), (91.0, "2 min"), (7300.0, "2 h 1 min")]
        {
            assert_eq!(span(seconds), text);
        }
    }
}
