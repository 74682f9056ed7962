//! Rules of packet filters as a decision that the kernel path takes for each packet ([`Decision`]): whether all chains on
//! the way of a forwarded packet accept it, and do nothing else.
//!
//! Three steps, none of which does any I/O: what a rule asks of a packet (`ask`), all chains as lines that are asked in order
//! (`lines`), and lines as steps that look only at those which a packet may match (`steps`).
//!
//! The decision is one-sided. What it passes, the rules accept without doing anything else; what it does not pass is asked
//! by the kernel, which drops, counts, logs or rejects it. So wherever a rule is not understood, less passes:
//! one that may accept counts as one that does not, one that may do anything else as one that does.

mod ask;
mod lines;
mod steps;
#[cfg(test)]
mod tests;

use ebb_host::netlink::policy::{Chain, Hook, Ruleset};
use ebb_ports::afxdp::{Decision, Steps};

use super::RouterInterface;

/// At prerouting, destinations are translated here, at postrouting sources (`NF_IP_PRI_NAT_DST`, `_SRC`).
const TRANSLATES_DESTINATIONS: i32 = -100;
const TRANSLATES_SOURCES: i32 = 100;

/// What is compiled for one family.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    /// In any order: the chains that all of them pass.
    pub(super) chains: &'a [&'a Chain],
    pub(super) rules: &'a Ruleset,
    pub(super) places: &'a [RouterInterface],
    pub(super) v6: bool,
    /// Only packets of established connections are decided on.
    pub(super) established: bool,
}

/// The steps for a family, and whether they are for packets with translated addresses as well; nothing where
/// no packet passes.
pub(super) fn compile(task: Task<'_>) -> Option<(Steps, bool)> {
    let mut chains = task.chains.to_vec();
    chains.sort_by_key(|chain| (order(chain.hook), chain.priority));
    // Between the two halves of a translation, addresses are as the decision sees them.
    let translated = chains.iter().all(|chain| match chain.hook {
        Hook::Prerouting => chain.priority > TRANSLATES_DESTINATIONS,
        Hook::Postrouting => chain.priority < TRANSLATES_SOURCES,
        _ => true,
    });
    let (lines, sets) = lines::lines(&chains, task)?;
    let steps = steps::steps(&lines)?;
    Some((Steps { steps, sets }, translated))
}

/// The decision of the families that have steps.
pub(super) fn decision(families: [Option<&(Steps, bool)>; 2]) -> Option<Decision> {
    let translated = families.iter().flatten().all(|(_, translated)| *translated);
    Decision::new(families.map(|one| one.map(|(steps, _)| steps)), !translated)
}

fn order(hook: Hook) -> u8 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Forward => 1,
        _ => 2,
    }
}
