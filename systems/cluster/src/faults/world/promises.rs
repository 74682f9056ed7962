//! What must hold in a simulated cluster: at every step, and in the end.

use ebb_cluster::Power;
use ebb_units::Time;

use super::{Body, SLOTS, World};
use crate::faults::member_name;

impl World {
    /// What must hold at every step.
    pub(super) fn hold(&self, _now: Time) -> Result<(), String> {
        for (index, balancer) in self.balancers.iter().enumerate() {
            if !self.nodes[self.size.members + index].alive {
                continue;
            }
            for row in 0..self.size.members {
                if self.bodies[row] == Body::Asleep && balancer.logic.table().share(row as u16) > 0
                {
                    return Err(format!(
                        "b{index} sends flows to r{row}, which went off as planned"
                    ));
                }
            }
        }
        if self.mix.clock_steps {
            return Ok(());
        }
        let leaders: Vec<usize> = (0..self.size.members)
            .filter(|index| self.nodes[*index].alive)
            .filter(|index| {
                let member = &self.members[*index];
                member.leader.is_leader(self.clock(*index), &member.seen)
            })
            .collect();
        let terms =
            |index: &usize| self.members[*index].seen.leader.as_ref().map(|leader| leader.1);
        let latest = leaders.iter().filter_map(terms).max();
        if leaders.len() > 1 && leaders.iter().filter(|index| terms(index) == latest).count() > 1 {
            return Err(format!("{leaders:?} all are the leader of one term"));
        }
        Ok(())
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
            let mean = SLOTS * self.size.members / on.len();
            let fair = |row: &usize| balancer.logic.table().share(*row as u16).abs_diff(mean) <= 1;
            if !on.iter().all(fair) {
                return Err(format!("b{index} does not share the flows in the end"));
            }
        }
        Ok(())
    }
}
