//! Comparisons with the kernel: when, and what becomes of those that fail.
//!
//! The kernel says of a list that changed while it was read that it is inconsistent; under churn that can be
//! any number of times in a row. What such a list shows is true and is taken over; what it does not show stays
//! known as it was, until a later one shows everything. Comparisons leave most of the time to what else
//! the control thread does.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, bail};
use ebb_host::clock;
use ebb_host::netlink::{Error, Event, Listed, Part};
use ebb_units::Time;
use tracing::{info, warn};

use super::TableSync;
use crate::rib::Scope;

/// Inconsistent lists of one part that are read one after the other.
const ATTEMPTS_MAX: u32 = 3;
/// Times that a comparison begins anew because messages were lost.
const LOSSES_MAX: u32 = 3;
/// Pauses before what was not read is asked for again.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long the first lists may take.
const FIRST_MAX: Duration = Duration::from_secs(20);

/// What was compared, and when it is again.
#[derive(Debug, Default)]
pub(super) struct Comparisons {
    /// Comparisons begun.
    pub(super) begun: u64,
    /// Parts that could not be read to their end.
    pub(super) unread: u64,
    /// Errors of the kernel's sockets.
    pub(super) failures: u64,
    /// None begins before.
    not_before: Time,
    pause: Duration,
    /// One waits.
    waits: bool,
}

impl Comparisons {
    /// When the one that waits begins.
    pub(super) fn next(&self) -> Option<Time> {
        self.waits.then_some(self.not_before)
    }

    pub(super) fn failed(&mut self, what: &str, error: &dyn Display) {
        self.failures += 1;
        warn!(what, %error, code = "EBB-R075", "cannot read from the kernel; forwarding continues with the known tables");
    }

    /// One took place from `begun` on and left these parts unread.
    fn ended(&mut self, begun: Time, unread: &[Part]) {
        let now = clock::monotonic();
        let took = now.since(begun);
        self.unread += unread.len() as u64;
        if unread.is_empty() {
            self.pause = Duration::ZERO;
            self.not_before = now + 4 * took;
            return;
        }
        self.pause = (2 * self.pause).clamp(PAUSE_MIN, PAUSE_MAX);
        self.not_before = now + self.pause.max(took);
        let parts: Vec<&str> = unread.iter().map(|part| part.name()).collect();
        let again_ms = self.pause.as_millis() as u64;
        warn!(
            parts = parts.join(", "),
            again_ms,
            code = "EBB-R076",
            "kernel tables changed while they were read; trying again later"
        );
    }
}

impl TableSync {
    /// Reads everything for the first time.
    ///
    /// # Errors
    /// When the kernel refuses, or its routes cannot be read to their end for long: without a route, packets
    /// would go where others lead.
    pub(super) fn read_first(&mut self) -> Result<()> {
        let begun = clock::monotonic();
        let mut scope = Scope::All;
        loop {
            self.rib.pass(clock::monotonic(), &mut self.fib);
            self.rib.begin(scope);
            let (unread, refusal) = self.list(scope);
            self.finish(scope, &unread);
            if let Some(refusal) = refusal {
                return Err(anyhow::Error::from(refusal).context("reading the kernel's tables"));
            }
            let lacks = |part: Part| matches!(part, Part::Routes4 | Part::Routes6);
            self.comparisons.ended(begun, &unread);
            if !unread.into_iter().any(lacks) {
                return Ok(());
            }
            if clock::monotonic().since(begun) > FIRST_MAX {
                bail!(
                    "the kernel's routes change too fast to be read; start the router when they \
                    are stable"
                );
            }
            std::thread::sleep(PAUSE_MIN);
            scope = Scope::All;
        }
    }

    /// Compares what the model wants compared, when it is time; whether anything was.
    pub(super) fn catch_up(&mut self) -> bool {
        let mut compared = false;
        while self.rib.wants() {
            self.comparisons.waits = clock::monotonic() < self.comparisons.not_before;
            if self.comparisons.waits {
                break;
            }
            let Some(scope) = self.rib.wanted() else { break };
            self.compare(scope);
            compared = true;
        }
        self.comparisons.waits &= self.rib.wants();
        compared
    }

    fn compare(&mut self, scope: Scope) {
        info!(?scope, code = "EBB-R077", "comparing with the kernel's tables");
        self.comparisons.begun += 1;
        let begun = clock::monotonic();
        self.rib.pass(begun, &mut self.fib);
        self.rib.begin(scope);
        let (unread, error) = self.list(scope);
        self.finish(scope, &unread);
        if let Some(error) = error {
            self.comparisons.failed("reading the kernel's tables", &error);
            if matches!(error, Error::Socket { .. }) {
                self.reopen();
            }
        }
        self.comparisons.ended(begun, &unread);
    }

    fn finish(&mut self, scope: Scope, unread: &[Part]) {
        self.rib.finish_without(unread, &mut self.fib);
        let covers = matches!(scope, Scope::All | Scope::Part(Part::Routes6));
        if covers && !unread.contains(&Part::Routes6) {
            self.look_for_unlisted();
        }
    }

    /// Takes over what the kernel lists; the parts that were not read to their end, and the last error.
    fn list(&mut self, scope: Scope) -> (Vec<Part>, Option<Error>) {
        let wanted = |part: &Part| scope == Scope::All || scope == Scope::Part(*part);
        let parts: Vec<Part> = Part::ALL.into_iter().filter(wanted).collect();
        let mut refusal = None;
        'anew: for _ in 0..LOSSES_MAX {
            let mut unread = Vec::new();
            for part in &parts {
                match self.list_part(*part) {
                    Ok(Listed::Complete) => {}
                    Ok(Listed::Inconsistent) => unread.push(*part),
                    Ok(Listed::Overrun) => {
                        self.rib.apply(&Event::Overrun, &mut self.fib);
                        continue 'anew;
                    }
                    Err(error) => {
                        unread.push(*part);
                        refusal = Some(error);
                    }
                }
            }
            return (unread, refusal);
        }
        (parts, refusal)
    }

    fn list_part(&mut self, part: Part) -> Result<Listed, Error> {
        let (rib, fib, shown) = (&mut self.rib, &mut self.fib, &mut self.shown);
        let mut listed = Listed::Inconsistent;
        for _ in 0..ATTEMPTS_MAX {
            if part == Part::Routes6 {
                shown.list_begins();
            }
            listed = self.monitor.list(part, &mut |event| {
                shown.listed(&event);
                rib.apply(&event, fib);
            })?;
            if listed != Listed::Inconsistent {
                break;
            }
        }
        Ok(listed)
    }
}
