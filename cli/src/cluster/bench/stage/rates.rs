//! One setup by frame length: the highest rate without loss (RFC 2544, section 26.1), latency at parts of it (26.2, which
//! takes the rate itself), and what flows get of more than fits.

use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_traffic::{Latency, SizeMix};

use super::super::cases::Setup;
use super::{FLOWS, Measured, Stage};
use crate::traffic::capacity::{Search, Trial};

/// Parts of the highest rate at which latency is measured.
pub(in super::super) const LATENCY_AT: [f64; 2] = [0.5, 0.9];
/// Times the highest rate, at which flows compete.
const OVERLOAD: f64 = 1.5;
/// Flows that compete: few, so that each has many packets.
const RIVALS: u32 = 64;
/// Of what is to be sent, what a generator that keeps up sends.
const KEPT_UP: f64 = 0.99;

/// What one setup does with frames of one length.
#[derive(Clone, Debug)]
pub(in super::super) struct Rated {
    pub(in super::super) sizes: SizeMix,
    /// The highest rates without more loss than is accepted, one for each turn; none where even the least lost more.
    pub(in super::super) found: Vec<Option<Trial>>,
    /// At parts of the rate in the middle ([`LATENCY_AT`]); none without one, or where nothing came.
    pub(in super::super) latency_us: Vec<Option<Latency>>,
    /// Packets out of order at these rates.
    pub(in super::super) reordered: u64,
    /// What comes of more than fits.
    pub(in super::super) overload: Option<Measured>,
}

impl Rated {
    /// Packets a second in least, middle and most of the turns; none counts as 0.
    pub(in super::super) fn pps(&self) -> [f64; 3] {
        let mut all: Vec<f64> =
            self.found.iter().map(|trial| trial.map_or(0.0, |trial| trial.sent_pps)).collect();
        all.sort_by(f64::total_cmp);
        let at = |part: usize| all.get(part).copied().unwrap_or(0.0);
        [at(0), at(all.len().saturating_sub(1) / 2), at(all.len().saturating_sub(1))]
    }

    /// Whether in some turn nothing was lost of all that could be sent.
    pub(in super::super) fn limited_by_sender(&self) -> bool {
        self.found.iter().flatten().any(|trial| !trial.sender_kept_up)
    }
}

impl Stage {
    /// Rates one setup for each of the mixes.
    pub(in super::super) fn rate(
        &mut self,
        setup: &Setup,
        mixes: &[SizeMix],
        turns: u32,
        loss_max: f64,
    ) -> Result<Vec<Rated>> {
        let before = self.sizes.clone();
        let rated = self.rate_all(setup, mixes, turns, loss_max);
        self.sizes = before;
        self.freed()?;
        rated
    }

    fn rate_all(
        &mut self,
        setup: &Setup,
        mixes: &[SizeMix],
        turns: u32,
        loss_max: f64,
    ) -> Result<Vec<Rated>> {
        // A link's limit would depend on what another setup carried.
        self.arrange(&Setup { link_part: None, ..*setup }, 0.0)?;
        let mut all = Vec::new();
        for sizes in mixes {
            self.sizes = sizes.clone();
            let rated = self.rate_one(setup, turns, loss_max)?;
            eprintln!("  {}, {} bytes: {:.1} kpps", setup.name, sizes.name(), rated.pps()[1] / 1e3);
            all.push(rated);
        }
        Ok(all)
    }

    fn rate_one(&mut self, setup: &Setup, turns: u32, loss_max: f64) -> Result<Rated> {
        let span = Duration::from_secs_f64(self.seconds);
        let most = self.overload(setup)?;
        let mut found = Vec::new();
        for _ in 0..turns {
            let mut search = Search::new(most, loss_max);
            search.run(|rate| self.trial(setup, rate, span).map(Some))?;
            found.push(search.good);
        }
        let sizes = self.sizes.clone();
        let mut rated =
            Rated { sizes, found, latency_us: Vec::new(), reordered: 0, overload: None };
        let rate = rated.pps()[1];
        if rate > 0.0 {
            for part in LATENCY_AT {
                let summary = self.measure(setup, part * rate, span, FLOWS)?.summary;
                rated.latency_us.push((summary.received > 0).then_some(summary.latency_us));
                rated.reordered += summary.reordered;
            }
            rated.overload = Some(self.measure(setup, OVERLOAD * rate, span, RIVALS)?);
        }
        Ok(rated)
    }

    fn trial(&mut self, setup: &Setup, rate: f64, span: Duration) -> Result<Trial> {
        ensure!(!self.stop.load(super::Relaxed), "interrupted");
        let seen = self.measure(setup, rate, span, FLOWS)?;
        let (sent, lost) = (seen.summary.sent, seen.summary.lost);
        let sender_kept_up = seen.offered_pps >= KEPT_UP * rate;
        Ok(Trial { rate_pps: rate, sent_pps: seen.offered_pps, sent, lost, sender_kept_up })
    }
}
