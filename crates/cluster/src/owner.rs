//! What the store promises of the cluster's owners, as one object that does one thing after the other: histories that
//! clients record of any store, simulated or etcd, are compared with it.
//!
//! Two are owners. The *leader* ([`Write::Leader`](crate::Write)) has the office for a term. The *speaker* of the plan
//! is the back-end to which packets for the cluster's own addresses go ([`ClusterPlan::speaker`](crate::ClusterPlan)):
//! who has the addresses thus changes only by a plan, which the leader of the present term writes. Both are read in a
//! [`Snapshot`].
//!
//! The object, exactly:
//! - Each candidate has at most one lease, which a renewal begins or prolongs, and tells which. The lease ends at some
//!   time, and the office falls vacant with it; whoever writes the history down says when that can have been
//!   ([`lease_ends`]): not before the lease's length has passed since the last renewal that was answered was *asked
//!   for*. Who begins anew under its name has another lease: its lives are told apart by what follows `#` in an owner,
//!   and the store names all of them by what stands before.
//! - A claim is granted if the office is vacant and the claimer has a lease, else refused. Each grant begins a term
//!   with a number that is larger than all before.
//! - A plan is written if the term that it names is the leader's, and nobody has written since the count that it
//!   names; else it is refused. The count grows with each plan.
//! - What is read is who leads in which term, and the plan with its count, as of one instant.
//! - Somebody who is no member may overwrite the leader's key, which makes the office vacant, or the plan's, which
//!   makes the count another.
//!
//! Terms and counts are numbers of the store's that whoever wrote is not told; they are known from the first time that
//! they are read. Which balancer answers for the cluster's Ethernet addresses the store does not say: they elect
//! themselves by what they hear of each other, and under a partition each side answers.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use ebb_units::Time;

use crate::plan::Snapshot;

/// The plan, as far as owners matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owned {
    /// Its version.
    pub version: u64,
    /// Who speaks.
    pub speaker: Option<String>,
}

/// What was done, with its answer; where `made` is none, it was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerDeed {
    /// A lease was renewed.
    Renew {
        /// Whose.
        owner: String,
        /// Whether it is the same lease as before; none: not answered.
        same: Option<bool>,
    },
    /// A lease ended.
    End {
        /// Whose.
        owner: String,
    },
    /// Somebody asked for the office.
    Claim {
        /// Who.
        owner: String,
        /// Whether it was granted.
        made: Option<bool>,
    },
    /// Somebody wrote the plan.
    Plan {
        /// The term that it names.
        term: u64,
        /// The count that it names.
        after: u64,
        /// The plan.
        plan: Owned,
        /// Whether it was written.
        made: Option<bool>,
    },
    /// Somebody looked.
    Read {
        /// Who leads, in which term.
        leader: Option<(String, u64)>,
        /// The plan, and its count.
        plan: Option<(Owned, u64)>,
    },
    /// Somebody who is no member overwrote the leader's key.
    SpoilLeader,
    /// Somebody who is no member overwrote the plan's.
    SpoilPlan,
}

impl OwnerDeed {
    /// A look that saw this.
    pub fn read(seen: &Snapshot) -> OwnerDeed {
        let plan = seen.plan.as_ref().map(|(plan, writes)| {
            let owned = Owned { version: plan.version, speaker: plan.speaker.clone() };
            (owned, *writes)
        });
        OwnerDeed::Read { leader: seen.leader.clone(), plan }
    }

    /// Whether it changes nothing.
    pub fn looks(&self) -> bool {
        match self {
            OwnerDeed::Read { .. } => true,
            OwnerDeed::Renew { same, .. } => *same == Some(true),
            OwnerDeed::Claim { made, .. } | OwnerDeed::Plan { made, .. } => *made == Some(false),
            _ => false,
        }
    }
}

/// A number of the store's that grows: what was read last, and whether it is still that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Count {
    read: u64,
    is_known: bool,
}

impl Count {
    fn grows(&mut self) {
        self.is_known = false;
    }

    /// Whether it can be this: what it was before can be no more.
    fn is(&mut self, number: u64) -> bool {
        let can = if self.is_known { number == self.read } else { number > self.read };
        (self.read, self.is_known) = (number, true);
        can
    }

    /// Nobody can name what nobody has read.
    fn named(&self, number: u64) -> bool {
        self.is_known && number == self.read
    }
}

/// The object's state; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owners {
    leases: BTreeSet<String>,
    leader: Option<String>,
    term: Count,
    plan: Option<Owned>,
    count: Count,
}

