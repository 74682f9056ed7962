//! Who may lead, and which plan follows another.

use core::time::Duration;
use std::collections::BTreeMap;

use ebb_units::Time;

use crate::plan::{Acknowledgement, ClusterPlan, Entry, MemberReport, Power, Snapshot, Write};

/// The plan that follows `plan` when `wanted` is what is to be on; `None` while there is nothing to
/// change.
///
/// Off, waking, on, draining, off again: a back-end that is waking comes on when its keeper says that
/// it is up, in answer to the very version that woke it, and a balancer reaches it; one that is draining goes off when every
/// registered balancer has acknowledged the version that drains it, or comes back on when it is wanted
/// again. Back-ends that `wanted` does not name are left as they are.
///
/// Whoever has followed a later plan than this one followed that of a store whose contents are lost, or
/// were put back from an older copy. What it says answers nothing that is in this plan, and it passes over
/// all plans up to its own: the next one is later than those, and than `known`, the latest that this leader
/// has seen.
pub(crate) fn next_plan(
    plan: &ClusterPlan,
    known: u64,
    wanted: &BTreeMap<String, bool>,
    balancers: &BTreeMap<String, Acknowledgement>,
    members: &BTreeMap<String, MemberReport>,
) -> Option<ClusterPlan> {
    let answers = |version: u64, since: u64| version >= since && version <= plan.version;
    let followed = balancers.values().map(|said| said.version);
    let followed = followed.chain(members.values().map(|report| report.version));
    let latest = followed.fold(plan.version.max(known), u64::max);
    let version = latest + 1;
    let acknowledged = |since: u64| balancers.values().all(|said| answers(said.version, since));
    let reached = |name: &String| {
        balancers.is_empty() || balancers.values().any(|said| !said.dead.contains(name))
    };
    let mut next =
        ClusterPlan { version, entries: plan.entries.clone(), speaker: plan.speaker.clone() };
    for (name, wanted) in wanted {
        // Whoever is up and in no plan was in one that is lost: it may have flows, and drains first.
        let report = members.get(name).filter(|report| report.up);
        let lost = report.is_some_and(|report| report.version > plan.version);
        let power = if lost { Power::On } else { Power::Off };
        let entry = next.entries.entry(name.clone()).or_insert(Entry { power, since: version });
        let up = |since: u64| report.is_some_and(|report| answers(report.version, since));
        let reached = reached(name);
        let power = match (entry.power, *wanted) {
            (Power::Off, true) => Power::Waking,
            (Power::Waking, true) if reached && up(entry.since) => Power::On,
            (Power::Waking | Power::On, false) => Power::Draining,
            (Power::Draining, true) => Power::On,
            (Power::Draining, false) if acknowledged(entry.since) => Power::Off,
            (power, _) => power,
        };
        // Whoever was draining before it had come up is not on yet.
        let power = match (entry.power, power) {
            (Power::Draining, Power::On) if !members.get(name).is_some_and(|report| report.up) => {
                Power::Waking
            }
            (_, power) => power,
        };
        if power != entry.power {
            *entry = Entry { power, since: version };
        }
    }
    // Sessions with neighbours end when the speaker changes: it stays where it is while it can.
    let speaks = |name: &String| next.power(name) == Power::On && reached(name);
    if !next.speaker.as_ref().is_some_and(speaks)
        && let Some(speaker) = next.entries.keys().find(|name| speaks(name)).cloned()
    {
        next.speaker = Some(speaker);
    }
    let changed = next.entries != plan.entries || next.speaker != plan.speaker;
    (changed || latest > plan.version).then_some(next)
}

/// One that may become the leader: it asks for the office when it is vacant, and acts while it surely
/// holds it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    name: String,
    lease: Duration,
    /// When the lease was last asked to be prolonged, as far as that was confirmed.
    confirmed: Option<Time>,
    /// The version of the latest plan that it has seen.
    known: u64,
}

