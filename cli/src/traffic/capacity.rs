//! The highest rate without loss, by halves (RFC 2544, section 26.1).

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use ebb_traffic::{Constant, Start, Timeline};
use ebb_units::PacketsPerSecond;
use serde::Serialize;

use super::rate::{bit_rate, wire_bits};
use super::send::{SendArgs, short};
use super::{drive, wall_clock};
use crate::generator::{Generator, Sender, TestLink};

/// The search ends when the rates between which the capacity lies are so close.
const CLOSE: f64 = 0.01;
/// Trials at most.
const TRIALS_MAX: usize = 20;

/// One rate that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Trial {
    /// Packets a second that were to be sent.
    pub(crate) rate_pps: f64,
    /// Packets a second that were sent.
    pub(crate) sent_pps: f64,
    /// Packets that were sent.
    pub(crate) sent: u64,
    /// Of those, that never came.
    pub(crate) lost: u64,
    /// Whether the sender kept up.
    pub(crate) sender_kept_up: bool,
}

/// What the trials come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Found {
    transport: &'static str,
    /// Packets a second that went through without loss; absent when even the least lost some.
    capacity_pps: Option<f64>,
    bits_per_second: Option<f64>,
    /// Whether the sender could not send more, so that the capacity may be higher.
    limited_by_sender: bool,
    loss_max_percent: f64,
    trials: Vec<Trial>,
}

/// Which rate is tried next.
#[derive(Debug)]
pub(crate) struct Search {
    /// The highest rate so far without more loss than is accepted.
    pub(crate) good: Option<Trial>,
    bad: Option<f64>,
    most: f64,
    loss_max: f64,
}

impl Search {
    /// Up to `most` packets a second, with a loss of `loss_max` percent at most.
    pub(crate) fn new(most: f64, loss_max: f64) -> Search {
        Search { good: None, bad: None, most, loss_max }
    }

    /// Tries rates until the highest is known, or `trial` has none any more.
    pub(crate) fn run<E>(
        &mut self,
        mut trial: impl FnMut(f64) -> Result<Option<Trial>, E>,
    ) -> Result<Vec<Trial>, E> {
        let mut trials = Vec::new();
        while let Some(rate) = self.next().filter(|_| trials.len() < TRIALS_MAX) {
            let Some(trial) = trial(rate)? else { break };
            self.learn(trial);
            trials.push(trial);
        }
        Ok(trials)
    }

    fn next(&self) -> Option<f64> {
        match (&self.good, self.bad) {
            (None, None) => Some(self.most),
            (Some(good), None) => (good.rate_pps < self.most).then_some(self.most),
            (None, Some(bad)) => (bad > self.most / 1024.0).then_some(bad / 2.0),
            (Some(good), Some(bad)) => {
                (bad - good.rate_pps > CLOSE * bad).then_some((good.rate_pps + bad) / 2.0)
            }
        }
    }

    fn learn(&mut self, trial: Trial) {
        let fine = trial.lost as f64 <= self.loss_max / 100.0 * trial.sent as f64;
        if fine && self.good.is_none_or(|good| trial.sent_pps > good.sent_pps) {
            self.good = Some(trial);
        }
        if !fine {
            self.bad = Some(trial.rate_pps.min(self.bad.unwrap_or(f64::INFINITY)));
        } else if !trial.sender_kept_up {
            // More than the sender can do is not worth trying.
            self.most = trial.rate_pps;
        }
    }
}

