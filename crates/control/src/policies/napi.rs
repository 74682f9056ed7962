//! The policy `napi`: interrupts, then polling until the queues are empty.

use ebb_units::Time;

use crate::{Action, Idle, IdleDepth, Limits, Observation, OperatingPoint, Policy};

pub(super) const NAME: &str = "napi";
pub(super) const HELP: &str =
    "all cores at the highest frequency, asleep while their queues are empty, woken by packets";

/// Interrupt, then poll until the queues are empty (Niccolini et al. 2012, section 3,
/// "NAPI-Click"). The kernel chooses how deep a core sleeps, as it does under its own NAPI.
#[derive(Clone, Debug)]
pub struct Napi {
    point: OperatingPoint,
}

impl Napi {
    /// Uses all cores of `limits`.
    pub fn new(limits: Limits) -> Napi {
        Napi { point: limits.top(IdleDepth::Deep) }
    }
}

impl Policy for Napi {
    type Observation = Observation;
    type Action = Action;

    fn decide(&mut self, _now: Time, seen: &Observation) -> Action {
        let idle = if seen.own_queue_len == 0 { Idle::Halt } else { Idle::Poll };
        Action { point: self.point, idle }
    }

    fn next_at(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_when_its_own_queue_is_empty_and_only_then() {
        let mut policy = Napi::new(Limits { cores: 3, frequencies: 2 });
        let mut at = |queue_len, own_queue_len, received| {
            let seen = Observation { queue_len, own_queue_len, received, ..Observation::default() };
            policy.decide(Time::ZERO, &seen)
        };
        assert_eq!(at(0, 0, 0).idle, Idle::Halt);
        assert_eq!(at(0, 0, 64).idle, Idle::Halt);
        assert_eq!(at(500, 0, 7).idle, Idle::Halt, "another worker's queue is not ours");
        let busy = at(9, 9, 64);
        assert_eq!(busy.idle, Idle::Poll);
        assert_eq!(busy.point, OperatingPoint { cores: 3, frequency: 1, depth: IdleDepth::Deep });
        assert_eq!(policy.next_at(), None);
    }
}
