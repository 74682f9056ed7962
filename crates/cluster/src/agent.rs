//! What the keeper of one back-end decides.

use crate::plan::{ClusterPlan, MemberReport, Power};

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
    power: Power,
    up: bool,
}

impl Agent {
    /// The keeper of the back-end `name`, which is `up` or not.
    pub fn new(name: impl Into<String>, up: bool) -> Agent {
        Agent { name: name.into(), version: 0, power: Power::Off, up }
    }

    /// The back-end.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Follows a plan; an older one is passed over. Whatever is ordered, [`Agent::is_up`] is called when
    /// it is done.
    pub fn follow(&mut self, plan: &ClusterPlan) -> Option<Order> {
        if plan.version < self.version {
            return None;
        }
        self.version = plan.version;
        self.power = plan.entries.get(&self.name).map_or(Power::Off, |entry| entry.power);
        match (self.power, self.up) {
            (Power::Off, true) => Some(Order::Sleep),
            (Power::Waking | Power::On | Power::Draining, false) => Some(Order::Wake),
            _ => None,
        }
    }

    /// Its back-end is up, or is not.
    pub fn is_up(&mut self, up: bool) {
        self.up = up;
    }

    /// What to tell the store.
    pub fn report(&self) -> MemberReport {
        MemberReport { up: self.up, version: self.version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Entry;

    #[test]
    fn follows_the_latest_plan_alone() {
        let plan = |version, power| ClusterPlan {
            version,
            entries: [("r".to_owned(), Entry { power, since: version })].into(),
            speaker: None,
        };
        let mut agent = Agent::new("r", false);
        assert_eq!(agent.follow(&plan(3, Power::Waking)), Some(Order::Wake));
        agent.is_up(true);
        assert_eq!(agent.report(), MemberReport { up: true, version: 3 });
        assert_eq!(agent.follow(&plan(2, Power::Off)), None, "an older plan");
        assert_eq!(agent.follow(&plan(4, Power::Draining)), None, "it still forwards");
        assert_eq!(agent.follow(&plan(5, Power::Off)), Some(Order::Sleep));
    }
}