pub(super) fn find(
    send: &SendArgs,
    mut links: Vec<Box<dyn TestLink>>,
    transport: &'static str,
    (from, to): ([u8; 6], [u8; 6]),
) -> Result<ExitCode> {
    let mut search = Search::new(send.packets_per_second(), send.loss_max);
    let trials = search.run(|rate| -> Result<Option<Trial>> {
        let pace = Box::new(Timeline::new(Constant::new(wall_clock(), PacketsPerSecond(rate))));
        let sender = Sender { link: 0, stream: send.stream(from, to)?, pace };
        let flows = send.first_flow + send.flows;
        let taken = std::mem::take(&mut links);
        let mut generator =
            Generator::new(taken, vec![sender], flows, Start::Zero).with_clock(wall_clock);
        let seconds = drive(&mut generator, Some(send.seconds), true)?;
        let interrupted = seconds < 0.9 * send.seconds;
        let (summary, owed) = (generator.summary(true), generator.take_owed());
        links = generator.into_links();
        let trial = Trial {
            rate_pps: rate,
            sent_pps: summary.sent as f64 / seconds.max(1e-9),
            sent: summary.sent,
            lost: summary.lost,
            sender_kept_up: short(summary.sent, owed).is_none(),
        };
        if interrupted {
            return Ok(None);
        }
        let held = if trial.sender_kept_up { "" } else { ", the most this sender can send" };
        eprintln!(
            "{:>12.0} /s requested  {:>12.0} /s sent{held}  {} lost",
            trial.rate_pps, trial.sent_pps, trial.lost
        );
        Ok(Some(trial))
    })?;
    let frame = send.frame_bytes();
    report(&search, trials, transport, frame, send.json)
}

fn report(
    search: &Search,
    trials: Vec<Trial>,
    transport: &'static str,
    frame_bytes: f64,
    json: bool,
) -> Result<ExitCode> {
    let capacity_pps = search.good.map(|good| good.sent_pps);
    let found = Found {
        transport,
        capacity_pps,
        bits_per_second: capacity_pps.map(|pps| wire_bits(pps, pps * frame_bytes)),
        limited_by_sender: search.good.is_some_and(|good| !good.sender_kept_up),
        loss_max_percent: search.loss_max,
        trials,
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
    } else if let (Some(pps), Some(bits)) = (found.capacity_pps, found.bits_per_second) {
        let bound = match (found.limited_by_sender, search.bad) {
            (true, _) => "at least; this sender cannot send more",
            (false, None) => "at least; no higher rate was requested (--rate)",
            (false, Some(_)) => "within 1 %",
        };
        writeln!(out, "capacity     {pps:.0} packets/s, {} on the wire; {bound}", bit_rate(bits))?;
    } else {
        writeln!(out, "capacity     none found: packets were lost at every rate tried")?;
    }
    Ok(if found.capacity_pps.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that loses all above its capacity, tried by a sender with a limit of its own.
    fn search(most: f64, capacity: f64, sender: f64) -> (Search, usize) {
        let mut search = Search::new(most, 0.0);
        let mut count = 0;
        while let Some(rate) = search.next() {
            let sent_pps = rate.min(sender);
            let lost = (sent_pps - capacity).max(0.0) as u64;
            let (sent, sender_kept_up) = (sent_pps as u64, rate <= sender);
            search.learn(Trial { rate_pps: rate, sent_pps, sent, lost, sender_kept_up });
            count += 1;
            assert!(count < 40, "{search:?}");
        }
        (search, count)
    }

    #[test]
    fn halves_find_the_capacity_within_a_hundredth() {
        for capacity in [1e4, 123_456.0, 999_999.0] {
            let (search, count) = search(1e6, capacity, 1e9);
            let found = search.good.expect("found").sent_pps;
            assert!(found <= capacity && found >= capacity * 0.985, "{found} of {capacity}");
            assert!(count <= TRIALS_MAX, "{count} trials");
        }
    }

    #[test]
    fn one_trial_is_enough_where_nothing_limits_but_the_sender() {
        let (found, count) = search(1e7, 1e9, 1.03e6);
        let good = found.good.expect("found");
        assert_eq!((good.sent_pps, good.sender_kept_up, count), (1.03e6, false, 1));
        assert!(search(1e6, 0.0, 1e9).0.good.is_none(), "nothing gets through");
    }
}