impl Owners {
    /// The state after a deed; none where it cannot be answered so.
    #[must_use]
    pub fn after(&self, deed: &OwnerDeed) -> Option<Owners> {
        let mut next = self.clone();
        let can = match deed {
            // One that was not answered and prolonged a lease need not have been.
            OwnerDeed::Renew { owner, same } => {
                next.leases.insert(owner.clone()) != same.unwrap_or(false)
            }
            OwnerDeed::End { owner } => {
                next.leader.take_if(|leader| leader == owner);
                next.leases.remove(owner)
            }
            OwnerDeed::Claim { owner, made } => {
                let can = self.leader.is_none() && self.leases.contains(owner);
                if can {
                    next.leader = Some(owner.clone());
                    next.term.grows();
                }
                made.unwrap_or(true) == can
            }
            OwnerDeed::Plan { term, after, plan, made } => {
                let is_last =
                    if self.plan.is_none() { *after == 0 } else { self.count.named(*after) };
                let can = self.leader.is_some() && self.term.named(*term) && is_last;
                if can {
                    next.plan = Some(plan.clone());
                    next.count.grows();
                }
                made.unwrap_or(true) == can
            }
            OwnerDeed::Read { leader, plan } => {
                let office = leader.as_ref().is_none_or(|(_, term)| next.term.is(*term));
                let written = plan.as_ref().is_none_or(|(_, count)| next.count.is(*count));
                office
                    && written
                    && self.leader.as_deref().and_then(|owner| owner.split('#').next())
                        == leader.as_ref().map(|(owner, _)| owner.as_str())
                    && self.plan.as_ref() == plan.as_ref().map(|(plan, _)| plan)
            }
            OwnerDeed::SpoilLeader => next.leader.take().is_some(),
            OwnerDeed::SpoilPlan => {
                next.count.grows();
                self.plan.is_some()
            }
        };
        can.then_some(next)
    }
}

/// A lease was asked for, or to be prolonged.
#[derive(Clone, Copy, Debug)]
pub struct Renewal<'a> {
    /// Whose.
    pub owner: &'a str,
    /// When that was asked.
    pub called: Time,
    /// When it was answered.
    pub until: Option<Time>,
    /// Whether it is the same lease as before; none: not answered.
    pub same: Option<bool>,
}

/// A lease may have ended within this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseEnd {
    /// Whose.
    pub owner: String,
    /// Not before.
    pub called: Time,
    /// Not after.
    pub until: Option<Time>,
}

