//! What the keeper of one back-end decides.

use core::time::Duration;

use ebb_units::Time;

use crate::every::Every;
use crate::plan::{MemberReport, Power, Snapshot, Write};

/// After a failure the keeper is asked again so much later.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two looks whether a back-end that is up has lost what it was given.
const MEND_EVERY: Duration = Duration::from_secs(1);
/// A back-end that is to go off goes on for so long: balancers' markers have come out of it, but between them and it a
/// queue of another CPU may still have a packet.
const LINGER: Duration = Duration::from_millis(100);

/// What a back-end's keeper is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Give it power: start it, resume it, wake it.
    Wake,
    /// Take its power.
    Sleep,
}

/// Keeps one back-end: gives and takes its power as the plan says, and says when it is up.
#[derive(Clone, Debug)]
pub struct Agent {
    name: String,
    version: u64,
    up: bool,
    /// It has been given an order and has not answered.
    busy: bool,
    /// What its back-end draws, as it is told.
    milliwatts: Option<u64>,
    failures: Every,
    mends: Every,
    /// The plan says that it is off, and since when that was seen.
    is_off: bool,
    lingers: Every,
}

impl Agent {
    /// The keeper of the back-end `name`, which is off.
    pub fn new(name: impl Into<String>) -> Agent {
        Agent {
            name: name.into(),
            version: 0,
            up: false,
            busy: false,
            milliwatts: None,
            failures: Every::new(AGAIN),
            mends: Every::new(MEND_EVERY),
            is_off: false,
            lingers: Every::new(LINGER),
        }
    }

    /// The back-end.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its back-end is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Follows the plan; an older one is passed over. Nothing more is ordered until it is known what has become
    /// of an order ([`Agent::done`], [`Agent::failed`]).
    pub fn follow(&mut self, now: Time, seen: &Snapshot) -> Option<Order> {
        let (plan, _) = seen.plan.as_ref().filter(|(plan, _)| plan.version >= self.version)?;
        self.version = plan.version;
        let is_off = plan.power(&self.name) == Power::Off;
        let was_off = std::mem::replace(&mut self.is_off, is_off);
        if is_off && !was_off {
            self.lingers.done(now);
        }
        let order = match (is_off, self.up) {
            (true, true) if self.lingers.is_due(now) => Order::Sleep,
            (false, false) => Order::Wake,
            _ => return None,
        };
        if self.busy || !self.failures.is_due(now) {
            return None;
        }
        self.busy = true;
        Some(order)
    }

    /// An order has been carried out.
    pub fn done(&mut self, order: Order) {
        (self.busy, self.up) = (false, order == Order::Wake);
    }

    /// An order could not be carried out.
    pub fn failed(&mut self, now: Time) {
        self.busy = false;
        self.failures.done(now);
    }

    /// Its back-end has ended by itself.
    pub fn ended(&mut self) {
        self.up = false;
    }

    /// Whether to look now whether the back-end has lost what it was given.
    pub fn mends(&mut self, now: Time) -> bool {
        self.up && self.mends.take(now)
    }

    /// What its back-end is measured to draw, mW; what is within 2 % of the last word is not told again.
    pub fn draws(&mut self, milliwatts: Option<u64>) {
        let near = |(new, old): (u64, u64)| new.abs_diff(old) <= old / 50;
        if !milliwatts.zip(self.milliwatts).is_some_and(near) {
            self.milliwatts = milliwatts;
        }
    }

    /// What to tell the store, if it does not know.
    pub fn reports(&self, seen: &Snapshot) -> Option<Write> {
        let milliwatts = self.milliwatts.filter(|_| self.up);
        let report = MemberReport { up: self.up, version: self.version, milliwatts };
        let member = self.name.clone();
        (seen.members.get(&member) != Some(&report)).then_some(Write::Report { member, report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ClusterPlan, Entry};

    fn planned(version: u64, power: Power) -> Snapshot {
        let entries = [("r".to_owned(), Entry { power, since: version })].into();
        let plan = ClusterPlan { version, entries, speaker: None };
        Snapshot { plan: Some((plan, version)), ..Snapshot::default() }
    }

    #[test]
    fn follows_the_latest_plan_alone() {
        let now = Time::ZERO;
        let mut agent = Agent::new("r");
        assert_eq!(agent.follow(now, &planned(3, Power::Waking)), Some(Order::Wake));
        assert_eq!(agent.follow(now, &planned(3, Power::Waking)), None, "it is at it");
        agent.done(Order::Wake);
        let report = MemberReport { up: true, version: 3, milliwatts: None };
        let told = Write::Report { member: "r".to_owned(), report };
        assert_eq!(agent.reports(&Snapshot::default()), Some(told));
        let known = Snapshot { members: [("r".to_owned(), report)].into(), ..Snapshot::default() };
        assert_eq!(agent.reports(&known), None);
        assert_eq!(agent.follow(now, &planned(2, Power::Off)), None, "an older plan");
        assert_eq!(agent.follow(now, &planned(4, Power::Draining)), None, "it still forwards");
        assert_eq!(
            agent.follow(now, &planned(5, Power::Off)),
            None,
            "what is on its way comes out"
        );
        assert_eq!(agent.follow(now + LINGER, &planned(5, Power::Off)), Some(Order::Sleep));
    }

    #[test]
    fn one_that_is_wanted_again_at_once_stays_up() {
        let at = |tenths: u64| Time::from_nanos(tenths * 100_000_000);
        let mut agent = Agent::new("r");
        agent.done(Order::Wake);
        assert_eq!(agent.follow(at(10), &planned(1, Power::On)), None);
        assert_eq!(agent.follow(at(10), &planned(2, Power::Off)), None);
        assert_eq!(agent.follow(at(12), &planned(3, Power::Waking)), None);
        assert_eq!(agent.follow(at(12), &planned(4, Power::Off)), None, "it lingers anew");
        assert_eq!(agent.follow(at(13), &planned(4, Power::Off)), Some(Order::Sleep));
    }

    #[test]
    fn tells_what_its_back_end_draws_when_that_changes() {
        let mut agent = Agent::new("r");
        let told = |agent: &mut Agent, milliwatts| {
            agent.draws(milliwatts);
            let Some(Write::Report { report, .. }) = agent.reports(&Snapshot::default()) else {
                return None;
            };
            report.milliwatts
        };
        assert_eq!(told(&mut agent, Some(50_000)), None, "it is off");
        agent.done(Order::Wake);
        assert_eq!(told(&mut agent, Some(50_900)), Some(50_000), "about the same");
        assert_eq!(told(&mut agent, Some(51_100)), Some(51_100));
        assert_eq!(told(&mut agent, None), None, "the meter is silent");
    }

    #[test]
    fn tries_again_after_a_while_and_when_its_back_end_has_ended() {
        let at = |tenths: u64| Time::from_nanos(tenths * 100_000_000);
        let mut agent = Agent::new("r");
        let waking = planned(1, Power::Waking);
        assert_eq!(agent.follow(at(10), &waking), Some(Order::Wake));
        agent.failed(at(12));
        assert!(!agent.mends(at(12)), "there is nothing to mend");
        assert_eq!(agent.follow(at(21), &waking), None);
        assert_eq!(agent.follow(at(22), &waking), Some(Order::Wake));
        agent.done(Order::Wake);
        assert!(agent.mends(at(23)) && !agent.mends(at(32)) && agent.mends(at(33)));
        agent.ended();
        assert_eq!(agent.follow(at(34), &waking), Some(Order::Wake));
    }
}
