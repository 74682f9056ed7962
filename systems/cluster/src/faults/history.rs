//! What nodes asked of the store and were answered: the history of the cluster's owners, to be compared with what the
//! store promises ([`Owners`]).
//!
//! Each message counts by itself: what arrives twice is asked twice. Who was cut off, deaf or dead when an answer came
//! has none.

use std::time::Duration;

use ebb_cluster::{LeaseEnd, Owned, OwnerDeed, Owners, Renewal, Write, lease_ends};
use ebb_des::{Operation, Unexplained, linearize};
use ebb_units::Time;

use super::store::{Answer, Ask};
use super::{LEASE, member_name};

/// What is under way has arrived by then, and is on the disk.
const UNDER_WAY: Duration = Duration::from_millis(800 + 900);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    pub(super) operations: Vec<Operation<OwnerDeed>>,
    stopped: bool,
}

impl Recorder {
    fn note(&mut self, called: Time, until: Time, answered: bool, deed: OwnerDeed) -> usize {
        let until = Some(until);
        self.operations.push(Operation { session: None, called, until, answered, deed });
        self.operations.len() - 1
    }

    /// From now on nothing is written down.
    pub(super) fn stops(&mut self) {
        self.stopped = true;
    }

    /// A message is on its way to the store: its place, if owners depend on it.
    pub(super) fn asked(&mut self, now: Time, node: usize, ask: &Ask) -> Option<usize> {
        if self.stopped {
            return None;
        }
        let deed = match ask {
            Ask::Renew(_) => OwnerDeed::Renew { owner: member_name(node), same: None },
            // What it saw comes with the answer.
            Ask::Look => OwnerDeed::Read { leader: None, plan: None },
            Ask::Change(Write::Leader { owner }) => {
                OwnerDeed::Claim { owner: owner.clone(), made: None }
            }
            Ask::Change(Write::ClusterPlan { plan, term, after }) => {
                let plan = Owned { version: plan.version, speaker: plan.speaker.clone() };
                OwnerDeed::Plan { term: *term, after: *after, plan, made: None }
            }
            Ask::Change(_) => return None,
        };
        Some(self.note(now, now + UNDER_WAY, false, deed))
    }

    /// The first answer counts.
    pub(super) fn answered(&mut self, place: Option<usize>, now: Time, answer: &Answer) {
        let Some(operation) = place.map(|place| &mut self.operations[place]) else { return };
        if operation.answered {
            return;
        }
        (operation.until, operation.answered) = (Some(now), true);
        match (&mut operation.deed, answer) {
            (OwnerDeed::Renew { same, .. }, Answer::Renewed(_, was)) => *same = Some(*was),
            (deed, Answer::Seen(seen)) => *deed = OwnerDeed::read(seen),
            (
                OwnerDeed::Claim { made, .. } | OwnerDeed::Plan { made, .. },
                Answer::Changed(_, was),
            ) => {
                *made = Some(*was);
            }
            (deed, answer) => panic!("{answer:?} answers {deed:?}"),
        }
    }

    /// The store has lost a lease, if there was one.
    pub(super) fn ended(&mut self, now: Time, node: usize, lost: bool) {
        self.spoilt(now, lost, OwnerDeed::End { owner: member_name(node) });
    }

    /// Something was done to the store, if it could be.
    pub(super) fn spoilt(&mut self, now: Time, was: bool, deed: OwnerDeed) {
        if was && !self.stopped {
            self.note(now, now, true, deed);
        }
    }

    /// Whether the store can have been [`Owners`]; how many of its answers were compared, none where too many orders
    /// would have to be tried.
    pub(super) fn check(&self) -> Result<Option<usize>, String> {
        let counts = |one: &&Operation<OwnerDeed>| one.answered || !one.deed.looks();
        let mut history: Vec<_> = self.operations.iter().filter(counts).cloned().collect();
        history.extend(self.ends());
        let answers = history.iter().filter(|one| one.answered).count();
        match linearize(Owners::default(), &history, Owners::after, OwnerDeed::looks) {
            Ok(_) => Ok(Some(answers)),
            Err(Unexplained::Undecided) => Ok(None),
            Err(Unexplained::Stuck { order, blocked }) => {
                let before = order.iter().rev().take(5).rev().map(|place| &history[*place]);
                let before: Vec<_> = before.collect();
                Err(format!("after {before:?} {:?} cannot follow", history[blocked]))
            }
        }
    }

    /// When leases can have ended.
    fn ends(&self) -> Vec<Operation<OwnerDeed>> {
        let renewals = self.operations.iter().filter_map(|one| match &one.deed {
            OwnerDeed::Renew { owner, same } => {
                Some(Renewal { owner, called: one.called, until: one.until, same: *same })
            }
            _ => None,
        });
        let end = |end: LeaseEnd| Operation {
            session: None,
            called: end.called,
            until: end.until,
            answered: false,
            deed: OwnerDeed::End { owner: end.owner },
        };
        lease_ends(renewals, LEASE).into_iter().map(end).collect()
    }
}