impl Candidate {
    /// One called `name` whose lease lasts `lease` after each renewal.
    pub(crate) fn new(name: impl Into<String>, lease: Duration) -> Candidate {
        Candidate { name: name.into(), lease, confirmed: None, known: 0 }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The store confirmed a renewal of the lease that was asked for at `asked`, on this node's clock:
    /// the lease cannot have ended before that long after.
    pub(crate) fn renewed(&mut self, asked: Time) {
        self.confirmed = Some(self.confirmed.map_or(asked, |before| before.max(asked)));
    }

    /// The store said that the lease is gone.
    pub(crate) fn lost(&mut self) {
        self.confirmed = None;
    }

    /// Whether its lease holds at `now` for sure.
    pub(crate) fn holds(&self, now: Time) -> bool {
        self.confirmed.is_some_and(|asked| now < asked + self.lease)
    }

    /// Whether it is the leader, by a snapshot and its own clock.
    pub(crate) fn is_leader(&self, now: Time, seen: &Snapshot) -> bool {
        let named = seen.leader.as_ref().is_some_and(|(owner, _)| *owner == self.name);
        named && self.holds(now)
    }

    /// What to write now, `wanted` being what the policy wants on: the office if it is vacant, the
    /// next plan if it is the leader.
    pub(crate) fn decide(
        &mut self,
        now: Time,
        seen: &Snapshot,
        wanted: &BTreeMap<String, bool>,
    ) -> Option<Write> {
        let version = seen.plan.as_ref().map_or(0, |(plan, _)| plan.version);
        self.known = self.known.max(version);
        if !self.holds(now) {
            return None;
        }
        let Some((owner, term)) = &seen.leader else {
            return Some(Write::Leader { owner: self.name.clone() });
        };
        if *owner != self.name {
            return None;
        }
        let empty = ClusterPlan::default();
        let (plan, after) =
            seen.plan.as_ref().map_or((&empty, 0), |(plan, writes)| (plan, *writes));
        let next = next_plan(plan, self.known, wanted, &seen.balancers, &seen.members);
        // What somebody else has put into its place is not left there.
        let again = || ClusterPlan { version: self.known + 1, ..plan.clone() };
        let plan = next.or_else(|| seen.plan_spoilt.then(again))?;
        Some(Write::ClusterPlan { plan, term: *term, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(version: u64) -> BTreeMap<String, Acknowledgement> {
        let said = Acknowledgement { version, ..Acknowledgement::default() };
        BTreeMap::from([("b0".to_owned(), said)])
    }

    fn up(version: u64) -> BTreeMap<String, MemberReport> {
        BTreeMap::from([("r0".to_owned(), MemberReport { up: true, version, milliwatts: None })])
    }

    fn wanted(on: bool) -> BTreeMap<String, bool> {
        BTreeMap::from([("r0".to_owned(), on)])
    }

    fn power(plan: &ClusterPlan) -> (Power, u64) {
        (plan.entries["r0"].power, plan.version)
    }

    #[test]
    fn off_waking_on_draining_off() {
        let step = |plan: &ClusterPlan, on, acknowledgements: u64, report: u64| {
            next_plan(plan, 0, &wanted(on), &acknowledged(acknowledgements), &up(report))
        };
        let waking = step(&ClusterPlan::default(), true, 0, 0).expect("wakes");
        assert_eq!(power(&waking), (Power::Waking, 1));
        assert_eq!(step(&waking, true, 0, 0), None, "an older report answers nothing");
        let on = step(&waking, true, 0, 1).expect("comes on");
        assert_eq!(power(&on), (Power::On, 2));
        assert_eq!(step(&on, true, 2, 2), None);
        let draining = step(&on, false, 2, 2).expect("drains");
        assert_eq!(power(&draining), (Power::Draining, 3));
        assert_eq!(step(&draining, false, 2, 3), None, "a balancer has not heard of it");
        assert_eq!(power(&step(&draining, false, 3, 3).expect("goes off")), (Power::Off, 4));
        assert_eq!(power(&step(&draining, true, 2, 3).expect("comes back")), (Power::On, 4));
    }

    #[test]
    fn whoever_drained_before_it_came_up_wakes_again() {
        let (nobody, none) = (BTreeMap::new(), BTreeMap::new());
        let waking =
            next_plan(&ClusterPlan::default(), 0, &wanted(true), &nobody, &none).expect("wakes");
        let draining = next_plan(&waking, 0, &wanted(false), &acknowledged(0), &none);
        let draining = draining.expect("drains");
        let again = next_plan(&draining, 0, &wanted(true), &acknowledged(0), &none).expect("again");
        assert_eq!(power(&again), (Power::Waking, 3));
    }

    /// The store has begun anew: what was followed before answers no order of the new plan, and the next one
    /// is late enough to be followed.
    #[test]
    fn a_store_that_starts_anew_is_ahead_of_its_followers_again() {
        let entries = |power| [("r0".to_owned(), Entry { power, since: 3 })].into();
        let plan =
            |power| ClusterPlan { version: 4, entries: entries(power), speaker: Some("r0".into()) };
        let next = next_plan(&plan(Power::On), 0, &wanted(true), &acknowledged(50), &up(49));
        assert_eq!(power(&next.expect("later")), (Power::On, 51));
        let next = next_plan(&plan(Power::Draining), 0, &wanted(false), &acknowledged(50), &up(4));
        assert_eq!(power(&next.expect("later")), (Power::Draining, 51), "nobody has heard of it");
        let next = next_plan(&plan(Power::Waking), 70, &wanted(true), &acknowledged(4), &up(60));
        assert_eq!(
            power(&next.expect("later")),
            (Power::Waking, 71),
            "it was told to another time"
        );
        assert_eq!(next_plan(&plan(Power::On), 4, &wanted(true), &acknowledged(4), &up(4)), None);
        let next =
            next_plan(&ClusterPlan::default(), 0, &wanted(false), &acknowledged(50), &up(50));
        assert_eq!(
            power(&next.expect("one")),
            (Power::Draining, 51),
            "what is up is not let go at once"
        );
    }

    #[test]
    fn only_a_sure_lease_acts() {
        let mut candidate = Candidate::new("a", Duration::from_secs(2));
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let vacant = Snapshot::default();
        assert_eq!(candidate.decide(at(1), &vacant, &wanted(true)), None);
        candidate.renewed(at(1));
        let office = Write::Leader { owner: "a".to_owned() };
        assert_eq!(candidate.decide(at(2), &vacant, &wanted(true)), Some(office));
        let mine = Snapshot { leader: Some(("a".to_owned(), 7)), ..Snapshot::default() };
        let write = candidate.decide(at(2), &mine, &wanted(true));
        assert!(matches!(write, Some(Write::ClusterPlan { term: 7, after: 0, .. })), "{write:?}");
        assert_eq!(candidate.decide(at(3), &mine, &wanted(true)), None, "it may have ended");
        let other = Snapshot { leader: Some(("b".to_owned(), 8)), ..Snapshot::default() };
        assert_eq!(candidate.decide(at(2), &other, &wanted(true)), None);
    }
}
