//! What was played: each part's load and what the switches counted meanwhile.

use anyhow::{Context, Result};
use ebb_tord::status::{OcsStatus, TorStatus};

use super::faults::Faults;
use super::load::Carried;

/// One part of the demonstration.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) carried: Carried,
    /// What the top-of-rack switch counted meanwhile.
    pub(super) tor: TorStatus,
    /// What the optical switch did.
    pub(super) ocs: OcsStatus,
    /// Share of the processors' time that the hypervisor gave to others.
    pub(super) stolen: f64,
}

impl Phase {
    /// Frames sent and not received.
    pub(super) fn lost(&self) -> u64 {
        self.carried.sent.saturating_sub(self.carried.received)
    }

    /// Frames that the light lost, of those that came for a circuit.
    pub(super) fn share_outside(&self) -> f64 {
        self.ocs.outside_their_day() as f64 / self.ocs.frames.max(1) as f64
    }

    /// Share of a processor that the top-of-rack switch used.
    pub(super) fn busy(&self) -> f64 {
        self.tor.cpu_seconds / self.tor.uptime_seconds.max(1e-3)
    }

    pub(super) fn line(&self) -> String {
        let outside = format!(
            "{} of {} frames outside their day ({:.3} %)",
            self.ocs.outside_their_day(),
            self.ocs.frames,
            100.0 * self.share_outside()
        );
        let outside = if self.ocs.frames > 0 { outside } else { "no circuits".to_owned() };
        format!(
            "{:<28} {:>7.1} Mb/s per host, {outside}, switch {:.0} % busy",
            self.name,
            self.carried.goodput_mbps,
            100.0 * self.busy()
        )
    }
}

/// All of it.
#[derive(Default)]
pub(super) struct Played {
    pub(super) phases: Vec<Phase>,
    pub(super) faults: Option<Faults>,
    pub(super) cpus: usize,
}

impl Played {
    pub(super) fn phase(&self, name: &str) -> Result<&Phase> {
        let found = self.phases.iter().find(|phase| phase.name == name);
        found.with_context(|| format!("the part `{name}` was not played"))
    }
}