/// When leases of a `length` can have ended: not from when a renewal prolonged one, or had begun one, until the lease's
/// length after it was asked for; once between two such spans, and once more after each renewal that was not answered.
pub fn lease_ends<'a>(
    renewals: impl IntoIterator<Item = Renewal<'a>>,
    length: Duration,
) -> Vec<LeaseEnd> {
    let mut held: BTreeMap<&str, Vec<(Time, Time)>> = BTreeMap::new();
    let mut unanswered = Vec::new();
    for one in renewals {
        let spans = held.entry(one.owner).or_default();
        let ends = one.called + length;
        match (one.same, one.until) {
            (Some(false), Some(until)) => spans.push((until, ends)),
            (Some(true), _) => spans.push((one.called, ends)),
            _ => unanswered.push((one.owner, ends)),
        }
    }
    let mut all = Vec::new();
    for (owner, mut spans) in held {
        spans.sort_unstable();
        spans.insert(0, (Time::ZERO, Time::ZERO));
        let mut gap_begins = Time::ZERO;
        let begins = spans.iter().map(|(begins, _)| Some(*begins)).skip(1).chain([None]);
        for ((_, ends_at), until) in spans.iter().zip(begins) {
            gap_begins = gap_begins.max(*ends_at);
            if until.is_some_and(|until| until < gap_begins) {
                continue;
            }
            let lies = |at: &Time| *at >= gap_begins && until.is_none_or(|until| *at <= until);
            let others = unanswered.iter().filter(|(of, at)| *of == owner && lies(at));
            let called = others.map(|(_, at)| *at).chain([gap_begins]);
            all.extend(called.map(|called| LeaseEnd { owner: owner.to_owned(), called, until }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renew(owner: &str, same: bool) -> OwnerDeed {
        OwnerDeed::Renew { owner: owner.to_owned(), same: Some(same) }
    }

    fn claim(owner: &str, made: bool) -> OwnerDeed {
        OwnerDeed::Claim { owner: owner.to_owned(), made: Some(made) }
    }

    fn plan(term: u64, after: u64, speaker: &str, made: bool) -> OwnerDeed {
        OwnerDeed::Plan { term, after, plan: owned(speaker), made: Some(made) }
    }

    fn owned(speaker: &str) -> Owned {
        Owned { version: 1, speaker: Some(speaker.to_owned()) }
    }

    fn read(leader: Option<(&str, u64)>, plan: Option<(&str, u64)>) -> OwnerDeed {
        let leader = leader.map(|(owner, term)| (owner.to_owned(), term));
        OwnerDeed::Read { leader, plan: plan.map(|(speaker, count)| (owned(speaker), count)) }
    }

    fn end(owner: &str) -> OwnerDeed {
        OwnerDeed::End { owner: owner.to_owned() }
    }

    /// How many deeds can follow each other.
    fn follow(deeds: &[OwnerDeed]) -> usize {
        let mut state = Owners::default();
        let can = |deed: &&OwnerDeed| {
            let next = state.after(deed);
            next.map(|next| state = next).is_some()
        };
        deeds.iter().take_while(can).count()
    }

    #[test]
    fn one_leads_while_its_lease_lasts_and_only_it_names_the_speaker() {
        let deeds = [
            claim("a", false),
            renew("a", false),
            renew("b", false),
            claim("a", true),
            claim("b", false),
            plan(1, 0, "r0", false),
            read(Some(("a", 5)), None),
            plan(4, 0, "r0", false),
            plan(5, 0, "r0", true),
            plan(5, 0, "r1", false),
            read(Some(("a", 5)), Some(("r0", 6))),
            renew("a", true),
            plan(5, 6, "r1", true),
            end("a"),
            read(None, Some(("r1", 9))),
            plan(5, 9, "r2", false),
            claim("a", false),
            claim("b", true),
            read(Some(("b", 12)), Some(("r1", 9))),
            OwnerDeed::SpoilLeader,
            plan(12, 9, "r2", false),
            claim("b", true),
            OwnerDeed::SpoilPlan,
            read(Some(("b", 13)), Some(("r1", 14))),
        ];
        assert_eq!(follow(&deeds), deeds.len());
    }

    #[test]
    fn lives_of_one_name_have_leases_of_their_own() {
        let deeds = [
            renew("a#1", false),
            claim("a#1", true),
            renew("a#2", false),
            claim("a#2", false),
            read(Some(("a", 5)), None),
            end("a#1"),
            read(None, None),
            claim("a#2", true),
            read(Some(("a", 6)), None),
        ];
        assert_eq!(follow(&deeds), deeds.len());
    }

    #[test]
    fn a_lease_ends_between_renewals_that_do_not_touch() {
        let at = Time::from_nanos;
        let renewal = |called, until: u64, same| Renewal {
            owner: "a",
            called: at(called),
            until: Some(at(until)),
            same,
        };
        let asked = [
            renewal(10, 20, Some(false)),
            renewal(60, 90, Some(true)),
            renewal(150, 160, None),
            renewal(300, 310, Some(false)),
        ];
        let ends = lease_ends(asked, Duration::from_nanos(100));
        let ends: Vec<_> = ends.iter().map(|end| (end.called, end.until)).collect();
        let (first, last) = ((at(0), Some(at(20))), (at(400), None));
        assert_eq!(ends, [first, (at(250), Some(at(310))), (at(160), Some(at(310))), last]);
    }

    #[test]
    fn what_nobody_could_be_told() {
        let led = [renew("a", false), renew("b", false), claim("a", true)];
        let seen = [&led[..], &[read(Some(("a", 5)), None), plan(5, 0, "r0", true)]].concat();
        let refused = |before: &[OwnerDeed], deed: OwnerDeed| {
            let count = follow(&[before, &[deed]].concat());
            assert_eq!(count, before.len());
        };
        refused(&led, claim("b", true));
        refused(&led, end("c"));
        refused(&led, read(None, None));
        refused(&led, read(Some(("b", 5)), None));
        refused(&seen, read(Some(("a", 6)), Some(("r0", 6))));
        refused(&seen, read(Some(("a", 5)), Some(("r1", 6))));
        refused(&seen, plan(5, 0, "r1", true));
        refused(&[&seen[..], &[end("a")]].concat(), plan(5, 0, "r0", true));
        refused(&led, renew("a", false));
        // Terms never return.
        let anew = [&seen[..], &[end("a"), claim("b", true)]].concat();
        refused(&anew, read(Some(("b", 5)), Some(("r0", 6))));
    }
}
