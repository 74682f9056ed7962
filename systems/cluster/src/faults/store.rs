//! The store as members see it: changes are made whole and in one order; leases end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ebb_cluster::{Snapshot, Write};
use ebb_units::Time;

/// What is asked of the store.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// Keep my lease, asked for at this time of one's own clock.
    Renew(Time),
    /// Show me everything.
    Look,
    /// Change something.
    Change(Write),
}

/// What it answers.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The lease goes on; whether it is the same as before.
    Renewed(Time, bool),
    /// Everything.
    Seen(Arc<Snapshot>),
    /// This was changed, if its conditions held: whether they did.
    Changed(Write, bool),
}

#[derive(Default)]
pub(super) struct Store {
    /// Whoever looked holds it as it was.
    pub(super) kept: Arc<Snapshot>,
    leases: BTreeMap<usize, Time>,
    leader: Option<usize>,
    pub(super) terms: u64,
    /// Changes that were made, and the bytes of what they changed, as JSON.
    pub(super) written: (u64, u64),
}

impl Store {
    pub(super) fn ask(&mut self, now: Time, from: usize, ask: &Ask, lease: Duration) -> Answer {
        self.expire(now);
        match ask {
            Ask::Renew(asked) => {
                let same = self.leases.insert(from, now + lease).is_some();
                Answer::Renewed(*asked, same)
            }
            Ask::Look => Answer::Seen(self.kept.clone()),
            Ask::Change(write) => {
                let made = self.write(from, write);
                Answer::Changed(write.clone(), made)
            }
        }
    }

    /// Ends what has run out.
    pub(super) fn expire(&mut self, now: Time) {
        self.leases.retain(|_, until| *until > now);
        if self.leader.is_some_and(|leader| !self.leases.contains_key(&leader)) {
            self.leader = None;
            self.change().leader = None;
        }
    }

    /// Loses a lease; whether there was one.
    pub(super) fn forget(&mut self, node: usize, now: Time) -> bool {
        let forgotten = self.leases.remove(&node).is_some();
        self.expire(now);
        forgotten
    }

    /// Somebody who is no member overwrites the plan, if there is one; members see that, and what it was.
    pub(super) fn spoil_plan(&mut self) -> bool {
        let kept = self.change();
        let Some((_, writes)) = &mut kept.plan else { return false };
        *writes += 1;
        kept.plan_spoilt = true;
        true
    }

    /// Somebody who is no member overwrites the leader's name, if there is one, which no lease keeps from then on.
    pub(super) fn spoil_leader(&mut self) -> bool {
        self.leader = None;
        self.change().leader.take().is_some()
    }

    /// Somebody who is no member overwrites what a back-end's keeper says.
    pub(super) fn spoil_report(&mut self, member: &str) {
        self.change().members.remove(member);
    }

    fn change(&mut self) -> &mut Snapshot {
        Arc::make_mut(&mut self.kept)
    }

    /// Whether the conditions held.
    fn write(&mut self, from: usize, write: &Write) -> bool {
        self.written.0 += 1;
        self.written.1 += bytes(write);
        match write {
            Write::Leader { owner } => {
                if self.leader.is_some() || !self.leases.contains_key(&from) {
                    return false;
                }
                self.terms += 1;
                self.leader = Some(from);
                self.change().leader = Some((owner.clone(), self.terms));
            }
            Write::ClusterPlan { plan, term, after } => {
                let writes = self.kept.plan.as_ref().map_or(0, |(_, writes)| *writes);
                let theirs = self.kept.leader.as_ref().is_some_and(|leader| leader.1 == *term);
                if !theirs || writes != *after {
                    return false;
                }
                let version = self.kept.plan.as_ref().map_or(0, |(plan, _)| plan.version);
                assert_eq!(plan.version, version + 1, "plans form one sequence");
                let kept = self.change();
                kept.plan = Some((plan.clone(), writes + 1));
                kept.plan_spoilt = false;
            }
            Write::Acknowledge { balancer, acknowledgement } => {
                self.change().balancers.insert(balancer.clone(), acknowledgement.clone());
            }
            Write::Report { member, report } => {
                self.change().members.insert(member.clone(), *report);
            }
            Write::Hold { member, hold: true } => _ = self.change().held.insert(member.clone()),
            Write::Hold { member, hold: false } => _ = self.change().held.remove(member),
            Write::Leave { balancer } => _ = self.change().balancers.remove(balancer),
        }
        true
    }
}

/// The value that a change puts, as JSON.
fn bytes(write: &Write) -> u64 {
    let text = match write {
        Write::ClusterPlan { plan, .. } => serde_json::to_string(plan),
        Write::Acknowledge { acknowledgement, .. } => serde_json::to_string(acknowledgement),
        Write::Report { report, .. } => serde_json::to_string(report),
        Write::Leader { owner } => Ok(owner.clone()),
        Write::Hold { .. } | Write::Leave { .. } => return 0,
    };
    text.expect("numbers and names").len() as u64
}
