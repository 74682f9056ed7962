//! What must hold in a simulated cluster: at every step, and in the end.

use ebb_cluster::Power;

use super::{Body, Changed, SLOTS, World};
use crate::faults::member_name;

/// Everything is looked at once in so many events for each pair of member and balancer; what an event changed, always.
const PAIRS: u64 = 8;

impl World {
    /// What must hold at every step. What an event changed is looked at alone, so that a step of a large cluster costs no
    /// more than what happened in it; now and then, and in small ones always, all is.
    pub(super) fn hold(&mut self) -> Result<(), String> {
        let changed = std::mem::take(&mut self.changed);
        for changed in changed {
            match changed {
                Changed::Table(balancer) => self.sends_to_nobody_asleep(balancer)?,
                Changed::Asleep(row) => self.nobody_sends_to(row)?,
                Changed::Heard(member) => self.leads_alone(member)?,
            }
        }
        self.events += 1;
        let pairs = (self.size.members * self.size.balancers) as u64;
        if self.events.is_multiple_of((pairs / PAIRS).max(1)) { self.hold_all() } else { Ok(()) }
    }

    /// The same, whatever has changed.
    fn hold_all(&mut self) -> Result<(), String> {
        (0..self.size.balancers).try_for_each(|balancer| self.sends_to_nobody_asleep(balancer))?;
        (0..self.size.members).try_for_each(|member| self.leads_alone(member))
    }

    fn lives(&self, balancer: usize) -> bool {
        self.nodes[self.size.members + balancer].alive
    }

    fn sends_to_nobody_asleep(&self, balancer: usize) -> Result<(), String> {
        if !self.lives(balancer) {
            return Ok(());
        }
        let shares = self.balancers[balancer].logic.table().shares();
        let asleep = |row: &usize| self.bodies[*row] == Body::Asleep && shares[*row] > 0;
        match (0..self.size.members).find(asleep) {
            Some(row) => Err(sends(balancer, row)),
            None => Ok(()),
        }
    }

    fn nobody_sends_to(&self, row: usize) -> Result<(), String> {
        let owns = |balancer: &usize| {
            self.lives(*balancer) && self.balancers[*balancer].logic.table().share(row as u16) > 0
        };
        match (0..self.size.balancers).find(owns) {
            Some(balancer) if self.bodies[row] == Body::Asleep => Err(sends(balancer, row)),
            _ => Ok(()),
        }
    }

    /// Where clocks do not jump one member at most takes itself for the leader of a term. It begins to when it hears
    /// something; time alone only ends that.
    fn leads_alone(&mut self, member: usize) -> Result<(), String> {
        if self.mix.clock_steps {
            return Ok(());
        }
        let Some(term) = self.leads(member) else {
            self.leading.remove(&member);
            return Ok(());
        };
        self.leading.insert(member);
        let same = |index: &usize| self.leads(*index) == Some(term);
        let all: Vec<usize> = self.leading.iter().copied().filter(same).collect();
        if all.len() > 1 { Err(format!("{all:?} all are the leader of one term")) } else { Ok(()) }
    }

    /// The term of which a member takes itself for the leader.
    fn leads(&self, index: usize) -> Option<u64> {
        let one = &self.members[index];
        let leads = self.nodes[index].alive && one.leader.is_leader(self.clock(index), &one.seen);
        one.seen.leader.as_ref().filter(|_| leads).map(|leader| leader.1)
    }

    /// What must hold once nothing has gone wrong for long enough.
    pub(super) fn settled(&mut self) -> Result<(), String> {
        if self.store.kept.leader.is_none() {
            return Err("nobody is the leader in the end".to_owned());
        }
        let Some((plan, _)) = self.store.kept.plan.clone() else {
            return Err("there is no plan in the end".to_owned());
        };
        if self.store.kept.plan_spoilt {
            return Err("nobody has written over what is no plan".to_owned());
        }
        let power = |row: &usize| plan.power(&member_name(*row));
        let on: Vec<usize> = (0..self.size.members).filter(|row| power(row) == Power::On).collect();
        let others = (0..self.size.members).filter(|row| power(row) == Power::Off).count();
        if on.len() != self.wanted || on.len() + others != self.size.members {
            return Err(format!("not {} are on in the end: {plan:?}", self.wanted));
        }
        for (index, balancer) in self.balancers.iter().enumerate() {
            let shares = balancer.logic.table().shares();
            let mean = SLOTS * self.size.members / on.len();
            let fair = |row: &usize| shares[*row].abs_diff(mean) <= 1;
            if !on.iter().all(fair) {
                return Err(format!("b{index} does not share the flows in the end"));
            }
        }
        Ok(())
    }
}

fn sends(balancer: usize, row: usize) -> String {
    format!("b{balancer} sends flows to r{row}, which went off as planned")
}

#[cfg(test)]
mod tests {
    use ebb_cluster::{ClusterPlan, Entry};

    use super::*;
    use crate::faults::world::Mix;
    use crate::faults::{Size, member_name};

    /// What an event changed is looked at in the same step, in a cluster of which all is looked at only now and then.
    #[test]
    fn what_changed_is_looked_at() {
        let size = Size { members: 200, balancers: 4 };
        let mut world = World::new(size, 1, Mix { clock_steps: false });
        let entry = Entry { power: Power::On, since: 1 };
        let entries = [(member_name(7), entry)].into();
        let logic = &mut world.balancers[2].logic;
        logic.found(7, false);
        logic.follow(&ClusterPlan { version: 1, entries, speaker: None });
        assert_eq!(world.hold(), Ok(()), "nothing is known to have changed");
        let broken = Err(sends(2, 7));
        world.changed = vec![Changed::Table(1), Changed::Table(2)];
        assert_eq!(world.hold(), broken);
        world.changed = vec![Changed::Asleep(7)];
        assert_eq!(world.hold(), broken);
        assert_eq!(world.hold_all(), broken);
        world.nodes[size.members + 2].alive = false;
        assert_eq!(world.hold_all(), Ok(()), "a dead balancer sends nothing");
    }
}
