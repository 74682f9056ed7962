//! Reconfiguration schemes: how one set of tables is replaced by another while packets flow.
//!
//! Room: one file per scheme and one line in [`ALL`]. A scheme turns a [`Case`] into a [`Plan`] of
//! steps and names what must be proved before the first of them is taken; [`prepare`] proves it on
//! the channel dependency graphs and refuses otherwise. What the steps then do to packets is
//! [`crate::sim`]'s affair.

mod case;
pub mod double;
pub mod minimal;
pub mod simple;
pub mod stop;
pub mod trial;
pub mod unsynchronised;
pub mod upstream;

pub use case::Case;

use crate::dependency::ChannelLabel;
use crate::sim::orders::Plan;
use crate::tables::Tables;

/// What packets can rely on while a scheme runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Promise {
    /// No packet is dropped or lost.
    pub lossless: bool,
    /// Packets of a flow arrive in their order.
    pub in_order: bool,
}

/// Something that must be true before a scheme may run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Obligation {
    /// What.
    pub claim: &'static str,
    /// Whether it was proved.
    pub holds: bool,
    /// Why not; empty when it was.
    pub because: String,
    /// The channels of a possible deadlock, each waiting for the next.
    pub cycle: Vec<ChannelLabel>,
}

impl Obligation {
    /// One that was decided by looking.
    #[must_use]
    pub fn plain(claim: &'static str, holds: bool, because: impl Into<String>) -> Obligation {
        let because = if holds { String::new() } else { because.into() };
        Obligation { claim, holds, because, cycle: Vec::new() }
    }
}

/// A plan that may be carried out.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// The tables it leads to: the case's new ones, unless the scheme makes its own.
    pub tables: Tables,
    /// Its steps.
    pub plan: Plan,
    /// What was proved, or, for a run without proof, what was not.
    pub obligations: Vec<Obligation>,
    /// What packets can rely on.
    pub promise: Promise,
}

/// Why a scheme must not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{scheme} is rejected: {}", reasons(.obligations))]
pub struct Refused {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// What had to be proved.
    pub obligations: Vec<Obligation>,
}

fn reasons(obligations: &[Obligation]) -> String {
    let failed = obligations.iter().filter(|obligation| !obligation.holds);
    let reason = |obligation: &Obligation| {
        let cycle: Vec<String> = obligation.cycle.iter().map(ToString::to_string).collect();
        let cycle =
            if cycle.is_empty() { String::new() } else { format!(": {}", cycle.join(" -> ")) };
        format!("not proved that {} ({}{cycle})", obligation.claim, obligation.because)
    };
    failed.map(reason).collect::<Vec<_>>().join("; ")
}

/// A way to change tables.
pub trait Scheme: Sync {
    /// Its name as users write it.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// The steps for a case, with what must be proved for them. The plan is made even where a
    /// proof fails, so that the failure can be shown in the simulator.
    fn propose(&self, case: &Case<'_>) -> Proposal;
}

/// Every scheme.
pub const ALL: [&dyn Scheme; 8] = [
    &stop::Drain,
    &stop::Drop,
    &simple::PacketDropAware,
    &simple::LatencyAware,
    &double::Double,
    &upstream::Upstream,
    &minimal::Minimal,
    &unsynchronised::Unsynchronised,
];

/// The scheme of a name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Scheme> {
    ALL.into_iter().find(|scheme| scheme.name() == name)
}

/// The schemes as words of a setting.
pub(crate) fn words() -> Vec<(&'static str, &'static str)> {
    ALL.iter().map(|scheme| (scheme.name(), "")).collect()
}

/// A plan whose obligations are proved.
///
/// # Errors
/// When one is not.
pub fn prepare(scheme: &dyn Scheme, case: &Case<'_>) -> Result<Proposal, Refused> {
    let proposal = scheme.propose(case);
    if proposal.obligations.iter().all(|obligation| obligation.holds) {
        Ok(proposal)
    } else {
        Err(Refused { scheme: proposal.scheme, obligations: proposal.obligations })
    }
}

/// The first of several schemes whose obligations can be proved.
///
/// # Errors
/// Why each of them is refused.
pub fn choose(schemes: &[&dyn Scheme], case: &Case<'_>) -> Result<Proposal, Vec<Refused>> {
    let mut refused = Vec::new();
    for scheme in schemes {
        match prepare(*scheme, case) {
            Ok(proposal) => return Ok(proposal),
            Err(reason) => refused.push(reason),
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests;
