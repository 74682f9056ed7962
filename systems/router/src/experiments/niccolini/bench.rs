//! The paper's test bench: its router on 64-byte packets, and words all figures share.

use ebb_power::{PacketCost, Server};
use ebb_report::{Context, ExperimentError, Series};
use ebb_scenario::{Document, MemoryFiles};
use ebb_study::StudyError;
use ebb_units::PacketsPerSecond;

use crate::plan::Estimate;
use crate::{Outcome, Twin};

/// The router of the paper forwarding IPv4 packets of 64 bytes.
pub(super) fn router() -> Estimate {
    Estimate::new(Server::niccolini2012(), PacketCost::ipv4_routing(), 64.0)
}

/// Millions of packets a second.
pub(super) fn mpps(millions: f64) -> PacketsPerSecond {
    PacketsPerSecond(millions * 1e6)
}

/// Power at the highest rate that a point sustains.
pub(super) fn full(router: &Estimate, cores: u16, frequency: u16) -> f64 {
    router.watts(cores, frequency, router.capacity(cores, frequency)).0
}

/// Packets per joule at the highest rate that a point sustains.
pub(super) fn per_joule(router: &Estimate, cores: u16, frequency: u16) -> f64 {
    router.capacity(cores, frequency).0 / full(router, cores, frequency)
}

/// A line over the frequencies for some numbers of cores.
pub(super) fn over_frequency(router: &Estimate, value: impl Fn(u16, u16) -> f64) -> Vec<Series> {
    let line = |cores: u16| {
        let points = router.frequencies().iter().zip(0..);
        let points = points.map(|(hertz, index)| (hertz.as_ghz(), value(cores, index))).collect();
        Series::line(format!("{cores} cores"), points)
    };
    [1, 2, 4, 6, 8, 12].into_iter().map(line).collect()
}

/// PowerSave as the paper prints it, without the holding times of ours. It prints no `c_down`;
/// 1,024 samples were chosen to meet the mean latency of figure 16, everything else follows.
pub(super) const AS_PUBLISHED: &str = "{ as_published = true, count_down = 1024 }";

/// Runs the twin on a scenario in TOML.
pub(super) fn twin(context: &Context<'_>, scenario: &str) -> Result<Outcome, ExperimentError> {
    let run = || {
        let document = Document::parse("scenario.toml", scenario)?;
        let twin = Twin::new(&document, &MemoryFiles::new(), context.seed)?;
        let outcome = twin.run(&mut *twin.policy(), context.progress)?;
        Ok::<Outcome, StudyError>(outcome)
    };
    run().map_err(ExperimentError::from_error)
}
