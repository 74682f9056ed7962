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
    /// The part of that name; of several turns that which carried least.
    pub(super) fn phase(&self, name: &str) -> Result<&Phase> {
        let least = |one: &&Phase, other: &&Phase| {
            one.carried.goodput_mbps.total_cmp(&other.carried.goodput_mbps)
        };
        let found = self.turns(name).min_by(least);
        found.with_context(|| format!("the part `{name}` was not played"))
    }

    /// The turns of a part, in order.
    fn turns(&self, name: &str) -> impl Iterator<Item = &Phase> {
        self.phases.iter().filter(move |phase| phase.name == name)
    }

    /// What one part carried as a share of what another did: the median of their turns.
    pub(super) fn share(&self, name: &str, of: &str) -> Result<f64> {
        let of_turn = |(one, other): (&Phase, &Phase)| {
            one.carried.goodput_mbps / other.carried.goodput_mbps.max(f64::MIN_POSITIVE)
        };
        let mut shares: Vec<f64> = self.turns(name).zip(self.turns(of)).map(of_turn).collect();
        shares.sort_by(f64::total_cmp);
        let median = shares.get(shares.len() / 2).copied();
        median.with_context(|| format!("the parts `{name}` and `{of}` were not played"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &'static str, goodput_mbps: f64) -> Phase {
        let carried = Carried { goodput_mbps, ..Carried::default() };
        Phase { name, carried, tor: TorStatus::default(), ocs: OcsStatus::default(), stolen: 0.0 }
    }

    #[test]
    fn turns_are_compared_each_with_its_neighbour_and_their_median_counts() {
        let turns =
            [("a", 100.0), ("b", 90.0), ("a", 200.0), ("b", 150.0), ("a", 50.0), ("b", 60.0)];
        let phases = turns.map(|(name, mbps)| phase(name, mbps)).into();
        let played = Played { phases, ..Played::default() };
        assert_eq!(played.share("b", "a").ok(), Some(0.9));
        assert_eq!(played.phase("b").map(|phase| phase.carried.goodput_mbps).ok(), Some(60.0));
        assert!(played.share("b", "c").is_err());
    }
}
